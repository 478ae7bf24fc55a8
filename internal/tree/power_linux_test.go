package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcpx/internal/test/faultdisk"
	"mcpx/internal/workspace"
)

// powerFiles are how many files the batch of DW-40 changes: added, replaced, given another mode and removed in turn.
const powerFiles = 50

const (
	envPower  = "TREE_POWER" // what the traced process does
	envBase   = "TREE_POWER_BASE"
	envJotted = "TREE_POWER_BATCH" // where it leaves its journal, which is in a database otherwise
)

func powerName(i int) string { return fmt.Sprintf("d%d/f%02d", i%3, i) }

// powerBefore lays the project, and says what is there.
func powerBefore(t *testing.T, base string) map[string]string {
	t.Helper()
	is := map[string]string{}
	for i := range powerFiles {
		path := filepath.Join(base, "shop", powerName(i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.MkdirAll(filepath.Join(base, "state"), 0o700)); err != nil {
			t.Fatal(err)
		}
		if i%4 == 0 {
			continue
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "old %d\n", i), 0o644); err != nil {
			t.Fatal(err)
		}
		is[powerName(i)] = fmt.Sprintf("-rw-r--r-- old %d\n", i)
	}
	return is
}

// powerIntents are the changes, and powerAfter what they make of the project.
func powerIntents() (all []Intent) {
	for i := range powerFiles {
		in := Intent{Path: powerName(i), Data: fmt.Appendf(nil, "new %d\n", i), Expect: sum(fmt.Sprintf("old %d\n", i))}
		switch i % 4 {
		case 0:
			in.Kind, in.Expect = Add, ""
			if i%8 == 0 {
				in.Path = "new/" + in.Path
			}
		case 1:
			in.Kind = Replace
		case 2:
			in.Kind, in.Mode, in.Data, in.Expect = SetMode, 0o755, nil, ""
		case 3:
			in.Kind, in.Data = Delete, nil
		}
		all = append(all, in)
	}
	return all
}

func powerAfter(before map[string]string) map[string]string {
	after := map[string]string{}
	for i := range powerFiles {
		name := powerName(i)
		switch {
		case i%8 == 0:
			after["new/"+name] = fmt.Sprintf("-rw-r--r-- new %d\n", i)
		case i%4 == 0, i%4 == 1:
			after[name] = fmt.Sprintf("-rw-r--r-- new %d\n", i)
		case i%4 == 2:
			after[name] = "-rwxr-xr-x" + before[name][10:]
		}
	}
	return after
}

// dying ends the process at one of the steps that change something.
type dying struct {
	files
	left *int
}

func (d dying) step() {
	if *d.left--; *d.left == 0 {
		panic(faultdisk.Killed{})
	}
}

func (d dying) Deep() files { return dying{d.files.Deep(), d.left} }

func (d dying) Exchange(a, b string) error {
	d.step()
	return d.files.Exchange(a, b)
}

func (d dying) Move(from, to string) error {
	d.step()
	return d.files.Move(from, to)
}

func (d dying) Chmod(name string, from, to fs.FileMode) error {
	d.step()
	return d.files.Chmod(name, from, to)
}

// powered is the process whose calls are traced. It is killed at a step, which leaves what is not synced in the memory of the system,
// and recovers; or nobody kills it. A kind of "undone" meets somebody else's file at the last path.
func powered(t *testing.T, kind string, kill int) {
	base := os.Getenv(envBase)
	root, err := Open(filepath.Join(base, "shop"), Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	area, err := root.Area(filepath.Join(base, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer area.Close()
	b, err := root.Stage(t.Context(), area, "op-1", powerIntents(), Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(b)
	if err == nil {
		err = os.WriteFile(os.Getenv(envJotted), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := Applied
	if kind == "undone" {
		want = Unchanged
		theirs(t, root.Path())
	}
	faultdisk.Mark("dispatch")
	root.wrap = func(f files) files { return dying{f, &kill} }
	var o Outcome
	if faultdisk.Kill(func() { o, err = root.Apply(t.Context(), area, b, Conditions{}) }) {
		o, err = root.Recover(t.Context(), area, b, Conditions{})
	}
	if err != nil || o.State != want {
		t.Fatalf("%+v, %v", o, err)
	}
	faultdisk.Mark("record")
	if err := root.Finish(t.Context(), area, b); err != nil {
		t.Fatal(err)
	}
	faultdisk.Mark("end")
}

// theirs is somebody else's file in the place of the last one that is removed, and durable.
func theirs(t *testing.T, shop string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(shop, powerName(powerFiles-3)), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString("theirs\n")
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDW41PowerLoss: DW-41, H2. The system calls of a real process that applies fifty paths, added, replaced, removed or with another mode, are recorded, and those of
// processes that are killed in it, or while they take it back, and recover. On every disk that a failure of the power can leave of
// them the recovery brings the batch to its end, and no file of the project is ever half-written or empty. Once the end is recorded
// nothing of it can be lost. Without MCPX_TEST_FULL some of the disks are tried. What the database does is its own: a commit is
// durable or did not happen.
func TestDW41PowerLoss(t *testing.T) {
	if kind := os.Getenv(envPower); kind != "" {
		name, at, _ := strings.Cut(kind, "#")
		kill := 0
		_, _ = fmt.Sscan(at, &kill)
		powered(t, name, kill)
		return
	}
	for _, kind := range []string{"applied#0", "applied#40", "undone#70"} {
		t.Run(kind, func(t *testing.T) { powerLoss(t, kind) })
	}
}

func powerLoss(t *testing.T, kind string) {
	base := faultdisk.Dir(t)
	before := powerBefore(t, base)
	after := powerAfter(before)
	jotted := filepath.Join(t.TempDir(), "batch")
	cmd := exec.Command(os.Args[0], "-test.run=^TestDW41PowerLoss$")
	cmd.Env = append(os.Environ(), envPower+"="+kind, envBase+"="+base, envJotted+"="+jotted)
	disk := traced(t, cmd, base)
	var b Batch
	raw, err := os.ReadFile(jotted)
	if err == nil {
		err = json.Unmarshal(raw, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
	want, state := after, Applied
	if strings.HasPrefix(kind, "undone") {
		other := powerName(powerFiles - 3)
		before[other] = "-rw-r--r-- theirs\n"
		want, state = before, Unchanged
	}
	tried := 0
	disk.each(t, "dispatch", "record", func(at int, dir string) {
		tried++
		whole(t, dir, before, after)
		root, err := Open(filepath.Join(dir, "shop"), Options{ByPath: true})
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		area, err := root.Area(filepath.Join(dir, "state"))
		if err != nil {
			t.Fatal(err)
		}
		defer area.Close()
		o, err := root.Recover(t.Context(), area, b, Conditions{})
		if err != nil || o.State != state {
			t.Fatalf("before call %d: %+v, %v", at, o, err)
		}
		same(t, fmt.Sprintf("recovered before call %d", at), dir, want)
	})
	disk.each(t, "record", "end", func(at int, dir string) {
		tried++
		same(t, fmt.Sprintf("recorded, before call %d", at), dir, want)
		for _, c := range b.Changes {
			if state == Applied && (c.Kind == Replace || c.Kind == Delete) {
				if raw, err := os.ReadFile(filepath.Join(dir, "state", trashDir, b.ID, c.trash())); err != nil || sum(string(raw)) != c.Expect {
					t.Fatalf("recorded, before call %d: what was displaced of %s is %q: %v", at, c.Path, raw, err)
				}
			}
		}
	})
	t.Logf("%d disks", tried)
}

// whole fails when a file of the project is neither as it was nor as it shall be.
func whole(t *testing.T, dir string, before, after map[string]string) {
	t.Helper()
	for name, is := range shopIn(t, dir) {
		content := func(s string) string {
			if s == "" {
				return ""
			}
			return s[11:]
		}
		if content(is) != content(before[name]) && content(is) != content(after[name]) {
			t.Fatalf("%s holds %q", name, is)
		}
	}
}

func same(t *testing.T, when, dir string, want map[string]string) {
	t.Helper()
	is := shopIn(t, dir)
	for name := range want {
		if is[name] != want[name] {
			t.Fatalf("%s: %s is %q, want %q", when, name, is[name], want[name])
		}
	}
	for name := range is {
		if want[name] == "" {
			t.Fatalf("%s: %s is %q, want nothing", when, name, is[name])
		}
	}
}

// shopIn are the files of the project, by name.
func shopIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	is := map[string]string{}
	top := filepath.Join(dir, "shop")
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		is[strings.TrimPrefix(path, top+"/")] = info.Mode().String() + " " + string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// powerOutputs are what is published.
var powerOutputs = map[string]string{"out/a.txt": "-rw-r--r-- a text\n", "out/deep/er/b": "-rw-r--r-- b\n", "out/run": "-rwxr-xr-x #!/bin/sh\n"}

// publishing is the process whose calls are traced when a build is published. A kind of "killed" dies after the rename, and what it
// has begun is ended as the next daemon does it.
func publishing(t *testing.T, kind string) {
	base := os.Getenv(envBase)
	root, err := Open(filepath.Join(base, "shop"), Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	area, err := root.Area(filepath.Join(base, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer area.Close()
	draft, final := area.Draft("cand_1"), area.Build("b_1")
	if err := area.Make(draft); err != nil {
		t.Fatal(err)
	}
	sealed, err := root.Seal(t.Context(), draft, []string{"out"}, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := workspace.Manifest(sealed).Encode()
	if err := errors.Join(os.WriteFile(os.Getenv(envJotted), raw, 0o600), draft.Describe(raw), draft.State([]byte("{}\n"))); err != nil {
		t.Fatal(err)
	}
	faultdisk.Mark("validated")
	if kind == "killed" {
		err = errors.Join(flushAll(draft.Dir), os.Rename(draft.Dir, final.Dir), final.Publish(final))
	} else {
		err = draft.Publish(final)
	}
	if err != nil {
		t.Fatal(err)
	}
	faultdisk.Mark("ready")
	faultdisk.Mark("end")
}

// TestPublishPowerLoss: H2 for the publication of a build, I16. On every disk that a failure of the power can leave of it, what has the
// name of a build is whole; what is not whole is never taken for a build by what checks it; and once READY is recorded, the build
// is there.
func TestPublishPowerLoss(t *testing.T) {
	if kind := os.Getenv(envPower); kind != "" {
		publishing(t, kind)
		return
	}
	for _, kind := range []string{"alive", "killed"} {
		t.Run(kind, func(t *testing.T) { publishLoss(t, kind) })
	}
}

func publishLoss(t *testing.T, kind string) {
	base := faultdisk.Dir(t)
	for name, is := range powerOutputs {
		path := filepath.Join(base, "shop", name)
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(is, "-rwx") {
			mode = 0o755
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(is[11:]), mode), os.MkdirAll(filepath.Join(base, "state"), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	jotted := filepath.Join(t.TempDir(), "manifest")
	cmd := exec.Command(os.Args[0], "-test.run=^TestPublishPowerLoss$")
	cmd.Env = append(os.Environ(), envPower+"="+kind, envBase+"="+base, envJotted+"="+jotted)
	disk := traced(t, cmd, base)
	raw, err := os.ReadFile(jotted)
	if err != nil {
		t.Fatal(err)
	}
	m, err := workspace.ParseManifest(raw)
	if err != nil {
		t.Fatal(err)
	}
	tried, torn, drafts, builds := 0, 0, 0, 0
	look := func(at int, dir string) (draft, final bool) {
		tried++
		for name, there := range map[string]*bool{".tmp-cand_1": &draft, "b_1": &final} {
			b := Build{filepath.Join(dir, "state", generationsDir, name)}
			if *there, err = b.Exists(); err != nil || !*there {
				continue
			}
			d, _, err := b.Verify(t.Context(), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			whole := sealedWhole(b)
			if d.Same() != whole {
				t.Fatalf("before call %d: %s is whole: %v, and the check says %+v", at, name, whole, d)
			}
			if !whole {
				torn++
			}
			if name == "b_1" && !whole {
				t.Fatalf("before call %d: %s is not whole: %+v", at, name, d)
			}
		}
		return draft, final
	}
	disk.each(t, "validated", "ready", func(at int, dir string) {
		draft, final := look(at, dir)
		if draft && final {
			t.Fatalf("before call %d: the draft is there twice", at)
		}
		if draft {
			drafts++
		}
		if final {
			builds++
		}
	})
	disk.each(t, "ready", "end", func(at int, dir string) {
		b := Build{filepath.Join(dir, "state", generationsDir, "b_1")}
		if draft, final := look(at, dir); draft || !final {
			t.Fatalf("READY, before call %d: draft %v, build %v", at, draft, final)
		}
		for path, want := range map[string]string{b.Manifest(): string(raw), b.Statement(): "{}\n"} {
			if is, err := os.ReadFile(path); err != nil || string(is) != want {
				t.Fatalf("READY, before call %d: %s is %q: %v", at, path, is, err)
			}
		}
	})
	if torn == 0 || drafts == 0 || builds == 0 {
		t.Errorf("of %d disks %d had a draft, %d a build, and %d were torn", tried, drafts, builds, torn)
	}
	t.Logf("%d disks, %d of them torn", tried, torn)
}

// sealedWhole says whether a build has the bytes of powerOutputs, and nothing else.
func sealedWhole(b Build) bool {
	found := 0
	err := filepath.WalkDir(b.Tree(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			if info.Mode().Perm() != sealedFolder {
				return fs.ErrInvalid
			}
			return nil
		}
		found++
		raw, err := os.ReadFile(path)
		want := powerOutputs[strings.TrimPrefix(path, b.Tree()+"/")]
		if err != nil || want == "" || string(raw) != want[11:] || info.Mode().Perm()&0o222 != 0 || (info.Mode().Perm() == sealedExec) != strings.HasPrefix(want, "-rwx") {
			return errors.Join(err, fs.ErrInvalid)
		}
		return nil
	})
	return err == nil && found == len(powerOutputs)
}

// powerDisk is what the trace of a process says about its disk.
type powerDisk struct{ *faultdisk.Power }

// traced runs a process to its end.
func traced(t *testing.T, cmd *exec.Cmd, base string) powerDisk {
	t.Helper()
	p, err := faultdisk.NewPower(base)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	calls, err := faultdisk.Trace(cmd, base)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("skip: power loss: this system lets no process be traced: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if err := p.Play(calls); err != nil {
		t.Fatal(err)
	}
	return powerDisk{p}
}

// each lays disks as a failure of the power between two marks may leave them.
func (p powerDisk) each(t *testing.T, from, to string, do func(at int, dir string)) {
	t.Helper()
	first, ok := p.Marks[from]
	last, there := p.Marks[to]
	if !ok || !there || first >= last {
		t.Fatalf("the trace has the marks %v", p.Marks)
	}
	every, random := max(1, (last-first)/6), uint64(2)
	if os.Getenv("MCPX_TEST_FULL") != "" {
		every, random = 1, 6
	}
	for n := first; n <= last; n++ {
		if n != last && (n-first)%every != 0 {
			continue
		}
		choices := []func(int) int{func(int) int { return 0 }, func(of int) int { return of - 1 }}
		for seed := range random {
			choices = append(choices, rand.New(rand.NewPCG(uint64(n), seed)).IntN)
		}
		for _, choose := range choices {
			left := p.Left(n, choose)
			dir := filepath.Join(faultdisk.Dir(t), "disk")
			if err := left.Lay(dir); err != nil {
				t.Fatal(err)
			}
			do(n, dir)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if left.Open == 0 {
				break // there is one only
			}
		}
	}
}
