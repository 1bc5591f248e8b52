package ram_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/ram"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// TestShardOnce ends an owner between its commit and its answer, and has the client send the request to
// the next owner. It counts once, whether the log has got the commit or not, and the answer is the first
// one where there was one.
func TestShardOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults ram.Faults
		kept   bool // the log has the commit whose answer was lost
	}{{"answer lost", ram.Faults{Deaf: true}, true}, {"commit lost", ram.Faults{Cut: true}, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it waits
			r := newRig(t, ram.Options{})
			first, net := r.open("a")
			answers := 0
			add := func(s *cluster.Shard, id string) (answer string, repeated bool, err error) {
				db, done, err := s.Use(t.Context())
				if err != nil {
					return "", false, err
				}
				defer done()
				return engine.Once(t.Context(), db, engine.Request{ID: id, Asks: "add"}, func(ctx context.Context) (string, error) {
					answers++
					_, err := db.Usage().Add(ctx, usage.Record{Owner: owner.Owner(), Model: "m", PromptTokens: 1}, nil)
					return fmt.Sprint("answer ", answers), err
				})
			}
			if answer, repeated, err := add(first, "1"); err != nil || repeated || answer != "answer 1" {
				t.Fatal(answer, repeated, err)
			}
			net.Fail(c.faults)
			if _, _, err := add(first, "2"); !errors.Is(err, memory.ErrUnavailable) {
				t.Fatalf("a request whose commit nobody confirms: %v", err)
			}
			r.pass(leaseTime + time.Second)
			next, _ := r.open("b")
			for _, of := range []struct {
				id, want string
				repeated bool
			}{{"1", "answer 1", true}, {"2", map[bool]string{true: "answer 2", false: "answer 3"}[c.kept], c.kept}} {
				for again := range 2 {
					answer, repeated, err := add(next, of.id)
					if err != nil || answer != of.want || repeated != (of.repeated || again > 0) {
						t.Errorf("request %s at the next owner: %q, %v, %v", of.id, answer, repeated, err)
					}
				}
			}
			db, done, err := next.Use(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			total, err := db.Usage().Total(t.Context(), usage.Query{Owner: owner.Owner()})
			done()
			if err != nil || total.Records != 2 {
				t.Errorf("%d records for 2 requests, %v", total.Records, err)
			}
			verified(t, next)
		})
	}
}
