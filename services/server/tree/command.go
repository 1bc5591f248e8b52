package tree

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/exchange/products"
)

// A Command is one of the memory tool, as a model gives it. The path is that of a file or folder,
// /memories or below it, whatever the store.
type Command struct {
	// Command is view, create, str_replace, insert, delete or rename.
	Command string `json:"command"`
	// Path is what all of them but rename work on.
	Path string `json:"path,omitempty"`
	// ViewRange are the first and the last line of a view, counted from 1; -1 is the end.
	ViewRange []int `json:"view_range,omitempty"`
	// FileText is the content of what create makes.
	FileText string `json:"file_text,omitempty"`
	// OldStr is there once, and str_replace puts NewStr in its place.
	OldStr string `json:"old_str,omitempty"`
	NewStr string `json:"new_str,omitempty"`
	// InsertLine is after which line insert puts InsertText: 0 for the top.
	InsertLine int    `json:"insert_line,omitempty"`
	InsertText string `json:"insert_text,omitempty"`
	// OldPath and NewPath are those of a rename.
	OldPath string `json:"old_path,omitempty"`
	NewPath string `json:"new_path,omitempty"`
}

// A Refusal is why a command was not done, as the model is told.
type Refusal string

// Error returns the text.
func (r Refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

const (
	// maxLines bounds the lines that are numbered.
	maxLines = 999_999
	// numberWidth is that of a line's number.
	numberWidth = 6
	// around is how many lines before and after a change are shown.
	around = 2
)

// Run does a command, in one commit, and returns the answer for the model. A [Refusal] says what the
// model has asked for in vain; other errors are those of the database.
func (t *Tree) Run(ctx context.Context, c Command) (answer string, err error) {
	if c.Command == "view" {
		err = t.View(ctx, func(v *View) error {
			answer, err = v.show(&c)
			return err
		})
		return answer, err
	}
	do, known := map[string]func(*Edit, *Command) (string, error){
		"create": (*Edit).create, "str_replace": (*Edit).replace, "insert": (*Edit).insert, "delete": (*Edit).remove, "rename": (*Edit).rename,
	}[c.Command]
	if !known {
		return "", refuse("Unknown command: %.80q. Use view, create, str_replace, insert, delete or rename.", c.Command)
	}
	err = t.Update(ctx, func(e *Edit) error {
		answer, err = do(e, &c)
		return err
	})
	return answer, err
}

// place is the path within the tree that a command names; empty for the folder of all.
func (t *Tree) place(path string) (string, error) {
	rest, below := strings.CutPrefix(path, products.MemoriesRoot)
	if !below {
		return "", refuse("Path must start with /memories, got: %s", path)
	}
	if rest != "" && rest[0] != '/' {
		return "", missing(path)
	}
	depth := 0
	var segments []string
	for s := range strings.SplitSeq(rest, "/") {
		switch s {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return "", refuse("Path %s would escape /memories directory", path)
			}
			segments = segments[:depth]
		default:
			depth++
			segments = append(segments, s)
		}
	}
	if depth == 0 {
		return "", nil
	}
	at := "/" + strings.Join(segments, "/")
	if why := products.PathFault(t.store(), at); why != nil {
		return "", refuse("The path %.200q cannot be used: %s", path, why)
	}
	return at, nil
}

func missing(path string) error {
	return refuse("The path %s does not exist. Please provide a valid path.", path)
}

// file is the file that a command edits.
func (e *Edit) file(path string) (File, error) {
	at, err := e.t.place(path)
	if err != nil {
		return File{}, err
	}
	f, found, err := e.at(at)
	switch {
	case err != nil || found:
		return f, err
	case at == "":
		return f, refuse("The path %s is not a file.", path)
	}
	is, err := e.Folder(at)
	switch {
	case err != nil:
		return f, err
	case is:
		return f, refuse("The path %s is not a file.", path)
	}
	return f, missing(path)
}

// at is At, where the folder of all is no file.
func (v *View) at(path string) (File, bool, error) {
	if path == "" {
		return File{}, false, nil
	}
	return v.At(path)
}

func (e *Edit) create(c *Command) (string, error) {
	at, err := e.t.place(c.Path)
	if err != nil {
		return "", err
	}
	if at == "" {
		return "", refuse("File %s already exists", c.Path)
	}
	if !utf8.ValidString(c.FileText) {
		return "", refuse("The text is no UTF-8.")
	}
	_, err = e.Create(at, c.FileText)
	if taken, ok := errors.AsType[*Taken](err); ok {
		if strings.HasPrefix(at, taken.Path+"/") {
			return "", refuse("The path %s is not a directory.", products.MemoriesRoot+taken.Path)
		}
		return "", refuse("File %s already exists", c.Path)
	}
	if err != nil {
		return "", err
	}
	return "File created successfully at: " + c.Path, nil
}

// there reports whether a path is one of a file or a folder.
func (v *View) there(at string) (bool, error) {
	if at == "" {
		return true, nil
	}
	if _, found, err := v.At(at); err != nil || found {
		return found, err
	}
	return v.Folder(at)
}

func (e *Edit) replace(c *Command) (string, error) {
	f, err := e.file(c.Path)
	if err != nil {
		return "", err
	}
	if c.OldStr == "" {
		return "", refuse("No replacement was performed: old_str is empty.")
	}
	// An occurrence may overlap with the one before.
	var starts []int
	for from := 0; ; {
		i := strings.Index(f.Content[from:], c.OldStr)
		if i < 0 {
			break
		}
		starts = append(starts, from+i)
		from += i + 1
		if len(starts) > maxShown {
			break
		}
	}
	switch len(starts) {
	case 0:
		return "", refuse("No replacement was performed, old_str `%s` did not appear verbatim in %s.", c.OldStr, c.Path)
	case 1:
	default:
		return "", refuse("No replacement was performed. Multiple occurrences of old_str `%s` in lines: %s. Please ensure it is unique", c.OldStr, linesOf(f.Content, starts))
	}
	at := starts[0]
	content := f.Content[:at] + c.NewStr + f.Content[at+len(c.OldStr):]
	if _, err := e.Change(f, f.Path, content); err != nil {
		return "", err
	}
	line := strings.Count(content[:at], "\n")
	lines := strings.Split(content, "\n")
	first, last := max(0, line-around), min(len(lines), line+around+1)
	return "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" + numbered(lines[first:last], first+1), nil
}

// maxShown bounds the occurrences that a refusal names.
const maxShown = 100

// linesOf names the lines in which offsets are, each once.
func linesOf(content string, offsets []int) string {
	var b strings.Builder
	line, from, last := 1, 0, 0
	for _, at := range offsets {
		line += strings.Count(content[from:at], "\n")
		if from = at; line == last {
			continue
		}
		if last = line; b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(line))
	}
	return b.String()
}

func (e *Edit) insert(c *Command) (string, error) {
	f, err := e.file(c.Path)
	if err != nil {
		return "", err
	}
	lines := strings.Split(f.Content, "\n")
	if c.InsertLine < 0 || c.InsertLine > len(lines) {
		return "", refuse("Invalid `insert_line` parameter: %d. It should be within the range of lines of the file: [0, %d]", c.InsertLine, len(lines))
	}
	text := strings.TrimSuffix(c.InsertText, "\n")
	lines = append(lines[:c.InsertLine:c.InsertLine], append([]string{text}, lines[c.InsertLine:]...)...)
	if _, err := e.Change(f, f.Path, strings.Join(lines, "\n")); err != nil {
		return "", err
	}
	return fmt.Sprintf("The file %s has been edited.", c.Path), nil
}

func (e *Edit) remove(c *Command) (string, error) {
	at, err := e.t.place(c.Path)
	if err != nil {
		return "", err
	}
	if at == "" {
		return "", refuse("Cannot delete the /memories directory itself")
	}
	files, err := e.filesAt(at)
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", refuse("The path %s does not exist", c.Path)
	}
	for _, f := range files {
		if err := e.Delete(f); err != nil {
			return "", err
		}
	}
	return "Successfully deleted " + c.Path, nil
}

// filesAt are the file of a path, or those below it.
func (v *View) filesAt(at string) (files []File, err error) {
	f, found, err := v.At(at)
	if err != nil || found {
		return []File{f}, err
	}
	err = v.Files(at+"/", func(f File) { files = append(files, f) })
	return files, err
}

func (e *Edit) rename(c *Command) (string, error) {
	from, err := e.t.place(c.OldPath)
	if err != nil {
		return "", err
	}
	to, err := e.t.place(c.NewPath)
	if err != nil {
		return "", err
	}
	if from == "" {
		return "", refuse("Cannot rename the /memories directory itself")
	}
	files, err := e.filesAt(from)
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", refuse("The path %s does not exist", c.OldPath)
	}
	switch taken, err := e.there(to); {
	case err != nil:
		return "", err
	case taken:
		return "", refuse("The destination %s already exists", c.NewPath)
	case strings.HasPrefix(to, from+"/"):
		return "", refuse("Cannot rename %s to %s, which is below it", c.OldPath, c.NewPath)
	}
	for _, f := range files {
		path := to + f.Path[len(from):]
		if why := products.PathFault(e.t.store(), path); why != nil {
			return "", refuse("The path %.200q cannot be used: %s", products.MemoriesRoot+path, why)
		}
		_, err := e.Change(f, path, f.Content)
		if taken, ok := errors.AsType[*Taken](err); ok {
			return "", refuse("The path %s is not a directory.", products.MemoriesRoot+taken.Path)
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("Successfully renamed %s to %s", c.OldPath, c.NewPath), nil
}
