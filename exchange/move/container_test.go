package move

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func zipped(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		f, err := w.Create(files[i])
		if err == nil {
			_, err = io.WriteString(f, files[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// An export is read from the archive that it came in.
func TestZip(t *testing.T) {
	chats, err := os.ReadFile("testdata/chatgpt.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		in     []byte
		format Format
		items  int
		left   int
		says   string
	}{
		{"an export", zipped(t, "export/user.json", "{}", "export/conversations.json", string(chats), "export/chat.html", "<html>"), ChatGPT, 9, 2, ""},
		{"one file", zipped(t, "points.json", `[{"id":1,"payload":{"text":"t"}}]`), Qdrant, 1, 0, ""},
		{"a folder", zipped(t, "notes/a.md", "A [[b]]", "notes/b.md", "B", "../evil.md", "no", "c.png", "x"), Markdown, 8, 1, ""},
		{"nothing known", zipped(t, "a.txt", "a", "b.txt", "b"), "", 0, 0, "none of its files has a known form"},
		{"cut", zipped(t, "conversations.json", string(chats))[:300], "", 0, 0, "the archive cannot be read"},
		{"no archive", chats, ChatGPT, 9, 0, ""},
	} {
		in := input("x.zip", c.in)
		closer, err := in.Unpack()
		if err != nil {
			if c.says == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		f, ok, err := Recognise(t.Context(), in)
		if err != nil && c.says != "" && strings.Contains(err.Error(), c.says) {
			continue
		}
		if c.says != "" || f != c.format || !ok {
			t.Errorf("%s: it is taken for %q", c.name, f)
			continue
		}
		items := Read(f, in, nil)
		n := 0
		for item, err := range items.All(t.Context()) {
			if err != nil || item.At.Err != nil {
				t.Errorf("%s: %v, %v", c.name, err, item.At)
			}
			n++
		}
		left := items.LeftOut()
		if n != c.items || left["file export/user.json"]+left["file export/chat.html"]+left["file c.png"] != c.left {
			t.Errorf("%s: %d items, left out %v", c.name, n, left)
		}
		if closer != nil {
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	// A folder is no form but Markdown.
	in := input("x.zip", zipped(t, "a.md", "A", "b.md", "B"))
	if _, err := in.Unpack(); err != nil {
		t.Fatal(err)
	}
	if o := read(t.Context(), ChatGPT, in); o.failed == nil || !strings.Contains(o.failed.Error(), "nothing is of the format chatgpt: a.md, b.md") {
		t.Errorf("%v", &o)
	}
}

// TestArchives verifies that what cannot be unpacked is an error with a next step, and that other files
// of the same archive are read.
func TestArchives(t *testing.T) {
	chat := `[{"conversation_id":"c","mapping":{"a":{"id":"a","message":{"id":"a","author":{"role":"user"},"content":{"content_type":"text","parts":["one"]}}}}}]`
	inner := string(zipped(t, "conversations.json", chat))
	encrypted := zipped(t, "conversations-000.json", chat, "conversations-001.json", chat)
	at := bytes.LastIndex(encrypted, []byte("PK\x01\x02")) // the second entry of the directory
	encrypted[at+8] |= 1
	method := zipped(t, "conversations-000.json", chat, "conversations-001.json", chat)
	at = bytes.LastIndex(method, []byte("PK\x01\x02"))
	method[at+10] = 14
	for _, c := range []struct {
		name  string
		in    []byte
		items int
		says  string
	}{
		{"an archive in an archive", zipped(t, "inner.zip", inner), 0, "it holds another archive, inner.zip; unpack it, and import that"},
		{"an archive beside a file", zipped(t, "inner.zip", inner, "conversations.json", chat), 3, ""},
		{"an encrypted file", encrypted, 3, "conversations-001.json: it is encrypted; unpack the archive with its password"},
		{"another compression", method, 3, "conversations-001.json: it is compressed by method 14, which is not supported; unpack the archive"},
		{"names that lead out", zipped(t, "../../conversations.json", chat, "/etc/passwd", "x", "C:\\a.json", chat), 6, ""},
		{"one name twice", zipped(t, "conversations.json", chat, "conversations.json", strings.ReplaceAll(chat, `"c"`, `"d"`)), 6, ""},
		{"nothing", zipped(t), 0, "none of its files has a known form; name a file: it is empty"},
	} {
		in := input("x.zip", c.in)
		_, err := in.Unpack()
		o := outcome{failed: err}
		if err == nil {
			f, _, failed := Recognise(t.Context(), in)
			if o = read(t.Context(), f, in); failed != nil {
				o.failed = failed
			}
		}
		if o.items != c.items || c.says == "" && (o.failed != nil || o.skipped > 0) {
			t.Errorf("%s: %v, want %d items", c.name, &o, c.items)
		}
		if c.says != "" && (o.failed == nil || !strings.Contains(o.failed.Error(), c.says)) && (o.first == nil || !strings.Contains(o.first.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.name, &o, c.says)
		}
	}
}

// TestUnpackBound verifies that a text which unpacks to far more than its size is refused.
func TestUnpackBound(t *testing.T) {
	const free = 1 << 10
	of := &budget{packed: 10, free: free}
	b := budgeted{io.NopCloser(strings.NewReader(strings.Repeat(" ", 1<<20))), of}
	n, err := io.Copy(io.Discard, b)
	if !errors.Is(err, errUnpacks) || n > 64<<10 {
		t.Errorf("%d bytes, error %v", n, err)
	}
	of = &budget{packed: 1 << 13, free: free}
	if _, err := io.Copy(io.Discard, budgeted{io.NopCloser(strings.NewReader(strings.Repeat(" ", 1<<20))), of}); err != nil {
		t.Errorf("within the ratio: %v", err)
	}
}

// endless has blanks or letters without an end, and cancels a context after some of them.
type endless struct {
	begin  string
	fill   byte
	left   int
	cancel context.CancelFunc
}

func (e *endless) Read(b []byte) (int, error) {
	if e.begin != "" {
		n := copy(b, e.begin)
		e.begin = e.begin[n:]
		return n, nil
	}
	if e.left -= len(b); e.left < 0 {
		e.cancel()
	}
	for i := range b {
		b[i] = e.fill
	}
	return len(b), nil
}

// TestEnds verifies that reading ends with its context also within one record without an end, and that
// blanks without an end are an error.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		begin string
		fill  byte
		left  int
		says  string
	}{
		{`[{"mapping":{},"x":"`, 'x', 16 << 20, "canceled"},
		{`[{"mapping":{},"x":`, ' ', 16 << 20, "canceled"},
		{`[{"mapping":{},"x":[`, '[', 16 << 20, "canceled"},
		{`[`, ' ', 1 << 30, "more than 64 MiB of blanks"},
		{``, '\n', 1 << 30, "more than 64 MiB of blanks"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		in := &Input{Name: "x.json", Reader: bufio.NewReaderSize(&endless{c.begin, c.fill, c.left, cancel}, 64<<10)}
		o := read(ctx, ChatGPT, in)
		if o.failed == nil || !strings.Contains(o.failed.Error(), c.says) {
			t.Errorf("%q and %q: %v", c.begin, c.fill, &o)
		}
		cancel()
	}
}
