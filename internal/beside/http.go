package beside

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

const (
	// Protocol is what a connection of HTTP is upgraded to. It was oldProtocol until memdb 0.3.
	Protocol    = "memdb-commands"
	oldProtocol = "memdb-verbs"
	// Path is where a server takes verbs.
	Path = "/memdb/v1/verbs"
	// maxRefusal bounds what is read of an answer that refuses a verb.
	maxRefusal = 64 << 10
)

// A Refusal is the answer of a server that does not run a verb.
type Refusal struct {
	Status  int
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// IsURL reports whether a database is named by the address of a server, not by a folder.
func IsURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// Plain reports whether what is sent to the address of a server goes over a network without encryption.
func Plain(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsLoopback()
}

// DialURL connects to a server of databases. The key is sent to no other host, and over a
// connection that is not encrypted only to this machine unless the address says http itself.
func DialURL(ctx context.Context, address, key string, roots *tls.Config) (*Conn, error) {
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return DialWith(ctx, address, header, roots)
}

// DialWith is DialURL for who says by headers who it is.
func DialWith(ctx context.Context, address string, header http.Header, roots *tls.Config) (*Conn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the address is not one of a server: give http://HOST:PORT or https://HOST:PORT")
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	var c net.Conn
	if u.Scheme == "https" {
		c, err = (&tls.Dialer{Config: roots}).DialContext(ctx, "tcp", host)
	} else {
		c, err = (&net.Dialer{}).DialContext(ctx, "tcp", host)
	}
	if err != nil {
		return nil, err
	}
	return begin(ctx, c, u, header)
}

// begin changes a connection from HTTP to frames, or closes it.
func begin(ctx context.Context, c net.Conn, u *url.URL, header http.Header) (*Conn, error) {
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(clock.System()) })()
	reader, err := upgrade(ctx, c, u, header)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Conn{Conn: &buffered{Conn: c, r: reader}}, c.SetDeadline(time.Time{})
}

// Refuses says why a request is none for a connection of frames, empty where it is one.
func Refuses(r *http.Request) string {
	switch of := r.Header.Get("Upgrade"); {
	case strings.EqualFold(of, Protocol):
		return ""
	case strings.EqualFold(of, oldProtocol):
		return "the server has memdb " + version() + ", and this memdbctl is of 0.3 or earlier; use the memdbctl of the server's version"
	}
	return "memdbctl asks here, with --db http://HOST:PORT"
}

// version is the version of memdb that this program is built with.
func version() string {
	const module = "github.com/seed-7aedc3ff/memdb"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(build.Deps, &build.Main) {
			if m.Path == module && m.Version != "" && m.Version != "(devel)" {
				return m.Version
			}
		}
	}
	return "0.4 or later"
}

// upgrade asks for the change from HTTP to frames.
func upgrade(ctx context.Context, c net.Conn, u *url.URL, header http.Header) (*bufio.Reader, error) {
	at := *u
	at.Path = strings.TrimSuffix(u.Path, "/") + Path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", Protocol)
	if err := r.Write(c); err != nil {
		return nil, err
	}
	in := bufio.NewReader(c)
	reply, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, fmt.Errorf("what answers is no server of memdb: %w", err)
	}
	if reply.StatusCode == http.StatusSwitchingProtocols && strings.EqualFold(reply.Header.Get("Upgrade"), Protocol) {
		return in, nil
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxRefusal))
	if reply.StatusCode == http.StatusUpgradeRequired && reply.Header.Get("Upgrade") == oldProtocol {
		return nil, errors.Join(&Refusal{Status: reply.StatusCode, Message: "the server has memdb 0.3 or earlier; use the memdbctl of its version"}, reply.Body.Close())
	}
	refusal := &Refusal{Status: reply.StatusCode, Message: "what answers is no server of memdb: " + reply.Status}
	var told struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &told) == nil && told.Error.Message != "" {
		refusal.Message = told.Error.Message
	}
	return nil, errors.Join(refusal, err, reply.Body.Close())
}

// Accept takes a connection over from HTTP, and says so to the client.
func Accept(w http.ResponseWriter) (*Conn, error) {
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n"
	if err := errors.Join(c.SetDeadline(clock.System().Add(askWait)), writeAll(c, head), c.SetDeadline(time.Time{})); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Conn{Conn: &buffered{Conn: c, r: buf.Reader}}, nil
}

func writeAll(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// buffered is a connection of which a part was read already.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }
