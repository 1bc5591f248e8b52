package policy

import "github.com/seed-7aedc3ff/memdb/internal/part"

// Job is something that a schedule does.
type Job byte

// The jobs.
const (
	JobConsolidate Job = 1
	JobEvict       Job = 2
	// JobMerge looks for near duplicates of what is new. In the place of a time stands the LSN
	// up to which it has looked.
	JobMerge Job = 3
	// JobForget removes old histories. In the place of a time of its own stands the time up to
	// which they may be removed.
	JobForget Job = 4
)

// Came returns when a job came last, in Unix milliseconds, false where it never did.
func Came(v part.View, j Job) (at int64, known bool, err error) {
	b, known, err := v.Get(jobKey(v, j))
	if err != nil || !known {
		return 0, false, err
	}
	at, err = decodeJob(b)
	return at, err == nil, err
}

// Note writes that a job came at a time.
func Note(t part.Tx, j Job, at int64) error {
	const size = 64
	if err := t.Need("note a scheduled job", size); err != nil {
		return err
	}
	b := encodeJob(at)
	if err := t.Set(jobKey(t, j), b); err != nil {
		return err
	}
	t.Log(opJob, append([]byte{byte(j)}, b...))
	return nil
}
