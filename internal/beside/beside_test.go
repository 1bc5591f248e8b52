package beside

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hostile is a server that sends what it likes after the request, and notes what it gets.
func hostile(t *testing.T, frames string) (client *Conn, got *bytes.Buffer) {
	t.Helper()
	near, far := net.Pipe()
	got = &bytes.Buffer{}
	server := &Conn{Conn: far}
	go func() {
		if _, err := server.Ask(); err != nil {
			return
		}
		go func() { _, _ = io.WriteString(far, frames) }() // a client may leave in its midst
		_, _ = io.Copy(got, far)
	}()
	t.Cleanup(func() { _ = far.Close() })
	return &Conn{Conn: near}, got
}

// TestHostileServers get nothing that a verb does not need, and no memory.
func TestHostileServers(t *testing.T) {
	for _, c := range []struct{ name, frames, want string }{
		{"a variable", "G\x04\x00\x00\x00HOME", `the variable "HOME"`},
		{"the input", "W\x04\x00\x00\x00\x00\x00\x01\x00", "its input"},
		{"a frame of 4 GB", "W\xff\xff\xff\xff", "4294967295 bytes; 65536 are the most"},
		{"an output of 4 MB", "O\x00\x00\x40\x00", "4194304 bytes; 65536 are the most"},
		{"half a frame", "O\x05\x00\x00\x00ab", ""},
		{"a kind of the client", "V\x00\x00\x00\x00", `a frame 'V' of 0 bytes`},
		{"an exit without code", "X\x00\x00\x00\x00", `a frame 'X' of 0 bytes`},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, got := hostile(t, c.frames)
				began := time.Now()
				_, err := client.Run(t.Context(), &Request{Args: []string{"list"}}, &Terms{
					Out: io.Discard, Err: io.Discard, Getenv: func(string) (string, bool) { return "secret", false },
				})
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if c.want == "" && (!errors.Is(err, ErrGone) || time.Since(began) != aliveWait) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				_ = client.Close()
				synctest.Wait()
				if got.Len() > 0 {
					t.Errorf("it got %q", got)
				}
			})
		})
	}
}

// TestMoreThanWanted: a server that asks for the input twice without taking it is left.
func TestMoreThanWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := "W\x04\x00\x00\x00\xff\xff\xff\xff"
		client, _ := hostile(t, strings.Repeat(want, 4))
		typed, _ := io.Pipe()
		_, err := client.Run(t.Context(), &Request{}, &Terms{In: typed, Out: io.Discard, Err: io.Discard})
		if !errors.Is(err, ErrRefused) {
			t.Errorf("error %v", err)
		}
		_ = typed.Close()
	})
}

// TestInterrupted: a context that is over ends every wait, also for a server that does not care.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := hostile(t, "")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := client.Run(ctx, &Request{}, &Terms{Out: io.Discard, Err: io.Discard})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second+cancelWait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestAlive: a verb that says nothing for an hour is waited for, since its server says that it is
// alive.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() {
			server := &Conn{Conn: far}
			r, err := server.Ask()
			if err != nil {
				t.Error(err)
				return
			}
			_ = server.Serve(t.Context(), r, func(context.Context, *Session) int {
				time.Sleep(time.Hour)
				return 7
			})
		}()
		client := &Conn{Conn: near}
		code, err := client.Run(t.Context(), &Request{}, &Terms{Out: io.Discard, Err: io.Discard})
		if code != 7 || err != nil {
			t.Errorf("exit %d, %v", code, err)
		}
		_ = client.Close()
	})
}

// TestBodiesTakeNoMemory: a client that announces a large request and does not send it takes
// none.
func TestBodiesTakeNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 50 {
		near, far := net.Pipe()
		go func() {
			_, _ = io.WriteString(near, "V\xff\xff\x3f\x00{")
			_ = near.Close()
		}()
		if _, err := (&Conn{Conn: far}).Ask(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes", took)
	}
}
