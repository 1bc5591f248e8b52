//go:build powercut

package jetstream_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	powercut       = flag.String("powercut", os.TempDir(), "folder for the images of TestPowerCut: not one in memory")
	powercutSeldom = flag.Bool("powercut.seldom", false, "let the servers of TestPowerCut sync seldom: the control, which must lose")
	powercutRounds = flag.Int("powercut.rounds", 3, "rounds of TestPowerCut")
)

// TestPowerCut cuts the power of all servers: they write to a file system on a loop device, are killed, and the
// image is copied without a sync, so that what only the cache of the system has is not in the copy, on which they
// start again. What was acknowledged is there. With -powercut.seldom, as servers are by default, it is not. It
// mounts file systems, which only root may:
//
//	go test -tags powercut . -run TestPowerCut -powercut /var/tmp
func TestPowerCut(t *testing.T) {
	for round := range *powercutRounds {
		cutPower(t, filepath.Join(*powercut, "memdb-powercut-"+strconv.Itoa(round)))
	}
}

func sh(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

func cutPower(t *testing.T, dir string) {
	image, copied, mount := filepath.Join(dir, "a.img"), filepath.Join(dir, "b.img"), filepath.Join(dir, "m")
	if err := os.MkdirAll(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = exec.Command("umount", mount).Run() // where a round has failed
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	sh(t, "truncate", "-s", "1G", image)
	sh(t, "mkfs.ext4", "-q", image)
	sh(t, "mount", "-o", "loop", image, mount)
	s := newServers(t, mount, *powercutSeldom)
	first := s.connect()
	o := &told{}
	run := func() *process {
		return start(t, "a", strings.Join([]string{"node", "a", filepath.Join(dir, "a"), strings.Join(s.addresses, ","), "32", strconv.FormatBool(s.seldom)}, "|"), o.hear)
	}
	node := run()
	o.await(t, 100)
	sh(t, "sync", "-f", mount) // the streams were there long before
	o.await(t, 5000)
	for _, p := range s.all {
		p.kill()
	}
	sh(t, "cp", "--sparse=always", image, copied)
	node.kill()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	sh(t, "umount", mount)
	sh(t, "mount", "-o", "loop", copied, mount)
	for i := range s.all {
		s.start(i)
	}
	began := time.Now()
	b := s.connect()
	judge(t, b, filepath.Join(dir, "judge"), o)
	t.Logf("judged %.1f s after the power came back", time.Since(began).Seconds())
	for _, p := range s.all {
		p.kill()
	}
	sh(t, "umount", mount)
}
