package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// Verification is what a verification of a shard has found.
type Verification struct {
	// OK: the copy that was made of the log has what the owner has, and is whole.
	OK bool `json:"ok"`
	// Shard is its number, Number that of the newest batch that was compared, LSN that of the newest commit.
	Shard  int    `json:"shard"`
	Number uint64 `json:"number"`
	LSN    uint64 `json:"lsn"`
	// Keys are those of the owner, Memories those that the check of the copy has counted.
	Keys     int64 `json:"keys"`
	Memories int   `json:"memories"`
	// Problems say what is wrong.
	Problems []string `json:"problems"`
}

// errEnough ends the reading of a log.
var errEnough = errors.New("enough was read")

// Verify makes a copy of the shard from its log, as a machine would that takes it over with nothing, in a folder
// beside its own, and compares all keys and values with those of the owner; then it checks the copy, deeply. Calls
// go on meanwhile. The folder is removed. ErrBusy: another copy is being made.
func (s *Shard) Verify(ctx context.Context) (v Verification, err error) {
	dir, done, err := s.beside(s.o.doing("verify"))
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, done()) }()
	o := s.o
	f, err := openFollower(ctx, &o, s.log, dir)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.catchUp(ctx); err != nil {
		return v, err
	}
	want, err := s.db.Digest(ctx)
	if err != nil {
		return v, err
	}
	if err := f.upTo(ctx, want.Number); err != nil {
		return v, err
	}
	got, err := f.standby.Digest(ctx)
	if err != nil {
		return v, err
	}
	v = Verification{Shard: s.o.Number, Number: want.Number, Keys: want.Keys, Problems: []string{}}
	if got != want {
		v.Problems = append(v.Problems, fmt.Sprintf("behind batch %d the copy has %d keys of the sum %016x, the owner behind batch %d %d keys of the sum %016x", got.Number, got.Keys, got.Sum, want.Number, want.Keys, want.Sum))
	}
	if err := f.close(); err != nil {
		return v, err
	}
	return v, v.check(ctx, dir, s.o.Engine)
}

// upTo brings the folder to a batch exactly: what comes behind it in its message is left out.
func (f *follower) upTo(ctx context.Context, number uint64) error {
	if f.has >= number {
		if f.has > number {
			return fmt.Errorf("the copy has batch %d, which is behind batch %d", f.has, number)
		}
		return nil
	}
	f.until = number
	err := f.log.Read(ctx, f.r.at.sequence+1, 0, func(sequence uint64, data []byte) error {
		if err := f.apply(sequence, data); err != nil {
			return err
		}
		if f.has >= number {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// check opens the copy and looks at everything in it.
func (v *Verification) check(ctx context.Context, dir string, o *engine.Options) (err error) {
	db, err := engine.Open(dir, &engine.Options{ReadOnly: true, MemoryBudget: o.MemoryBudget, Logger: o.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	report, err := db.CheckDeep(ctx)
	if err != nil {
		return err
	}
	v.LSN, v.Memories = db.LSN(), report.Memories
	for _, p := range report.Problems {
		v.Problems = append(v.Problems, p.String())
	}
	v.OK = len(v.Problems) == 0
	return nil
}
