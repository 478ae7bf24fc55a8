package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
)

// Imported is the result for one entry of an imported file: a server that Validate accepts, or the reason why not.
type Imported struct {
	Name   string    // as the file spells it
	Server Server    // without id and times; review pending, for the caller to decide
	Err    error     // *fault.Error; then Server is empty
	Notes  []Warning // what was changed on the way
}

// containers are the places where agents and hubs keep their servers (governance.md section 2.7), as paths of keys. What
// is there is an object by name, or a list of objects that have one.
var containers = [][]string{
	{"mcpServers"}, {"mcp_servers"}, {"servers"}, {"mcp", "servers"}, {"mcp"}, {"context_servers"}, {"amp.mcpServers"}, {"catalog"},
}

// ParseImport reads the servers of a JSON document with comments: {"mcpServers": {...}} and its siblings, the exports of
// other hubs, and our own. An error is about the document; one bad entry does not block the others. Values of variables
// and headers stay behind; with keep only those that look like secrets do.
func ParseImport(data []byte, keep bool) ([]Imported, error) {
	doc, err := StandardJSON(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), true, true)
	if err != nil {
		return nil, fault.New(fault.Invalid, "import-broken").
			Saying("the file cannot be read as JSON").
			Hinting("correct it there; comments and trailing commas are allowed").Because(err)
	}
	i := importer{keep: keep, taken: map[string]Imported{}}
	if members, ok := membersOf(doc); ok && isExport(members) {
		return i.export(members)
	}
	found := false
	for _, path := range containers {
		if value, ok := lookup(doc, path); ok {
			if found = i.container(value); found {
				break
			}
		}
	}
	if items, ok := itemsOf(doc); ok && slices.ContainsFunc(items, func(item json.RawMessage) bool { return item[0] == '{' }) {
		i.list(items)
		found = true
	}
	// One agent keeps the servers of each project in its user file.
	if projects, ok := lookup(doc, []string{"projects"}); ok {
		members, _ := membersOf(projects)
		for _, m := range members {
			if value, ok := lookup(m.value, []string{"mcpServers"}); ok {
				found = i.container(value) || found
			}
		}
	}
	if !found {
		return nil, noServers()
	}
	return i.all, nil
}

func noServers() error {
	return fault.New(fault.Invalid, "import-empty").
		Saying("the file names no MCP servers").
		Hinting(`it must hold {"mcpServers": {"NAME": {"command": ..., "args": [...]}}}, or servers, mcp, context_servers, mcp_servers or catalog in its place`)
}

// lookup finds the value at path. The last of equal keys wins, as everywhere in JSON practice.
func lookup(object []byte, path []string) ([]byte, bool) {
	for _, name := range path {
		members, ok := membersOf(object)
		if !ok {
			return nil, false
		}
		object = nil
		for _, m := range members {
			if m.name == name {
				object = m.value
			}
		}
		if object == nil {
			return nil, false
		}
	}
	return object, true
}

// itemsOf splits a list of strict JSON. False: it is none.
func itemsOf(data []byte) ([]json.RawMessage, bool) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '[' {
		return nil, false
	}
	var items []json.RawMessage
	err := json.Unmarshal(data, &items)
	return items, err == nil
}

type importer struct {
	keep  bool
	all   []Imported
	taken map[string]Imported // by the names given so far
}

// container reads an object of servers, or a list of them. False: it is neither.
func (i *importer) container(value []byte) bool {
	if items, ok := itemsOf(value); ok {
		i.list(items)
		return true
	}
	members, ok := membersOf(value)
	for _, m := range members {
		i.add(m)
	}
	return ok
}

// list reads servers that carry their names, under any of the words that exports use.
func (i *importer) list(items []json.RawMessage) {
	for n, item := range items {
		var named struct {
			Name       string `json:"name"`
			Server     string `json:"server"`
			ServerName string `json:"server_name"`
			CamelName  string `json:"serverName"`
			ID         string `json:"id"`
			ServerID   string `json:"server_id"`
			CamelID    string `json:"serverId"`
		}
		err := json.Unmarshal(item, &named)
		name := firstOf(named.Name, named.ServerName, named.CamelName, named.Server, named.ServerID, named.CamelID, named.ID)
		if err != nil || name == "" {
			name = fmt.Sprintf("entry %d", n+1)
			i.all = append(i.all, Imported{Name: name, Err: fault.New(fault.Invalid, "import-shape").
				Saying("%s: it is no object with a name", name).Hinting("give it a name in the file and import again")})
			continue
		}
		i.add(member{name: name, value: item})
	}
}

func (i *importer) add(m member) {
	e := entryReader{imported: Imported{Name: m.name}, keep: i.keep}
	s, err := e.server(m.value)
	i.put(e.imported, s, err)
}

// put takes over one entry. The same definition under the same name again is one entry: projects repeat theirs.
func (i *importer) put(entry Imported, s Server, err error) {
	if before, there := i.taken[s.Name]; err == nil && there {
		if before.Name == entry.Name && reflect.DeepEqual(before.Server, s) {
			return
		}
		err = fault.New(fault.Conflict, "import-name").
			Saying("%s: an entry before it is named %q too", entry.Name, s.Name).Hinting("rename one of them")
	}
	if err == nil {
		err = Validate(s)
	}
	if err != nil {
		entry.Err, entry.Notes = err, nil
	} else {
		entry.Server = s
		i.taken[s.Name] = entry
	}
	i.all = append(i.all, entry)
}

type entryReader struct {
	imported Imported
	keep     bool // values that do not look like secrets
}

func (e *entryReader) note(code, format string, args ...any) {
	e.imported.Notes = append(e.imported.Notes, Warning{Code: code, Text: fmt.Sprintf(format, args...)})
}

func (e *entryReader) bad(code, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, code).Saying("%s: %s", e.imported.Name, fmt.Sprintf(format, args...))
}

func (e *entryReader) server(data []byte) (Server, error) {
	r, err := e.read(data)
	if err != nil {
		return Server{}, err
	}
	s := Server{
		Name: SafeName(e.imported.Name), Notes: r.Description, Sharing: ShareSession, Review: ReviewPending,
		Lifecycle: Enabled, Source: "import",
	}
	if s.Name != e.imported.Name {
		e.note("name-changed", "%q is no name for a URL path; it becomes %q", e.imported.Name, s.Name)
	}
	if r.Disabled || r.Enabled != nil && !*r.Enabled {
		s.Lifecycle = Disabled
	}
	url, err := e.address(r)
	if err != nil {
		return Server{}, err
	}
	if url != "" {
		err = e.http(&s, r, url)
		return s, err
	}
	err = e.stdio(&s, r)
	return s, err
}

// address is the URL of an entry, "" for one that is a program.
func (e *entryReader) address(r rawEntry) (string, error) {
	url := firstOf(r.HTTPURL, r.URL, r.ServerURL)
	start := len(r.StartCommand) > 0 || len(r.Command) > 0
	_, remote := transports[r.transportType]
	switch {
	case r.BearerToken != "":
		return "", e.bad("import-secret", "it holds a token").Hinting("remove it from the file, and bind the header afterwards with `mcpx catalog review`")
	case url == "" && r.Port != "":
		port, err := strconv.ParseUint(string(r.Port), 10, 16)
		if err != nil || port == 0 {
			return "", e.bad("import-shape", "the field port is %q, want a number up to 65535", string(r.Port)).Hinting("correct it in the file and import again")
		}
		path := r.Path
		if path == "" {
			path = map[bool]string{true: "/sse", false: "/mcp"}[transports[r.transportType] == TransportSSE]
		}
		url = fmt.Sprintf("http://127.0.0.1:%d/%s", port, strings.TrimPrefix(path, "/"))
		e.note("port-to-url", "the port became %s", url)
	case url != "" && len(r.Command) > 0 && !remote:
		return "", e.bad("import-ambiguous", "it has both a command and a URL").Hinting("remove one of them")
	}
	if url != "" && start {
		e.note("start-not-imported", "the command that starts the server behind the URL stays where it is: mcpx connects to it, and starts nothing")
	}
	return url, nil
}

func (e *entryReader) read(data []byte) (rawEntry, error) {
	var r rawEntry
	shape := func(err error) error {
		t, ok := errors.AsType[*json.UnmarshalTypeError](err)
		var text string
		switch {
		case !ok:
			text = err.Error()
		case t.Field == "":
			text = "it is " + article(t.Value) + ", want an object"
		default:
			text = "the field " + t.Field + " is or holds " + article(t.Value) + ", want " + wanted(t.Type)
		}
		return e.bad("import-shape", "%s", text).Hinting("correct it in the file and import again")
	}
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return r, shape(&json.UnmarshalTypeError{Value: "null"})
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, shape(err)
	}
	if err := r.spelled(data); err != nil {
		return r, shape(err)
	}
	r.transportType = r.Type
	if len(r.Transport) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(r.Transport, &r.transportType); err == nil {
		return r, nil
	}
	if err := json.Unmarshal(r.Transport, &r); err != nil { // Cline: the same fields one level deeper
		return r, shape(err)
	}
	r.transportType = r.Type
	return r, nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// transports maps the agents' words to ours; others are read by probing.
var transports = map[string]Transport{
	"http": TransportStreamable, "streamable-http": TransportStreamable, "streamableHttp": TransportStreamable,
	"streamable_http": TransportStreamable, "streamable": TransportStreamable, "sse": TransportSSE, "remote": TransportAuto,
}

func (e *entryReader) http(s *Server, r rawEntry, url string) error {
	if r.transportType == "ws" || r.transportType == "websocket" {
		return e.bad("import-transport", "MCP over websockets is not supported").Hinting("ask the server's authors for its http URL")
	}
	s.HTTP = &HTTP{URL: url, Transport: transports[r.transportType], Headers: map[string]Binding{}}
	if HasTemplate(url) {
		return e.bad("import-template", "the URL holds a variable").Hinting("write the URL out, or bind the secret to a header")
	}
	if r.APIKey != "" {
		r.Headers = maps.Clone(r.Headers)
		if r.Headers == nil {
			r.Headers = map[string]scalar{}
		}
		r.Headers["Authorization"] = "Bearer " + r.APIKey
	}
	for _, headers := range []map[string]scalar{r.Headers, r.HTTPHeaders, r.RequestOptions.Headers} {
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			if OwnHeader(name) { // many files carry Accept or Content-Type, which are the client's business
				e.note("header-dropped", "the header %s is set by mcpx itself", name)
				continue
			}
			// A header has no variable of its own, so one is named after the server and the header.
			variable := variableName(s.Name + "_" + name)
			b, err := e.binding("header "+name, name, variable, string(headers[name]))
			if err != nil {
				return err
			}
			s.HTTP.Headers[name] = b
		}
	}
	for name, variable := range r.EnvHeaders {
		s.HTTP.Headers[name] = Binding{Ref: "env:" + variable}
	}
	if r.BearerVar != "" {
		s.HTTP.Headers["Authorization"] = Binding{Template: "Bearer {env:" + r.BearerVar + "}"}
	}
	return nil
}

var notName = lazyregexp.New(`[^A-Z0-9]+`)

func variableName(s string) string {
	name := strings.Trim(notName().ReplaceAllString(strings.ToUpper(s), "_"), "_")
	if name == "" || isDigit(name[0]) {
		return "MCP_" + name
	}
	return name
}

func (e *entryReader) stdio(s *Server, r rawEntry) error {
	s.Stdio = &Stdio{Args: r.Args, Cwd: r.Cwd, Env: map[string]Binding{}}
	var argv []string
	if err := json.Unmarshal(r.Command, &s.Stdio.Command); err != nil {
		var wrong *json.UnmarshalTypeError
		switch err := json.Unmarshal(r.Command, &argv); {
		case errors.As(err, &wrong) && wrong.Type.Kind() == reflect.Slice:
			return e.bad("import-shape", "the field command is %s, want a text", article(wrong.Value)).Hinting("correct it in the file and import again")
		case wrong != nil:
			return e.bad("import-shape", "the field command holds %s, want texts", article(wrong.Value)).Hinting("correct it in the file and import again")
		case err != nil || len(argv) == 0:
			return e.bad("import-incomplete", "it has neither a command nor a URL").Hinting("add one of them in the file")
		}
		s.Stdio.Command, s.Stdio.Args = argv[0], append(argv[1:], r.Args...)
	}
	if err := e.split(s.Stdio); err != nil {
		return err
	}
	if slices.ContainsFunc(append([]string{s.Stdio.Command, s.Stdio.Cwd}, s.Stdio.Args...), braced().MatchString) {
		return e.bad("import-template", "command, cwd or an argument holds a variable").
			Hinting("write the value out; a secret belongs into env, where a reference can stand for it")
	}
	if !slices.Equal(RedactArgs(s.Stdio.Args), s.Stdio.Args) {
		return e.bad("import-secret-argument", "an argument looks like a secret, and arguments can be seen by every user").
			Hinting("pass it as a variable if the server takes one, or add it yourself with `mcpx server add`")
	}
	for _, env := range []map[string]scalar{r.Env.values, r.Environment} {
		for _, name := range slices.Sorted(maps.Keys(env)) {
			b, err := e.binding("variable "+name, name, name, string(env[name]))
			if err != nil {
				return err
			}
			s.Stdio.Env[name] = b
		}
	}
	for _, name := range r.Env.names {
		s.Stdio.Env[name] = Binding{Unresolved: true}
		e.note("value-not-imported", "%s", e.unbound("variable "+name, name, name, ""))
	}
	for _, name := range r.EnvVars { // taken from the environment of the agent
		if _, there := s.Stdio.Env[name]; !there {
			s.Stdio.Env[name] = Binding{Ref: "env:" + name}
		}
	}
	return nil
}

// shellSyntax is what only a shell understands.
const shellSyntax = "|&;<>()$`\\\"'*?[]#~{}\n"

// split turns a command line in one string into an argv when no shell is needed to read it.
func (e *entryReader) split(b *Stdio) error {
	fields := strings.Fields(b.Command)
	if len(fields) < 2 || strings.ContainsAny(fields[0], `/\`) {
		return nil // one word, or a path that may hold spaces
	}
	if strings.ContainsAny(b.Command, shellSyntax) {
		return e.bad("command-shell", "its command is a line for a shell").
			Hinting("split it into command and args in the file, or put it into a script")
	}
	b.Command, b.Args = fields[0], append(fields[1:], b.Args...)
	e.note("command-split", "the command line was split into a command and %d arguments", len(fields)-1)
	return nil
}

// braced are the references that every agent but Codex and Cline expands everywhere. A bare $V is left alone: outside
// of Gemini it is plain text.
var braced = lazyregexp.New(`\$\{[^}]*\}|\{(env|file):[^}]*\}`)

// wholeRef are the spellings of one reference; the groups are secret, variable, default, variable, variable and file.
var wholeRef = lazyregexp.New(`\$\{\{\s*(?:secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}|\$([A-Za-z_][A-Za-z0-9_]*)|\{env:([A-Za-z_][A-Za-z0-9_]*)\}|\{file:([^}]+)\}`)

// binding turns a value of the file into a binding: references are kept as references, plain values as literals, and
// what looks like a secret is replaced by a reference to a variable that the person has to set.
func (e *entryReader) binding(what, name, variable, value string) (Binding, error) {
	if HasTemplate(value) {
		return e.templated(what, value)
	}
	switch {
	case value == "" && !strings.HasPrefix(what, "header "), e.keep && !SecretName(name) && !SecretValue(value):
		return Binding{Literal: value}, nil
	case !e.keep:
		e.note("value-not-imported", "%s", e.unbound(what, name, variable, value))
		return Binding{Unresolved: true}, nil
	}
	ref := "env:" + variable
	// How a value reaches the daemon is not obvious: it has the environment of whoever started it.
	e.note("value-not-imported", "%s looks like a secret, so its value stays where it is. The server gets it from the variable %s of the daemon: "+
		"set that where you run `mcpx daemon start` or `restart`%s", what, variable, e.elsewhere(variable, what))
	if m := scheme().FindStringSubmatch(value); m != nil {
		return Binding{Template: m[1] + " {" + ref + "}"}, nil
	}
	return Binding{Ref: ref}, nil
}

// unbound says how a value that stayed behind is given.
func (e *entryReader) unbound(what, name, variable, value string) string {
	ref := name + "=env:" + variableName(variable)
	if m := scheme().FindStringSubmatch(value); m != nil { // Bearer, which is no secret
		ref = fmt.Sprintf(`"%s=%s {env:%s}"`, name, m[1], variableName(variable))
	}
	return fmt.Sprintf("the value of %s stays where it is; say where the server gets it from: `mcpx catalog review %s --bind %s`",
		what, SafeName(e.imported.Name), ref)
}

// elsewhere is the other way to give a value: a file.
func (e *entryReader) elsewhere(name, what string) string {
	server := SafeName(e.imported.Name)
	if strings.HasPrefix(what, "header ") {
		return ""
	}
	return fmt.Sprintf(", or keep it in a file: `mcpx server edit %s --env-from %s=file:/PATH`", server, name)
}

func (e *entryReader) templated(what, value string) (Binding, error) {
	var out strings.Builder
	last, count, ref := 0, 0, ""
	for _, m := range wholeRef().FindAllStringSubmatchIndex(value, -1) {
		group := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return value[m[2*i]:m[2*i+1]]
		}
		if group(3) != "" {
			e.note("default-dropped", "%s has a default in the file; mcpx uses the variable alone", what)
		}
		ref = "env:" + firstOf(group(1), group(2), group(4), group(5))
		if file := group(6); file != "" {
			ref = "file:" + file
		}
		out.WriteString(value[last:m[0]] + "{" + ref + "}")
		last = m[1]
		count++
	}
	text := out.String() + value[last:]
	switch {
	case count == 0 || strings.Count(text, "{") != count:
		return Binding{}, e.bad("import-template", "%s holds a reference that mcpx cannot read", what).
			Hinting("write it as ${NAME} in the file, or add the server with `mcpx server add`")
	case text == "{"+ref+"}":
		return Binding{Ref: ref}, nil
	}
	return Binding{Template: text}, nil
}
