package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/auth"
	"mcpx/internal/converge"
	"mcpx/internal/daemon"
	"mcpx/internal/event"
)

// jsonOf says how each command is called to see its --json. {FILE} is a file with one server, {NEW} one that does not exist.
var jsonOf = map[string][]string{
	"agents auth-capabilities":     {},
	"agents discover":              {},
	"agents install-control-plane": {"--agent", "codex"},
	"agents mount":                 {"codex", "a"},
	"agents self-check":            {},
	"agents unmount":               {"codex", "a"},
	"apply":                        {"plan_a"},
	"approval approve":             {"apr_a"},
	"approval deny":                {"apr_a", "--note", "no"},
	"approval list":                {},
	"approval show":                {"apr_a"},
	"audit export":                 {"--to", "{NEW}"},
	"audit list":                   {},
	"observe":                      {"--no-follow"},
	"audit prune":                  {},
	"audit run":                    {},
	"audit verify":                 {},
	"catalog candidates":           {},
	"catalog export":               {},
	"catalog import":               {"{FILE}"},
	"catalog list":                 {},
	"catalog review":               {"a", "--approve"},
	"catalog search":               {"a"},
	"catalog show":                 {"a"},
	"config discover":              {},
	"config inspect":               {},
	"credential add":               {"a", "--ref", "env:A"},
	"credential bind":              {"a", "V=a"},
	"credential check":             {},
	"credential grant":             {"a", "--project", "shop"},
	"credential list":              {},
	"credential move":              {"--from-file", "/config"},
	"credential remove":            {"a"},
	"credential rotate":            {"a", "--ref", "env:A"},
	"credential set":               {"a", "--ref", "env:A"},
	"credential show":              {"a"},
	"cutover apply":                {"--from", "old", "--confirm-retire"},
	"cutover dry-run":              {"--from", "old"},
	"cutover import-catalog":       {"--from", "old", "{FILE}"},
	"cutover status":               {"--from", "old"},
	"daemon install-user-service":  {},
	"daemon reload":                {},
	"daemon restart":               {},
	"daemon start":                 {},
	"daemon status":                {},
	"daemon stop":                  {},
	"daemon upgrade":               {"--binary", "{FILE}"},
	"doctor":                       {},
	"doctor release-gate":          {},
	"doctor retirement-gate":       {"--from", "old"},
	"generation consume":           {"b_a", "--", "x"},
	"generation list":              {},
	"generation produce":           {"ws_a", "--output", "out", "--", "x"},
	"generation release":           {"b_a", "--yes"},
	"generation retain":            {"b_a"},
	"generation show":              {"b_a"},
	"generation verify":            {"b_a"},
	"health":                       {},
	"job list":                     {},
	"job logs":                     {"job_a"},
	"job show":                     {"job_a"},
	"job stop":                     {"job_a"},
	"operation list":               {},
	"operation resolve":            {"op-00001", "--verdict", "done"},
	"operation show":               {"op-00001"},
	"plan list":                    {},
	"plan show":                    {"plan_a"},
	"policy check":                 {},
	"profile list":                 {},
	"profile remove":               {"a"},
	"profile set":                  {"a", "--server", "a"},
	"profile show":                 {"a"},
	"project add":                  {"/srv/a"},
	"project grant":                {"a", "--to", "ann", "--role", "viewer"},
	"project list":                 {},
	"project rebind":               {"a", "/srv/b"},
	"project remove":               {"a"},
	"project show":                 {"a"},
	"project trust":                {"a"},
	"ps":                           {},
	"remote approve":               {"id"},
	"remote deny":                  {"id"},
	"remote list":                  {},
	"remote off":                   {},
	"remote on":                    {"--url", "https://a.example"},
	"remote requests":              {},
	"remote revoke":                {"dg_a"},
	"remote status":                {},
	"rollback":                     {"rcp_a"},
	"server add":                   {"a", "--no-check", "--", "x"},
	"server call":                  {"a", "t"},
	"server disable":               {"a"},
	"server edit":                  {"a", "--title", "T"},
	"server enable":                {"a"},
	"server import":                {"{FILE}"},
	"server list":                  {},
	"server login":                 {"a", "--no-browser"},
	"server logout":                {"a"},
	"server logs":                  {"a"},
	"server remove":                {"a"},
	"server restart":               {"a"},
	"server show":                  {"a"},
	"server tools":                 {"a"},
	"session close":                {"rs_a"},
	"session grant":                {"rs_a", "--to", "ann", "--role", "viewer"},
	"session handoff":              {"rs_a"},
	"session list":                 {},
	"session show":                 {"rs_a"},
	"status":                       {},
	"token env":                    {},
	"token issue":                  {"--agent", "codex"},
	"token list":                   {},
	"token print":                  {"--agent", "agent", "--as", "value"},
	"token revoke":                 {"tok_a"},
	"token rotate":                 {"tok_a"},
	"version":                      {},
	"workspace create":             {"shop", "--purpose", "prices", "--change", "prices"},
	"workspace diff":               {"ws_a"},
	"workspace integrate":          {"ws_a"},
	"workspace list":               {},
	"workspace remove":             {"ws_a"},
	"workspace resume":             {"ws_a"},
	"workspace show":               {"ws_a"},
	"workspace suspend":            {"ws_a"},
	"workspace undo":               {"ws_a"},
}

// noJSON lists the commands whose stdout is no answer, with the reason.
var noJSON = map[string]string{
	"certify":        "it needs a real agent and a person; TestCertify in peers reads its document",
	"connect":        "stdout carries the protocol of the agent",
	"demo-server":    "stdout carries the protocol of the client",
	"policy explain": "what it says depends on the machine; story/testdata/policy.txtar reads its document",
	"serve":          "it runs in the foreground until it is ended",
	"tui":            "each of the commands that are typed answers for itself",
	"up":             "it runs in the foreground until it is ended; story/testdata/up.txtar reads its document",
}

// TestJSONGoldens: --json of every command is one document (or one for each line of a stream) with exactly these fields.
// A field that is renamed or gone shows here; one that is new needs `go test ./internal/cli -run TestJSONGoldens -update`.
func TestJSONGoldens(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		args, called := jsonOf[c.Path]
		switch {
		case noJSON[c.Path] != "":
			seen[goldenOf(c.Path)] = true
			continue
		case !called:
			t.Errorf("%s has no golden: say in jsonOf how it is called, or in noJSON why there is none", c.Path)
			continue
		}
		seen[goldenOf(c.Path)] = true
		t.Run(strings.ReplaceAll(c.Path, " ", "-"), func(t *testing.T) { jsonGolden(t, c.Path, args) })
	}
	files, err := os.ReadDir(filepath.Join("testdata", "json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[f.Name()] {
			t.Errorf("%s is the golden of no command", f.Name())
		}
	}
}

// goldenOf is the file for a command.
func goldenOf(path string) string { return strings.ReplaceAll(path, " ", "-") + ".json" }

func jsonGolden(t *testing.T, path string, args []string) {
	x, dir := newAnswering(t)
	file, fresh := filepath.Join(dir, "servers.json"), filepath.Join(dir, "new.ndjson")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"a": {"command": "x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	hub := filepath.Join(dir, "config", "mcpx.toml")
	if err := errors.Join(os.Mkdir(filepath.Dir(hub), 0o700), os.WriteFile(hub, []byte("[cutover.old]\nports = [1]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	typed := append(strings.Fields(path), args...)
	for i, word := range typed {
		typed[i] = strings.NewReplacer("{FILE}", file, "{NEW}", fresh).Replace(word)
	}
	at := len(typed)
	if i := slices.Index(typed, "--"); i >= 0 {
		at = i
	}
	code := x.types(slices.Insert(typed, at, "--json")...)
	if code != exitDone && code != exitNo {
		t.Fatalf("exit code %d\n%s", code, x.err.String())
	}
	got := x.out.String()
	documents := json.NewDecoder(strings.NewReader(got))
	for n := 0; ; n++ {
		var one any
		err := documents.Decode(&one)
		if errors.Is(err, io.EOF) && n > 0 {
			break
		}
		if err != nil {
			t.Fatalf("stdout is no JSON: %v\n%s", err, got)
		}
	}
	for old, name := range map[string]string{someToken: "TOKEN", dir: "DIR", runtime.Version(): "GO", runtime.GOOS + "/" + runtime.GOARCH: "OS/ARCH"} {
		got = strings.ReplaceAll(got, old, name)
	}
	got = ulids.ReplaceAllString(got, "op_ULID")
	golden := filepath.Join(testdata, "json", goldenOf(path))
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; make it with `go test ./internal/cli -run TestJSONGoldens -update`", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("--json differs from %s: %s", golden, diff)
	}
}

var ulids = regexp.MustCompile(`op_[0-9A-Z]{26}`)

// testdata is found from any directory.
var testdata = func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "testdata")
}()

// newAnswering is a terminal with a daemon that answers every operation with a value in which every field is set.
func newAnswering(t *testing.T) (*terminalOf, string) {
	t.Helper()
	home, err := os.MkdirTemp("", "mx") //nolint:usetesting // the path of a socket is short, that of t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	x := &terminalOf{t: t}
	x.env = &Env{
		In: strings.NewReader(""), Out: &x.out, Err: &x.err, Version: "test", Now: func() time.Time { return now },
		Getenv: func(name string) string { return map[string]string{"MCPX_HOME": home, "HOME": home}[name] },
		tty:    func() (io.ReadWriteCloser, error) { return &typist{}, nil },
		prove: func(context.Context, api.Paths) []daemon.Ability {
			return []daemon.Ability{{Name: "sandbox", Works: true, Detail: "detail", Fix: "fix"}}
		},
	}
	paths, err := x.env.Paths()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(api.MakePrivate(filepath.Dir(paths.Socket())), api.MakePrivate(paths.State)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(paths.AgentToken("agent")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths.AgentToken("agent"), []byte(someToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", paths.Socket())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, op := range api.Ops {
		mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, _ *http.Request) {
			data, err := api.Marshal(answerTo(op))
			if err != nil {
				t.Errorf("%s: %v", op.Name, err)
			}
			if op.Stream {
				data, err = json.Marshal(api.StreamLine{Line: data})
				data = append(data, "\n{\"end\":true}\n"...)
			}
			if _, writeErr := w.Write(data); errors.Join(err, writeErr) != nil {
				t.Errorf("%s: %v", op.Name, errors.Join(err, writeErr))
			}
		})
	}
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return x, home
}

// someToken is a token that nobody issued: that of the agent whose name is agent.
var someToken = func() string {
	v, err := auth.Make(auth.OfAgent, bytes.NewReader(make([]byte, 64)))
	if err != nil {
		panic(err)
	}
	return v.Reveal()
}()

// answerTo is a value of the answer of an operation with every field set.
func answerTo(op api.Op) any {
	v := reflect.New(reflect.TypeOf(op.Out)).Elem()
	fill(v, "text", 0)
	switch out := v.Addr().Interface().(type) {
	case *api.ApprovalView:
		out.State = approval.Pending
		out.Plan.State = converge.PlanReady
	case *api.ConfigFiles:
		out.Files[0].Path = "/config"
	case *api.GenerationStarted:
		out.Audit = "id" // that of the one in a GenerationView
	case *event.Event:
		out.Seq = 1
	case *api.PlanView:
		out.State = converge.PlanReady
	}
	return v.Interface()
}

// deepest bounds how deep a value is filled in: no type of the API is deeper unless it holds itself.
const deepest = 12

// fill sets everything in a value: a text is the name of its field.
func fill(v reflect.Value, name string, depth int) {
	if depth > deepest {
		return
	}
	switch field := v.Addr().Interface().(type) {
	case *time.Time:
		*field = now
		return
	case *json.RawMessage:
		*field = json.RawMessage(`{"content":[]}`)
		return
	}
	switch v.Kind() { //nolint:exhaustive // the API has no others
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name, depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, "key", depth+1)
		fill(value, name, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			fill(v.Field(i), strings.ToLower(f.Name), depth+1)
		}
	}
}

// typist types back the code that is shown, as a person who agrees does.
type typist struct{ shown bytes.Buffer }

var shownCode = regexp.MustCompile(`type (\w{4}) and press Enter`)

func (p *typist) Write(b []byte) (int, error) { return p.shown.Write(b) }
func (p *typist) Close() error                { return nil }
func (p *typist) Read(b []byte) (int, error) {
	codes := shownCode.FindAllStringSubmatch(p.shown.String(), -1)
	if len(codes) == 0 {
		return 0, io.EOF
	}
	return copy(b, codes[len(codes)-1][1]+"\n"), nil
}
