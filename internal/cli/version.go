package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// versionJSON says which memdbctl it is, and what it reads.
type versionJSON struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Layout is the newest layout of a database that it opens.
	Layout   int    `json:"layout"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// versionOf is what the build says of itself, nil where it says nothing.
func versionOf(build *debug.BuildInfo) versionJSON {
	v := versionJSON{
		Version: "unknown", Layout: engine.LayoutVersion,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build == nil {
		return v
	}
	if build.Main.Version != "" {
		v.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v versionJSON) String() string {
	parts := []string{"memdbctl " + v.Version}
	if v.Commit != "" {
		commit := "commit " + v.Commit
		if v.Modified {
			commit += " with changes"
		}
		parts = append(parts, commit)
	}
	return strings.Join(append(parts, fmt.Sprintf("layout %d", v.Layout), v.Go, v.Platform), ", ")
}

func (a *app) printVersion() error {
	build, _ := debug.ReadBuildInfo()
	v := versionOf(build)
	if a.json {
		return a.printJSON(v)
	}
	a.printf("%s\n", v)
	return nil
}
