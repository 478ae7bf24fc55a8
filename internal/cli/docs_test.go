package cli

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/converge"
	"mcpx/internal/daemon"
)

var update = flag.Bool("update", false, "write the generated documents anew")

// generated compares a document with what it must be, or writes it with -update.
func generated(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", name)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("docs/%s is not current; run `go test ./internal/cli -update`\n%s", name, diff)
	}
}

func TestDocCommands(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Commands\n\nGenerated from the command table by `go test ./internal/cli -update`. Every command has `--json` and `-h`.\n\n")
	b.WriteString("| command | does |\n|---|---|\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "| [`mcpx %s`](#mcpx-%s) | %s |\n", c.Path, strings.ReplaceAll(c.Path, " ", "-"), c.Short)
	}
	b.WriteString("| `mcpx completion SHELL` | Completion for bash, zsh, fish and PowerShell |\n| `mcpx help exit-codes` | What the exit codes mean |\n")
	for _, c := range commands() {
		parent, word := split(c.Path)
		fmt.Fprintf(&b, "\n## mcpx %s\n\n    mcpx %s\n\n%s.\n", c.Path, strings.TrimSpace(parent+" "+useLine(word, c)), c.Short)
		if c.Long != "" {
			fmt.Fprintf(&b, "\n%s\n", c.Long)
		}
		shown := slices.DeleteFunc(slices.Clone(c.Flags), func(f Flag) bool { return f.Hidden })
		if len(shown) > 0 {
			b.WriteString("\n| flag | meaning |\n|---|---|\n")
		}
		for _, f := range shown {
			name := "--" + f.Name
			if f.Letter != "" {
				name = "-" + f.Letter + ", " + name
			}
			if f.Value != "" {
				name += " " + f.Value
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.ReplaceAll(f.Usage, "|", "\\|"))
		}
		fmt.Fprintf(&b, "\nExamples:\n\n%s\n", "    "+strings.ReplaceAll(c.Example, "\n", "\n    "))
	}
	fmt.Fprintf(&b, "\n## Exit codes\n\n| code | kind | meaning |\n|---|---|---|\n| 0 | | done; also when it was done already |\n| 1 | | it ran and the answer is no: health not ok, a tool result that is an error |\n")
	for _, row := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", row.Code, row.Kind, row.Text)
	}
	generated(t, "cli.md", b.String())
}

func TestDocSettings(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Settings\n\nGenerated from the registry by `go test ./internal/cli -update`.\n\n" +
		"Settings are few. They stand in `config/mcpx.toml` below `MCPX_HOME` (without it in `$XDG_CONFIG_HOME/mcpx/mcpx.toml`,\n" +
		"usually `~/.config/mcpx/mcpx.toml`); you make that file and its directory when you want to change one. A flag wins over\n" +
		"the environment, that over the file, that over the default. An unknown key is an error. `SIGHUP` makes the daemon read the\n" +
		"file again and log what waits for a restart; a file that does not load then changes nothing.\n")
	for _, s := range daemon.Registry {
		when := "at the next start"
		if s.Hot {
			when = "at once on reload"
		}
		def := s.Default
		if def == "" {
			def = "(none)"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| | |\n|---|---|\n| type | %s |\n| default | `%s` |\n| environment | `%s` |\n| takes effect | %s |\n| shown by | `%s` |\n",
			s.Key, s.Text, s.Type, def, s.Env(), when, s.Effect)
		if _, err := os.Stat(filepath.Join("..", "test", "story", "testdata", filepath.Base(s.Effect))); err != nil {
			t.Errorf("setting %s has no effect test: %v", s.Key, err)
		}
	}
	b.WriteString("\n## Environment variables that are no settings\n\n| variable | meaning |\n|---|---|\n" +
		"| `MCPX_HOME` | puts configuration, state, sockets and cache below one directory |\n" +
		"| `MCPX_BASE_DIR` | an absolute path that becomes a project (`mcpx project add`) when the daemon starts, as in an earlier system; one that cannot be a project is told of in the daemon's log |\n" +
		"| `MCPX_CODEX_BIN` | of an earlier system; nothing here: mcpx does not use the sandbox of Codex, and `MCPX_WORKSPACE_SANDBOX=codex` is refused |\n" +
		"| `MCPX_LOG` | log levels: `debug`, or for single packages `gateway:debug,shim:info` |\n" +
		"| `NO_COLOR` | no colours on a terminal |\n")
	generated(t, "settings.md", b.String())
}

// errorCode is one fault.New in the source.
type errorCode struct {
	kinds, messages, hints map[string]bool
}

// TestDocErrors collects every error code from the source: the place where an error is written is its registry.
func TestDocErrors(t *testing.T) {
	codes := map[string]*errorCode{}
	root := ".."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "test":
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool { collect(codes, n); return true })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("# Error codes\n\nGenerated from the source by `go test ./internal/cli -update`. The kind decides the exit code of a command\n" +
		"(`mcpx help exit-codes`) and the status of the local API. `...` stands for what the error is about. With `--json` an error\n" +
		"is one line on stderr: `{\"error\":{\"kind\",\"code\",\"message\",\"hint\",\"retry\"}}`. What MCP clients get (JSON-RPC codes -319xx)\n" +
		"is in [survival.md](survival.md#what-a-client-sees).\n\n| code | kind | says | next step |\n|---|---|---|---|\n")
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		c := codes[code]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", code, joined(c.kinds, ", "), joined(c.messages, "<br>"), joined(c.hints, "<br>"))
	}
	if len(codes) < 40 {
		t.Errorf("only %d codes were found: does the collector still understand the source?", len(codes))
	}
	generated(t, "errors.md", b.String())
}

// TestDocFindings writes the registry of converge down.
func TestDocFindings(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Findings about configurations\n\nGenerated from the registry in `internal/converge/codes.go` by `go test ./internal/cli -update`. The words that\n" +
		"`mcpx config`, `mcpx audit run`, `mcpx plan` and `mcpx doctor` use, and what they mean.\n")
	about := map[converge.CodeKind]string{
		converge.KindClass:  "Classes\n\nEach entry has exactly one. With several that fit, the first of this order counts: broken, dormant, unsafe, routed ones,\nunsupported, name-conflict, ambiguous, bypass, ineffective, unknown.",
		converge.KindReason: "Reasons of a class",
		converge.KindMatch: "Reasons of a match\n\nThe confidence is `exact` (routed by name), `high` (the same, without any difference that is seen), `medium` (the same package or\n" +
			"URL, with differences), `weak` (a name, or something that may be misread), `ambiguous` (several servers at the best level; a\nname or an id never decides) or `none`.",
		converge.KindRouted: "Routed entries",
		converge.KindFile:   "Problems of files",
		converge.KindEntry:  "Problems of entries",
		converge.KindPlan:   "Reasons of a plan\n\nBeside these a plan has the reasons of the match that it is made from.",
		converge.KindNeed:   "What comes first\n\nA plan with one of these is shown and cannot be approved yet.",
		converge.KindError:  "What makes a plan errored\n\nSuch a plan is shown with its reasons and never offered.",
		converge.KindNote:   "Notes of a change\n\nWhat the diff of a plan cannot show.",
		converge.KindRisk:   "What raises the risk of a plan",
		converge.KindAuto:   "Why a plan is not applied by itself\n\nIt needs a person then, which is the default for everything. Some reasons of risk count here, too.",
		converge.KindStale:  "Why a plan was superseded",
		converge.KindVoid:   "Why a certificate does not count\n\nThe event `agent.certificate_void` says it, and so does `mcpx certify --keep`.",
		converge.KindHealth: "Health\n\nWhat `mcpx doctor` and `mcpx health` tell beside the words above.",
	}
	var kinds []converge.CodeKind
	for _, c := range converge.Codes {
		if !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	for _, kind := range kinds {
		if about[kind] == "" {
			t.Errorf("the kind %q has no heading", kind)
		}
		fmt.Fprintf(&b, "\n## %s\n\n| code | means | next step |\n|---|---|---|\n", about[kind])
		for _, c := range converge.Codes {
			if c.Kind == kind {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Code, c.Means, c.Next)
			}
		}
	}
	generated(t, "findings.md", b.String())
}

func joined(set map[string]bool, by string) string {
	return strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(set)), by), "|", "\\|")
}

// collect notes a fault.New and, for a chain of calls on one, its message and hint.
func collect(codes map[string]*errorCode, n ast.Node) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	if x, ok := method.X.(*ast.Ident); ok && x.Name == "fault" && method.Sel.Name == "New" && len(call.Args) == 2 {
		code, ok := literal(call.Args[1])
		if !ok {
			return // a helper that passes a code on: its callers name it
		}
		if codes[code] == nil {
			codes[code] = &errorCode{kinds: map[string]bool{}, messages: map[string]bool{}, hints: map[string]bool{}}
		}
		if kind, ok := call.Args[0].(*ast.SelectorExpr); ok {
			codes[code].kinds[kebab(kind.Sel.Name)] = true
		}
		return
	}
	if name := method.Sel.Name; name != "Saying" && name != "Hinting" || len(call.Args) == 0 {
		return
	}
	code, ok := codeOf(method.X)
	text, isText := literal(call.Args[0])
	if !ok || !isText || text == "%s" || text == "%v" {
		return
	}
	collect(codes, newOf(method.X))
	if method.Sel.Name == "Saying" {
		codes[code].messages[people(text)] = true
	} else {
		codes[code].hints[people(text)] = true
	}
}

// newOf walks down a chain of calls to its fault.New.
func newOf(x ast.Expr) *ast.CallExpr {
	for {
		call, ok := x.(*ast.CallExpr)
		if !ok {
			return nil
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		if id, ok := method.X.(*ast.Ident); ok && id.Name == "fault" {
			return call
		}
		x = method.X
	}
}

func codeOf(x ast.Expr) (string, bool) {
	call := newOf(x)
	if call == nil || len(call.Args) != 2 {
		return "", false
	}
	return literal(call.Args[1])
}

// literal is the value of a string literal, or of a sum of them.
func literal(x ast.Expr) (string, bool) {
	switch v := x.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(v.Value)
		return text, err == nil && v.Kind == token.STRING
	case *ast.BinaryExpr:
		a, ok1 := literal(v.X)
		b, ok2 := literal(v.Y)
		return a + b, ok1 && ok2
	}
	return "", false
}

// verb is a verb of a format.
var verb = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)

// people replaces the verbs of a format.
func people(format string) string {
	return strings.ReplaceAll(verb.ReplaceAllString(format, "..."), "\n", " ")
}

// kebab turns the name of a constant into the kind: NotFound is not-found.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		if seen[c.Path] {
			t.Errorf("%s is there twice", c.Path)
		}
		seen[c.Path] = true
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Example == "" {
			t.Errorf("%s: want a short text without a period, and an example", c.Path)
		}
		for l := range strings.SplitSeq(c.Example, "\n") {
			if !strings.HasPrefix(l, "mcpx "+c.Path) && !strings.Contains(l, "mcpx "+c.Path) && c.Path != "demo-server" {
				t.Errorf("%s: the example %q shows another command", c.Path, l)
			}
		}
		for _, f := range c.Flags {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s --%s: want a usage without a period", c.Path, f.Name)
			}
			quote, value := strings.Index(f.Usage, "`"), strings.Index(f.Usage, f.Value)
			if quote >= 0 && (f.Value == "" || value < 0 || quote < value) {
				t.Errorf("%s --%s: the help would take what is in back quotes for the value of the flag", c.Path, f.Name)
			}
		}
	}
}
