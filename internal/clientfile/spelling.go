package clientfile

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// spelling is how an agent writes an entry, governance.md sections 3.2 and 3.4.
type spelling struct {
	container []string // where new entries go
	list      bool     // the container is a list, and entries carry their name

	argv bool   // command and arguments are one list
	env  string // the field of variables
	pass string // the field with names of variables that the agent passes on; "" it passes all of them
	cwd  bool   // a working directory can be named

	stdio, http, sse kindSpelling
	headers          []string // the field of headers
	helper, bearer   string   // the fields of the other ways to authenticate; "" there are none
	otherAuth        []string // more fields that authenticate at the old URL
	oauth            bool     // oauth: false keeps the agent from trying a login
	allTools         bool     // a filter has to be there, "*" for all
}

// kindSpelling is how one transport is written.
type kindSpelling struct {
	url     string   // the field of the URL; "" the agent does not speak it
	typ     string   // what type says; "" nothing
	also    []string // what it may say as well
	implied bool     // an entry without a type means the same, so a new one says nothing
	untyped bool     // a type would be wrong
}

// remoteFields are those of a remote entry in any dialect, and processFields those of a process.
var (
	remoteFields  = []string{"url", "httpUrl"}
	processFields = []string{"command", "args", "envFile"}
)

func usual(container ...string) spelling {
	return spelling{
		container: container, env: "env", headers: []string{"headers"},
		stdio: kindSpelling{typ: "stdio"}, http: kindSpelling{url: "url", typ: "http"}, sse: kindSpelling{url: "url", typ: "sse"},
	}
}

// spellings by agent. What Cline writes below transport is the same, one level deeper.
var spellings = func() map[Agent]spelling {
	all := map[Agent]spelling{}
	for _, a := range []Agent{Claude, Gemini, Cline, Qwen, Copilot, Droid, Auggie, Cursor} {
		all[a] = usual("mcpServers")
	}
	edit := func(a Agent, change func(s *spelling)) {
		s := all[a]
		change(&s)
		all[a] = s
	}
	all[Codex] = spelling{
		container: []string{"mcp_servers"}, env: "env", pass: "env_vars", cwd: true, http: kindSpelling{url: "url"},
		headers: []string{"http_headers"}, helper: "http_headers_helper", bearer: "bearer_token_env_var", otherAuth: []string{"env_http_headers"},
	}
	all[OpenCode] = spelling{
		container: []string{"mcp"}, argv: true, env: "environment", cwd: true, headers: []string{"headers"}, oauth: true,
		stdio: kindSpelling{typ: "local"}, http: kindSpelling{url: "url", typ: "remote"}, sse: kindSpelling{url: "url", typ: "remote"},
	}
	all[Kilo] = all[OpenCode]
	all[Continue] = spelling{
		container: []string{"mcpServers"}, list: true, env: "env", cwd: true, headers: []string{"requestOptions", "headers"}, otherAuth: []string{"apiKey"},
		stdio: kindSpelling{typ: "stdio", implied: true}, http: kindSpelling{url: "url", typ: "streamable-http"}, sse: kindSpelling{url: "url", typ: "sse"},
	}
	all[Amp] = spelling{
		container: []string{"amp.mcpServers"}, env: "env", headers: []string{"headers"}, http: kindSpelling{url: "url"}, sse: kindSpelling{url: "url"},
	}
	all[VSCode], all[Crush] = usual("servers"), usual("mcp")
	edit(Claude, func(s *spelling) {
		s.stdio.implied, s.helper, s.http.also = true, "headersHelper", []string{"streamable-http"}
	})
	edit(Gemini, func(s *spelling) { s.cwd, s.stdio = true, kindSpelling{untyped: true} })
	edit(Qwen, func(s *spelling) {
		s.cwd, s.stdio = true, kindSpelling{untyped: true}
		s.http, s.sse = kindSpelling{url: "httpUrl", typ: "http", implied: true}, kindSpelling{url: "url", typ: "sse", implied: true}
	})
	edit(Cline, func(s *spelling) { s.cwd, s.stdio.implied, s.http.typ = true, true, "streamableHttp" })
	edit(Copilot, func(s *spelling) {
		s.cwd, s.allTools, s.stdio.typ, s.stdio.also = true, true, "local", []string{"stdio"}
	})
	edit(Droid, func(s *spelling) { s.oauth = true })
	edit(Cursor, func(s *spelling) { s.stdio.implied, s.http.implied, s.sse.implied = true, true, true })
	edit(VSCode, func(s *spelling) { s.cwd = true })
	return all
}()

// member is a field that an entry shall have.
type member struct {
	at    []string // below the entry
	value node
}

// written is an entry as it shall be: members in the order of a new one, and fields that go.
type written struct {
	set  []member
	drop [][]string
	// lost are fields of the form for which the agent has no place.
	lost []string
}

func (w *written) put(value node, at ...string) { w.set = append(w.set, member{at, value}) }

func (w *written) gone(names ...string) {
	for _, name := range names {
		w.drop = append(w.drop, []string{name})
	}
}

func textNode(s string) node { return node{kind: text, text: s} }

func textsNode(all []string) node {
	n := node{kind: list}
	for _, s := range all {
		n.items = append(n.items, textNode(s))
	}
	return n
}

func cannot(a Agent, what string) *fault.Error {
	return fault.New(fault.Conflict, "form-unsupported").Saying("%s has no way to write %s", a.Title(), what).
		Hinting("use the form `bridge`, which every agent has")
}

// spell writes a form in the manner of an agent. Old is the entry as it is, absent for a new one.
func (s spelling) spell(a Agent, old node, f converge.Form) (written, error) {
	var w written
	remote := f.Kind == converge.FormHTTP || f.Kind == converge.FormDirect && f.URL != ""
	var err error
	if remote {
		err = s.remote(&w, a, old, f)
	} else {
		s.process(&w, old, f)
	}
	if s.allTools && old.get("tools").kind == absent {
		w.put(textsNode([]string{"*"}), "tools")
	}
	return w, err
}

// kindOf writes the type of the entry.
func (k kindSpelling) kindOf(w *written, old node) {
	has := old.get("type")
	switch {
	case k.untyped:
		w.gone("type")
	case k.typ == "": // the agent has no such field
	case has.kind == text && (has.text == k.typ || slices.Contains(k.also, has.text)):
	case has.kind == absent && k.implied:
	default:
		w.put(textNode(k.typ), "type")
	}
}

func (s spelling) remote(w *written, a Agent, old node, f converge.Form) error {
	k := s.http
	if f.SSE {
		k = s.sse
	}
	if k.url == "" {
		return cannot(a, "a server that speaks HTTP+SSE")
	}
	if a == Gemini && !f.SSE && old.get("httpUrl").kind == text { // the older name stays
		k.url, k.implied = "httpUrl", true
	}
	k.kindOf(w, old)
	w.put(textNode(f.URL), k.url)
	for _, name := range remoteFields {
		if name != k.url && (a == Gemini || a == Qwen) {
			w.gone(name)
		}
	}
	w.gone(processFields...)
	w.gone(s.env, "cwd")
	if s.pass != "" {
		w.gone(s.pass)
	}
	if s.oauth {
		w.put(node{kind: boolean, text: "false"}, "oauth")
	}
	if f.Helper != "" {
		if s.helper == "" {
			return cannot(a, "a program that prints headers")
		}
		w.put(textNode(f.Helper), s.helper)
	} else if s.helper != "" {
		w.gone(s.helper)
	}
	if f.Bearer != "" {
		if s.bearer == "" {
			return cannot(a, "the name of a variable with a token")
		}
		w.put(textNode(f.Bearer), s.bearer)
	} else if s.bearer != "" {
		w.gone(s.bearer)
	}
	w.gone(s.otherAuth...)
	w.values(lookup(old, s.headers), f.Headers, nil, s.headers)
	return nil
}

func (s spelling) process(w *written, old node, f converge.Form) {
	s.stdio.kindOf(w, old)
	if s.argv {
		w.put(textsNode(append([]string{f.Command}, f.Args...)), "command")
		w.gone("args")
	} else {
		w.put(textNode(f.Command), "command")
		if len(f.Args) > 0 || old.get("args").kind != absent {
			w.put(textsNode(f.Args), "args")
		}
	}
	w.gone("envFile")
	w.values(old.get(s.env), f.Env, f.Keep, []string{s.env})
	if s.pass != "" {
		s.passed(w, old, f)
	}
	switch {
	case f.Cwd == "":
		w.gone("cwd")
	case s.cwd:
		w.put(textNode(f.Cwd), "cwd")
	default:
		w.lost = append(w.lost, "cwd")
	}
	w.gone(remoteFields...)
	w.values(lookup(old, s.headers), nil, nil, s.headers)
	w.gone(s.otherAuth...)
	for _, name := range []string{s.helper, s.bearer} {
		if name != "" {
			w.gone(name)
		}
	}
	if s.oauth {
		w.gone("oauth")
	}
}

// values writes variables or headers: those that are wanted, and those of the entry that stay.
func (w *written) values(old node, want map[string]string, keep, at []string) {
	stay := 0
	for _, name := range old.names() {
		if _, wanted := want[name]; !wanted && slices.Contains(keep, name) {
			stay++
		}
	}
	if len(want)+stay == 0 {
		w.drop = append(w.drop, at)
		if len(at) > 1 { // what held nothing else goes with it
			w.drop = append(w.drop, at[:len(at)-1])
		}
		return
	}
	for _, name := range old.names() {
		if _, wanted := want[name]; !wanted && !slices.Contains(keep, name) {
			w.drop = append(w.drop, append(slices.Clone(at), name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w.put(textNode(want[name]), append(slices.Clone(at), name)...)
	}
}

// passed names the variables that the agent hands on to mcpx connect, which asks for them.
func (s spelling) passed(w *written, old node, f converge.Form) {
	var names []string
	if f.Kind == converge.FormBridge {
		for i, a := range f.Args[:max(0, len(f.Args)-1)] {
			if a == "--pass" && old.get(s.env).get(f.Args[i+1]).kind == absent {
				names = append(names, f.Args[i+1])
			}
		}
	}
	has := old.get(s.pass)
	for _, name := range f.Keep {
		if hasText(has, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		w.gone(s.pass)
		return
	}
	out := node{kind: list}
	for _, item := range has.items { // an item may be more than a name
		if i := slices.Index(names, nameOf(item)); i >= 0 {
			out.items = append(out.items, item)
			names = slices.Delete(names, i, i+1)
		}
	}
	for _, name := range names {
		out.items = append(out.items, textNode(name))
	}
	w.put(out, s.pass)
}

func nameOf(item node) string {
	if item.kind == object {
		item = item.get("name")
	}
	return item.text
}

func hasText(n node, s string) bool {
	return slices.ContainsFunc(n.items, func(item node) bool { return nameOf(item) == s })
}

// whole is the entry as a new one.
func (w written) whole(prefix ...string) node {
	n := node{kind: object}
	for _, m := range w.set {
		n.putAt(append(slices.Clone(prefix), m.at...), m.value)
	}
	return n
}

func (n *node) putAt(at []string, v node) {
	if len(at) == 0 {
		*n = v
		return
	}
	n.kind = object
	i := slices.IndexFunc(n.fields, func(f field) bool { return f.name == at[0] })
	if i < 0 {
		n.fields = append(n.fields, field{name: at[0]})
		i = len(n.fields) - 1
	}
	n.fields[i].value.putAt(at[1:], v)
}

// ops changes the entry that is there. Fields that it does not have are not dropped.
func (w written) ops(entry node, at []string) []op {
	var all []op
	for _, m := range w.set {
		all = append(all, op{at: join(at, m.at), value: &m.value})
	}
	for _, d := range w.drop {
		n := lookup(entry, d)
		under := slices.ContainsFunc(w.set, func(m member) bool { return hasPrefix(m.at, d) })
		inside := slices.ContainsFunc(w.drop, func(o []string) bool { return len(o) > len(d) && hasPrefix(o, d) })
		if n.kind == absent && !declared(entry, d) || under || inside && len(n.fields) > 1 {
			continue
		}
		if slices.ContainsFunc(w.drop, func(o []string) bool { // what holds it goes whole
			up := lookup(entry, o)
			return len(o) < len(d) && hasPrefix(d, o) && len(up.fields) <= 1
		}) {
			continue
		}
		all = append(all, op{at: join(at, d)})
	}
	return all
}

// declared says whether a field is there, with null for its value.
func declared(n node, at []string) bool {
	up := lookup(n, at[:len(at)-1])
	return slices.ContainsFunc(up.fields, func(f field) bool { return f.name == at[len(at)-1] })
}

func join(a, b []string) []string { return append(slices.Clone(a), b...) }

func hasPrefix(at, prefix []string) bool {
	return len(at) >= len(prefix) && slices.Equal(at[:len(prefix)], prefix)
}

// nestedField is where Cline's own program keeps the fields of an entry.
const nestedField = "transport"

// entryOps writes a form into the entry at a place, which may be absent.
func entryOps(a Agent, path string, at []string, name string, old node, f converge.Form) (ops []op, lost []string, err error) {
	s := spellings[a]
	var prefix []string
	fields := old
	if a == Cline && (old.get(nestedField).kind == object || old.kind == absent && strings.Contains(path, "/.cline/")) {
		prefix, fields = []string{nestedField}, old.get(nestedField)
		s.stdio.implied = false
	}
	w, err := s.spell(a, fields, f)
	if err != nil {
		return nil, nil, err
	}
	if old.kind != absent {
		return w.ops(fields, join(at, prefix)), w.lost, nil
	}
	entry := w.whole(prefix...)
	if s.list {
		entry.fields = slices.Insert(entry.fields, 0, field{name: "name", value: textNode(name)})
	}
	return []op{{at: at, value: &entry}}, w.lost, nil
}

// placeOf finds the entry that a step means, and where it would stand if there is none.
func placeOf(a Agent, root node, l listing, step converge.Step) (at []string, old node) {
	s := spellings[a]
	for _, f := range l.entries {
		if slices.Equal(f.at, step.At) && (step.Name == "" || step.Name == f.name) {
			return f.at, f.value
		}
	}
	for _, f := range l.entries { // the number of an item may have changed
		if step.Name != "" && f.name == step.Name && (a != Claude || f.project == step.Project) && (s.list || len(step.At) == 0) {
			return f.at, f.value
		}
	}
	if len(step.At) > 0 && !s.list {
		return step.At, lookup(root, step.At)
	}
	container := s.container
	if a == Claude && step.Project != "" {
		container = []string{"projects", step.Project, "mcpServers"}
	}
	if s.list {
		return join(container, []string{strconv.Itoa(len(lookup(root, container).items))}), node{}
	}
	return join(container, []string{step.Name}), node{}
}
