package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// backupKeys are the keys of a line of JSON, in an order of their own.
func backupKeys(m map[string]any) string {
	var keys []string
	for _, key := range []string{"type", "id", "lsn", "timeline", "database", "time", "layout", "bytes", "new_bytes", "files", "verified", "backups", "removed", "kept", "ok", "problems", "memories", "seconds"} {
		if _, ok := m[key]; ok {
			keys = append(keys, key)
		}
	}
	if len(keys) != len(m) {
		keys = append(keys, "and others")
	}
	return strings.Join(keys, " ")
}

func wantKeys(t *testing.T, verb string, m map[string]any, want string) {
	t.Helper()
	if got := backupKeys(m); got != want {
		t.Errorf("%s: %v has the keys %s, want %s", verb, m, got, want)
	}
}

// TestBackupVerbs: the way from a backup to a restored database, by what the verbs print.
func TestBackupVerbs(t *testing.T) {
	c := newCLI(t)
	place := t.TempDir()
	repo, file := filepath.Join(place, "repo"), filepath.Join(place, "file")
	for _, text := range []string{"prefers tea", "dislikes coffee"} {
		c.ok("store", text, "--user", "ada")
	}
	first := one(t, parseLines(t, c.bare("--db", c.dir, "--json", "backup", repo, "--archive", file).out))
	wantKeys(t, "backup", first, "id lsn timeline bytes new_bytes files verified seconds")
	if first["verified"] != true || first["new_bytes"] != first["bytes"] {
		t.Errorf("%v", first)
	}
	before := c.ok("export", "-")
	c.ok("store", "prefers milk", "--user", "ada")
	second := one(t, parseLines(t, c.bare("--db", c.dir, "--json", "backup", repo).out))
	id, _ := first["id"].(string)
	newest, _ := second["id"].(string)

	lines := parseLines(t, c.bare("--json", "backup", "list", repo).out)
	if len(lines) != 2 || lines[0]["id"] != id || lines[1]["id"] != newest {
		t.Fatalf("%v", lines)
	}
	wantKeys(t, "backup list", lines[0], "type id lsn timeline database time layout bytes files")
	for _, from := range []string{repo, file} {
		verified := one(t, parseLines(t, c.bare("--json", "backup", "verify", from, "--id", id).out))
		wantKeys(t, "backup verify", verified, "lsn bytes files backups ok problems")
		if verified["ok"] != true || verified["lsn"] != first["lsn"] {
			t.Errorf("%v", verified)
		}
		to := filepath.Join(place, "of "+filepath.Base(from))
		r := one(t, parseLines(t, c.bare("--db", to, "--json", "restore", from, "--id", id).out))
		wantKeys(t, "restore", r, "id lsn timeline memories seconds")
		if r["lsn"] != first["lsn"] || r["memories"] != 2.0 || r["timeline"] == first["timeline"] {
			t.Errorf("%v", r)
		}
		if got := c.bare("--db", to, "export", "-"); got.out != before {
			t.Errorf("the export differs: %s, want %s", got.out, before)
		}
		if got := c.bare("--db", to, "check"); got.code != exitDone {
			t.Errorf("%s%s", got.out, got.err)
		}
		if got := c.bare("--db", to, "restore", from); got.code != exitFailed || !strings.Contains(got.err, "the folder is there") {
			t.Errorf("restore over a database: exit %d, %s", got.code, got.err)
		}
	}
	pruned := one(t, parseLines(t, c.bare("--json", "backup", "prune", repo, "--keep", "1").out))
	wantKeys(t, "backup prune", pruned, "bytes files removed kept")
	if got := c.bare("--db", filepath.Join(place, "gone"), "restore", repo, "--id", id); got.code != exitNotFound {
		t.Errorf("a backup that is gone: exit %d, %s", got.code, got.err)
	}
	if got := c.bare("--db", filepath.Join(place, "newest"), "restore", repo); got.code != exitDone || !strings.Contains(got.out, newest) || !strings.Contains(got.out, "3 memories") {
		t.Errorf("exit %d, %s%s", got.code, got.out, got.err)
	}
}

// TestBackupRefused: what is wrong with a command line or a place is told, with the exit code.
func TestBackupRefused(t *testing.T) {
	c := newCLI(t)
	place := t.TempDir()
	repo := filepath.Join(place, "repo")
	c.ok("store", "prefers tea", "--user", "ada")
	c.ok("backup", repo)
	if err := os.WriteFile(filepath.Join(place, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"backup"}, exitUsage, "a repository or --archive"},
		{[]string{"backup", "a", "b"}, exitUsage, "one repository"},
		{[]string{"backup", "-"}, exitUsage, "read back"},
		{[]string{"backup", repo, "--ful"}, exitUsage, "no flag --ful"},
		{[]string{"backup", place}, exitUsage, "lie in one another"},
		{[]string{"backup", c.dir}, exitUsage, "lie in one another"},
		{[]string{"backup", filepath.Join(c.dir, "backups")}, exitUsage, "lie in one another"},
		{[]string{"backup", filepath.Join(place, "mine")}, exitFailed, "not a folder"},
		{[]string{"backup", "--archive", filepath.Join(place, "mine")}, exitFailed, "a file of that name"},
		{[]string{"backup", "list"}, exitUsage, "a repository or an archive"},
		{[]string{"backup", "list", place}, exitFailed, "no backups"},
		{[]string{"backup", "verify", filepath.Join(place, "none")}, exitFailed, "no such folder"},
		{[]string{"backup", "verify", filepath.Join(place, "mine")}, exitDamaged, "damaged"},
		{[]string{"backup", "verify", repo, "--id", "x"}, exitNotFound, "no such backup"},
		{[]string{"backup", "prune", repo}, exitUsage, "--keep"},
		{[]string{"restore"}, exitUsage, "a repository or an archive"},
		{[]string{"restore", repo}, exitFailed, "the folder is there"},
	} {
		if strings.Join(x.args, " ") == "backup "+place { // the database lies elsewhere
			x.args = []string{"backup", filepath.Dir(c.dir)}
		}
		r := c.bare(append([]string{"--db", c.dir}, x.args...)...)
		if r.code != x.code || !strings.Contains(r.err, x.says) {
			t.Errorf("%v: exit %d, %s%s", x.args, r.code, r.out, r.err)
		}
	}
	names, err := filepath.Glob(filepath.Join(repo, "files", "*", "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	r := c.bare("--json", "backup", "verify", repo)
	got := one(t, parseLines(t, r.out))
	problems, _ := got["problems"].([]any)
	if r.code != exitDamaged || got["ok"] != false || len(problems) != 1 || !strings.Contains(r.out, filepath.Base(names[0])) {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
}

// TestShortArchiveVerbs verifies that restore and replica exit with 5 and print the LSN that an archive
// reached when its end is lost, and refuse targets that name no commit.
func TestShortArchiveVerbs(t *testing.T) {
	c := newCLI(t)
	place := t.TempDir()
	archive := filepath.Join(place, "archive")
	c.ok("store", "prefers tea", "--user", "ada")
	c.ok("archive", archive)
	c.ok("store", "prefers milk", "--user", "ada")
	c.ok("archive", archive)
	whole := one(t, parseLines(t, c.bare("--db", filepath.Join(place, "whole"), "--json", "restore", archive).out))
	if whole["expected_lsn"] != nil {
		t.Errorf("of a whole archive: %v", whole)
	}
	for _, x := range [][]string{{"--to-lsn", "0"}, {"--to-time", "2100-01-01"}, {"--to-time", "0001-01-01"}} {
		got := c.bare(append([]string{"--db", filepath.Join(place, "none"), "restore", archive}, x...)...)
		if got.code != exitUsage || !strings.Contains(got.err, "leave ") {
			t.Errorf("%v: exit %d, %s%s", x, got.code, got.out, got.err)
		}
	}
	bases, err := filepath.Glob(filepath.Join(archive, "*", "*.base"))
	if err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(archive, "*", "*.segment"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(bases, segments) { // what the second archive has brought
		if filepath.Base(name) > filepath.Base(slices.Min(slices.Concat(bases, segments))) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{{"--db", filepath.Join(place, "short"), "--json", "restore", archive}, {"--json", "replica", filepath.Join(place, "replica"), "--from", archive}} {
		got := c.bare(args...)
		if got.code != exitDamaged || !strings.Contains(got.err, "the archive has less than it had") {
			t.Fatalf("%v: exit %d, %s%s", args, got.code, got.out, got.err)
		}
		r := one(t, parseLines(t, got.out))
		if lsn, _ := r["lsn"].(float64); r["expected_lsn"] != whole["lsn"] || lsn == 0 || r["lsn"] == whole["lsn"] {
			t.Errorf("%v: %v, and the archive had %v", args, r, whole)
		}
	}
}
