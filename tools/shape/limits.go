package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// limit is a figure of this repository that must not grow. The commit that lowers the figure lowers
// the limit. A limit that is raised has a reason.
type limit struct {
	Figure string `json:"figure"`
	Limit  int    `json:"limit"`
	Aim    int    `json:"aim"`
	Reason string `json:"reason,omitempty"`
}

// The packages that the figures are about.
var (
	doors     = []string{"api", "admin", "internal/cli", "internal/daemon", "internal/beside", "services/server"}
	providers = []string{"services/providers", "services/embedders", "services/llm"}
	circles   = []string{"engine", "hnsw", "graph", "internal/recall"}
)

// most is how many files a package may have before it counts as too large.
const most = 40

// figure is a figure of this repository, and the things that it counts where these can be named.
type figure struct {
	size int
	of   []string
}

// figures measures the repository.
func (t *tree) figures() (map[string]figure, error) {
	engine, err := t.uses("engine.DB", "engine.Tx")
	if err != nil {
		return nil, err
	}
	var large []string
	for _, dir := range t.dirs() {
		if n := t.pkgs[dir].files; n > most {
			large = append(large, fmt.Sprintf("%s (%d)", dir, n))
		}
	}
	found := map[string]figure{
		"code lines of the repository, with nested modules":        {size: t.codes},
		"code lines of the doors":                                  {size: t.codesUnder(doors)},
		"code lines of the providers":                              {size: t.codesUnder(providers)},
		"code lines of engine":                                     {size: t.codesUnder([]string{"engine"})},
		"files of engine":                                          {size: t.pkgs["engine"].files},
		"functions of engine with *DB or *Tx":                      {size: engine.functions},
		"structs of engine that hold a *DB or *Tx":                 {size: engine.holders},
		"fields of engine.DB, with those of structs held by value": {size: engine.fields[0]},
		fmt.Sprintf("packages over %d files", most):                named(large),
		fmt.Sprintf("functions over cyclomatic %d", farTooComplex): named(t.farTooComplex),
		fmt.Sprintf("functions over %d lines", tooLong):            named(t.tooLong),
	}
	for _, dir := range circles {
		files, err := t.circle(dir)
		if err != nil {
			return nil, err
		}
		found["largest circle of files of "+dir] = named(files)
	}
	return found, nil
}

func named(of []string) figure { return figure{len(of), of} }

// codesUnder counts the lines of code of folders and of what is in them.
func (t *tree) codesUnder(dirs []string) int {
	n := 0
	for dir, p := range t.pkgs {
		for _, root := range dirs {
			if dir == root || strings.HasPrefix(dir, root+"/") {
				n += p.codes
			}
		}
	}
	return n
}

// compare returns a sentence for each limit that its figure does not equal, and the limits lowered
// to figures below them. A limit is never raised.
func compare(limits []limit, found map[string]figure) (faults []string, lowered []limit) {
	known := map[string]bool{}
	for _, l := range limits {
		f, ok := found[l.Figure]
		known[l.Figure] = true
		switch {
		case !ok:
			faults = append(faults, fmt.Sprintf("%s: nothing measures this; delete the limit", l.Figure))
		case f.size > l.Limit:
			fault := fmt.Sprintf("%s: grew from %d to %d, by %d", l.Figure, l.Limit, f.size, f.size-l.Limit)
			if len(f.of) > 0 {
				fault += ": " + strings.Join(f.of, ", ")
			}
			faults = append(faults, fault)
		case f.size < l.Limit:
			faults = append(faults, fmt.Sprintf("%s: fell from %d to %d; lower the limit with -update", l.Figure, l.Limit, f.size))
			l.Limit = f.size
		}
		lowered = append(lowered, l)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !known[name] {
			faults = append(faults, name+": has no limit; add one")
		}
	}
	return faults, lowered
}

// readLimits reads limits in the order of their file.
func readLimits(name string) ([]limit, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var limits []limit
	if err := json.Unmarshal(text, &limits); err != nil {
		return nil, fmt.Errorf("%s: %w", path.Base(name), err)
	}
	return limits, nil
}

func writeLimits(name string, limits []limit) error {
	text, err := json.MarshalIndent(limits, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
