package clientfile

import "slices"

// plain describes the dialects that differ in few things from the form most agents share: an object of entries, with
// command, args and env for a process, or url and headers for a remote server.
type plain struct {
	format    Format
	lenient   lenience
	container string
	types     map[string]Transport // what type may say; nil: the agent has no such field
	untyped   Transport            // what an entry with a URL and no type is; "" it cannot be used
	probe     bool                 // the agent tries SSE where Streamable HTTP fails
	cwd       bool                 // the working directory can be chosen
	envFile   bool                 // variables can come from another file
	oauth     bool                 // settings for OAuth can be given
	off       string               // the field that switches an entry off; "" none
	allow     string               // the field with the tools that are allowed; "" none
	deny      string               // the field with the tools that are not
	kept      []string
}

func (p plain) dialect() dialect {
	return dialect{
		format: p.format, lenient: p.lenient, kept: p.kept, read: p.read,
		list: func(root node) (l listing) {
			l.entries = members(container(root, &l, p.container), p.container)
			return l
		},
	}
}

func (p plain) read(r *reader) {
	r.def.command, r.def.args, r.def.url = r.text("command"), r.texts("args"), r.text("url")
	r.def.env, r.def.headers = r.values("env"), r.values("headers")
	if p.cwd {
		r.def.cwd = r.text("cwd")
	}
	if p.envFile {
		r.def.envFile = r.text("envFile")
	}
	if p.oauth && r.get("oauth").kind == object {
		r.auth = AuthOAuth
	}
	if p.off != "" {
		r.entryOff = r.bool(p.off, false)
	}
	if p.allow != "" {
		if r.tools.Allow = r.texts(p.allow); slices.Contains(r.tools.Allow, "*") {
			r.tools.Allow = nil
		}
	}
	if p.deny != "" {
		r.tools.Deny = append(r.tools.Deny, r.texts(p.deny)...)
	}
	typ := ""
	if p.types != nil {
		typ = r.text("type")
	}
	t, known := p.types[typ]
	switch {
	case typ != "" && !known:
		r.fault("unknown-type", "type")
	case t == Stdio, typ == "" && (r.def.command != "" || r.def.url == ""):
		r.stdio()
	case typ == "" && p.untyped == "":
		r.fault("type-missing", "type")
	case typ == "":
		r.def.probe = p.probe
		r.remote(p.untyped)
	default:
		r.def.probe = p.probe && t == HTTP
		r.remote(t)
	}
}

// usualTypes are the names that the protocol's documents use.
var usualTypes = map[string]Transport{"stdio": Stdio, "http": HTTP, "sse": SSE}

// anyJSON is what is accepted where nobody saw a file being refused: a finding that the agent cannot read its file
// would hide what it reads.
var anyJSON = lenience{comments: true, trailingCommas: true, mark: true, empty: true}

func copilot() dialect {
	d := plain{
		format: JSONC, lenient: anyJSON, container: "mcpServers",
		types: map[string]Transport{"local": Stdio, "stdio": Stdio, "http": HTTP, "sse": SSE},
		cwd:   true, allow: "tools", kept: []string{"timeout"},
	}.dialect()
	d.expand, d.headersOnly = expandBraces, true
	return d
}

// copilotSettings lists nothing: the other file of Copilot only switches entries off.
func copilotSettings(root node) (l listing) {
	offNames(&l, root.get("disabledMcpServers"), "", false)
	return l
}

// droid reads a file with anything but comments beyond strict JSON as one without servers, and writes it anew.
func droid() dialect {
	d := plain{
		format: JSONC, lenient: lenience{comments: true}, container: "mcpServers",
		types: usualTypes, oauth: true, off: "disabled",
	}.dialect()
	d.expand, d.headersOnly = expandBraces, true
	return d
}

func amp() dialect {
	d := plain{format: JSONC, lenient: anyJSON, container: "amp.mcpServers", untyped: HTTP, probe: true, allow: "includeTools"}.dialect()
	d.expand, d.unseen = expandUnknown, true
	return d
}

func auggie() dialect {
	d := plain{format: JSONC, lenient: anyJSON, container: "mcpServers", types: usualTypes}.dialect()
	d.expand = expandUnknown
	return d
}

// cursor keeps whether an entry is on, and what a project may start, in its own database.
func cursor() dialect {
	d := plain{
		format: JSON, lenient: lenience{mark: true, empty: true}, container: "mcpServers",
		types: usualTypes, untyped: HTTP, probe: true, envFile: true, kept: []string{"auth"},
	}.dialect()
	d.expand, d.unseen = expandEditor, true
	return d
}

func vsCode() dialect {
	d := plain{
		format: JSONC, lenient: anyJSON, container: "servers",
		types: usualTypes, untyped: HTTP, probe: true, cwd: true, envFile: true, kept: []string{"dev"},
	}.dialect()
	d.expand, d.unseen = expandEditor, true
	return d
}

func crush() dialect {
	d := plain{
		format: JSON, lenient: lenience{empty: true}, container: "mcp",
		types: usualTypes, off: "disabled", deny: "disabled_tools", kept: []string{"timeout"},
	}.dialect()
	d.expand, d.merges = expandShell, true
	return d
}
