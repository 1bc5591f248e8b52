//go:build unix

package admin_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// assistant is a client of memdbctl mcp in a process of its own.
func (p *place) assistant() (*mcp.ClientSession, *os.Process) {
	p.Helper()
	cmd := p.ctl(p.Context(), nil, "mcp", "--user", "ada")
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil).Connect(p.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = c.Close() })
	return c, cmd.Process
}

// call calls a tool. A program that ended meanwhile is told of, and the call is made again.
func (p *place) call(c *mcp.ClientSession, tool string, args map[string]any) string {
	p.Helper()
	for {
		r, err := c.CallTool(p.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		switch {
		case err != nil && strings.Contains(err.Error(), "has ended; look whether it was done"):
			time.Sleep(10 * time.Millisecond)
		case err != nil:
			p.Fatalf("%s %v: %v", tool, args, err)
		default:
			return r.Content[0].(*mcp.TextContent).Text
		}
	}
}

// TestAssistantsShareADatabase has three clients at once. The one that opened the database is
// killed, and then another is ended: nothing that was acknowledged is lost.
func TestAssistantsShareADatabase(t *testing.T) {
	p := &place{T: t, dir: filepath.Join(t.TempDir(), "db"), work: t.TempDir()}
	first, opened := p.assistant()
	second, ended := p.assistant()
	third, _ := p.assistant()
	p.call(first, "remember", map[string]any{"text": "green tea"})
	for _, c := range []*mcp.ClientSession{second, third} {
		if found := p.call(c, "recall", map[string]any{"query": "tea"}); !strings.Contains(found, "green tea") {
			t.Errorf("another client sees %s", found)
		}
	}
	if out := p.ok("", "recall", "tea", "--user", "ada"); !strings.Contains(out, "green tea") {
		t.Errorf("memdbctl beside them sees %s", out)
	}
	if err := opened.Kill(); err != nil {
		t.Fatal(err)
	}
	p.call(second, "remember", map[string]any{"text": "black tea"})
	if err := ended.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	found := p.call(third, "recall", map[string]any{"query": "tea"})
	if !strings.Contains(found, "green tea") || !strings.Contains(found, "black tea") {
		t.Errorf("the last client sees %s", found)
	}
}

func TestAssistantBesideAProgram(t *testing.T) {
	p := serve(t)
	c, _ := p.assistant()
	p.call(c, "remember", map[string]any{"text": "green tea"})
	if out := p.ok("", "recall", "tea", "--user", "ada"); !strings.Contains(out, "green tea") {
		t.Errorf("the program sees %s", out)
	}
	if _, errs, code := p.run("", "mcp"); code != 2 || !strings.Contains(errs, "whose memories") {
		t.Errorf("without a scope: exit %d: %s", code, errs)
	}
	if _, errs, code := p.run("", "mcp", "--user", "ada", "--tools", "all"); code != 2 || !strings.Contains(errs, "no tools") {
		t.Errorf("unknown tools: exit %d: %s", code, errs)
	}
	if out, errs, code := p.run("", "mcp", "--user", "ada"); code != 0 || out != "" {
		t.Errorf("a closed input: exit %d: %s%s", code, out, errs)
	}
}
