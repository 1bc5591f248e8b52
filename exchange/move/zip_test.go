package move

import (
	"archive/zip"
	"bytes"
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
		{"nothing known", zipped(t, "a.txt", "a", "b.txt", "b"), "", 0, 0, "no conversations.json, and no Markdown"},
		{"cut", zipped(t, "conversations.json", string(chats))[:300], "", 0, 0, "the archive cannot be read"},
		{"no archive", chats, ChatGPT, 9, 0, ""},
	} {
		in := input("x.zip", c.in)
		closer, err := in.Unzip()
		if err != nil {
			if c.says == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		f, ok := Recognise(in)
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
		if n != c.items || left["other files of the archive"]+left["file c.png"] != c.left {
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
	if _, err := in.Unzip(); err != nil {
		t.Fatal(err)
	}
	if o := read(t.Context(), ChatGPT, in); o.failed == nil || !strings.Contains(o.failed.Error(), "it is a folder") {
		t.Errorf("%v", &o)
	}
}
