package work

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// shop is a desk with a project on the disk and a session on it.
type shop struct {
	*desk
	root, session string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	root := filepath.Join(t.TempDir(), "shop")
	for name, content := range map[string]string{
		"README.md": "one\ntwo\nthree\n", "notes.txt": "a\r\nb\r\n", "src/main.go": "package main\n", ".env": "TOKEN=canary-1234567\n", "certs/site.pub": "public\n", "docs/guide.md": "guide\n", ".git/config": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(root, "link-out")); err != nil {
		t.Fatal(err)
	}
	s := &shop{desk: newDesk(t), root: root}
	s.project(t, "shop", root)
	s.session = read[struct {
		Session struct {
			ID string `json:"remote_session_id"`
		}
	}](t, s.call(t, "session", `{"action":"open","project":"shop","operation_id":"open-shop"}`)).Session.ID
	return s
}

// do calls a tool in the session.
func (s *shop) do(t *testing.T, tool, format string, args ...any) operation.Answer {
	t.Helper()
	return s.call(t, tool, "%s", fmt.Sprintf(`{"remote_session_id":%q,`, s.session)+fmt.Sprintf(format, args...)+"}")
}

func (s *shop) file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (s *shop) save(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

type shownFile struct {
	SHA256     string
	Text       *string
	LinesTotal int `json:"lines_total"`
	More       bool
	EOL        struct{ Style string }
	Error      *operation.Refusal
}

func TestRT31PathAlone(t *testing.T) {
	s := newShop(t)
	f := read[shownFile](t, s.do(t, "read_file", `"path":"README.md"`))
	if f.Text == nil || *f.Text != "one\ntwo\nthree\n" || f.LinesTotal != 3 || f.More || f.SHA256 != digest([]byte("one\ntwo\nthree\n")) {
		t.Errorf("%+v", f)
	}
	absolute := s.call(t, "read_file", `{"path":%q}`, filepath.Join(s.root, "README.md"))
	if g := read[shownFile](t, absolute); g.SHA256 != f.SHA256 {
		t.Errorf("by its absolute path: %+v", g)
	}
	refused(t, s.call(t, "read_file", `{"path":"README.md"}`), operation.ProjectRequired, fault.AfterFix)
}

// TestOverlappingProjects: an absolute path is of the project that lies deepest.
func TestOverlappingProjects(t *testing.T) {
	s := newShop(t)
	s.project(t, "src", filepath.Join(s.root, "src"))
	a := s.call(t, "read_file", `{"path":%q}`, filepath.Join(s.root, "src", "main.go"))
	if got := read[struct{ Path string }](t, a).Path; got != "main.go" {
		t.Errorf("the path in its project is %q", got)
	}
}

func TestRT33CRLF(t *testing.T) {
	f := read[shownFile](t, newShop(t).do(t, "read_file", `"path":"notes.txt"`))
	if *f.Text != "a\nb\n" || f.EOL.Style != "crlf" || f.SHA256 != digest([]byte("a\r\nb\r\n")) {
		t.Errorf("%+v", f)
	}
}

// TestRT34Facts: RT-34 and RT-37. What is told about a file is the same whichever part of it is asked for, and of one that is
// as the caller knows it no text is sent.
func TestRT34Facts(t *testing.T) {
	s := newShop(t)
	type facts struct {
		SHA256   string
		Size     int64
		Lines    int `json:"lines_total"`
		Encoding string
		BOM      bool
		EOL      json.RawMessage
		Final    bool `json:"final_newline"`
	}
	wide := func(text string) string {
		raw := []byte{0xff, 0xfe}
		for _, unit := range utf16.Encode([]rune(text)) {
			raw = append(raw, byte(unit), byte(unit>>8))
		}
		return string(raw)
	}
	for name, c := range map[string]struct {
		content, encoding, eol string
		lines                  int
		bom, final             bool
	}{
		"plain.txt":  {"one\ntwo\nthree", "utf-8", "lf", 3, false, false},
		"mixed.txt":  {"one\r\ntwo\nthree\r\n", "utf-8", "mixed", 3, false, true},
		"marked.txt": {"\ufeffone\r\ntwo\r\n", "utf-8", "crlf", 2, true, true},
		"wide.txt":   {wide("eins\r\nzwölf\r\n𝄞\r\n"), "utf-16le", "crlf", 3, true, true},
	} {
		s.save(t, name, c.content)
		whole := s.do(t, "read_file", `"path":%q`, name)
		want := read[facts](t, whole)
		var eol struct{ Style string }
		if err := json.Unmarshal(want.EOL, &eol); err != nil {
			t.Fatal(err)
		}
		if want.SHA256 != digest([]byte(c.content)) || want.Size != int64(len(c.content)) || want.Lines != c.lines || want.Encoding != c.encoding ||
			want.BOM != c.bom || want.Final != c.final || eol.Style != c.eol {
			t.Errorf("%s: %+v", name, want)
		}
		item := read[struct{ Items []json.RawMessage }](t, s.do(t, "read_file", `"items":[{"path":%q,"lines":1}]`, name)).Items[0]
		for part, raw := range map[string]json.RawMessage{
			"a line window": s.do(t, "read_file", `"path":%q,"from_line":2,"lines":1`, name).Data,
			"a byte window": s.do(t, "read_file", `"path":%q,"from_byte":4,"bytes":4`, name).Data,
			"an item":       item,
		} {
			var got facts
			if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s of %s: %+v, want %+v (%v)", part, name, got, want, err)
			}
		}
		known := read[map[string]any](t, s.do(t, "read_file", `"path":%q,"if_sha256":%q`, name, want.SHA256))
		if _, text := known["text"]; known["unchanged"] != true || known["sha256"] != want.SHA256 || text {
			t.Errorf("%s is known: %v", name, known)
		}
		if old := read[map[string]any](t, s.do(t, "read_file", `"path":%q,"if_sha256":%q`, name, digest(nil))); old["unchanged"] != nil || old["text"] == nil {
			t.Errorf("%s was known otherwise: %v", name, old)
		}
	}
}

// TestRT65Rename: RT-65, but for SIGKILL, which is TestRT65RenameKilled in crashtest.
func TestRT65Rename(t *testing.T) {
	s := newShop(t)
	const was, is = "src/run.sh", "src/deep/start.sh"
	s.save(t, was, "#!/bin/sh\r\necho \xff\n")
	if err := os.Chmod(filepath.Join(s.root, was), 0o750); err != nil {
		t.Fatal(err)
	}
	before := s.file(t, was)
	for id, c := range map[string]struct {
		sum  string
		code operation.Code
	}{"rename-none": {"", "REVISION_REQUIRED"}, "rename-stale": {fmt.Sprintf(`,"expect_sha256":%q`, digest(nil)), "STALE_REVISION"}} {
		refused(t, s.do(t, "edit_files", `"operation_id":%q,"edits":[{"op":"rename","path":%q,"to":%q%s}]`, id, was, is, c.sum), c.code, fault.AfterFix)
	}
	if _, err := os.Stat(filepath.Join(s.root, "src/deep")); err == nil || s.file(t, was) != before {
		t.Error("a refused rename has changed something")
	}
	a := s.do(t, "edit_files", `"operation_id":"rename-right","edits":[{"op":"rename","path":%q,"to":%q,"expect_sha256":%q}]`, was, is, digest([]byte(before)))
	info, err := os.Stat(filepath.Join(s.root, is))
	if !a.OK || err != nil || info.Mode().Perm() != 0o750 || s.file(t, is) != before {
		t.Errorf("%+v (%v), %v, %v", a, a.Refusal, info, err)
	}
	if _, err := os.Lstat(filepath.Join(s.root, was)); !os.IsNotExist(err) {
		t.Errorf("the old name: %v", err)
	}
}

func TestRT36Items(t *testing.T) {
	s := newShop(t)
	a := s.do(t, "read_file", `"items":[{"path":"README.md"},{"path":"gone"},{"path":".env"},{"path":"notes.txt","lines":1}]`)
	got := read[struct{ Items []shownFile }](t, a).Items
	if len(got) != 4 || got[0].Text == nil || got[1].Error.Code != operation.NotFound || got[2].Error.Code != "FILE_DENIED" || *got[3].Text != "a\n" || !got[3].More {
		t.Errorf("%+v", got)
	}
	many := strings.TrimSuffix(strings.Repeat(`{"path":"README.md"},`, 21), ",")
	refused(t, s.do(t, "read_file", `"items":[%s]`, many), operation.LimitExceeded, fault.AfterFix)
}

func TestRT39Escapes(t *testing.T) {
	s := newShop(t)
	for _, path := range []string{"../x", "/etc/passwd", "link-out/passwd", "src/../../x", "/proc/self/root/etc/passwd", "link-out"} {
		for _, call := range []string{fmt.Sprintf(`"path":%q`, path), fmt.Sprintf(`"path":%q,"as":"base64"`, path)} {
			a := s.do(t, "read_file", "%s", call)
			raw, _ := json.Marshal(a)
			if a.Refusal == nil || strings.Contains(string(raw), "root:") || strings.Contains(string(raw), "sha256") || strings.Contains(string(raw), "size") {
				t.Errorf("%s: %s", path, raw)
			}
		}
		a := s.do(t, "edit_files", `"operation_id":"op-%d","edits":[{"path":%q,"op":"create","content":"x"}]`, 10000+len(path), path)
		if a.Refusal == nil {
			t.Errorf("%s was written: %+v", path, a)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(s.root), "x")); err == nil {
		t.Error("a file outside of the project was made")
	}
}

// TestRT46FileRules takes rules from policy files of the user and of the project. Nothing else changes by them.
func TestRT46FileRules(t *testing.T) {
	user, err := policy.ParseUser(map[string]any{"files": map[string]any{
		"read_only": []any{"docs/**"}, "confirm_write": []any{"notes.txt"}, "except": []any{".env"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	project, _, err := policy.ParseProject(map[string]any{"files": map[string]any{"deny": []any{"certs/**"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t)
	s.rules = policy.Combine(user, project, "")
	for name, want := range map[string]struct{ read, write operation.Code }{
		"README.md": {}, "docs/guide.md": {write: "FILE_DENIED"}, "notes.txt": {write: "waiting_approval"},
		"certs/site.pub": {"FILE_DENIED", "FILE_DENIED"}, ".env": {}, ".mcpx.toml": {write: "FILE_DENIED"},
	} {
		if name == ".mcpx.toml" {
			if err := os.WriteFile(filepath.Join(s.root, name), []byte("[files]\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before := s.file(t, name)
		a := s.do(t, "read_file", `"path":%q`, name)
		if got := codeOf(a); got != want.read {
			t.Errorf("reading %s: %q, want %q", name, got, want.read)
		}
		a = s.do(t, "edit_files", `"operation_id":%q,"edits":[{"path":%q,"expect_sha256":%q,"append":"more"}]`, "edit-"+strings.ReplaceAll(name, "/", "-")+"-1", name, digest([]byte(before)))
		got := codeOf(a)
		if a.Status == operation.OutcomeWaiting {
			got = operation.Code(a.Status)
		}
		if got != want.write {
			t.Errorf("writing %s: %q, want %q", name, got, want.write)
		}
		if changed := s.file(t, name) != before; changed != (want.write == "") {
			t.Errorf("%s has changed: %v", name, changed)
		}
	}
}

// TestBrokenProjectPolicy writes nothing where the rules of the project are not known.
func TestBrokenProjectPolicy(t *testing.T) {
	s := newShop(t)
	s.rules = policy.Combine(policy.Policy{}, policy.Policy{}, "line 1: no TOML")
	if a := s.do(t, "read_file", `"path":"README.md"`); !a.OK {
		t.Errorf("reading: %+v", a)
	}
	a := s.do(t, "edit_files", `"operation_id":"edit-broken-1","edits":[{"path":"README.md","expect_sha256":%q,"append":"more"}]`, digest([]byte(s.file(t, "README.md"))))
	refused(t, a, "FILE_DENIED", fault.Never)
	if a.Refusal.Details["rule"] != "policy.broken" {
		t.Errorf("details %v", a.Refusal.Details)
	}
}

func codeOf(a operation.Answer) operation.Code {
	if a.Refusal == nil {
		return ""
	}
	return a.Refusal.Code
}

func TestRT40DeniedFile(t *testing.T) {
	s := newShop(t)
	a := s.do(t, "read_file", `"path":".env"`)
	refused(t, a, "FILE_DENIED", fault.Never)
	raw, _ := json.Marshal(a)
	if a.Refusal.Details["rule"] != "file.secret" || a.Refusal.Details["setting"] == nil || strings.Contains(string(raw), "canary") {
		t.Errorf("%s", raw)
	}
	refused(t, s.do(t, "edit_files", `"operation_id":"op-00001","edits":[{"path":".env","op":"create","content":"x"}]`), "FILE_DENIED", fault.Never)
}

func TestEditBatch(t *testing.T) {
	s := newShop(t)
	sum := func(name string) string { return digest([]byte(s.file(t, name))) }
	call := fmt.Sprintf(`"operation_id":"op-00001","edits":[
		{"path":"README.md","expect_sha256":%q,"replacements":[{"old":"two","new":"2"}]},
		{"path":"notes.txt","expect_sha256":%q,"append":"c"},
		{"path":"new/deep/file.txt","op":"create","content":"hello\n"},
		{"path":"src/main.go","op":"rename","to":"src/app.go","expect_sha256":%q}]`, sum("README.md"), sum("notes.txt"), sum("src/main.go"))
	dry := s.do(t, "edit_files", "%s", strings.Replace(call, `"operation_id":"op-00001"`, `"dry_run":true`, 1)) // RT-57
	if !dry.OK || s.file(t, "README.md") != "one\ntwo\nthree\n" || len(s.operations(t)) != 1 {
		t.Fatalf("the rehearsal: %+v", dry)
	}
	first := s.do(t, "edit_files", "%s", call)
	if !first.OK {
		t.Fatalf("%+v: %v", first, first.Refusal)
	}
	for name, want := range map[string]string{"README.md": "one\n2\nthree\n", "notes.txt": "a\r\nb\r\nc", "new/deep/file.txt": "hello\n", "src/app.go": "package main\n"} {
		if got := s.file(t, name); strings.TrimSuffix(got, "\r\n") != want && got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(s.root, "src/main.go")); err == nil {
		t.Error("the old name is there")
	}
	dryFiles, files := read[edited](t, dry), read[edited](t, first)
	for i := range files.Files {
		if dryFiles.Files[i].After != files.Files[i].After {
			t.Errorf("the rehearsal said %+v, it became %+v", dryFiles.Files[i], files.Files[i])
		}
	}
	s.start(t, s.db) // another daemon
	again := s.do(t, "edit_files", "%s", call)
	if !again.Operation.Replayed || string(again.Data) != string(first.Data) { // RT-64
		t.Errorf("again: %+v", again)
	}
	refused(t, s.do(t, "edit_files", `"operation_id":"op-00001","edits":[{"path":"other","op":"create","content":""}]`), operation.OperationIDReused, fault.NewID)
}

func TestRT47To54Refusals(t *testing.T) {
	s := newShop(t)
	sum := digest([]byte("one\ntwo\nthree\n"))
	for name, c := range map[string]struct {
		edit string
		code operation.Code
	}{
		"RT-47 create what exists":    {`{"path":"README.md","op":"create","content":"x"}`, operation.Exists},
		"RT-48 without a hash":        {`{"path":"README.md","content":"x"}`, "REVISION_REQUIRED"},
		"RT-48 with an old hash":      {`{"path":"README.md","content":"x","expect_sha256":"00"}`, "STALE_REVISION"},
		"RT-49 nothing to change":     {fmt.Sprintf(`{"path":"README.md","expect_sha256":%q}`, sum), "EDIT_EMPTY"},
		"RT-52 more than one":         {fmt.Sprintf(`{"path":"README.md","expect_sha256":%q,"replacements":[{"old":"t","new":""}]}`, sum), "MATCH_COUNT"},
		"RT-52 none":                  {fmt.Sprintf(`{"path":"README.md","expect_sha256":%q,"replacements":[{"old":"four","new":""}]}`, sum), "MATCH_NOT_FOUND"},
		"RT-53 twice in a batch":      {`{"path":"a","op":"create","content":"x"},{"path":"a","op":"create","content":"x"}`, "DUPLICATE_PATH"},
		"RT-53 out of bounds":         {fmt.Sprintf(`{"path":"README.md","expect_sha256":%q,"range":{"from_line":9,"to_line":9,"text":""}}`, sum), "RANGE_OUT_OF_BOUNDS"},
		"RT-54 the second is invalid": {`{"path":"b","op":"create","content":"x"},{"path":"gone","content":"x","expect_sha256":"00"}`, operation.NotFound},
		"RT-60 hooks":                 {`{"path":"./docs/../.git/hooks/x","op":"create","content":"x"}`, "FILE_DENIED"},
		"RT-63 delete":                {`{"path":"README.md","op":"delete"}`, "REMOVE_NOT_HERE"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.do(t, "edit_files", `"operation_id":"op-00001","edits":[%s]`, c.edit)
			if a.Refusal == nil || a.Refusal.Code != c.code {
				t.Errorf("%+v: %v", a, a.Refusal)
			}
			if a.Refusal != nil && a.Refusal.Details["edit"] == nil {
				t.Error("it does not say which edit")
			}
		})
	}
	if s.file(t, "README.md") != "one\ntwo\nthree\n" {
		t.Error("a refusal changed the file")
	}
	for _, name := range []string{"a", "b"} {
		if _, err := os.Stat(filepath.Join(s.root, name)); err == nil {
			t.Errorf("a refused batch made %s", name)
		}
	}
}

// TestRecovery: whatever of an edit an earlier daemon left, the next one carries it to one end, and a retry gets that.
func TestRecovery(t *testing.T) {
	s := newShop(t)
	call := fmt.Sprintf(`"operation_id":"op-00001","edits":[
		{"path":"README.md","expect_sha256":%q,"content":"new\n"},
		{"path":"made.txt","op":"create","content":"made\n"}]`, digest([]byte("one\ntwo\nthree\n")))
	raw := json.RawMessage(fmt.Sprintf(`{"remote_session_id":%q,`, s.session) + call + "}")
	args, err := operation.ParseArgs(raw)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := operation.Fingerprint("edit_files", args, s.cfg.Key)
	if err != nil {
		t.Fatal(err)
	}
	// What an earlier daemon does until it is killed right after the dispatch.
	tr := &turn{Call: Call{Tool: "edit_files", Args: raw, Principal: session.Operator}, tool: s.tools["edit_files"], args: args, op: operation.Operation{
		Name: operation.Name{Namespace: session.Operator, ID: "op-00001"}, Tool: "edit_files", Print: sum.Sum, Digests: sum.Digests, State: operation.Claimed, Class: operation.FS, Attempts: 1,
	}}
	e, err := beginEdit(t.Context(), s.Service, tr)
	if err != nil {
		t.Fatal(err)
	}
	evidence, err := e.stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tr.op.Evidence, err = json.Marshal(evidence); err != nil {
		t.Fatal(err)
	}
	tr.op.State = operation.Dispatched
	err = s.db.Change(t.Context(), func(tx store.Tx) error {
		return s.write(t.Context(), tx, tr, event.OperationDispatched, "begun")
	})
	if err != nil {
		t.Fatal(err)
	}
	s.start(t, s.db)
	waiting := s.call(t, "edit_files", "%s", raw)
	refused(t, waiting, operation.OperationInProgress, fault.AfterWait)
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.file(t, "README.md") != "new\n" || s.file(t, "made.txt") != "made\n" {
		t.Error("the batch was not carried to its end")
	}
	a := s.call(t, "edit_files", "%s", raw)
	if !a.OK || !a.Operation.Recovered || !a.Operation.Replayed || len(read[edited](t, a).Files) != 2 {
		t.Errorf("the retry: %+v", a)
	}
	if err := s.Recover(t.Context()); err != nil { // again is harmless
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(s.cfg.State, "*", "txn", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
