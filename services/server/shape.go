package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// maxDepth is how deep the JSON of a body may be.
const maxDepth = 64

// scopeNames are the names, in lower case, by which requests say whose something is. One that is
// given twice is refused: what stands before the server may have read the other one.
var scopeNames = []string{
	"user", "user_id", "userid", "agent", "agent_id", "agentid", "run", "run_id", "runid", "app_id", "appid",
	"session", "session_id", "sessionid", "scope", "scopes", "all_scopes", "namespace", "namespace_prefix",
}

// namesScope reports whether a name says whose something is.
func namesScope(name string) bool { return slices.Contains(scopeNames, strings.ToLower(name)) }

func twice(name string) error {
	return Fail(http.StatusBadRequest, "invalid", "%.60q is given twice; give it once", name)
}

// checkQuery refuses a query that is malformed, whose parts would be dropped, or that names a scope
// twice.
func checkQuery(u *url.URL) error {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Fail(http.StatusBadRequest, "invalid", "read the query: it is malformed; escape what is in names and values")
	}
	for name, values := range q {
		if len(values) > 1 && namesScope(name) {
			return twice(name)
		}
	}
	return nil
}

// CheckJSON refuses JSON that is deeper than maxDepth, that has a list of more than memory.MaxItems objects, lists
// and strings, or in which an object names a scope twice: in the same letters, or in the outermost object in
// letters that differ in case. Values one after the other are a list, too. Numbers are not counted: they are
// those of vectors. Whether it is JSON at all is not checked.
func CheckJSON(b []byte) error {
	// The keys that name a scope of each object that is open; nil for a list.
	var open [][]string
	items := []int{0} // of the body and each value that is open; below 0 for an object
	key := false      // a string is a key of the innermost object
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[', '"':
			in := &items[len(items)-1]
			if *in >= 0 {
				*in++
			}
			if *in > memory.MaxItems {
				return Fail(http.StatusRequestEntityTooLarge, "too_large", "the body has a list of more than %d; send fewer at once", memory.MaxItems)
			}
		}
		switch b[i] {
		case '{', '[':
			if len(open) == maxDepth {
				return Fail(http.StatusBadRequest, "invalid", "the JSON is deeper than %d", maxDepth)
			}
			open, items = append(open, nil), append(items, 0)
			if key = b[i] == '{'; key {
				open[len(open)-1], items[len(items)-1] = []string{}, -1
			}
		case '}', ']':
			open, key = open[:max(len(open)-1, 0)], false
			items = items[:max(len(items)-1, 1)]
		case ',':
			key = len(open) > 0 && open[len(open)-1] != nil
		case ':':
			key = false
		case '"':
			end := stringEnd(b, i)
			if key {
				if err := checkKey(open, b[i:end]); err != nil {
					return err
				}
			}
			i = end - 1
		}
	}
	return nil
}

// stringEnd is where the string that begins at a quote ends.
func stringEnd(b []byte, at int) int {
	for i := at + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// checkKey notes a key of the innermost object, and refuses it where it names a scope again.
func checkKey(open [][]string, quoted []byte) error {
	const longest = 100 // of a name of a scope, even where each of its letters is escaped
	if len(quoted) > longest {
		return nil
	}
	name := string(quoted[1:max(len(quoted)-1, 1)])
	if strings.Contains(name, `\`) && json.Unmarshal(quoted, &name) != nil || !namesScope(name) {
		return nil
	}
	for _, before := range open[len(open)-1] {
		if before == name || len(open) == 1 && strings.EqualFold(before, name) {
			return twice(name)
		}
	}
	open[len(open)-1] = append(open[len(open)-1], name)
	return nil
}
