package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func socketAt(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// TestInstanceOf has every combination of managers that can be there.
func TestInstanceOf(t *testing.T) {
	dir := t.TempDir()
	user, machine, none := filepath.Join(dir, "user"), filepath.Join(dir, "machine"), filepath.Join(dir, "none")
	socketAt(t, filepath.Join(user, "systemd", "private"))
	socketAt(t, machine)
	file := filepath.Join(dir, "file")
	if err := os.MkdirAll(filepath.Join(file, "systemd", "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		runtime string
		uid     int
		system  string
		want    string
	}{
		{user, 1000, none, "[--user] <nil>"},
		{user, 0, machine, "[--user] <nil>"},
		{"", 0, machine, "[] <nil>"},
		{none, 0, machine, "[] <nil>"},
		{none, 1000, machine, "[] stat " + none + "/systemd/private: no such file or directory"},
		{"", 1000, machine, "[] XDG_RUNTIME_DIR is not set, so the systemd of the user cannot be found"},
		{"", 0, none, "[] XDG_RUNTIME_DIR is not set, so the systemd of the user cannot be found"},
		{file, 0, none, "[] " + file + "/systemd/private is no socket"},
	} {
		got, err := instanceOf(c.runtime, c.uid, c.system)
		if text := fmt.Sprint(got, " ", err); text != c.want {
			t.Errorf("instanceOf(%q, %d, %q) = %s, want %s", c.runtime, c.uid, c.system, text, c.want)
		}
	}
}

// TestScopeCommand runs a systemd-run that records how it was called and becomes the command, as the real one does.
func TestScopeCommand(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "systemd-run")
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >" + dir + "/argv\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n"
	if err := os.WriteFile(fake, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	socketAt(t, filepath.Join(dir, "systemd", "private"))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if via, err := ScopeCommand([]string{"XDG_RUNTIME_DIR=" + dir}); via != nil || err != nil {
		t.Errorf("outside of a unit: %q, %v; want nothing", via, err)
	}
	environ := []string{"INVOCATION_ID=7a", "XDG_RUNTIME_DIR=" + dir}
	via, err := ScopeCommand(environ)
	want := []string{fake, "--user", "--scope", "--collect", "--quiet", "--"}
	if diff := cmp.Diff(want, via); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	// Stdin and the ready pipe reach the command behind it.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ready, err := StartDetached(ctx, Detached{Exe: "/bin/sh", Args: []string{"-c", "cat >&3"}, Stdin: []byte("secret"), Via: via, Env: os.Environ()})
	if err != nil || string(ready) != "secret" {
		t.Errorf("%q, %v; want what was on stdin", ready, err)
	}
	argv, err := os.ReadFile(filepath.Join(dir, "argv"))
	if diff := cmp.Diff("--user\n--scope\n--collect\n--quiet\n--\n/bin/sh\n-c\ncat >&3\n", string(argv)); diff != "" || err != nil {
		t.Errorf("argv, %v (-want +got):\n%s", err, diff)
	}
	t.Setenv("PATH", filepath.Join(dir, "systemd"))
	if via, err := ScopeCommand(environ); via != nil || err == nil {
		t.Errorf("without systemd-run: %q, %v; want an error", via, err)
	}
}
