//go:build unix

package shim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/atomicfile"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
	"mcpx/internal/shim"
)

// survivors asks a new daemon's backend for what is left, and wants no error.
func (r *rig) survivors(t *testing.T) ([]gateway.Survivor, []gateway.Lost) {
	t.Helper()
	alive, lost, err := r.Survivors(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return alive, lost
}

// program is a copy of this binary: its bytes can be exchanged while it runs.
func program(t *testing.T, dir string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "program"), data, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "program")
}

// TestSurvivors leaves a child to its supervisor and changes the file of its program in the meantime.
func TestSurvivors(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	bin, link := program(t, r.cwd()), filepath.Join(r.cwd(), "link")
	if err := os.Symlink(bin, link); err != nil {
		t.Fatal(err)
	}
	o := r.request(false)
	o.Server.Stdio.Command, o.Process, o.Lane = link, "digest", "lane key"
	s := newSink()
	l, err := r.Open(context.Background(), o, s)
	if err != nil {
		t.Fatal(err)
	}
	do(t, l, s, 1, "where", "", nil)
	info := l.Info()
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.closed(t)
	defer func() {
		if _, err := shim.Sweep(context.Background(), r.state); err != nil {
			t.Error(err)
		}
		r.nothingLeft(t)
	}()
	want := gateway.Survivor{
		Server: "srv_x", Lane: "lane key", Process: "digest", Version: "test", Supervisor: info.Supervisor, Child: info.Pid,
	}
	change := func(err error, state gateway.FileState) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		want.Executable = state
		alive, lost := r.survivors(t)
		if len(alive) != 1 || len(lost) != 0 {
			t.Fatalf("survivors %+v, lost %+v; want one that lives", alive, lost)
		}
		got := alive[0]
		if !strings.HasPrefix(got.ID, "shim_") || time.Since(got.Started).Abs() > time.Minute {
			t.Errorf("id %q, started %v", got.ID, got.Started)
		}
		got.ID, got.Started = "", time.Time{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", state, diff)
		}
	}
	change(nil, gateway.FileSame)
	change(os.Chtimes(bin, time.Unix(1, 0), time.Unix(1, 0)), gateway.FileSame)
	change(os.Rename(bin, link), gateway.FileSame) // the same bytes, no link any more
	other := filepath.Join(r.cwd(), "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	change(os.Rename(other, link), gateway.FileChanged)
	change(os.Remove(link), gateway.FileMissing)
}

// TestExitIsConsumedOnce lets children end while nobody is attached.
func TestExitIsConsumedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		verb, arg string
		want      string
	}{
		{"exit", "3", "exited: code 3"},
		{"exit", "0", "exited: code 0"},
		{"signal", "9", "exited: signal 9 (SIGKILL)"},
		{"signal", "11", "exited: signal 11 (SIGSEGV)"},
	} {
		t.Run(c.verb+c.arg, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			l, s := r.open(t, false)
			do(t, l, s, 1, "where", "", nil)
			supervisor, err := process.Identify(l.Info().Supervisor)
			if err != nil {
				t.Fatal(err)
			}
			send(t, l, 2, `{"id":2,"do":"complain","arg":"last words"}`)
			send(t, l, 3, `{"id":3,"do":"delay","arg":"200"}`)
			send(t, l, 4, fmt.Sprintf(`{"id":4,"do":%q,"arg":%q}`, c.verb, c.arg))
			s.until(t, "all was handed over", func() bool { return len(s.written) == 4 })
			if err := l.Detach(context.Background()); err != nil {
				t.Fatal(err)
			}
			for limit := time.Now().Add(patience); supervisor.Alive(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatal("the supervisor outlived its child")
				}
			}
			alive, lost := r.survivors(t)
			if len(alive) != 0 || len(lost) != 1 {
				t.Fatalf("survivors %+v, lost %+v; want one that was lost", alive, lost)
			}
			if got := lost[0]; got.Exit.String() != c.want || got.Lane != "lane" || got.Server != "srv_x" ||
				!bytes.Contains(got.Exit.Tail, []byte("last words")) {
				t.Errorf("%+v, want %s with its last words", got, c.want)
			}
			if alive, lost := r.survivors(t); len(alive)+len(lost) != 0 {
				t.Errorf("a second look: survivors %+v, lost %+v; want nothing", alive, lost)
			}
			r.nothingLeft(t)
		})
	}
}

// grave is one entry of state/bundles that no supervisor of this test made.
type grave struct {
	name string
	make func(t *testing.T, dir string)
	left string // where it is afterwards: "gone", "stays", "aside"
	lost string // what the gateway is told; "" for nothing
	root bool   // only root can make it
}

func putFile(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func putRecord(t *testing.T, dir string, more map[string]any) {
	t.Helper()
	fields := map[string]any{"format": 1, "id": filepath.Base(dir), "kind": "stdio", "server": "srv_" + filepath.Base(dir), "lane": "l"}
	maps.Copy(fields, more)
	b, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, dir, "record", string(b))
}

func putExit(t *testing.T, dir string, at time.Time) {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"reason": "exited", "code": 7, "at": at, "complete": true,
		"open":     []any{map[string]any{"n": 1, "id": []byte("1"), "method": "tools/call", "age_ms": 1500}},
		"answered": []any{map[string]any{"n": 2, "id": []byte("2"), "tag": []byte("t")}},
		"finished": []any{map[string]any{"n": 3, "id": []byte("3")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, dir, "exit", string(b))
}

// TestGraveyard has bundles of every kind that crashes, other versions, other users and accidents leave (S9, S18).
func TestGraveyard(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, func(c *shim.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	stranger := sleeper(t)
	reused := stranger
	reused.Start-- // the recorded process is another one with the same pid
	orphan, elder, otherBoot := sleeper(t), sleeper(t), sleeper(t)
	otherBoot.Boot = "0a0b0c0d-0000-4000-8000-000000000000"
	gone := process.Identity{Boot: stranger.Boot, Pid: stranger.Pid, Start: 1}
	elsewhere := t.TempDir()
	putRecord(t, elsewhere, nil)
	hold := func(t *testing.T, dir string) {
		t.Helper()
		lock, err := atomicfile.TryLock(filepath.Join(dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lock.Release() })
	}
	const unknown = "supervisor_lost: its supervisor ended without a word; exit status unknown"
	const direct = "supervisor_lost: it runs without a supervisor, so it ended with the daemon; exit status unknown"
	graves := []grave{
		{name: "reused", left: "gone", lost: unknown, make: func(t *testing.T, d string) { putRecord(t, d, map[string]any{"child": reused}) }},
		{name: "reboot", left: "gone", lost: unknown, make: func(t *testing.T, d string) { putRecord(t, d, map[string]any{"child": otherBoot}) }},
		{name: "orphan", left: "gone", lost: unknown, make: func(t *testing.T, d string) { putRecord(t, d, map[string]any{"child": orphan, "name": "files"}) }},
		{name: "direct", left: "gone", lost: direct, make: func(t *testing.T, d string) {
			putRecord(t, d, map[string]any{"kind": "direct", "child": elder, "supervisor": gone})
		}},
		{name: "direct-owned", left: "stays", make: func(t *testing.T, d string) {
			putRecord(t, d, map[string]any{"kind": "direct", "child": stranger, "supervisor": stranger})
		}},
		{name: "never-spawned", left: "gone", make: func(t *testing.T, d string) { putRecord(t, d, nil) }},
		{name: "unborn", left: "gone", make: func(t *testing.T, d string) { putFile(t, d, "spec", "{}") }},
		{name: "starting", left: "stays", make: hold},
		{name: "exit", left: "gone", lost: "exited: code 7", make: func(t *testing.T, d string) {
			putRecord(t, d, map[string]any{"child": gone})
			putExit(t, d, time.Now().Add(-23*time.Hour))
		}},
		{name: "exit-old", left: "gone", make: func(t *testing.T, d string) {
			putRecord(t, d, map[string]any{"child": gone})
			putExit(t, d, time.Now().Add(-25*time.Hour))
		}},
		{name: "exit-broken", left: "gone", lost: unknown, make: func(t *testing.T, d string) {
			putRecord(t, d, map[string]any{"child": gone})
			putFile(t, d, "exit", `{"reason":"exi`)
		}},
		{name: "newer", left: "aside", make: func(t *testing.T, d string) { putRecord(t, d, map[string]any{"format": 99, "child": stranger}) }},
		{name: "newer-alive", left: "stays", make: func(t *testing.T, d string) {
			putRecord(t, d, map[string]any{"format": 99, "child": stranger})
			hold(t, d)
		}},
		{name: "garbage", left: "aside", make: func(t *testing.T, d string) { putFile(t, d, "record", "\x00\xff{") }},
		{name: "empty", left: "aside", make: func(t *testing.T, d string) { putFile(t, d, "record", "") }},
		{name: "misnamed", left: "aside", make: func(t *testing.T, d string) { putRecord(t, d, map[string]any{"id": "shim_other"}) }},
		{name: "open-to-all", left: "aside", make: func(t *testing.T, d string) {
			putRecord(t, d, map[string]any{"child": stranger})
			if err := os.Chmod(d, 0o777); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "open-to-all-alive", left: "stays", make: func(t *testing.T, d string) {
			putRecord(t, d, map[string]any{"child": stranger})
			hold(t, d)
			if err := os.Chmod(d, 0o777); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "pipe", left: "aside", make: func(t *testing.T, d string) {
			if err := syscall.Mkfifo(filepath.Join(d, "record"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "record-linked", left: "aside", make: func(t *testing.T, d string) {
			if err := os.Symlink(filepath.Join(elsewhere, "record"), filepath.Join(d, "record")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "lock-linked", left: "aside", make: func(t *testing.T, d string) {
			putRecord(t, d, nil)
			if err := os.Symlink(filepath.Join(elsewhere, "record"), filepath.Join(d, "lock")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "link", left: "aside", make: func(t *testing.T, d string) {
			if err := os.Remove(d); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(elsewhere, d); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "file", left: "aside", make: func(t *testing.T, d string) {
			if err := os.Remove(d); err != nil {
				t.Fatal(err)
			}
			putFile(t, filepath.Dir(d), filepath.Base(d), "notes")
		}},
		{name: "other-user", left: "aside", root: true, make: func(t *testing.T, d string) {
			putRecord(t, d, map[string]any{"child": stranger})
			if err := os.Chown(d, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}},
	}
	bundles := filepath.Join(r.state, "bundles")
	wantLost := map[string]string{}
	var made []grave
	for _, g := range graves {
		if g.root && os.Geteuid() != 0 {
			continue
		}
		dir := filepath.Join(bundles, "shim_"+g.name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		g.make(t, dir)
		made = append(made, g)
		if g.lost != "" {
			wantLost["shim_"+g.name] = g.lost
		}
	}
	if err := os.Mkdir(filepath.Join(r.state, "quarantine"), 0o700); err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(r.state, "quarantine"), "shim_garbage", "of an earlier start")
	stale := r.staleSockets(t)

	alive, lost := r.survivors(t)
	if len(alive) != 0 {
		t.Errorf("survivors %+v, want none", alive)
	}
	gotLost := map[string]string{}
	for _, l := range lost {
		gotLost[l.ID] = l.Exit.String()
		if l.ID == "shim_exit" {
			want := gateway.Lost{
				Survivor: l.Survivor, Exit: gateway.Exit{Reason: gateway.Exited, Code: 7}, Complete: true,
				Open: []gateway.KeptCall{{ID: []byte("1"), Method: "tools/call", State: gateway.CallRunning, Age: 1500 * time.Millisecond}},
				Answered: []gateway.KeptCall{
					{ID: []byte("2"), Tag: []byte("t"), State: gateway.CallLost}, {ID: []byte("3"), State: gateway.CallLost},
				},
			}
			if diff := cmp.Diff(want, l); diff != "" {
				t.Errorf("lost calls (-want +got):\n%s", diff)
			}
		}
	}
	if diff := cmp.Diff(wantLost, gotLost); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	for _, g := range made {
		where := "gone"
		if _, err := os.Lstat(filepath.Join(bundles, "shim_"+g.name)); err == nil {
			where = "stays"
		} else if _, err := os.Lstat(filepath.Join(r.state, "quarantine", "shim_"+g.name)); err == nil {
			where = "aside"
		}
		if where != g.left {
			t.Errorf("%s: %s, want %s", g.name, where, g.left)
		}
		if g.left == "aside" && !strings.Contains(log.String(), "shim_"+g.name) {
			t.Errorf("%s was put aside without a word", g.name)
		}
	}
	if b, err := os.ReadFile(filepath.Join(r.state, "quarantine", "shim_garbage")); err != nil || string(b) != "of an earlier start" {
		t.Errorf("what lay in quarantine already: %q, %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(r.state, "quarantine", "shim_garbage.2")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"shim_newer-alive", "shim_open-to-all-alive"} {
		if !strings.Contains(log.String(), name) {
			t.Errorf("no word about %s, whose supervisor lives", name)
		}
	}
	if !stranger.Alive() || !sameProcess(otherBoot) {
		t.Error("a process that was not proved to be ours was killed")
	}
	for _, line := range []string{"shim=shim_orphan server=files", "shim=shim_reused server=srv_shim_reused"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log does not say %q", line)
		}
	}
	if orphan.Alive() || elder.Alive() {
		t.Error("an orphan lives")
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) != 1 {
		t.Errorf("a link was followed: %v, %v", entries, err)
	}
	stale(t)
	if alive, lost := r.survivors(t); len(alive)+len(lost) != 0 {
		t.Errorf("a second look: survivors %+v, lost %+v; want nothing", alive, lost)
	}
}

// sameProcess says whether the process lives that had this identity in another boot.
func sameProcess(id process.Identity) bool {
	now, err := process.Identify(id.Pid)
	return err == nil && now.Start == id.Start
}

// staleSockets puts things into run/shim. The result checks what became of them.
func (r *rig) staleSockets(t *testing.T) (check func(t *testing.T)) {
	t.Helper()
	dir := filepath.Join(r.run, "shim")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "0123456789abcdef.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", filepath.Join(dir, "0f0f0f0f0f0f0f0f.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	putFile(t, dir, "fedcba9876543210.sock", "no socket")
	putFile(t, dir, "notes", "")
	return func(t *testing.T) {
		t.Helper()
		var left []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if want := []string{"0f0f0f0f0f0f0f0f.sock", "fedcba9876543210.sock", "notes"}; !slices.Equal(left, want) {
			t.Errorf("run/shim holds %v, want %v", left, want)
		}
	}
}

// TestForeignBundles has something else in the place of the directory of bundles (S18).
func TestForeignBundles(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, at, elsewhere string) error{
		"link":        func(_ *testing.T, at, elsewhere string) error { return os.Symlink(elsewhere, at) },
		"open to all": func(_ *testing.T, at, _ string) error { return os.Chmod(mkdir(at), 0o777) },
		"file":        func(_ *testing.T, at, _ string) error { return os.WriteFile(at, nil, 0o600) },
		"other user": func(t *testing.T, at, _ string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			return os.Chown(mkdir(at), 65534, 65534)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			elsewhere := t.TempDir()
			grave := mkdir(filepath.Join(elsewhere, "shim_unborn"))
			at := filepath.Join(mkdir(r.state), "bundles")
			if err := put(t, at, elsewhere); err != nil {
				t.Fatal(err)
			}
			if _, _, err := r.Survivors(context.Background()); err == nil || !strings.Contains(err.Error(), at) {
				t.Errorf("%v, want an error that names %s", err, at)
			}
			if _, err := os.Stat(grave); err != nil {
				t.Errorf("a link was followed: %v", err)
			}
			if name == "open to all" {
				return // a start closes it again
			}
			if _, err := r.Open(context.Background(), r.request(false), newSink()); err == nil || !strings.Contains(err.Error(), at) {
				t.Errorf("start: %v, want an error that names %s", err, at)
			}
		})
	}
}

func mkdir(dir string) string {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	return dir
}

// TestSurvivorsInTime gives up with the context and leaves the rest for the next start.
func TestSurvivorsInTime(t *testing.T) {
	r := newRig(t, nil)
	dir := mkdir(filepath.Join(r.state, "bundles", "shim_unborn"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := r.Survivors(ctx); err == nil || !strings.Contains(err.Error(), "1 of 1") {
		t.Errorf("%v, want a word about the one that was not looked at", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	r.survivors(t)
	if _, err := os.Stat(dir); err == nil {
		t.Error("the next look did not clear it")
	}
}
