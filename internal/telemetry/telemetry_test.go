package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLevels(t *testing.T) {
	levels, err := ParseLevels("warn, gateway:debug")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := NewLogger(&out, false, levels)
	gateway, shim := For(log, "gateway"), For(log, "shim")
	for _, l := range []*slog.Logger{log, gateway, shim} {
		l.Debug("d")
		l.Warn("w")
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(line, `"level":`)
		got = append(got, strings.TrimSpace(rest))
	}
	want := []string{
		`"WARN","msg":"w"}`, `"DEBUG","msg":"d","component":"gateway"}`, `"WARN","msg":"w","component":"gateway"}`, `"WARN","msg":"w","component":"shim"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"loud", "gateway:", ":", "a:b:c"} {
		if _, err := ParseLevels(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if levels, err := ParseLevels(""); err != nil || levels.Default != slog.LevelInfo {
		t.Errorf("nothing given: %+v, %v", levels, err)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(f *File, line string) {
		t.Helper()
		if _, err := f.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenFile(path, 10, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		write(f, fmt.Sprintf("line %d\n", i)) // 7 bytes: one for each file
	}
	write(f, "a line that is longer than a file\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
	// A new process goes on where the last one stopped.
	if f, err = OpenFile(path, 100, 3); err != nil {
		t.Fatal(err)
	}
	write(f, "more\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got[strings.TrimPrefix(name, path)] = string(data)
	}
	want := map[string]string{"": "a line that is longer than a file\nmore\n", ".1": "line 4\n", ".2": "line 3\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func plain(text string) string { return text }

// read collects what Read gives.
func read(t *testing.T, tails *Tails, server string, lines int) []string {
	t.Helper()
	got := []string{}
	if err := tails.Read(t.Context(), server, lines, false, func(l Line) error { got = append(got, l.Text); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func write(t *testing.T, tails *Tails, server, text string) {
	t.Helper()
	if n, err := tails.Writer(server).Write([]byte(text)); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
}

func TestTails(t *testing.T) {
	tails := NewTails(time.Now, func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") })
	write(t, tails, "a", "one\r\ntwo hun")
	write(t, tails, "a", "ter2\n\nbad \xff byte\nunfinished")
	write(t, tails, "b", "other\n")
	if diff := cmp.Diff([]string{"one", "two [redacted]", "", "bad \uFFFD byte"}, read(t, tails, "a", 100)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"", "bad \uFFFD byte"}, read(t, tails, "a", 2)); diff != "" {
		t.Error(diff)
	}
	tails.Forget("a")
	if got := read(t, tails, "a", 100); len(got) != 0 {
		t.Errorf("after Forget: %q", got)
	}
	if diff := cmp.Diff([]string{"other"}, read(t, tails, "b", 100)); diff != "" {
		t.Error(diff)
	}
}

func TestTailsAreBounded(t *testing.T) {
	tails := NewTails(time.Now, plain)
	write(t, tails, "endless", strings.Repeat("x", 10*lineBytes)+"\n")
	if got := read(t, tails, "endless", 1); len(got[0]) != lineBytes {
		t.Errorf("an endless line keeps %d bytes, want %d", len(got[0]), lineBytes)
	}
	write(t, tails, "many", strings.Repeat("x\n", 3*tailLines))
	if got := read(t, tails, "many", 3*tailLines); len(got) != tailLines {
		t.Errorf("%d lines, want %d", len(got), tailLines)
	}
	write(t, tails, "large", strings.Repeat(strings.Repeat("x", lineBytes)+"\n", tailLines))
	if got := read(t, tails, "large", tailLines); len(got)*lineBytes > tailBytes {
		t.Errorf("%d lines of %d bytes are over %d", len(got), lineBytes, tailBytes)
	}
	for i := range 2 * maxTails {
		write(t, tails, fmt.Sprint(i), "x\n")
	}
	if len(tails.of) != maxTails {
		t.Errorf("%d servers are kept, want %d", len(tails.of), maxTails)
	}
}

func TestFollow(t *testing.T) {
	tails := NewTails(time.Now, plain)
	write(t, tails, "a", "old\n")
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string)
	done := make(chan error, 1)
	go func() {
		done <- tails.Read(ctx, "a", 10, true, func(l Line) error { got <- l.Text; return nil })
	}()
	if text := <-got; text != "old" {
		t.Errorf("first %q", text)
	}
	for i := range 3 {
		want := fmt.Sprint("new ", i)
		write(t, tails, "a", want+"\n")
		if text := <-got; text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the end of a reader: %v", err)
	}
	if n := len(tails.get("a").readers); n != 0 {
		t.Errorf("%d readers are left", n)
	}
}

func TestSlowReaderIsTold(t *testing.T) {
	tails := NewTails(time.Now, plain)
	write(t, tails, "a", "old\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err := tails.Read(ctx, "a", 10, true, func(l Line) error {
		got = append(got, l.Text)
		switch len(got) {
		case 1: // while this reader is busy, more is written than is kept
			write(t, tails, "a", strings.Repeat("x\n", tailLines+5))
		case 3:
			cancel()
		}
		return nil
	})
	if err != nil || !strings.Contains(got[1], "lines were lost") || got[2] != "x" {
		t.Errorf("%q, %v", got[:3], err)
	}
}
