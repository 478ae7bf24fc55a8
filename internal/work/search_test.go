//go:build linux || darwin

package work

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

// pages calls a tool until its answer is complete.
func pages[T any](t *testing.T, s *shop, tool, args string, next func(T) (cursor string, complete bool)) (all []T) {
	t.Helper()
	for cursor := ""; ; {
		a := s.do(t, tool, "%s%s", args, cursor)
		page := read[T](t, a)
		if raw, _ := json.Marshal(a); len(raw) > inlineLimit {
			t.Fatalf("an answer of %d bytes", len(raw))
		}
		all = append(all, page)
		c, complete := next(page)
		if complete != (c == "") || complete != (len(a.Next) == 0) {
			t.Fatalf("complete %v, cursor %q, next %v", complete, c, a.Next)
		}
		if complete {
			return all
		}
		if len(all) > 5000 {
			t.Fatal("the pages do not end")
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, c)
	}
}

func (s *shop) list(t *testing.T, args string) (entries []listedEntry, pageCount int) {
	t.Helper()
	all := pages(t, s, "list_files", args, func(p listing) (string, bool) { return p.Next, p.Complete })
	for _, p := range all {
		entries = append(entries, p.Entries...)
	}
	return entries, len(all)
}

func paths(entries []listedEntry) (all []string) {
	for _, e := range entries {
		all = append(all, e.Path)
	}
	return all
}

func TestRT41ListPages(t *testing.T) {
	s := newShop(t)
	for i := range 2500 {
		s.save(t, fmt.Sprintf("many/%04d", i), "")
	}
	s.save(t, "manyfold", "")
	entries, n := s.list(t, `"path":"many"`)
	names := paths(entries)
	if len(names) != 2500 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != 2500 || n < 13 {
		t.Errorf("%d entries on %d pages", len(names), n)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "many/") {
			t.Errorf("%s is not below the path", name)
		}
	}
	if some, n := s.list(t, `"path":"many","limit":1000,"glob":["*7"]`); len(some) != 250 || n != 2 {
		t.Errorf("%d that end in 7, on %d pages", len(some), n)
	}

	s.save(t, "bin/run", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(s.root, "bin/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(s.root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, _ = s.list(t, `"depth":2,"exclude":["many"]`)
	got := map[string]listedEntry{}
	for _, e := range entries {
		got[e.Path] = e
	}
	for path, kind := range map[string]string{"src": "dir", "src/main.go": "file", "link-out": "link", "pipe": "other", ".git": "dir"} {
		if string(got[path].Kind) != kind {
			t.Errorf("%s is listed as %+v", path, got[path])
		}
	}
	if e := got["link-out"]; e.Link == nil || *e.Link != "/etc" {
		t.Errorf("the link: %+v", e)
	}
	if e := got["bin/run"]; !e.Exec || e.Size == nil || *e.Size != 10 || e.MTime == nil {
		t.Errorf("the program: %+v", e)
	}
	if _, ok := got["many/0000"]; ok || got["many"].Kind != "" {
		t.Error("what is excluded is listed")
	}
	if _, ok := got[".git/config"]; ok {
		t.Error("a walk went into .git")
	}
	if only, _ := s.list(t, `"kinds":["dir"],"exclude":["many"]`); !slices.Equal(paths(only), []string{".git", "bin", "certs", "docs", "src"}) {
		t.Errorf("directories: %q", paths(only))
	}
	refused(t, s.do(t, "list_files", `"path":"README.md"`), "NOT_A_DIRECTORY", fault.AfterFix)
	refused(t, s.do(t, "list_files", `"path":"gone"`), operation.NotFound, fault.AfterFix)
	refused(t, s.do(t, "list_files", `"path":"../"`), "SCOPE_OUTSIDE_PROJECT", fault.AfterFix)
	refused(t, s.do(t, "list_files", `"cursor":"x"`), "CURSOR_INVALID", fault.AfterFix)
	refused(t, s.do(t, "list_files", `"kinds":["socket"]`), operation.ArgumentInvalid, fault.AfterFix)
	refused(t, s.do(t, "list_files", `"glob":["{a"]`), operation.ArgumentInvalid, fault.AfterFix)
	first := read[listing](t, s.do(t, "list_files", `"path":"many"`))
	refused(t, s.do(t, "list_files", `"path":"src","cursor":%q`, first.Next), "CURSOR_INVALID", fault.AfterFix)
}

// TestListNames: a name that is no text is told in a form that it can be told in.
func TestListNames(t *testing.T) {
	s := newShop(t)
	s.save(t, "odd/a\nb", "")
	s.save(t, "odd/\xff c", "")
	entries, _ := s.list(t, `"path":"odd"`)
	if len(entries) != 2 || entries[0].Pct != "odd/a%0Ab" || entries[1].Pct != "odd/%FF%20c" || entries[0].Path != "" {
		t.Errorf("%+v", entries)
	}
}

// search is the answer of all pages in one.
func (s *shop) search(t *testing.T, args string) (f found, pageCount int) {
	t.Helper()
	all := pages(t, s, "search_files", args, func(p found) (string, bool) { return p.Next, p.Complete })
	for _, p := range all {
		for _, file := range p.Files {
			if last := len(f.Files) - 1; last >= 0 && f.Files[last].Path == file.Path { // it went on on this page
				f.Files[last].Hits = append(f.Files[last].Hits, file.Hits...)
				continue
			}
			f.Files = append(f.Files, file)
		}
		f.Skipped.Ignored += p.Skipped.Ignored
		f.Skipped.Binary += p.Skipped.Binary
		f.Skipped.TooLarge += p.Skipped.TooLarge
		f.Skipped.Denied += p.Skipped.Denied
		f.Skipped.Unreadable += p.Skipped.Unreadable
	}
	return f, len(all)
}

// places are the hits as path:line:column.
func (f found) places() (all []string) {
	for _, file := range f.Files {
		for _, h := range file.Hits {
			all = append(all, fmt.Sprintf("%s:%d:%d", file.Path, h.Line, h.Column))
		}
	}
	return all
}

func TestRT42Search(t *testing.T) {
	s := newShop(t)
	s.save(t, "code.txt", "x\nval a.b( end\nvalue axb( A.B(\nä a.b(\n")
	s.save(t, "wide.txt", "\xff\xfe"+utf16LE("one\r\ntwo a.b(\r\n"))
	s.save(t, "sub/more.txt", "a.b(a.b(\r\nno\r\n")
	for _, c := range []struct {
		args string
		want string
	}{
		{`"query":"a.b("`, "code.txt:2:5 code.txt:4:3 sub/more.txt:1:1 wide.txt:2:5"},
		{`"query":"a.b(","case":"insensitive"`, "code.txt:2:5 code.txt:3:12 code.txt:4:3 sub/more.txt:1:1 wide.txt:2:5"},
		{`"query":"a.b(","case":"smart"`, "code.txt:2:5 code.txt:3:12 code.txt:4:3 sub/more.txt:1:1 wide.txt:2:5"},
		{`"query":"A.B(","case":"smart"`, "code.txt:3:12"},
		{`"query":"a.b\\(","mode":"regex"`, "code.txt:2:5 code.txt:3:7 code.txt:4:3 sub/more.txt:1:1 wide.txt:2:5"},
		{`"query":"^val\\b.*end$","mode":"regex"`, "code.txt:2:1"},
		{`"query":"\\Sal","mode":"regex","case":"smart"`, "code.txt:2:1 code.txt:3:1"},
		{`"query":"val","word":true`, "code.txt:2:1"},
		{`"query":"[vV]al|two","mode":"regex","word":true`, "README.md:2:1 code.txt:2:1 wide.txt:2:1"},
		{`"query":"a.b(","paths":["sub","sub/more.txt","wide.txt"]`, "sub/more.txt:1:1 wide.txt:2:5"},
		{`"query":"a.b(","glob":["*.txt"],"exclude":["sub"]`, "code.txt:2:5 code.txt:4:3 wide.txt:2:5"},
		{`"query":"a.b(","glob":["sub/**"]`, "sub/more.txt:1:1"},
		{`"query":"no$","mode":"regex","paths":["sub"]`, "sub/more.txt:2:1"},
		{`"query":"a.b(","limit":1`, "code.txt:2:5 code.txt:4:3 sub/more.txt:1:1 wide.txt:2:5"},
		{`"query":"a.b(","per_file":1`, "code.txt:2:5 sub/more.txt:1:1 wide.txt:2:5"},
		{`"query":"nowhere"`, ""},
	} {
		f, _ := s.search(t, c.args)
		if got := strings.Join(f.places(), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
		for _, file := range f.Files {
			if now := read[shownFile](t, s.do(t, "read_file", `"path":%q`, file.Path)); now.SHA256 != file.SHA256 {
				t.Errorf("%s: %s was seen with another hash", c.args, file.Path)
			}
		}
	}
	f, _ := s.search(t, `"query":"a.b(","per_file":1`)
	if !f.Files[0].More || f.Files[1].More {
		t.Errorf("more: %+v", f.Files)
	}
	f, _ = s.search(t, `"query":"a.b(","names_only":true,"limit":2`)
	if len(f.Files) != 3 || f.Files[0].Hits != nil || f.Files[0].SHA256 == "" {
		t.Errorf("names only: %+v", f.Files)
	}
	f, _ = s.search(t, `"query":"axb","context":2`)
	if h := f.Files[0].Hits[0]; !slices.Equal(h.Before, []string{"x", "val a.b( end"}) || !slices.Equal(h.After, []string{"ä a.b("}) || h.Text != "value axb( A.B(" {
		t.Errorf("context: %+v", h)
	}
	for args, code := range map[string]operation.Code{
		`"query":""`: "QUERY_INVALID", `"query":"a\nb"`: "QUERY_INVALID", `"query":"(","mode":"regex"`: "QUERY_INVALID", `"query":"(?=a)","mode":"regex"`: "QUERY_INVALID",
		`"query":"x","paths":["gone"]`: operation.NotFound, `"query":"x","cursor":"eyJhIjoiYiJ9"`: "CURSOR_INVALID", `"query":"x","case":"upper"`: operation.ArgumentInvalid,
	} {
		refused(t, s.do(t, "search_files", "%s", args), code, fault.AfterFix)
	}
}

func utf16LE(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		b.WriteByte(byte(u))
		b.WriteByte(byte(u >> 8))
	}
	return b.String()
}

// TestRT35LoneCR: the lines of a search are those of read_file.
func TestRT35LoneCR(t *testing.T) {
	s := newShop(t)
	s.save(t, "lf.txt", "a\rb\nneedle\n")
	s.save(t, "cr.txt", "a\rb\rneedle\r")
	f, _ := s.search(t, `"query":"needle"`)
	if got := strings.Join(f.places(), " "); got != "cr.txt:3:1 lf.txt:2:1" {
		t.Error(got)
	}
	for _, file := range f.Files {
		w := read[shownFile](t, s.do(t, "read_file", `"path":%q,"from_line":%d,"lines":1`, file.Path, file.Hits[0].Line))
		if *w.Text != "needle\n" {
			t.Errorf("line %d of %s is %q", file.Hits[0].Line, file.Path, *w.Text)
		}
	}
}

func TestRT40NoSearchFindsADeniedFile(t *testing.T) {
	s := newShop(t)
	s.save(t, "sub/.env", "canary-1234567\n")
	if err := os.Link(filepath.Join(s.root, ".env"), filepath.Join(s.root, "alias.txt")); err != nil {
		t.Fatal(err)
	}
	s.save(t, "open.txt", "canary-1234567\n")
	if err := os.Link(filepath.Join(s.root, "open.txt"), filepath.Join(s.root, "also-open.txt")); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		`"query":"canary-1234567"`, `"query":"CANARY","case":"insensitive"`, `"query":"can.ry","mode":"regex"`, `"query":"canary","names_only":true`,
		`"query":"canary","ignored":true`, `"query":"canary","glob":[".env","*.txt"]`, `"query":"canary","paths":[".env","sub","alias.txt","open.txt","also-open.txt"]`, `"query":"canary","word":true,"context":3`,
	} {
		f, _ := s.search(t, args)
		if len(f.Files) != 2 || f.Files[0].Path != "also-open.txt" || f.Files[1].Path != "open.txt" {
			t.Errorf("%s: %+v", args, f.Files)
		}
		if f.Skipped.Denied != 3 {
			t.Errorf("%s: %+v", args, f.Skipped)
		}
	}
	entries, _ := s.list(t, `"glob":["*.txt",".env"]`)
	for _, e := range entries {
		secret := e.Path == ".env" || e.Path == "alias.txt"
		if e.Denied != secret || secret && (e.Size != nil || e.MTime != nil || e.Exec) {
			t.Errorf("%+v", e)
		}
	}
	refused(t, s.do(t, "read_file", `"path":"alias.txt"`), "FILE_DENIED", fault.Never)
	if f := read[shownFile](t, s.do(t, "read_file", `"path":"also-open.txt"`)); f.Text == nil {
		t.Error("a file with two names, neither denied, is not read")
	}
}

func TestRT43IgnoreFiles(t *testing.T) {
	s := newShop(t)
	s.save(t, ".gitignore", "*.log\n/dist/\n")
	s.save(t, ".git/info/exclude", "local.txt\n")
	s.save(t, "sub/.gitignore", "!keep.log\n")
	for _, name := range []string{"a.log", "sub/keep.log", "sub/other.log", "dist/x.txt", "local.txt", "sub/local.txt", "plain.txt"} {
		s.save(t, name, "needle\n")
	}
	names := func(f found) string {
		var all []string
		for _, file := range f.Files {
			all = append(all, file.Path)
		}
		return strings.Join(all, " ")
	}
	f, _ := s.search(t, `"query":"needle"`)
	if got := names(f); got != "plain.txt sub/keep.log" || f.Skipped.Ignored != 5 {
		t.Errorf("%s, %+v", got, f.Skipped)
	}
	f, _ = s.search(t, `"query":"needle","ignored":true`)
	if len(f.Files) != 7 || f.Skipped.Ignored != 0 {
		t.Errorf("%s, %+v", names(f), f.Skipped)
	}
	entries, _ := s.list(t, `"depth":5,"glob":["*.log","x.txt"]`)
	if got := strings.Join(paths(entries), " "); got != "sub/keep.log" {
		t.Errorf("listed: %s", got)
	}
	entries, _ = s.list(t, `"depth":5,"glob":["*.log","x.txt"],"ignored":true`)
	for _, e := range entries {
		if e.Ignored != (e.Path != "sub/keep.log") {
			t.Errorf("%+v", e)
		}
	}
	// The same without a repository.
	if err := os.RemoveAll(filepath.Join(s.root, ".git")); err != nil {
		t.Fatal(err)
	}
	f, _ = s.search(t, `"query":"needle"`)
	if got := names(f); got != "local.txt plain.txt sub/keep.log sub/local.txt" {
		t.Errorf("outside of git: %s", got)
	}
}

func TestRT44Skipped(t *testing.T) {
	s := newShop(t)
	s.save(t, "nul.bin", "needle\x00")
	s.save(t, "latin1.txt", "needle \xe4\n")
	s.save(t, "half.txt", "\xff\xfen\x00e") // half a character at its end
	s.save(t, "large.txt", "needle\n"+strings.Repeat("x", maxSearched))
	s.save(t, "good.txt", "needle\n")
	s.save(t, "shut.txt", "needle\n")
	unreadable := 0
	if os.Getuid() != 0 {
		unreadable = 1
		if err := os.Chmod(filepath.Join(s.root, "shut.txt"), 0); err != nil {
			t.Fatal(err)
		}
	} else if err := os.Remove(filepath.Join(s.root, "shut.txt")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(s.root, "pipe"), 0o600); err != nil { // it would block
		t.Fatal(err)
	}
	for _, query := range []string{"needle", "nothing here"} {
		f, _ := s.search(t, fmt.Sprintf(`"query":%q`, query))
		if want := (skippedFiles{Binary: 3, TooLarge: 1, Denied: 1, Unreadable: unreadable}); f.Skipped != want {
			t.Errorf("%s: %+v, want %+v", query, f.Skipped, want)
		}
		if query == "needle" && !slices.Equal(f.places(), []string{"good.txt:1:1"}) {
			t.Errorf("%q", f.places())
		}
	}
}

// TestSearchPages: pages of any size hold the same hits, each once, long lines are cut around the match.
func TestSearchPages(t *testing.T) {
	s := newShop(t)
	want := 0
	for i := range 60 {
		s.save(t, fmt.Sprintf("d%d/f%d.txt", i%7, i), strings.Repeat("x needle y\n", i%5)+strings.Repeat("z", i)+"\n")
		want += i % 5
	}
	s.save(t, "long.txt", strings.Repeat("ä", 3000)+"needle"+strings.Repeat("ö", 3000)+"\n"+strings.Repeat("needle "+strings.Repeat("w", 450)+"\n", 200))
	want += 201
	whole, _ := s.search(t, `"query":"needle","limit":500,"per_file":200`)
	if n := len(whole.places()); n != want-1 { // long.txt has one more than per_file
		t.Fatalf("%d hits, want %d", n, want-1)
	}
	for _, size := range []int{1, 2, 3, 7, 50} {
		f, n := s.search(t, fmt.Sprintf(`"query":"needle","limit":%d,"per_file":200`, size))
		if !slices.Equal(f.places(), whole.places()) || n < (want-1)/size {
			t.Errorf("by %d: %d hits on %d pages", size, len(f.places()), n)
		}
	}
	f, n := s.search(t, `"query":"needle","paths":["long.txt"],"per_file":200,"limit":500,"context":10`)
	if len(f.places()) != 200 || n < 5 {
		t.Errorf("%d hits on %d pages of what the limit of an answer leaves room for", len(f.places()), n)
	}
	if h := f.Files[0].Hits[0]; h.Column != 3001 || !h.Cut || !strings.Contains(h.Text, "needle") || len(h.Text) > maxHitText {
		t.Errorf("a long line: column %d, %d bytes", h.Column, len(h.Text))
	}
	// A file that changes between two pages does not bring the pages out of step.
	first := read[found](t, s.do(t, "search_files", `"query":"needle","limit":5`))
	if err := os.RemoveAll(filepath.Join(s.root, first.Files[len(first.Files)-1].Path)); err != nil {
		t.Fatal(err)
	}
	if second := read[found](t, s.do(t, "search_files", `"query":"needle","limit":5,"cursor":%q`, first.Next)); len(second.Files) == 0 || second.Files[0].Path <= first.Files[len(first.Files)-1].Path {
		t.Errorf("behind a file that is gone: %+v", second.Files)
	}
}

// TestSearchWhileFilesChange: every hit is in a file that had its hash.
func TestSearchWhileFilesChange(t *testing.T) {
	s := newShop(t)
	versions := map[string]string{}
	for i := range 50 {
		content := fmt.Sprintf("%sneedle %d\n", strings.Repeat("line\n", i), i)
		versions[digest([]byte(content))] = content
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			for _, content := range versions {
				select {
				case <-stop:
					return
				default:
				}
				if os.WriteFile(filepath.Join(s.root, "src", "new"), []byte(content), 0o600) != nil || os.Rename(filepath.Join(s.root, "src", "new"), filepath.Join(s.root, "src", "changing")) != nil {
					return
				}
			}
		}
	}()
	hits := 0
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		f, _ := s.search(t, `"query":"needle","paths":["src"]`)
		for _, file := range f.Files {
			hits++
			content, known := versions[file.SHA256]
			if !known {
				t.Fatalf("%s never had the hash %s", file.Path, file.SHA256)
			}
			if lines := strings.Split(content, "\n"); lines[file.Hits[0].Line-1] != file.Hits[0].Text {
				t.Fatalf("line %d of that file is not %q", file.Hits[0].Line, file.Hits[0].Text)
			}
		}
	}
	close(stop)
	<-stopped
	if hits == 0 {
		t.Error("the file was never seen")
	}
}
