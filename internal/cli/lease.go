package cli

import (
	"context"
	"sync"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// lease is a database that is open as long as somebody uses it, so that a verb which waits for a
// model holds no folder meanwhile.
type lease struct {
	app *app
	mu  struct {
		sync.Mutex
		db    *engine.DB // nil while nobody uses it
		users int
	}
}

// use calls fn with the database. Several at once share one that is open.
func (l *lease) use(ctx context.Context, fn func(*engine.DB) error) (err error) {
	db, err := l.take(ctx)
	if err != nil {
		return err
	}
	defer func() { err = l.giveBack(err) }()
	return fn(db)
}

// usage is use of the usage of the database.
func (l *lease) usage(ctx context.Context, fn func(usage.Usage) error) error {
	return l.use(ctx, func(db *engine.DB) error { return fn(db.Usage()) })
}

func (l *lease) take(ctx context.Context) (*engine.DB, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.users == 0 {
		db, err := l.app.open(ctx, nil)
		if err != nil {
			return nil, err
		}
		l.mu.db = db
	}
	l.mu.users++
	return l.mu.db, nil
}

// giveBack closes the database after the last of its users. err is that of the use.
func (l *lease) giveBack(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.users--; l.mu.users > 0 {
		return err
	}
	db := l.mu.db
	l.mu.db = nil
	return l.app.closing(db, err)
}
