//go:build linux || darwin

package tree

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcpx/internal/atomicfile"
	"mcpx/internal/test/faultdisk"
)

// shed is a yard with an area.
type shed struct {
	*yard
	area  *Area
	state string
}

func newShed(t *testing.T) *shed {
	t.Helper()
	base, err := filepath.EvalSymlinks(faultdisk.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	return shedIn(t, base)
}

func shedIn(t *testing.T, base string) *shed {
	t.Helper()
	state := filepath.Join(base, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	s := &shed{yard: yardIn(t, base, Options{Areas: []string{state}}), state: state}
	area, err := s.root.Area(state)
	if err != nil {
		t.Fatal(err)
	}
	s.area = area
	t.Cleanup(func() {
		if err := area.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func sum(content string) string { return atomicfile.Sum([]byte(content)) }

// stage stages a batch and takes it through JSON, as its caller does.
func (s *shed) stage(id string, intents ...Intent) Batch {
	s.t.Helper()
	b, err := s.root.Stage(s.t.Context(), s.area, id, intents, Conditions{})
	if err != nil {
		s.t.Fatalf("stage: %v", err)
	}
	return s.kept(b)
}

func (s *shed) kept(b Batch) (again Batch) {
	s.t.Helper()
	raw, err := json.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &again); err != nil {
		s.t.Fatal(err)
	}
	return again
}

func (s *shed) apply(b Batch, want OutcomeState) Outcome {
	s.t.Helper()
	o, err := s.root.Apply(s.t.Context(), s.area, b, Conditions{})
	if err != nil || o.State != want {
		s.t.Fatalf("apply: %+v, %v; want %s", o, err, want)
	}
	return o
}

// finish ends a batch, and fails when something of it stays in the staging area.
func (s *shed) finish(b Batch) {
	s.t.Helper()
	if err := s.root.Finish(s.t.Context(), s.area, b); err != nil {
		s.t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(s.area.Path(), txnDir)); err != nil || len(left) > 0 {
		s.t.Errorf("left in the staging area: %v, %v", left, err)
	}
}

// trashed are the contents in the trash of a batch, by name.
func (s *shed) trashed(id string) map[string]string {
	s.t.Helper()
	all := map[string]string{}
	top := filepath.Join(s.area.Path(), trashDir, id)
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, top+"/")
		if e.Type()&fs.ModeSymlink != 0 {
			all[name], err = os.Readlink(path)
			return err
		}
		if e.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			all[name] = string(raw)
			return err
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return all
}

func TestReplace(t *testing.T) {
	s := newShed(t)
	if err := os.Chmod(s.path("src/main.go"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := s.stage("op1", Intent{Kind: Replace, Path: "src/main.go", Expect: sum("package main\n"), Data: []byte("package new\n")})
	if got := s.content("src/main.go"); got != "package main\n" {
		t.Errorf("staged, and the file is %q", got)
	}
	if o := s.apply(b, Applied); o.Weak || len(o.Warnings) > 0 {
		t.Errorf("%+v", o)
	}
	s.finish(b)
	info, err := os.Stat(s.path("src/main.go"))
	if err != nil || s.content("src/main.go") != "package new\n" || info.Mode().Perm() != 0o755 {
		t.Errorf("%q, %v, %v", s.content("src/main.go"), info.Mode(), err)
	}
	if got := s.trashed("op1"); len(got) != 1 || got["t_0"] != "package main\n" {
		t.Errorf("in the trash: %q", got)
	}
	if late, err := s.root.Purge(t.Context(), s.area, b); err != nil || len(late) > 0 || len(s.trashed("op1")) > 0 {
		t.Errorf("purged: %v, %v, left %q", late, err, s.trashed("op1"))
	}
}

// TestStale: bytes of somebody else stay, and nothing of the batch does.
func TestStale(t *testing.T) {
	s := newShed(t)
	intents := []Intent{
		{Kind: Replace, Path: "README.md", Expect: sum("read me\n"), Data: []byte("new readme\n")},
		{Kind: Replace, Path: "src/main.go", Expect: sum("package main\n"), Data: []byte("new main\n")},
	}
	b := s.stage("op1", intents...)
	s.put("src/main.go", "package theirs\n")
	o := s.apply(b, Unchanged)
	if CodeOf(o.Cause) != Moved || problemOf(t, o.Cause).Details["edit"] != 1 {
		t.Errorf("%+v: %v", o, o.Cause)
	}
	s.finish(b)
	if s.content("README.md") != "read me\n" || s.content("src/main.go") != "package theirs\n" || len(s.trashed("op1")) > 0 {
		t.Errorf("%q, %q, trash %q", s.content("README.md"), s.content("src/main.go"), s.trashed("op1"))
	}
	if _, err := s.root.Stage(t.Context(), s.area, "op2", append(intents, Intent{Kind: Replace, Path: "./src/../README.md", Expect: "x"}), Conditions{}); CodeOf(err) != DuplicatePath {
		t.Errorf("twice: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(s.area.Path(), txnDir)); err != nil || len(left) > 0 {
		t.Errorf("a refusal leaves %v, %v", left, err)
	}
}

// playing lays a script over the disk of a run.
type playing struct {
	files
	*faultdisk.Disk
}

func (p playing) Read(n string) (atomicfile.Content, error) { return p.Disk.Read(n) }
func (p playing) Settle(ctx context.Context, n string) (atomicfile.Content, error) {
	return p.Disk.Settle(ctx, n)
}

func (p playing) Stage(n string, b []byte, l string, m fs.FileMode) error {
	return p.Disk.Stage(n, b, l, m)
}
func (p playing) Exchange(a, b string) error             { return p.Disk.Exchange(a, b) }
func (p playing) Move(a, b string) error                 { return p.Disk.Move(a, b) }
func (p playing) Link(a, b string) error                 { return p.Disk.Link(a, b) }
func (p playing) Replace(a, b string) error              { return p.Disk.Replace(a, b) }
func (p playing) Remove(n string) error                  { return p.Disk.Remove(n) }
func (p playing) Mkdir(n string, perm fs.FileMode) error { return p.Disk.Mkdir(n, perm) }
func (p playing) SyncDir(n string) error                 { return p.Disk.SyncDir(n) }
func (p playing) Deep() files                            { return playing{p.files.Deep(), p.Disk} }

// TestRT55DiskFails: when a step of the second file of three fails, all three are as before, and that is certain.
func TestRT55DiskFails(t *testing.T) {
	for _, op := range []string{"exchange", "move", "settle", "read"} {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			t.Run(op+"/"+errno.Error(), func(t *testing.T) {
				s := newShed(t)
				before := map[string]string{}
				var intents []Intent
				for _, name := range []string{"a", "b", "c"} {
					before[name] = "old " + name
					s.put(name, before[name])
					intents = append(intents, Intent{Kind: Replace, Path: name, Expect: sum(before[name]), Data: []byte("new " + name)})
				}
				b := s.stage("op1", intents...)
				failed := false
				s.root.wrap = func(f files) files {
					return playing{f, &faultdisk.Disk{Under: f, Before: func(st faultdisk.Step) error {
						if st.Op == op && !failed && (strings.HasSuffix(st.Path, "/b") || strings.HasSuffix(st.To, "/b") || strings.HasSuffix(st.Path, "/s_1")) {
							failed = true
							return errno
						}
						return nil
					}}}
				}
				o := s.apply(b, Unchanged)
				if want := map[syscall.Errno]Code{syscall.EIO: Internal, syscall.ENOSPC: NoSpace}[errno]; CodeOf(o.Cause) != want || !failed {
					t.Errorf("%v, failed %v", o.Cause, failed)
				}
				s.finish(b)
				for name, want := range before {
					if got := s.content(name); got != want {
						t.Errorf("%s is %q", name, got)
					}
				}
				if got := s.trashed("op1"); len(got) > 0 {
					t.Errorf("in the trash: %q", got)
				}
			})
		}
	}
}

// TestTurn: a file becomes a directory with what is in it, and a directory a file, each in one step; it is undone as a whole,
// and not while somebody has put something in.
func TestTurn(t *testing.T) {
	s := newShed(t)
	below := []Below{
		{Path: "in", Kind: Directory},
		{Path: "in/run", Kind: File, Exec: true, From: func(w io.Writer) error { _, err := io.WriteString(w, "run\n"); return err }},
		{Path: "link", Kind: Link, Link: "in/run"},
	}
	place, err := s.root.Resolve("src", Look)
	if err != nil {
		t.Fatal(err)
	}
	was, err := place.Digest(t.Context())
	if err := errors.Join(err, place.Close()); err != nil {
		t.Fatal(err)
	}
	b := s.stage("op1",
		Intent{Kind: Replace, Path: "README.md", Expect: sum(s.content("README.md")), Dir: &below},
		Intent{Kind: Replace, Path: "src", Expect: was, Data: []byte("a file\n")})
	readme := s.content("README.md")
	s.apply(b, Applied)
	if s.content("README.md/in/run") != "run\n" || s.content("README.md/link") != "run\n" || s.content("src") != "a file\n" {
		t.Error("it is not as it was proposed")
	}
	if o, err := s.root.Recover(t.Context(), s.area, b, Conditions{}); err != nil || o.State != Applied || len(o.Warnings) > 0 {
		t.Errorf("recovered: %+v, %v", o, err)
	}
	s.finish(b)
	if err := os.WriteFile(s.path("README.md/theirs"), []byte("theirs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := s.reverse(b); len(v.Moved) != 1 || v.Moved[0] != "README.md" || len(v.Intents) != 1 {
		t.Errorf("with something of theirs in it: %+v", v)
	}
	if err := os.Remove(s.path("README.md/theirs")); err != nil {
		t.Fatal(err)
	}
	back := s.stage("op2", s.reverse(b).Intents...)
	s.apply(back, Applied)
	s.finish(back)
	if s.content("README.md") != readme || s.content("src/main.go") != "package main\n" {
		t.Error("it is not as it was before")
	}
	if again, err := s.root.Resolve("src", Look); err != nil {
		t.Error(err)
	} else if now, err := again.Digest(t.Context()); err != nil || now != was || again.Close() != nil {
		t.Errorf("the directory is another one: %s, %v", now, err)
	}
}
