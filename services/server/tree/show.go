package tree

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// shownDepth is how many levels of folders a view has.
	shownDepth = 2
	// folderSize is what a folder is shown to take.
	folderSize = "4K"
)

// show answers the command view.
func (v *View) show(c *Command) (string, error) {
	at, err := v.t.place(c.Path)
	if err != nil {
		return "", err
	}
	f, found, err := v.at(at)
	switch {
	case err != nil:
		return "", err
	case found:
		return showFile(c, f.Content)
	}
	shown := map[string]string{}
	below := false
	err = v.Files(at+"/", func(f File) {
		below = true
		list(shown, f.Path[len(at)+1:], len(f.Content))
	})
	switch {
	case err != nil:
		return "", err
	case !below && at != "":
		return "", missing(c.Path)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Here're the files and directories up to 2 levels deep in %s, excluding hidden items and node_modules:\n%s\t%s", c.Path, folderSize, c.Path)
	for _, path := range slices.SortedFunc(maps.Keys(shown), bySegments) {
		fmt.Fprintf(&b, "\n%s\t%s/%s", shown[path], c.Path, path)
	}
	return b.String(), nil
}

// list adds a file and its folders, as deep as they are shown, with their sizes.
func list(shown map[string]string, path string, size int) {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		switch {
		case i == shownDepth, s[0] == '.', s == "node_modules":
			return
		case i == len(segments)-1:
			shown[path] = sizeText(size)
		default:
			shown[strings.Join(segments[:i+1], "/")+"/"] = folderSize
		}
	}
}

// bySegments orders paths as a walk of folders does.
func bySegments(a, b string) int {
	return slices.Compare(strings.Split(strings.TrimSuffix(a, "/"), "/"), strings.Split(strings.TrimSuffix(b, "/"), "/"))
}

// sizeText is a number of bytes as the tool shows it: 29B, 1.5K.
func sizeText(n int) string {
	size, unit := float64(n), 0
	for size >= 1024 && unit < 3 {
		size /= 1024
		unit++
	}
	if size == math.Trunc(size) {
		return strconv.Itoa(int(size)) + "BKMG"[unit:unit+1]
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + "BKMG"[unit:unit+1]
}

func showFile(c *Command, content string) (string, error) {
	lines := strings.Split(content, "\n")
	if len(lines) > maxLines {
		return "", refuse("File %s has too many lines (%d). Maximum is 999,999 lines.", c.Path, len(lines))
	}
	first, last := 1, len(lines)
	if len(c.ViewRange) == 2 {
		first = max(1, c.ViewRange[0])
		if c.ViewRange[1] != -1 {
			last = min(last, c.ViewRange[1])
		}
	}
	shown := ""
	if first <= last {
		shown = numbered(lines[first-1:last], first)
	}
	return fmt.Sprintf("Here's the content of %s with line numbers:\n%s", c.Path, shown), nil
}

// numbered are lines with their numbers, which begin with first.
func numbered(lines []string, first int) string {
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%*d\t%s", numberWidth, first+i, line)
	}
	return b.String()
}
