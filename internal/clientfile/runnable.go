package clientfile

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/secret"
)

// Runnable is an entry with the values that its agent would use. It lives in memory only: nothing of it is printed or
// encoded, and what Reveal gives must not be stored.
type Runnable struct {
	server  *catalog.Server
	secrets map[string]secret.Handle
}

// Reveal gives the server. Its bindings are literals that may be secrets.
func (r Runnable) Reveal() catalog.Server { return *r.server }

// Redact makes the values known to a redactor.
func (r Runnable) Redact(to *secret.Redactor) {
	for name, h := range r.secrets {
		to.Add(name, h.Reveal())
	}
}

// Runnable gives the definition of an entry with its references expanded as the agent would, or the reason why mcpx
// cannot run it. An entry that is off is runnable: the caller decides.
func (s System) Runnable(e Entry) (Runnable, error) {
	no := func(kind fault.Kind, code, format string, args ...any) *fault.Error {
		return fault.New(kind, code).Saying("%s: "+format, append([]any{e.Name}, args...)...)
	}
	switch {
	case e.def == nil || e.def.transport == "":
		return Runnable{}, no(fault.Invalid, "entry-broken", "the entry of %s is not complete", e.agent.Title()).
			Hinting("correct it in the agent's own settings")
	case e.Routed != nil:
		return Runnable{}, no(fault.Conflict, "entry-routed", "the entry goes through mcpx already").
			Hinting("add the server behind it with `mcpx server add`")
	case e.def.transport == Websocket:
		return Runnable{}, no(fault.Invalid, "entry-unsupported", "MCP over websockets is not supported").
			Hinting("ask the server's authors for its http URL")
	case e.def.envFile != "":
		return Runnable{}, no(fault.Invalid, "entry-unsupported", "it takes variables from a file that %s reads", e.agent.Title()).
			Hinting("add it with `mcpx server add`, and its variables with `--env-from`")
	}
	d := dialectOf(e.agent)
	b := builder{sys: s, entry: e, expand: d.expand, headersOnly: d.headersOnly, secrets: map[string]secret.Handle{}}
	server := catalog.Server{
		Name: catalog.SafeName(e.Name), Sharing: catalog.ShareSession, Source: "observed",
		// The person configured it in the agent, and asked for it to be served.
		Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled,
	}
	if e.def.transport == Stdio {
		server.Stdio = b.stdio()
	} else {
		server.HTTP = b.http()
	}
	if b.err != nil {
		f := fault.From(b.err)
		return Runnable{}, no(f.Kind, f.Code, "%s", f.Message).Hinting("%s", f.Hint)
	}
	if err := catalog.Validate(server); err != nil {
		f := fault.From(err)
		return Runnable{}, no(f.Kind, f.Code, "%s", f.Message).Hinting("%s", f.Hint)
	}
	return Runnable{server: &server, secrets: b.secrets}, nil
}

// builder expands values; the first error stays.
type builder struct {
	sys         System
	entry       Entry
	expand      expander
	headersOnly bool
	secrets     map[string]secret.Handle
	err         error
}

// value expands what is no header.
func (b *builder) value(v string) string {
	if b.headersOnly {
		return v
	}
	return b.header(v)
}

func (b *builder) header(v string) string {
	if b.expand == nil || b.err != nil {
		return v
	}
	out, err := b.expand(v, world{lookup: b.sys.Lookup, readFile: b.readFile, home: b.sys.Home, folder: b.folder()})
	if err != nil {
		b.err = err
	}
	return out
}

// readFile follows {file:path}. The agent reads any file there; a size that no value has is refused.
func (b *builder) readFile(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(b.sys.Home, rest)
	} else if !filepath.IsAbs(path) {
		path = filepath.Join(b.entry.dir, path)
	}
	const maxValue = 64 << 10
	f, err := os.Open(path)
	if err == nil {
		defer func() { _ = f.Close() }() // only read
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(f, maxValue)); err == nil {
			return string(data), nil
		}
	}
	return "", fault.New(fault.Unavailable, "credential-missing").
		Saying("the file %s cannot be read", path).Hinting("make it, or correct the reference").Because(err)
}

// base is where the agent starts a child: all start it in the project (governance.md section 2.3).
func (b *builder) base() string {
	if b.entry.project != "" {
		return b.entry.project
	}
	return b.sys.Project
}

// folder is what an editor has open: for a file of a project the directory that holds .vscode or .cursor.
func (b *builder) folder() string {
	if b.entry.Scope == ScopeProject {
		return filepath.Dir(b.entry.dir)
	}
	return b.base()
}

func (b *builder) stdio() *catalog.Stdio {
	d := b.entry.def
	base := b.base()
	s := &catalog.Stdio{Command: b.value(d.command), Cwd: b.value(d.cwd), Env: map[string]catalog.Binding{}}
	if s.Cwd == "" {
		s.Cwd = base
	} else if !filepath.IsAbs(s.Cwd) {
		s.Cwd = filepath.Join(base, s.Cwd)
	}
	if strings.Contains(s.Command, "/") && !filepath.IsAbs(s.Command) {
		s.Command = filepath.Join(s.Cwd, s.Command)
	}
	for _, a := range d.args {
		s.Args = append(s.Args, b.value(a))
	}
	for i, safe := range catalog.RedactArgs(s.Args) {
		if safe != s.Args[i] {
			b.hide("argument", s.Args[i])
		}
	}
	for name, v := range d.env {
		s.Env[name] = b.literal(name, b.value(v))
	}
	for _, name := range d.envPass {
		if v, ok := b.sys.Lookup(name); ok {
			s.Env[name] = b.literal(name, v)
		}
	}
	return s
}

func (b *builder) http() *catalog.HTTP {
	d := b.entry.def
	h := &catalog.HTTP{URL: b.value(d.url), Transport: catalog.TransportStreamable, Headers: map[string]catalog.Binding{}}
	switch {
	case d.probe:
		h.Transport = catalog.TransportAuto
	case d.transport == SSE:
		h.Transport = catalog.TransportSSE
	}
	for name, v := range d.headers {
		if !catalog.OwnHeader(name) {
			h.Headers[name] = b.literal(name, b.header(v))
		}
	}
	fromVariable := func(header, prefix, variable string) {
		v, ok := b.sys.Lookup(variable)
		if !ok && b.err == nil {
			b.err = unset(variable)
		}
		b.hide(variable, v)
		h.Headers[header] = catalog.Binding{Literal: prefix + v}
	}
	for header, variable := range d.envHeaders {
		fromVariable(header, "", variable)
	}
	if d.bearerVar != "" {
		fromVariable(authorization, "Bearer ", d.bearerVar)
	}
	if d.apiKey != "" {
		key := b.header(d.apiKey)
		b.hide("apiKey", key)
		h.Headers[authorization] = catalog.Binding{Literal: "Bearer " + key}
	}
	for name, v := range h.Headers { // an empty header says nothing, and a catalog entry cannot hold it
		if v.Literal == "" {
			delete(h.Headers, name)
		}
	}
	return h
}

// literal keeps a value; one that is a secret by name or shape, or came out of a reference, is remembered for the
// redactor.
func (b *builder) literal(name, v string) catalog.Binding {
	raw, ok := b.entry.def.env[name]
	if !ok {
		raw = b.entry.def.headers[name]
	}
	if catalog.SecretName(name) || catalog.SecretValue(v) || catalog.HasTemplate(raw) {
		b.hide(name, v)
	}
	return catalog.Binding{Literal: v}
}

func (b *builder) hide(name, v string) {
	b.secrets[name] = secret.Hold(v)
	// "Bearer X" is a secret because of X, which may be shown without the word before it.
	if scheme, token, ok := strings.Cut(v, " "); ok && slices.Contains([]string{"bearer", "basic", "token"}, strings.ToLower(scheme)) {
		b.secrets[name+" token"] = secret.Hold(strings.TrimSpace(token))
	}
}
