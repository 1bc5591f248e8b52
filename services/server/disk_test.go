package server

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// remembers is a dialect that stores.
func remembers() *Dialect {
	return &Dialect{
		Name: "notes",
		Fail: func(w http.ResponseWriter, _ *http.Request, f *Failure) {
			writeJSON(w, f.Status, map[string]string{"oops": f.Code})
		},
		Routes: []Route{
			{Pattern: "POST /memories/{id}", Handle: func(c *Call) error {
				_, err := c.DB.Memories().Store(c.Context(), memory.Memory{ID: c.R.PathValue("id"), Scope: memory.Scope{User: "ada"}, Text: strings.Repeat("tea ", 10_000)}, nil)
				if err != nil {
					return err
				}
				return c.Reply(http.StatusCreated, nil)
			}},
			{Pattern: "POST /compact", Stream: true, Handle: func(c *Call) error {
				_, err := c.DB.Compact(c.Context())
				if err != nil {
					return err
				}
				return c.Reply(http.StatusOK, nil)
			}},
			{Pattern: "GET /memories/{id}", Handle: func(c *Call) error {
				m, err := c.Get(memory.Scope{User: "ada"}, c.R.PathValue("id"))
				if err != nil {
					return err
				}
				return c.Reply(http.StatusOK, m.Text)
			}},
		},
	}
}

// TestDiskFails: where the disk fails, the process lives, each request is told in the form of its
// dialect, and probe and metrics say so.
func TestDiskFails(t *testing.T) {
	var fails atomic.Bool
	disk := crashfs.Wrap(vfs.NewMem(), func(op crashfs.Op) error {
		if fails.Load() && op.Kind == crashfs.Sync {
			return errors.New("the disk is gone")
		}
		return nil
	})
	db, err := engine.Open(fsys.On(disk, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // it has failed
	s := New(db, Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	s.Mount(remembers())
	if w := ask(s, "POST", "/memories/a", ""); w.Code != 201 {
		t.Fatal(w.Code, w.Body)
	}
	fails.Store(true)
	for range 2 {
		if w := ask(s, "POST", "/memories/b", ""); w.Code != 503 || !strings.Contains(w.Body.String(), `{"oops":"failed"}`) {
			t.Error(w.Code, w.Body)
		}
	}
	for target, want := range map[string]int{"/memories/a": 503, "/healthz": 200, "/readyz": 503, "/metrics": 200} {
		if w := ask(s, "GET", target, ""); w.Code != want || target == "/metrics" && !strings.Contains(w.Body.String(), "memdb_failed 1") {
			t.Errorf("%s: %d %s, want %d", target, w.Code, w.Body, want)
		}
	}
}

// TestDiskFills: where the disk is full, writes are refused and reads go on, and writes are taken
// again when there is room.
func TestDiskFills(t *testing.T) {
	disk := crashfs.NewQuota(vfs.NewMem(), 1<<30)
	db, err := engine.Open(fsys.On(disk, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := New(db, Options{})
	s.Mount(remembers())
	_, reserve := db.Disk()
	status := func(method, target string, want int, told string) {
		t.Helper()
		if w := ask(s, method, target, ""); w.Code != want || !strings.Contains(w.Body.String(), told) {
			t.Errorf("%s %s: %d %.100s, want %d %s", method, target, w.Code, w.Body, want, told)
		}
	}
	// The free space is looked at now and then.
	until := func(want int) (id string) {
		t.Helper()
		for n, deadline := 0, time.Now().Add(testdb.Patience); ; n++ {
			id = fmt.Sprint("of ", want, " ", n)
			w := ask(s, "POST", "/memories/"+url.PathEscape(id), "")
			if w.Code == want {
				return id
			}
			if time.Now().After(deadline) {
				t.Fatalf("no store of %d is answered by %d: %d %.200s", n, want, w.Code, w.Body)
			}
			time.Sleep(time.Millisecond)
		}
	}
	status("POST", "/memories/a", 201, "")
	// Others take half of what the database keeps free, and leave what has begun its room.
	disk.Resize(disk.Used() + 32<<20)
	refused := until(507)
	status("GET", "/memories/a", 200, "tea")
	status("GET", "/memories/"+url.PathEscape(refused), 404, "not_found")
	status("GET", "/readyz", 503, "disk_full")
	status("GET", "/metrics", 200, "memdb_failed 1")
	status("GET", "/healthz", 200, "ok")
	disk.Resize(1 << 30)
	until(201)
	status("GET", "/readyz", 200, "ready")
	status("GET", "/metrics", 200, "memdb_failed 0")
	status("GET", "/metrics", 200, "memdb_disk_free_bytes ")
	status("GET", "/metrics", 200, fmt.Sprintf("memdb_disk_reserve_bytes %g", float64(reserve)))
}

// TestWritableAgrees verifies that for every amount of free space the probe and the metric say what a write of a
// few KB is answered.
func TestWritableAgrees(t *testing.T) {
	disk := crashfs.NewQuota(vfs.NewMem(), 1<<30)
	db, err := engine.Open(fsys.On(disk, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := New(db, Options{})
	s.Mount(remembers())
	_, reserve := db.Disk()
	seen := map[int]int{}
	for n := range 60 {
		disk.Resize(disk.Used() + reserve + int64(n-20)*(reserve/1000))
		// The free space is looked at anew where there seems to be too little, and grows while nobody looks.
		waitFor(t, "the free space is seen", func() bool {
			free, _ := db.Disk()
			usage, err := disk.GetDiskUsage("")
			return err == nil && free == int64(usage.AvailBytes)
		})
		ready, figures := ask(s, "GET", "/readyz", "").Code, ask(s, "GET", "/metrics", "").Body.String()
		write := ask(s, "POST", fmt.Sprint("/memories/", n), "").Code
		if seen[write]++; (write == 507) != (ready == 503) || (write == 201) != (ready == 200) || strings.Contains(figures, "memdb_failed 1") != (write == 507) {
			t.Errorf("%d bytes beyond the reserve are free: a write is answered %d, the probe %d", int64(n-20)*(reserve/1000), write, ready)
		}
	}
	if seen[201] == 0 || seen[507] == 0 {
		t.Errorf("writes were answered %v", seen)
	}
}

// TestCompactOnFullDisk verifies that a compaction that finds no room is answered, however often the store tries it again,
// and that it works once there is room.
func TestCompactOnFullDisk(t *testing.T) {
	disk := crashfs.NewQuota(vfs.NewMem(), 40<<20)
	db, err := engine.Open(fsys.On(disk, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := New(db, Options{})
	s.Mount(remembers())
	rng := rand.New(rand.NewPCG(1, 2))
	for {
		raw := make([]byte, 80<<10)
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		_, err := db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea", Metadata: map[string]any{"raw": base64.StdEncoding.EncodeToString(raw)}}, &memory.StoreOptions{NoDedup: true})
		if errors.Is(err, memory.ErrDiskFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if w := ask(s, "POST", "/compact", ""); w.Code != 507 || !strings.Contains(w.Body.String(), "disk_full") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	disk.Resize(1 << 30)
	if w := ask(s, "POST", "/compact", ""); w.Code != 200 {
		t.Errorf("with room: %d %s", w.Code, w.Body)
	}
}
