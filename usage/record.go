package usage

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// MaxTokens bounds each number of tokens of a record. Sums of 2^30 such records are exact.
const MaxTokens = math.MaxUint32

// Record is one call of a model, or several calls of one day after a roll-up.
type Record struct {
	scope.Owner
	// Number is the record's place among those of its owner, from 1 on. Add gives it.
	Number uint64
	Model  string
	// TotalTokens is at least the sum of the other two; 0 is the sum.
	PromptTokens, CompletionTokens, TotalTokens int64
	Cost                                        USD
	// Time is when the call was made; zero: now. Stored in milliseconds.
	Time time.Time
	// Calls is how many calls the record is of: 1, or more after a roll-up. 0 is 1.
	Calls int64
}

// Totals are sums over records. All of them are exact.
type Totals struct {
	// Records counts calls; the others are sums over them.
	Records          int64 `json:"records"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	Cost             USD   `json:"cost_usd"`
}

// add adds other totals.
func (s *Totals) add(o Totals) {
	s.Records += o.Records
	s.PromptTokens += o.PromptTokens
	s.CompletionTokens += o.CompletionTokens
	s.TotalTokens += o.TotalTokens
	s.Cost = s.Cost.Add(o.Cost)
}

func (s *Totals) equal(o Totals) bool {
	return s.Records == o.Records && s.PromptTokens == o.PromptTokens && s.CompletionTokens == o.CompletionTokens &&
		s.TotalTokens == o.TotalTokens && s.Cost.Cmp(o.Cost) == 0
}

// totals are those of the record alone.
func (r *Record) totals() Totals {
	return Totals{r.Calls, r.PromptTokens, r.CompletionTokens, r.TotalTokens, r.Cost}
}

// The first bytes of stored values.
const (
	recordVersion      = 1
	sumVersion         = 1
	homeVersion        = 1
	budgetVersion      = 1
	reservationVersion = 1
	agentVersion       = 1
	identityVersion    = 1
)

func (s *Totals) encode() []byte { return s.append([]byte{sumVersion}) }

func (s *Totals) append(b []byte) []byte {
	for _, n := range []int64{s.Records, s.PromptTokens, s.CompletionTokens, s.TotalTokens} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return codec.AppendBytes(b, s.Cost.bytes())
}

func readTotals(r *codec.Reader) Totals {
	return Totals{int64(r.Uvarint()), int64(r.Uvarint()), int64(r.Uvarint()), int64(r.Uvarint()), usdFrom(r.Bytes())}
}

func decodeTotals(b []byte) (Totals, error) {
	r := codec.NewReader(b)
	v, s := r.Byte(), readTotals(r)
	if r.Err() != nil || r.Len() > 0 || v != sumVersion {
		return Totals{}, damaged("a sum", r.Err())
	}
	return s, nil
}

func damaged(what string, cause error) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read " + what + " of the usage", Cause: cause, Do: "run check"}
}

func (r *Record) encode() []byte {
	s := r.totals()
	return append(s.append([]byte{recordVersion}), r.Model...)
}

// decodeRecord reads a record without its owner.
func decodeRecord(ms, number uint64, b []byte) (Record, error) {
	r := codec.NewReader(b)
	v, s := r.Byte(), readTotals(r)
	if r.Err() != nil || v != recordVersion {
		return Record{}, damaged(fmt.Sprintf("the record %d", number), r.Err())
	}
	return Record{
		Number: number, Model: string(r.Rest()), PromptTokens: s.PromptTokens, CompletionTokens: s.CompletionTokens,
		TotalTokens: s.TotalTokens, Cost: s.Cost, Calls: s.Records, Time: clock.FromMillis(int64(ms)),
	}, nil
}

// home is what is known of an owner.
type home struct {
	owner scope.Owner
	last  uint64 // the number that was given last
	floor uint64 // records before it are rolled up, in milliseconds: the first one of a day
}

func (h *home) encode() []byte {
	b := codec.AppendBytes(codec.AppendBytes([]byte{homeVersion}, h.owner.User), h.owner.Agent)
	return binary.AppendUvarint(binary.AppendUvarint(b, h.last), h.floor)
}

func decodeHome(b []byte) (home, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	h := home{owner: scope.Owner{User: r.String(), Agent: r.String()}, last: r.Uvarint(), floor: r.Uvarint()}
	if r.Err() != nil || r.Len() > 0 || v != homeVersion {
		return home{}, damaged("an owner", r.Err())
	}
	return h, nil
}

// check refuses a record that cannot be stored, and sets what was left out but for the time.
func (r *Record) check(doing string) error {
	if err := scope.Check(doing, r.Scope()); err != nil {
		return err
	}
	if err := checkModel(doing, r.Model); err != nil {
		return err
	}
	if r.Calls == 0 {
		r.Calls = 1
	}
	if r.Calls < 1 || r.Calls > MaxTokens {
		return fault.Invalid(doing, fmt.Sprintf("it is of %d calls", r.Calls), "give 1 or more")
	}
	for _, n := range []struct {
		what string
		n    int64
	}{{"prompt", r.PromptTokens}, {"completion", r.CompletionTokens}, {"total", r.TotalTokens}} {
		if n.n < 0 || n.n > MaxTokens && (r.Calls == 1 || n.n > math.MaxInt64/4) {
			return fault.Invalid(doing, fmt.Sprintf("it has %d %s tokens", n.n, n.what), fmt.Sprintf("give a number from 0 to %d", uint64(MaxTokens)))
		}
	}
	sum := r.PromptTokens + r.CompletionTokens
	if r.TotalTokens == 0 {
		r.TotalTokens = sum
	}
	if r.TotalTokens < sum {
		return fault.Invalid(doing, fmt.Sprintf("its total is %d tokens, prompt and completion are %d", r.TotalTokens, sum), "leave the total out, or correct it")
	}
	return checkTime(doing, r.Time)
}

func checkModel(doing, name string) error {
	if name == "" {
		return fault.Invalid(doing, "it names no model", "name the model that was called")
	}
	return valid.Word(doing, "model", name)
}

// checkTime refuses times before 1970, which calls of models have not.
func checkTime(doing string, t time.Time) error {
	if !t.IsZero() && t.UnixMilli() < 0 {
		return fault.Invalid(doing, "its time is before 1970", "check its unit")
	}
	return valid.Time(doing, "time", t)
}
