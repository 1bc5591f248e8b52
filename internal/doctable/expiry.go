package doctable

import "sync/atomic"

// expiries are, for each page of document rows, a time before which none of its documents
// expires; 0 where none does. So who looks for what has expired reads few rows, however
// many there are.
type expiries struct{ pages Paged[atomic.Int64] }

// add notes a document. The writer calls it.
func (e *expiries) add(doc uint32, at int64) {
	if at == 0 {
		return
	}
	if p := e.pages.Grow(uint64(doc) / PageSize); p.Load() == 0 || at < p.Load() {
		p.Store(at)
	}
}

// Expired appends the Seqs of those memories that had expired at a time of the first page,
// from one on, which may have such, and returns the page after it; 0 where there is none.
// It is a guess: a transaction that runs may have changed some.
func (t *Table) Expired(dst []uint64, from uint64, now int64) (seqs []uint64, next uint64) {
	t.expiries.pages.EachFrom(from, None, func(page uint64, at *atomic.Int64) bool {
		if at := at.Load(); at == 0 || at > now {
			return true
		}
		next = page + 1
		t.Rows.EachFrom(page*PageSize, next*PageSize, func(_ uint64, r *Row) bool {
			if r.Died.Load() == Alive && r.Expires != 0 && r.Expires <= now {
				dst = append(dst, r.Seq)
			}
			return true
		})
		return false
	})
	return dst, next
}

// Narrow takes back what was noted for a page of documents that are gone. The writer calls
// it, while no transaction runs.
func (t *Table) Narrow(page uint64) {
	at := t.expiries.pages.At(page)
	if at == nil {
		return
	}
	first := int64(0)
	t.Rows.EachFrom(page*PageSize, (page+1)*PageSize, func(_ uint64, r *Row) bool {
		if r.Died.Load() == Alive && r.Expires != 0 && (first == 0 || r.Expires < first) {
			first = r.Expires
		}
		return true
	})
	at.Store(first)
}
