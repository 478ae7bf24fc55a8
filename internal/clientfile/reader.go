package clientfile

import (
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/converge"
)

// reader takes one entry apart. A dialect calls its methods for the fields it knows; what is left is unknown.
type reader struct {
	dialect dialect
	agent   Agent
	hub     Hub
	found   found

	def         definition
	entryOff    bool
	urlField    string          // the agent's name for the URL of this entry
	headerField string          // the agent's name for its headers
	envField    string          // the agent's name for its variables
	tools       Tools           // filter
	auth        Auth            // a helper or OAuth; headers are looked at later
	used        map[string]bool // fields that were read
	deeper      []string        // fields below another field that nobody read, with their path
	ignored     map[string]bool // fields that the agent ignores
	faults      []Problem
	breaking    []Problem // faults for which the agent refuses its whole file
}

// authorization is the header for bearer tokens.
const authorization = "Authorization"

// definition holds the values of an entry. It is reachable only through unexported fields, so it is never printed or
// encoded.
type definition struct {
	transport  Transport
	probe      bool // the agent finds the HTTP transport out by itself
	command    string
	args       []string
	cwd        string
	url        string
	env        map[string]string
	envFile    string            // more variables
	envPass    []string          // variables that the agent passes on by name
	headers    map[string]string // values
	envHeaders map[string]string // header -> variable
	bearerVar  string
	apiKey     string // goes into the Authorization header, behind Bearer
}

func (r *reader) fault(code, field string) {
	r.faults = append(r.faults, Problem{Code: code, Field: field})
}

// breaks is a fault of an entry for which the agent refuses the whole file.
func (r *reader) breaks(code, field string) {
	r.fault(code, field)
	r.breaking = append(r.breaking, Problem{Code: "config-broken", Field: strings.Join(append(slices.Clone(r.found.at), field), "."), Text: code})
}

// fatal gives the findings about the whole file, with the line of the entry.
func (r *reader) fatal(data []byte) []Problem {
	for i := range r.breaking {
		at := catalog.SyntaxErrorAt(data, r.found.value.offset, "")
		r.breaking[i].Line, r.breaking[i].Column = at.Line, at.Column
	}
	return r.breaking
}

func (r *reader) get(name string) node {
	r.used[name] = true
	return r.found.value.get(name)
}

func (r *reader) wrong(name string) {
	if r.dialect.format == TOML {
		r.breaks("wrong-type", name)
		return
	}
	r.fault("wrong-type", name)
}

func (r *reader) text(name string) string {
	n := r.get(name)
	if n.kind != text && n.kind != absent {
		r.wrong(name)
		return ""
	}
	return n.text
}

func (r *reader) texts(name string) []string {
	n := r.get(name)
	if n.kind == absent {
		return nil
	}
	out, ok := n.texts()
	if !ok {
		r.wrong(name)
	}
	return out
}

func (r *reader) bool(name string, otherwise bool) bool {
	n := r.get(name)
	if n.kind == absent {
		return otherwise
	}
	v, ok := n.bool()
	if !ok {
		r.wrong(name)
		return otherwise
	}
	return v
}

// values reads variables or headers. Numbers and booleans are taken as they are written.
func (r *reader) values(name string) map[string]string {
	n := r.get(name)
	if n.kind == absent {
		return nil
	}
	if n.kind != object {
		r.wrong(name)
		return nil
	}
	out := map[string]string{}
	for _, f := range n.fields {
		if f.value.kind == object || f.value.kind == list {
			r.wrong(name + "." + f.name)
			continue
		}
		out[f.name] = f.value.text
	}
	return out
}

// ignores notes a field that is there and has no effect for this agent: the user believes something that is not so.
func (r *reader) ignores(names ...string) {
	for _, name := range names {
		if r.found.value.get(name).kind != absent {
			r.ignored[name] = true
		}
	}
}

// entry reads the entry and looks at what came out.
func (r *reader) entry() Entry {
	r.used, r.ignored = map[string]bool{}, map[string]bool{}
	r.urlField, r.headerField, r.envField, r.auth = "url", "headers", "env", AuthNone
	r.tools.Deny = []string{}
	e := Entry{
		Name: r.found.name, At: r.found.at, Scope: r.found.scope, agent: r.agent, value: &r.found.value,
		Args: []string{}, EnvNames: []string{}, EnvSecret: []string{}, HeaderNames: []string{}, Extra: []string{}, Problems: []Problem{},
		Auth: AuthNone, Parse: Complete,
	}
	if r.found.value.kind != object {
		r.fault("wrong-type", "")
	} else {
		r.dialect.read(r)
	}
	e.Enabled, e.Tools = !r.entryOff, r.tools
	if len(r.faults) > 0 { // what the agent cannot use is not shown as if it could
		e.Parse, e.Problems = Broken, r.faults
		return e
	}
	r.describe(&e)
	r.secrets(&e)
	r.leftOver(&e)
	r.route(&e)
	e.def = &r.def
	return e
}

func (r *reader) describe(e *Entry) {
	d := r.def
	e.Transport, e.Cwd = nullable(d.transport), nullable(d.cwd)
	var p catalog.Package
	known := false
	switch d.transport {
	case Stdio:
		e.Command, e.Args = nullable(d.command), append(e.Args, catalog.RedactArgs(d.args)...)
		if words := strings.Fields(d.command); len(words) > 1 { // a shell line in one field
			if safe := catalog.RedactArgs(words); !slices.Equal(safe, words) {
				e.Command = nullable(strings.Join(safe, " "))
			}
		}
		p, known = catalog.IdentifyCommand(string(e.Command), e.Args)
	case HTTP, SSE, Websocket:
		e.URL = nullable(catalog.RedactURL(d.url))
		p, known = catalog.IdentifyURL(d.url), true
	case "": // a layer that only switches another one's entry
	}
	if known {
		e.Package = &Package{Kind: p.Kind, Name: p.Name, Version: nullable(p.Version), Via: nullable(p.Via)}
	}
	e.EnvNames = append(e.EnvNames, slices.Sorted(maps.Keys(d.env))...)
	names := slices.Collect(maps.Keys(d.headers))
	names = slices.AppendSeq(names, maps.Keys(d.envHeaders))
	if d.apiKey != "" {
		names = append(names, authorization)
	}
	slices.Sort(names)
	e.HeaderNames = append(e.HeaderNames, slices.Compact(names)...)
}

// secrets flags what is a secret by its name or by its value. A reference is none, but its variable is named.
func (r *reader) secrets(e *Entry) {
	raw := func(name, value string) (secret, literal bool) {
		secret = catalog.SecretName(name) || catalog.SecretValue(value)
		return secret, secret && value != "" && !catalog.HasTemplate(value)
	}
	for _, name := range e.EnvNames {
		secret, literal := raw(name, r.def.env[name])
		if secret {
			e.EnvSecret = append(e.EnvSecret, name)
		}
		if literal {
			e.Problems = append(e.Problems, Problem{Code: "raw-secret", Field: r.envField + "." + name})
		}
	}
	e.Auth = r.auth
	for _, name := range slices.Sorted(maps.Keys(r.def.headers)) {
		secret, literal := raw(name, r.def.headers[name])
		if literal {
			e.Problems = append(e.Problems, Problem{Code: "raw-secret", Field: r.headerField + "." + name})
		}
		if e.Auth == AuthNone && secret {
			e.Auth = AuthTemplate
			if literal {
				e.Auth = AuthLiteral
			}
		}
	}
	if key := r.def.apiKey; key != "" {
		if !catalog.HasTemplate(key) {
			e.Problems = append(e.Problems, Problem{Code: "raw-secret", Field: "apiKey"})
			e.Auth = AuthLiteral
		} else if e.Auth == AuthNone {
			e.Auth = AuthTemplate
		}
	}
	if e.Auth == AuthNone && (r.def.bearerVar != "" || len(r.def.envHeaders) > 0) {
		e.Auth = AuthEnv
	}
	if !slices.Equal(e.Args, r.def.args) && len(r.def.args) > 0 {
		e.Problems = append(e.Problems, Problem{Code: "raw-secret", Field: "args"})
	}
	if string(e.URL) != r.def.url {
		e.Problems = append(e.Problems, Problem{Code: "raw-secret", Field: r.urlField})
	}
}

// leftOver names the fields that have no effect, and those that nobody read.
func (r *reader) leftOver(e *Entry) {
	extra := func(code, name string) {
		e.Extra, e.Parse = append(e.Extra, name), Extra
		e.Problems = append(e.Problems, Problem{Code: code, Field: name})
	}
	for _, f := range r.found.value.fields {
		switch {
		case slices.Contains(e.Extra, f.name): // the same name twice
		case r.ignored[f.name]:
			extra("ineffective-field", f.name)
		case !r.used[f.name] && !slices.Contains(r.dialect.kept, f.name):
			extra("unknown-field", f.name)
		}
	}
	for _, name := range r.deeper {
		extra("unknown-field", name)
	}
}

// route recognises an entry that goes through mcpx, by structure and not by equal text (governance.md section 2.6).
func (r *reader) route(e *Entry) {
	switch r.def.transport {
	case Stdio:
		if name, ok := r.hub.bridged(r.def.command, r.def.args); ok {
			e.Routed = &Routed{State: r.hub.state(name), Server: name, Form: FormBridge}
			e.Package = nil // whatever the program is called
		}
	case HTTP, SSE:
		e.Routed = r.hub.recognise(r.def.url)
	case Websocket, "":
	}
	if e.Routed == nil {
		return
	}
	switch e.Routed.State {
	case converge.RoutedHere, converge.RoutedAlias, converge.RoutedDisabled:
	case converge.RoutedSpelling, converge.RoutedStalePort, converge.RoutedUnknown, converge.RoutedForeign:
		field := r.urlField
		if e.Routed.Form == FormBridge {
			field = "args"
		}
		e.Problems = append(e.Problems, Problem{Code: string(e.Routed.State), Field: field})
	}
}

// Hub is what has to be known of mcpx to recognise entries that go through it.
type Hub struct {
	Port    string          // of the listener; "" none is known
	Servers map[string]bool // names of the catalog; true: the name is an alias
	Program string          // path of the running mcpx, which may have been given another name; "" it is called mcpx
	Wrote   []string        // paths of programs that receipts of ours wrote as mcpx
}

// is says whether a program of an entry is mcpx: by its name, or as one that we know to be.
func (h Hub) is(program string) bool {
	name := path.Base(program)
	return name == "mcpx" || h.Program != "" && name == path.Base(h.Program) || slices.Contains(h.Wrote, program)
}

// Form says through which door.
type Form string

// The forms.
const (
	FormHTTP   Form = "http"
	FormBridge Form = "bridge"
)

// Routed is the way of an entry through mcpx.
type Routed struct {
	State  converge.RoutedState `json:"state"`
	Server string               `json:"server"`
	Form   Form                 `json:"form"`
}

func (h Hub) state(name string) converge.RoutedState {
	alias, known := h.Servers[name]
	switch {
	case !known:
		return converge.RoutedUnknown
	case alias:
		return converge.RoutedAlias
	}
	return converge.RoutedHere
}

func (h Hub) recognise(raw string) *Routed {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || !catalog.IsLoopback(u.Hostname()) {
		return nil
	}
	rest, ok := strings.CutPrefix(strings.TrimSuffix(u.Path, "/"), "/servers/")
	name, isRoute := strings.CutSuffix(rest, "/mcp")
	if !ok || !isRoute || name == "" || strings.Contains(name, "/") {
		return nil
	}
	r := &Routed{State: h.state(name), Server: name, Form: FormHTTP}
	switch {
	case u.Port() != h.Port && r.State == converge.RoutedUnknown:
		r.State = converge.RoutedForeign
	case u.Port() != h.Port:
		r.State = converge.RoutedStalePort
	case r.State == converge.RoutedHere && (u.Hostname() != "127.0.0.1" || strings.HasSuffix(u.Path, "/")):
		r.State = converge.RoutedSpelling
	}
	return r
}

// bridgeValued are the flags of `mcpx connect` that take a value as the next argument.
var bridgeValued = []string{"--agent", "--root", "--workspace", "--profile", "--home", "--cwd", "--pass"}

// bridged finds the server of a `mcpx connect` line.
func (h Hub) bridged(command string, args []string) (server string, ok bool) {
	argv := append([]string{command}, args...)
	for len(argv) > 1 && path.Base(argv[0]) == "env" { // env NAME=V mcpx connect ...
		argv = argv[1:]
		for len(argv) > 0 && (strings.HasPrefix(argv[0], "-") || strings.Contains(argv[0], "=")) {
			argv = argv[1:]
		}
	}
	if len(argv) < 2 || !h.is(argv[0]) || argv[1] != "connect" {
		return "", false
	}
	for i := 2; i < len(argv); i++ {
		switch a := argv[i]; {
		case slices.Contains(bridgeValued, a):
			i++
		case !strings.HasPrefix(a, "-"):
			return a, true
		}
	}
	return "", false
}
