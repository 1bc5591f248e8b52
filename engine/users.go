package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/erasure"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// A user is deleted in steps, each a commit of bounded size that can be made again: what lives,
// by one death range; then what the parts hold, owner by owner; then what the trash keeps; and at
// last the records of what has died, once the janitor has been through it. Each step finds
// by itself what is left for it, so that a deletion that was interrupted needs no notes: it is
// called again.

const (
	doingUsers      = "list users"
	doingDeleteUser = "delete a user"
)

// User is what a user has, over all agents and without one.
type User struct {
	// User is the user.
	User string `json:"user"`
	// Agents are those of its memories and of what lies beside them; "" is none.
	Agents    []string `json:"agents"`
	Memories  int64    `json:"memories"`
	Entries   int64    `json:"entries"`
	Sessions  int64    `json:"sessions"`
	Entities  int64    `json:"entities"`
	Relations int64    `json:"relations"`
	Usage     int64    `json:"usage"` // calls
}

// Users lists the users that have something, in the order of their names. It reads all that
// the database holds beside the memories.
func (db *DB) Users(ctx context.Context) (all []User, err error) {
	err = db.View(ctx, func(tx *Tx) error {
		all, err = tx.users(ctx, memory.Scope{})
		return err
	})
	return all, err
}

// User is what one user has. ErrNotFound where it has nothing.
func (db *DB) User(ctx context.Context, user string) (u User, err error) {
	const doing = "show a user"
	if err := checkUser(doing, user); err != nil {
		return User{}, err
	}
	err = db.View(ctx, func(tx *Tx) error {
		all, err := tx.users(ctx, memory.Scope{User: user})
		if err == nil && len(all) == 0 {
			return noUser(doing, user)
		}
		if err == nil {
			u = all[0]
		}
		return err
	})
	return u, err
}

func checkUser(doing, user string) error {
	if user == "" {
		return fault.Invalid(doing, "its name is empty", "name the user")
	}
	return valid.Word(doing, "user", user)
}

func noUser(doing, user string) error {
	return &fault.Error{Kind: fault.ErrNotFound, What: fmt.Sprintf("%s: there is no %q", doing, valid.Short(user)), Do: "see user list"}
}

// users counts what the users of a scope have.
func (tx *Tx) users(ctx context.Context, in memory.Scope) ([]User, error) {
	users, agents := map[string]*User{}, map[string]map[string]bool{}
	of := func(o scope.Owner) *User {
		if users[o.User] == nil {
			users[o.User], agents[o.User] = &User{User: o.User}, map[string]bool{}
		}
		agents[o.User][o.Agent] = true
		return users[o.User]
	}
	sizes, err := tx.groups(ctx, &memory.GroupQuery{Scope: in, AllScopes: in == memory.Scope{}, By: memory.GroupOwner})
	if err != nil {
		return nil, err
	}
	for i := range sizes {
		if sizes[i].User != "" {
			of(sizes[i].Owner()).Memories += int64(sizes[i].Memories)
		}
	}
	err = tx.Lines(in, nil, func(l Line) error {
		if l.Owner().User != "" {
			of(l.Owner()).count(l)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	all := make([]User, 0, len(users))
	for name, u := range users {
		calls, err := tx.Usage().Total(ctx, usage.Query{Owner: scope.Owner{User: name}})
		if err != nil {
			return nil, err
		}
		u.Usage = calls.Records
		u.Agents = slices.Sorted(maps.Keys(agents[name]))
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b User) int { return cmp.Compare(a.User, b.User) })
	return all, nil
}

// count counts a line of an export.
func (u *User) count(l Line) {
	switch l.Type() {
	case entries.TypeLine:
		u.Entries++
	case sessions.TypeSession:
		u.Sessions++
	case graph.TypeEntity:
		u.Entities++
	case graph.TypeRelation:
		u.Relations++
	}
}

// UserDeleted is the report of a deletion.
type UserDeleted struct {
	// Deleted is how much is gone, by the JSON keys of [Stats]; "history" counts versions of
	// memories and their ends.
	Deleted map[string]int64
	Left    []Left
}

// Left is something of a user that is still in the files.
type Left struct {
	// What is left; Until says when it goes.
	What  string `json:"what"`
	Count int64  `json:"count,omitempty"` // of memories
	Bytes int64  `json:"bytes,omitempty"` // of everyone's, this user's among them
	Until string `json:"until"`
}

// DeleteUser deletes all that a user has, over all agents and without one: memories with their
// history and what the trash keeps of them, entries, sessions, notes, the graph, usage and
// budgets. Others keep all of theirs. It goes on where an earlier call was interrupted, and may
// be called again at any time; what the user stores meanwhile may stay. The report says what the
// files still hold, and until when: with Views open that are older, also the history that these
// can see.
//
// It takes a commit for each agent of the user, and reads the records of all memories once.
// ErrNotFound for a user that there never was.
func (db *DB) DeleteUser(ctx context.Context, user string) (UserDeleted, error) {
	d := UserDeleted{Deleted: map[string]int64{"memories": 0, "history": 0}}
	if err := checkUser(doingDeleteUser, user); err != nil {
		return d, err
	}
	ctx, err := db.apart(ctx, doingDeleteUser)
	if err != nil {
		return d, err
	}
	release, err := db.admit(ctx)
	if err != nil {
		return d, err
	}
	defer release()
	// An eviction, a consolidation or an Undo would add to the trash, or bring back from it.
	if err := db.turn.LockContext(ctx); err != nil {
		return d, err
	}
	defer db.turn.Unlock()
	owners := map[uint32]bool{}
	if err := db.deleteLiving(ctx, user, owners, d.Deleted); err != nil {
		return d, err
	}
	left, err := db.eraseDead(ctx, erasure.Of(owners), d.Deleted)
	if err != nil {
		return d, err
	}
	if left > 0 {
		d.Left = append(d.Left, Left{What: "history", Count: int64(left), Until: "Views that are open, and past states that are retained, are over; call it again then"})
	}
	return d, db.remainders(&d)
}

// deleteLiving deletes what is there, and adds the numbers of the user's owners.
func (db *DB) deleteLiving(ctx context.Context, user string, owners map[uint32]bool, deleted map[string]int64) error {
	var all []scope.Owner
	err := db.acknowledge(db.update(ctx, func(tx *Tx) error {
		err := tx.reader().EachOwner(ctx, func(number uint32, o scope.Owner) {
			if o.User == user {
				all, owners[number] = append(all, o), true
			}
		})
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return noUser(doingDeleteUser, user)
		}
		n, err := tx.deleteMatching(ctx, &memory.DeleteQuery{Scope: memory.Scope{User: user}}) // also what has expired
		deleted["memories"] += int64(n)
		return err
	}))
	for _, o := range all {
		if err != nil {
			return err
		}
		var of map[string]int64
		err = db.acknowledge(db.update(ctx, func(tx *Tx) error {
			of, err = tx.DeleteOwner(ctx, o)
			return err
		}))
		for what, n := range of {
			deleted[what] += n
		}
	}
	return err
}

// eraseDead removes what the trash and the history keep of owners, and returns how many of their
// memories stay: those that somebody may still read.
func (db *DB) eraseDead(ctx context.Context, of *erasure.Whose, deleted map[string]int64) (left int, err error) {
	if err := db.awaitOlder(ctx, db.LSN()); err != nil {
		return 0, err
	}
	lower, upper := db.keys().Span(layout.KindRecord)
	done, err := db.eraseDeadIn(ctx, of, [][2][]byte{{lower, upper}})
	if err != nil {
		return 0, err
	}
	deleted["history"] += int64(done.events)
	return done.left, cmp.Or(db.shown(ctx), db.releaseSeqs(ctx))
}

// deadErased counts the events of histories that an erasure of the dead has removed, the dead
// memories that stay, and those that are alive.
type deadErased struct{ events, left, living int }

// eraseDeadIn removes what the trash keeps, and what has died of the records in some spans.
func (db *DB) eraseDeadIn(ctx context.Context, of *erasure.Whose, spans [][2][]byte) (n deadErased, err error) {
	if err := db.cleanDead(ctx); err != nil {
		return n, err
	}
	if err := db.eraseTrash(ctx, of); err != nil {
		return n, err
	}
	for _, span := range spans {
		for lower := span[0]; lower != nil; {
			page, err := db.erasePage(ctx, lower, span[1], of)
			if err != nil {
				return n, err
			}
			n.events, n.left, n.living = n.events+page.events(), n.left+page.left, n.living+page.living
			lower = page.next
		}
	}
	return n, nil
}

// cleanDead cleans up after what has died and nobody sees.
func (db *DB) cleanDead(ctx context.Context) error {
	if err := db.janitor.rest(ctx); err != nil {
		return err
	}
	defer db.chunks.busy.Unlock()
	return db.janitor.cleanUp(ctx, db.points.oldest())
}

// eraseTrash takes the memories of owners out of the trash. The trash of an LSN stays, without
// them: an Undo finds by it what the same consolidation took before.
func (db *DB) eraseTrash(ctx context.Context, of *erasure.Whose) error {
	theirs := func(x policy.Trashed) bool { return of.Has(x.Owner, x.Seq) }
	var lsns []uint64
	err := db.view(ctx, nil, func(tx *Tx) error {
		return policy.EachTrash((*partTx)(tx), func(t policy.Trash) error {
			if slices.ContainsFunc(t.Things, theirs) && !db.janitor.cleans(t.LSN) {
				lsns = append(lsns, t.LSN)
			}
			return ctx.Err()
		})
	})
	for _, lsn := range lsns {
		if err != nil {
			return err
		}
		err = db.eraseTrashOf(ctx, lsn, of)
	}
	return err
}

func (db *DB) eraseTrashOf(ctx context.Context, lsn uint64, of *erasure.Whose) error {
	var gone policy.Trash
	err := db.view(ctx, nil, func(tx *Tx) error {
		t, _, err := policy.TrashOf((*partTx)(tx), lsn)
		gone.Things = slices.DeleteFunc(t.Things, func(x policy.Trashed) bool { return !of.Has(x.Owner, x.Seq) })
		return err
	})
	if err != nil {
		return err
	}
	if err := db.dropTrash(ctx, &gone); err != nil { // their vectors
		return err
	}
	return db.acknowledge(db.update(ctx, func(tx *Tx) error {
		t, known, err := policy.TrashOf((*partTx)(tx), lsn)
		if err != nil || !known {
			return err
		}
		if err := tx.needToFree(doingDeleteUser, policy.TrashBytes(len(t.Things)+len(t.Heirs))); err != nil {
			return err
		}
		t.Things = slices.DeleteFunc(t.Things, func(x policy.Trashed) bool { return of.Has(x.Owner, x.Seq) })
		t.Heirs = slices.DeleteFunc(t.Heirs, func(h policy.Heir) bool { return of.Has(h.Owner, h.Seq) })
		if err := tx.emptyInGraph(gone.Things); err != nil {
			return tx.breaks(err)
		}
		return t.Keep((*partTx)(tx))
	}))
}

// erasePage removes what may go of owners from a page of records.
func (db *DB) erasePage(ctx context.Context, lower, upper []byte, of *erasure.Whose) (*forgetting, error) {
	if err := db.janitor.rest(ctx); err != nil {
		return nil, err
	}
	defer db.chunks.busy.Unlock()
	page := &forgetting{db: db, cutoff: math.MaxInt64, erases: of}
	if err := page.read(lower, upper); err != nil || len(page.keys) == 0 {
		return page, err
	}
	err := db.applyBare(func(b *pebble.Batch) error {
		for _, key := range page.keys {
			if err := b.Delete(key, nil); err != nil {
				return err
			}
		}
		return db.store.AdmitFreeing(doingDeleteUser, b.Len())
	})
	if err == nil {
		db.shadowed(page.bytes)
	}
	return page, err
}

// events is how many events of histories a page removes: versions and ends, not the keys of IDs.
func (f *forgetting) events() (n int) {
	for _, key := range f.keys {
		if key[0] != layout.KindID {
			n++
		}
	}
	return n
}

// shown makes what was removed without a commit durable, and gone for new readers.
func (db *DB) shown(ctx context.Context) error {
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	err := db.republish()
	db.unlock()
	return cmp.Or(err, db.store.SyncLog(nil))
}

// remainders adds what the files hold of a user until they are written anew.
func (db *DB) remainders(d *UserDeleted) error {
	lower, upper := db.keys().Span(layout.KindLog)
	log, err := db.store.EstimateDiskUsage(lower, upper)
	if err != nil {
		return fault.Within(doingDeleteUser, err)
	}
	until := "the policy has a log_ms, which is over"
	if keep := db.tables.Ageing.At(state.MaxLSN).Log; keep > 0 {
		until = fmt.Sprintf("log_ms of the policy is over: %v from now", time.Duration(keep))
	}
	d.Left = append(d.Left, Left{What: "log", Bytes: int64(log), Until: until})
	if dead, _ := db.store.Garbage(); dead > 0 {
		d.Left = append(d.Left, Left{What: "tables", Bytes: dead, Until: "compact, or the database has done so by itself"})
	}
	files, err := db.files()
	if err != nil {
		return err
	}
	if files.Snapshots > 0 {
		d.Left = append(d.Left, Left{What: "snapshots", Bytes: files.Snapshots, Until: "newer snapshots of vectors are written"})
	}
	d.Left = append(d.Left, Left{What: "names", Until: "the others are exported to a new database: user, agents and runs keep their numbers"})
	return nil
}
