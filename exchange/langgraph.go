package exchange

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// What an item of LangGraph's store has in the metadata of its memory.
const (
	LangGraphField   = "langgraph" // the object that has the others
	LangGraphSpace   = "namespace" // its labels with periods between
	LangGraphKey     = "key"
	LangGraphValue   = "value"
	LangGraphIndexed = "indexed" // whether its text is one of the value
	LangGraphTTL     = "ttl"     // minutes, where it has a time to live
)

// langGraphNoText stands for the text of an item that has none to be searched: a memory needs one.
const langGraphNoText = "-"

// LangGraphItem is an item of LangGraph's store.
type LangGraphItem struct {
	Scope     memory.Scope   // whose it is, exactly
	Namespace []string       // 1 to 32 labels without periods
	Key       string         // at most memory.MaxID bytes
	Value     map[string]any // not nil
	// Index is false, or the paths of the texts that are searched; nil for all of them.
	Index json.RawMessage
	// TTL is its time to live in minutes, nil for none.
	TTL *float64
}

// maxLabels bounds a namespace.
const maxLabels = 32

// CheckLabels refuses what is no namespace, or, unless it is a whole one, no beginning of one.
func CheckLabels(labels []string, whole bool) error {
	if whole && len(labels) == 0 {
		return errors.New("namespace: it has no labels; give one or more")
	}
	if len(labels) > maxLabels {
		return fmt.Errorf("namespace: it has %d labels; %d are the most", len(labels), maxLabels)
	}
	for i, l := range labels {
		switch {
		case l == "":
			return errors.New("namespace: a label is empty")
		case strings.Contains(l, "."):
			return fmt.Errorf("namespace: the label %.80q has a period", l)
		case whole && i == 0 && l == "langgraph":
			return fmt.Errorf("namespace: the first label cannot be %q", l)
		case len(l) > memory.MaxID:
			return fmt.Errorf("namespace: a label has more than %d bytes", memory.MaxID)
		}
	}
	return nil
}

// LangGraphID is the ID of the memory of an item.
func LangGraphID(of memory.Scope, space []string, key string) (string, error) {
	if err := CheckLabels(space, true); err != nil {
		return "", err
	}
	if key == "" || len(key) > memory.MaxID {
		return "", fmt.Errorf("key: give one of 1 to %d bytes", memory.MaxID)
	}
	h := sha256.New()
	for _, part := range []string{of.User, of.Agent, of.Run, strings.Join(space, "."), key} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash never fails
	}
	return "langgraph-" + hex.EncodeToString(h.Sum(nil)), nil
}

// Memory is the memory that keeps the item, which a server finds for clients of LangGraph. now is
// when its time to live begins.
func (i *LangGraphItem) Memory(now time.Time) (memory.Memory, error) {
	id, err := LangGraphID(i.Scope, i.Namespace, i.Key)
	if err != nil {
		return memory.Memory{}, err
	}
	if i.Value == nil {
		return memory.Memory{}, errors.New("value: give an object, or delete the item")
	}
	text, indexed, err := i.text()
	if err != nil {
		return memory.Memory{}, err
	}
	kept := map[string]any{
		LangGraphSpace: strings.Join(i.Namespace, "."), LangGraphKey: i.Key, LangGraphValue: i.Value, LangGraphIndexed: indexed,
	}
	m := memory.Memory{ID: id, Scope: i.Scope, Kind: memory.KindNote, Text: text, Metadata: map[string]any{LangGraphField: kept}}
	if i.TTL != nil {
		kept[LangGraphTTL] = *i.TTL
		if m.ExpiresAt, err = LangGraphExpiry(now, *i.TTL); err != nil {
			return memory.Memory{}, err
		}
	}
	return m, nil
}

// LangGraphExpiry is when an item ends whose time to live in minutes begins now.
func LangGraphExpiry(now time.Time, minutes float64) (time.Time, error) {
	const most = 1 << 62
	d := minutes * float64(time.Minute)
	if !(minutes > 0) || d > most {
		return time.Time{}, fmt.Errorf("ttl: it is %v; give minutes, more than 0", minutes)
	}
	return now.Add(time.Duration(d)), nil
}

// text is what of the value is searched: the texts at paths, of the whole value without paths,
// and none for false. indexed is false where there is none.
func (i *LangGraphItem) text() (text string, indexed bool, err error) {
	var paths []string
	switch strings.TrimSpace(string(i.Index)) {
	case "", "null":
		paths = []string{"$"}
	case "false":
	default:
		if err := json.Unmarshal(i.Index, &paths); err != nil {
			return "", false, errors.New("index: give false, or a list of paths")
		}
	}
	var texts []string
	for _, path := range paths {
		at := any(i.Value)
		if path != "$" {
			for name := range strings.SplitSeq(path, ".") {
				name, _, _ = strings.Cut(name, "[")
				inner, _ := at.(map[string]any)
				at = inner[name]
			}
		}
		texts = leaves(texts, at)
	}
	if text = strings.Join(texts, "\n"); strings.TrimSpace(text) == "" {
		return langGraphNoText, false, nil
	}
	return text, true, nil
}

// leaves adds the texts within a value, by the order of names.
func leaves(texts []string, value any) []string {
	switch v := value.(type) {
	case string:
		return append(texts, v)
	case []any:
		for _, of := range v {
			texts = leaves(texts, of)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			texts = leaves(texts, v[name])
		}
	}
	return texts
}
