//go:build unix

package process_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcpx/internal/process"
)

// TestExecutable changes the file of a program in every way that people and package managers do.
func TestExecutable(t *testing.T) {
	write := func(path, content string) error { return os.WriteFile(path, []byte(content), 0o700) }
	replace := func(path, content string) error {
		if err := write(path+".new", content); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	}
	// Every case begins with bin, a program, and link, a link to it; the path under test is link.
	for name, c := range map[string]struct {
		do   func(dir, bin, link string) error
		want string
	}{
		"nothing happened": {func(_, _, _ string) error { return nil }, "same"},
		"touched": {func(_, bin, _ string) error {
			return os.Chtimes(bin, time.Unix(1, 0), time.Unix(1, 0))
		}, "same"},
		"mode changed":           {func(_, bin, _ string) error { return os.Chmod(bin, 0o755) }, "same"},
		"replaced by equal":      {func(_, bin, _ string) error { return replace(bin, "one") }, "same"},
		"replaced by other":      {func(_, bin, _ string) error { return replace(bin, "two") }, "changed"},
		"replaced by longer":     {func(_, bin, _ string) error { return replace(bin, "longer") }, "changed"},
		"overwritten in place":   {func(_, bin, _ string) error { return write(bin, "two") }, "changed"},
		"overwritten, old mtime": {overwriteQuietly, "changed"},
		"link to equal": {func(dir, _, link string) error {
			other := filepath.Join(dir, "equal")
			return firstError(write(other, "one"), os.Remove(link), os.Symlink(other, link))
		}, "same"},
		"link to other": {func(dir, _, link string) error {
			other := filepath.Join(dir, "other")
			return firstError(write(other, "two"), os.Remove(link), os.Symlink(other, link))
		}, "changed"},
		"link replaced by the file itself": {func(_, bin, link string) error { return os.Rename(bin, link) }, "same"},
		"program removed":                  {func(_, bin, _ string) error { return os.Remove(bin) }, "missing"},
		"link removed":                     {func(_, _, link string) error { return os.Remove(link) }, "missing"},
		"a directory in its place": {func(_, bin, _ string) error {
			return firstError(os.Remove(bin), os.Mkdir(bin, 0o700))
		}, "changed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bin, link := filepath.Join(dir, "bin"), filepath.Join(dir, "link")
			if err := firstError(write(bin, "one"), os.Symlink(bin, link)); err != nil {
				t.Fatal(err)
			}
			e, err := process.Executable{Path: link}.Recall()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.do(dir, bin, link); err != nil {
				t.Fatal(err)
			}
			if got := look(e); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// look compares a program with the file that has its path now.
func look(e process.Executable) string {
	now, err := process.Executable{Path: e.Path}.Recall()
	switch {
	case err != nil:
		return "missing"
	case e.SameAs(now) != now.SameAs(e):
		return "one way only"
	case e.SameAs(now):
		return "same"
	}
	return "changed"
}

// overwriteQuietly writes other bytes of the same size and sets the old time again, as some copying tools do.
func overwriteQuietly(_, bin, _ string) error {
	info, err := os.Stat(bin)
	if err != nil {
		return err
	}
	time.Sleep(20 * time.Millisecond) // the inode's time has the resolution of the kernel's tick
	return firstError(os.WriteFile(bin, []byte("two"), 0o700), os.Chtimes(bin, info.ModTime(), info.ModTime()))
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestLargeExecutable is over the size up to which bytes are compared: what the file system says has to do.
func TestLargeExecutable(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bin")
	if err := firstError(os.WriteFile(bin, nil, 0o700), os.Truncate(bin, 64<<20+1)); err != nil { // sparse
		t.Fatal(err)
	}
	e, err := process.Executable{Path: bin}.Recall()
	if err != nil {
		t.Fatal(err)
	}
	if e.Content != "" {
		t.Error("more than 64 MiB were read")
	}
	if err := os.Link(bin, bin+".linked"); err != nil { // this changes the inode's time, and nothing else
		t.Fatal(err)
	}
	if got := look(e); got != "same" {
		t.Errorf("after a link to it: %s, want same", got)
	}
	if err := os.Chtimes(bin, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if got := look(e); got != "changed" {
		t.Errorf("after a touch: %s, want changed: nothing else could tell", got)
	}
}

// TestRecall shows that bytes are read again only after something changed.
func TestRecall(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bin")
	if err := os.WriteFile(bin, bytes.Repeat([]byte("x"), 1000), 0o700); err != nil {
		t.Fatal(err)
	}
	e, err := process.Executable{Path: bin}.Recall()
	if err != nil {
		t.Fatal(err)
	}
	e.Content = "remembered"
	again, err := e.Recall()
	if err != nil || again.Content != "remembered" {
		t.Errorf("%q, %v; want what was remembered", again.Content, err)
	}
	if err := os.WriteFile(bin, []byte("other"), 0o700); err != nil {
		t.Fatal(err)
	}
	again, err = e.Recall()
	if err != nil || again.Content == "remembered" || again.Content == "" {
		t.Errorf("%q, %v; want another digest", again.Content, err)
	}
}
