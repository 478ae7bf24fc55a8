package cli

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// definitionFlags are the flags that describe a server; add and edit share them.
var definitionFlags = []Flag{
	{Name: "env", Kind: StringsFlag, Value: "K=V", Usage: "set a variable, K=V; may be repeated"},
	{Name: "env-from", Kind: StringsFlag, Value: "K=REF", Usage: "take a variable from a reference, K=REF, such as TOKEN=env:TOKEN, TOKEN=file:/path#KEY or TOKEN=command:PROGRAM ARGS; for secrets (docs/secrets.md)"},
	{Name: "env-pass", Kind: StringsFlag, Value: "VAR", Usage: "let each agent give its own value of the variable VAR, with mcpx connect --pass; may be repeated"},
	{Name: "cwd", Kind: StringFlag, Value: "DIR", Usage: "working directory DIR of the command (default: your home; the current directory when an argument is a relative path)"},
	{Name: "cwd-policy", Kind: StringFlag, Choices: catalog.CwdPolicies, Usage: "where the command starts: none (an empty directory of its own), home, fixed (--cwd) or workspace (the project of the caller, for sharing session and workspace)"},
	{Name: "url", Kind: StringFlag, Value: "URL", Usage: "the server is remote, at URL"},
	{Name: "header", Kind: StringsFlag, Value: "K=V", Usage: "send a header, K=V, to the URL; a {REF} in V is resolved: 'Authorization=Bearer {env:TOKEN}'"},
	{Name: "transport", Kind: StringFlag, Choices: []string{"auto", "streamable-http", "sse"}, Usage: "how to speak to the URL: auto, streamable-http or sse"},
	{Name: "protocol", Kind: StringFlag, Choices: []string{"auto", "legacy", "modern"}, Usage: "protocol era of the server: auto (it is asked), legacy or modern"},
	{Name: "sharing", Kind: StringFlag, Choices: []string{"session", "agent", "workspace", "account", "global", "none"}, Usage: "who shares one process: session (nobody, the default), agent, workspace, account or global (everybody); none: it is not routed, agents keep entries of their own"},
	{Name: "supervised", Kind: BoolFlag, Default: true, Usage: "keep the process alive while the daemon restarts; --supervised=false makes it a child of the daemon"},
	{Name: "on-change", Kind: StringFlag, Choices: []string{"replace", "keep"}, Usage: "when the file of the program changes: replace the process when its calls have ended (the default), or keep it"},
	{Name: "idle-timeout", Kind: DurationFlag, Value: "D", Usage: "stop a process that did nothing for D (default 5m; never)"},
	{Name: "call-timeout", Kind: DurationFlag, Value: "D", Usage: "give up on a call after D without progress (default 2m)"},
	{Name: "title", Kind: StringFlag, Usage: "a name for people"},
	{Name: "yes", Letter: "y", Kind: BoolFlag, Usage: "agree to --sharing global without being asked"},
	{Name: "no-check", Kind: BoolFlag, Usage: "do not look whether the command or the URL can be reached"},
}

var serverAdd = Command{
	Path: "server add", Short: "Add a server", Op: "server.add", Args: "NAME", Min: 1, Max: 1, Dash: true,
	Long: "The server is a command, after --, or a URL. It is started when the first agent or `mcpx server call` needs it.\n" +
		"Agents reach it at http://127.0.0.1:30000/servers/NAME/mcp, or with `mcpx connect NAME` on stdio.",
	Example: "mcpx server add memory -- npx -y @modelcontextprotocol/server-memory\n" +
		"mcpx server add github --env-from GITHUB_TOKEN=env:GITHUB_TOKEN -- uvx mcp-server-github\n" +
		"mcpx server add docs --url https://example.com/mcp --header 'Authorization=Bearer {env:DOCS_TOKEN}'",
	Flags: definitionFlags,
	Run: func(ctx context.Context, e *Env, a Args) error {
		s, err := definition(a)
		if err != nil {
			return err
		}
		var arg string
		if s.Stdio != nil {
			var dir string
			if dir, arg = here(a, a.Argv(), s.Sharing); dir != "" {
				s.Stdio.Cwd = dir
			}
		}
		yes, err := e.agree(ctx, a, s.Name, s.Sharing)
		if err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		added, err := service.AddServer(e.operation(ctx), api.AddServer{Server: s, Confirmed: yes, Unchecked: a.Bool("no-check")})
		if err != nil {
			return e.foundHere(err, a.Argv())
		}
		e.warn(added.Server)
		return e.Show(added, func(w io.Writer) {
			line(w, "Added %s. Agents reach it at %s", added.Name, added.Route)
			printStart(w, added, arg)
			printAdvice(w, added)
			line(w, "Try it: %s server tools %s", e.self(), added.Name)
		})
	},
}

// printStart says where a command starts when that follows from a relative argument.
func printStart(w io.Writer, s api.Server, arg string) {
	if arg != "" && s.Stdio != nil {
		line(w, "It starts in %s, since %s is relative to that; --cwd DIR changes it.", s.Stdio.Cwd, arg)
	}
}

// printAdvice prints the advice that is not among the warnings.
func printAdvice(w io.Writer, s api.Server) {
	warned := catalog.Warnings(s.Server)
	for _, text := range s.Advice {
		if !slices.ContainsFunc(warned, func(one catalog.Warning) bool { return one.Text == text }) {
			line(w, "Note: %s", text)
		}
	}
}

// notAName refuses a URL in the place of a name, and says how it is meant.
func notAName(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return nil
	}
	return fault.New(fault.Invalid, "usage").Saying("%s is a URL, and a server needs a name", catalog.RedactURL(text)).
		Hinting("`mcpx server add %s --url %s`", nameOf(u.Hostname()), api.ShellWord(catalog.RedactURL(text)))
}

// nameOf is a short name for the server at a host: example for mcp.example.com.
func nameOf(host string) string {
	labels := strings.Split(host, ".")
	if net.ParseIP(host) != nil || len(labels) < 2 {
		return catalog.SafeName(host)
	}
	labels = labels[:len(labels)-1]
	for len(labels) > 1 && slices.Contains([]string{"www", "mcp", "api"}, labels[0]) {
		labels = labels[1:]
	}
	return catalog.SafeName(labels[0])
}

// definition reads a whole entry from the arguments of server add.
func definition(a Args) (catalog.Server, error) {
	s := catalog.Server{
		Name: a.Pos(0), Title: a.String("title"), Sharing: catalog.Sharing(a.String("sharing")), Direct: !a.Bool("supervised"),
		Protocol: catalog.Protocol(a.String("protocol")), OnChange: catalog.OnChange(a.String("on-change")),
		Limits: catalog.Limits{Idle: a.Duration("idle-timeout"), Call: a.Duration("call-timeout")},
	}
	if s.Sharing == "" {
		s.Sharing = catalog.ShareSession
	}
	if err := notAName(s.Name); err != nil {
		return s, err
	}
	switch {
	case a.Given("url") && len(a.Argv()) > 0:
		return s, fault.New(fault.Invalid, "usage").Saying("a server has a command or a URL, not both").
			Hinting("give --url, or a command after --")
	case !a.Given("url") && len(a.Argv()) == 0:
		return s, fault.New(fault.Invalid, "usage").Saying("what is %s? Neither a command nor a URL was given", s.Name).
			Hinting("`mcpx server add %s -- COMMAND ARGS...`, or `mcpx server add %s --url URL`", s.Name, s.Name)
	case s.Limits.Call < 0:
		return s, fault.New(fault.Invalid, "usage").Saying("--call-timeout cannot be never: a hung server would hold its callers for ever").
			Hinting("give a long time, such as 30m")
	case a.Given("url"):
		if wrong := firstGiven(a, "env", "env-from", "env-pass", "cwd", "cwd-policy", "supervised"); wrong != "" {
			return s, fault.New(fault.Invalid, "usage").Saying("--%s is for commands, and %s is a URL", wrong, s.Name).
				Hinting("use --header for credentials of a remote server")
		}
		headers, err := bindings(a.Strings("header"), "header", true)
		if err != nil {
			return s, err
		}
		s.HTTP = &catalog.HTTP{URL: a.String("url"), Headers: headers, Transport: catalog.Transport(a.String("transport"))}
	default:
		if wrong := firstGiven(a, "header", "transport"); wrong != "" {
			return s, fault.New(fault.Invalid, "usage").Saying("--%s is for URLs, and %s is a command", wrong, s.Name).
				Hinting("use --env or --env-from")
		}
		env, err := variables(a)
		if err != nil {
			return s, err
		}
		cwd, err := directory(a.String("cwd"))
		if err != nil {
			return s, err
		}
		argv := absolute(a.Argv())
		s.Stdio = &catalog.Stdio{Command: argv[0], Args: argv[1:], Cwd: cwd, CwdPolicy: catalog.CwdPolicy(a.String("cwd-policy")), Env: env, EnvPass: a.Strings("env-pass")}
	}
	return s, nil
}

func firstGiven(a Args, names ...string) string {
	for _, n := range names {
		if a.Given(n) {
			return n
		}
	}
	return ""
}

// absolute makes a command that is a relative path absolute: the daemon has another directory.
func absolute(argv []string) []string {
	if !strings.ContainsRune(argv[0], filepath.Separator) || filepath.IsAbs(argv[0]) {
		return argv
	}
	abs, err := filepath.Abs(argv[0])
	if err != nil {
		return argv // the daemon will say that it does not find it
	}
	return append([]string{abs}, argv[1:]...)
}

func directory(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fault.New(fault.Invalid, "usage").Saying("--cwd %s cannot be made absolute", dir).Because(err)
	}
	return abs, nil
}

// variables reads --env and --env-from.
func variables(a Args) (map[string]catalog.Binding, error) {
	env, err := bindings(a.Strings("env"), "env", false)
	if err != nil {
		return nil, err
	}
	for _, text := range a.Strings("env-from") {
		name, ref, ok := strings.Cut(text, "=")
		if !ok || name == "" || ref == "" {
			return nil, badPair("env-from", text, "K=REF")
		}
		if _, twice := env[name]; twice {
			return nil, fault.New(fault.Invalid, "usage").Saying("the variable %s is given twice", name)
		}
		if env == nil {
			env = map[string]catalog.Binding{}
		}
		env[name] = catalog.Binding{Ref: ref}
	}
	return env, nil
}

// bindings reads K=V pairs.
func bindings(pairs []string, flag string, templates bool) (map[string]catalog.Binding, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	out := make(map[string]catalog.Binding, len(pairs))
	for _, text := range pairs {
		name, value, ok := strings.Cut(text, "=")
		if templates && !ok { // curl spells headers with a colon
			name, value, ok = strings.Cut(text, ":")
			value = strings.TrimSpace(value)
		}
		if !ok || name == "" {
			return nil, badPair(flag, text, "K=V")
		}
		if _, twice := out[name]; twice {
			return nil, fault.New(fault.Invalid, "usage").Saying("--%s %s is given twice", flag, name)
		}
		binding := catalog.Binding{Literal: value}
		if templates && strings.Contains(value, "{") {
			binding = catalog.Binding{Template: value}
		}
		out[name] = binding
	}
	return out, nil
}

func badPair(flag, text, want string) error {
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return fault.New(fault.Invalid, "usage").Saying("--%s %q is not %s", flag, text, want).
		Hinting("for example --%s %s", flag, strings.NewReplacer("REF", "env:NAME", "K", "NAME", "V", "value").Replace(want))
}

// foundHere adds to "not found" that this shell finds the command: the daemon was started with another PATH.
func (e *Env) foundHere(err error, argv []string) error {
	f := fault.From(err)
	if f.Code != "command-not-found" || len(argv) == 0 {
		return err
	}
	file, missing := process.Resolve(argv[0], "/", []string{"PATH=" + e.Getenv("PATH")})
	if missing != nil {
		return err
	}
	return f.Hinting("the daemon has another PATH than this shell, where it is %s: give that path, or run `mcpx daemon restart --env` here", file)
}

// warn tells what is valid and still worth a word. A value that looks like a secret is kept: the person may know better.
func (e *Env) warn(s catalog.Server) {
	for _, w := range catalog.Warnings(s) {
		e.Note("warning: %s", w.Text)
	}
}

// agree asks for a yes to sharing global.
func (e *Env) agree(ctx context.Context, a Args, name string, sharing catalog.Sharing) (bool, error) {
	if sharing != catalog.ShareGlobal || a.Bool("yes") {
		return a.Bool("yes"), nil
	}
	yes, err := e.Confirm(ctx, "Sharing global gives every agent and every session the same process of "+name+
		". That is good for servers without state, and wrong for browsers and for files of a project. Do it?", "--yes")
	if err == nil && !yes {
		err = fault.New(fault.NeedsApproval, "answered-no").Saying("nothing was changed").Hinting("without --sharing each session has a process of its own")
	}
	return yes, err
}

// self is how the person can call this program again: "mcpx" when it is found that way, "go run ." when it was run by
// the go command, else its path.
func (e *Env) self() string {
	exe, err := os.Executable()
	if err != nil {
		return "mcpx"
	}
	if strings.Contains(filepath.ToSlash(exe), "/go-build") {
		return "go run ."
	}
	for _, dir := range filepath.SplitList(e.Getenv("PATH")) {
		found, err := os.Stat(filepath.Join(dir, "mcpx"))
		if err != nil {
			continue
		}
		if own, err := os.Stat(exe); err == nil && os.SameFile(found, own) {
			return "mcpx"
		}
		break // another mcpx comes first
	}
	return exe
}
