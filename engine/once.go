package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/internal/ctxlock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/requests"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// A client that does not get an answer cannot know whether its request was done, and sends it
// again. Here a request with an ID is done once. All that it writes is one transaction, whose commit
// waits until the answer is known; the answer is part of that commit. So effect and answer are kept
// together, whatever kills the process, and go together wherever commits go: to replicas, archives
// and the nodes of a cluster.
//
// The transaction begins with the first write of the request. What comes before that, such as
// embeddings and the answers of language models, runs without the writer lock.

// Request is a request of a client that the client may send again.
type Request struct {
	// ID is what the client calls the request, 1 to 512 bytes of UTF-8. Each request has an ID of its
	// own.
	ID string
	// Client is who has given the ID. The same ID of two clients names two requests. It may be empty.
	Client string
	// Asks is what is asked: the operation and its arguments, as a value that JSON can have. The same
	// ID with another value is refused.
	Asks any
}

// doingOnce is what errors of attempts say.
const doingOnce = "do a request once"

// Once calls fn and returns its result, or returns the result of an earlier Once of the same
// request, with repeated set. All that fn writes to db with the context that it gets is one commit,
// in which the result is kept, as JSON, for 24 hours by the clock of the database. Where fn returns
// an error, nothing is committed, and the request may be tried again. Of several calls at once for
// the same request, one calls fn, and the others wait for it.
//
// From its first write on, fn holds the writer lock of the database: it then calls nothing that
// takes long. A call that takes several commits, such as [DB.Consolidate], [DB.Erase] or a rebuild,
// makes its own commits, and the request is recorded after them; it returns ErrInvalid after another write
// of fn.
//
// ErrInvalid: the ID is empty or longer than 512 bytes. ErrRequestID: the ID was given to another
// request. ErrNotRetained: the request was done, and its result is not kept, since an owner of the
// data was deleted or erased, or since the result is longer than 1 MiB.
func Once[T any](ctx context.Context, db *DB, r Request, fn func(ctx context.Context) (T, error)) (result T, repeated bool, err error) {
	a, err := NewAttempt(r)
	if err != nil {
		return result, false, err
	}
	answer, err := a.Do(ctx, db, func(ctx context.Context) ([]byte, error) {
		if result, err = fn(ctx); err != nil {
			return nil, err
		}
		return json.Marshal(result)
	})
	if err == nil && a.Repeated() {
		var first T
		result, err = first, json.Unmarshal(answer, &first)
		result = first
	}
	return result, a.Repeated(), err
}

// Attempt is one try to do a request: [Once] for a server, which has answers as bytes, and may not
// know the database before it has read the request.
type Attempt struct {
	key requests.Key
	sum requests.Sum

	open  atomic.Bool // the transaction has begun, and holds the writer lock
	turn  ctxlock.Mutex
	db    *DB    // nil: none is known yet
	leave func() // lets another attempt at the same request in
	tx    *Tx    // nil: nothing was written
	exit  func() // of the gate of the database
	found *requests.Record
	seen  uint64 // the LSN that the record was found at, 0 where that is durable
	over  bool
	after []func()
}

// NewAttempt returns an attempt at a request. ErrInvalid for an ID that is empty or too long.
func NewAttempt(r Request) (*Attempt, error) {
	if r.ID == "" {
		return nil, fault.Invalid(doingOnce, "its request ID is empty", "give each request an ID of its own")
	}
	if err := valid.Word(doingOnce, "request ID", r.ID); err != nil {
		return nil, err
	}
	a := &Attempt{key: requests.KeyOf(r.Client, r.ID), turn: ctxlock.New()}
	if err := a.Asks(r.Asks); err != nil {
		return nil, err
	}
	return a, nil
}

// Asks sets what the request asks, where that is known only later, as when its input was read: see
// Request.Asks. It comes before Begin.
func (a *Attempt) Asks(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return &fault.Error{Kind: fault.ErrInvalid, What: doingOnce, Why: "what it asks has no JSON", Cause: err}
	}
	a.sum = sha256.Sum256(b)
	return nil
}

// Context returns a context whose calls are part of the attempt.
func (a *Attempt) Context(ctx context.Context) context.Context {
	return context.WithValue(part.Apart(ctx, false), attemptKey{}, a)
}

// errRepeated ends what an attempt does: the request was done before.
var errRepeated = errors.New("the request was done before")

// attemptKey is the context key of an attempt.
type attemptKey struct{}

// attemptOf is the attempt that a call is a part of, nil for none.
func attemptOf(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	if a == nil || part.IsApart(ctx) {
		return nil
	}
	return a
}

// Apart returns a context for what is done for a request and is no part of its commit, such as the
// record of what a call of a model has cost.
func Apart(ctx context.Context) context.Context { return part.Apart(ctx, true) }

// apart is Apart for a call of several commits. It would wait for its own attempt, once that holds
// the writer lock.
func (db *DB) apart(ctx context.Context, doing string) (context.Context, error) {
	ctx = Apart(ctx)
	return ctx, notWithin(ctx, db, doing)
}

// notWithin refuses a call that would wait for the writer lock, which its own attempt holds.
func notWithin(ctx context.Context, db *DB, doing string) error {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	if a.opened() && a.db == db {
		return fault.Invalid(doing, "the request that it is a part of has written something, and holds the writer lock", "make it the only change of the request")
	}
	return mayWrite(ctx, doing)
}

// ReadOnly returns a context with which every call that changes a database fails with ErrReadOnly.
func ReadOnly(ctx context.Context) context.Context { return part.ReadOnly(ctx, true) }

// mayWrite refuses a write under a context of ReadOnly.
func mayWrite(ctx context.Context, doing string) error {
	if !part.IsReadOnly(ctx) {
		return nil
	}
	return &fault.Error{Kind: fault.ErrReadOnly, What: doing, Why: "the caller may only read", Do: "use a key that is not read-only"}
}

// AfterCommit has fn called once the attempt of a context has committed, and reports whether there
// is one: without an attempt, what was written is committed already. fn is not called where the
// attempt fails or the request was done before.
func AfterCommit(ctx context.Context, fn func()) bool {
	a := attemptOf(ctx)
	if a == nil {
		return false
	}
	a.after = append(a.after, fn)
	return true
}

// Repeated reports whether the request was done before. The answer is then the first one.
func (a *Attempt) Repeated() bool { return a.found != nil }

// opened reports whether the attempt holds the writer lock.
func (a *Attempt) opened() bool { return a != nil && a.open.Load() }

// Do calls fn, and commits what fn has written with its answer, or returns the answer of an earlier
// attempt. db may be nil: then fn calls [Attempt.Begin], or writes nothing. See [Once].
func (a *Attempt) Do(ctx context.Context, db *DB, fn func(ctx context.Context) ([]byte, error)) (answer []byte, err error) {
	defer a.end()
	if db != nil {
		err = a.Begin(ctx, db)
	}
	if err == nil {
		answer, err = fn(a.Context(ctx))
	}
	if err == nil && !a.Repeated() {
		err = a.commit(ctx, answer)
	}
	if a.Repeated() {
		return a.first()
	}
	return answer, err
}

// Begin says which database the request is about. It waits for other attempts at the request, and
// returns an error, for fn to return, where the request was done before.
func (a *Attempt) Begin(ctx context.Context, db *DB) error {
	if a.db != nil {
		if a.db != db {
			return fault.Invalid(doingOnce, "it is about two databases", "make a request for each")
		}
		return nil
	}
	if err := db.writable(doingOnce); err != nil {
		return err
	}
	leave, err := db.writer.attempts.enter(ctx, a.key)
	if err != nil {
		return err
	}
	a.db, a.leave = db, leave
	return db.view(ctx, nil, a.find)
}

// find looks for the record of the request.
func (a *Attempt) find(tx *Tx) error {
	r, found, err := requests.Find((*partTx)(tx), a.key)
	if err != nil || !found {
		return err
	}
	a.found = &r
	return errRepeated
}

// first is the answer of the attempt that has done the request.
func (a *Attempt) first() ([]byte, error) {
	if err := a.db.acknowledge(a.seen, nil); err != nil {
		return nil, err
	}
	switch {
	case !a.found.Kept:
		return nil, &fault.Error{
			Kind: fault.ErrNotRetained, What: doingOnce, Why: "it was done before, and its answer is not kept: an owner of the data was deleted or erased since, or the answer was too long",
			Do: "read what there is now",
		}
	case a.found.Sum != a.sum:
		return nil, &fault.Error{
			Kind: fault.ErrRequestID, What: doingOnce, Why: "its ID was given to another request within the last 24 hours", Do: "give each request an ID of its own",
		}
	}
	return a.found.Answer, nil
}

// join runs a change within the transaction of the attempt, which it begins.
func (a *Attempt) join(ctx context.Context, db *DB, change func(*Tx) error) error {
	if err := a.turn.LockContext(ctx); err != nil {
		return err
	}
	defer a.turn.Unlock()
	if a.over {
		return &fault.Error{Kind: fault.ErrTxDone, What: doingOnce, Why: "the request is over", Do: "give what goes on after a request a context of its own"}
	}
	if err := a.begin(ctx, db); err != nil {
		return err
	}
	a.tx.late = ctx.Err
	err := change(a.tx)
	if err != nil && a.tx.changes == 0 && a.tx.broken == nil {
		a.drop() // others may write meanwhile
	}
	return err
}

// read runs a call that reads within the transaction of the attempt, false where it has none.
func (a *Attempt) read(db *DB, fn func(*Tx) error) (joined bool, err error) {
	select {
	case a.turn <- struct{}{}:
		defer a.turn.Unlock()
	default:
		return false, nil // the transaction is in use; what is committed is read
	}
	if a.tx == nil || a.db != db {
		return false, nil
	}
	return true, fn(a.tx)
}

// begin begins the transaction, unless the request was done before. turn is held.
func (a *Attempt) begin(ctx context.Context, db *DB) error {
	if a.tx != nil && a.db == db {
		return nil
	}
	if err := a.Begin(Apart(ctx), db); err != nil {
		return err
	}
	exit, err := db.admit(ctx)
	if err != nil {
		return err
	}
	if err := db.lock(ctx); err != nil {
		exit()
		return err
	}
	a.tx, a.exit = db.begin(), exit
	a.tx.owners = map[uint32]bool{}
	a.open.Store(true)
	if err := a.find(a.tx); err != nil { // of a commit that is not durable yet, too
		a.seen = a.tx.state.LSN - 1
		a.drop()
		return err
	}
	return nil
}

// drop takes back what was written, and frees the writer lock.
func (a *Attempt) drop() {
	if a.tx == nil {
		return
	}
	a.tx.end()
	a.free()
}

// free frees the writer lock after the transaction.
func (a *Attempt) free() {
	a.tx = nil
	a.open.Store(false)
	a.db.unlock()
	a.exit()
}

// commit commits what the request has written, with its answer.
func (a *Attempt) commit(ctx context.Context, answer []byte) error {
	if err := a.turn.LockContext(ctx); err != nil {
		return err
	}
	defer a.turn.Unlock()
	if a.db == nil {
		return nil // it has asked no database
	}
	if err := a.begin(ctx, a.db); err != nil {
		return err
	}
	tx := a.tx
	r := requests.Record{At: max(tx.state.Now, 0), Kept: len(answer) <= requests.MaxAnswer, Sum: a.sum, Answer: answer}
	if len(tx.owners) == 1 {
		for r.Owner = range tx.owners {
		}
	}
	err := tx.changePart(doingOnce, func(t part.Tx) error { return requests.Put(t, a.key, &r) })
	if err != nil {
		return err // end takes it back
	}
	seen, err := tx.commit()
	tx.end()
	a.free()
	if err = a.db.acknowledge(seen, err); err != nil {
		return err
	}
	for _, fn := range a.after {
		fn()
	}
	return nil
}

// end ends the attempt, and takes back what it has not committed.
func (a *Attempt) end() {
	a.turn.Lock()
	defer a.turn.Unlock()
	a.over = true
	a.drop()
	if a.leave != nil {
		a.leave()
	}
}

// concerns notes that the transaction is about data of an owner.
func (tx *Tx) concerns(owner uint32) {
	if tx.writes != nil && tx.owners != nil {
		tx.owners[owner] = true
	}
}

// attempts are the requests that are being done.
type attempts struct {
	mu struct {
		sync.Mutex
		running map[requests.Key]chan struct{} // closed at the end
	}
}

// enter waits until no other attempt at a request runs.
func (a *attempts) enter(ctx context.Context, k requests.Key) (leave func(), err error) {
	for {
		a.mu.Lock()
		other, busy := a.mu.running[k]
		if !busy {
			if a.mu.running == nil {
				a.mu.running = map[requests.Key]chan struct{}{}
			}
			own := make(chan struct{})
			a.mu.running[k] = own
			a.mu.Unlock()
			return func() {
				a.mu.Lock()
				defer a.mu.Unlock()
				delete(a.mu.running, k)
				close(own)
			}, nil
		}
		a.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
