package clientfile

import (
	"slices"
)

// members lists the entries of a container in file order. Of equal names the last one counts, as for the agents.
func members(container node, at ...string) []found {
	last := make(map[string]int, len(container.fields))
	for i, f := range container.fields {
		last[f.name] = i
	}
	all := make([]found, 0, len(last))
	for i, f := range container.fields {
		if last[f.name] == i {
			all = append(all, found{name: f.name, at: append(slices.Clone(at), f.name), value: f.value})
		}
	}
	return all
}

// container finds the object that holds the entries; another type there is a fault of the document.
func container(root node, l *listing, at ...string) node {
	n := root
	for _, name := range at {
		n = n.get(name)
	}
	if n.kind != object && n.kind != absent {
		l.faults = append(l.faults, Problem{Code: "wrong-type", Field: at[len(at)-1]})
		return node{}
	}
	return n
}

// offNames turns a list of names into rules.
func offNames(l *listing, names node, project string, not bool) {
	all, _ := names.texts() // another type switches nothing off, for the agents neither
	for _, name := range all {
		l.off = append(l.off, rule{name: name, project: project, not: not})
	}
}

func claude() dialect {
	return dialect{
		format:  JSON,
		lenient: lenience{mark: true, empty: true},
		kept:    []string{"timeout", "alwaysLoad", "oauth", "tools", "toolPermissions"},
		expand:  expandBraces,
		list: func(root node) (l listing) {
			for _, top := range root.fields { // projects and mcpServers, as they come
				switch top.name {
				case "mcpServers":
					l.entries = append(l.entries, members(container(root, &l, "mcpServers"), "mcpServers")...)
				case "projects":
					for _, p := range top.value.fields {
						servers := container(p.value, &l, "mcpServers")
						for _, f := range members(servers, "projects", p.name, "mcpServers") {
							f.scope, f.project = ScopeLocal, p.name
							l.entries = append(l.entries, f)
						}
						offNames(&l, p.value.get("disabledMcpServers"), p.name, false)
					}
				}
			}
			return l
		},
		read: func(r *reader) {
			r.ignores("cwd", "disabled", "enabled", "httpUrl")
			r.def.env = r.values("env")
			r.def.headers = r.values("headers")
			if r.text("headersHelper") != "" {
				r.auth = AuthHelper
			} else if r.found.value.get("oauth").kind == object {
				r.auth = AuthOAuth
			}
			r.def.command, r.def.args, r.def.url = r.text("command"), r.texts("args"), r.text("url")
			switch typ := r.text("type"); typ {
			case "", "stdio":
				if r.def.command == "" && r.def.url != "" {
					r.fault("type-missing", "type") // without it a URL is not read at all
				} else if r.def.command == "" {
					r.fault("missing-field", "command")
				}
				r.def.transport, r.def.url = Stdio, ""
			case "http", "streamable-http":
				r.remote(HTTP)
			case "sse":
				r.remote(SSE)
			case "ws":
				r.remote(Websocket)
			default:
				r.fault("unknown-type", "type")
			}
		},
	}
}

// remote ends the reading of an entry behind a URL.
func (r *reader) remote(t Transport) {
	if r.def.url == "" {
		r.fault("missing-field", r.urlField)
	}
	r.def.transport, r.def.command, r.def.args = t, "", nil
}

func codex() dialect {
	return dialect{
		format: TOML,
		kept: []string{
			"required", "startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "default_tools_approval_mode", "tools",
			"supports_parallel_tool_calls", "scopes", "oauth", "oauth_resource",
		},
		merges: true,
		list: func(root node) (l listing) {
			l.entries = members(container(root, &l, "mcp_servers"), "mcp_servers")
			return l
		},
		read: func(r *reader) {
			r.headerField = "http_headers"
			r.entryOff = !r.bool("enabled", true)
			r.def.command, r.def.args, r.def.cwd, r.def.url = r.text("command"), r.texts("args"), r.text("cwd"), r.text("url")
			r.def.env, r.def.envPass = r.values("env"), r.codexPassed()
			r.def.headers, r.def.envHeaders = r.values("http_headers"), r.values("env_http_headers")
			r.def.bearerVar = r.text("bearer_token_env_var")
			r.tools.Allow = r.texts("enabled_tools")
			r.tools.Deny = append(r.tools.Deny, r.texts("disabled_tools")...)
			if r.get("http_headers_helper").kind != absent {
				r.auth = AuthHelper
			} else if r.found.value.get("oauth").kind == object {
				r.auth = AuthOAuth
			}
			r.def.transport = Stdio
			switch {
			case r.get("bearer_token").kind != absent:
				r.breaks("inline-bearer-token", "bearer_token")
			case r.def.command != "" && r.def.url != "":
				r.breaks("ambiguous-backend", "url")
			case r.def.command == "" && r.def.url == "":
				r.breaks("missing-field", "command")
			case r.def.url != "":
				r.remote(HTTP)
			case len(r.def.headers) > 0:
				r.breaks("wrong-backend", "http_headers")
			}
		},
	}
}

// codexPassed reads env_vars: names, or tables with a name.
func (r *reader) codexPassed() []string {
	n := r.get("env_vars")
	if n.kind == absent {
		return nil
	}
	var names []string
	for _, item := range n.items {
		if item.kind == object {
			item = item.get("name")
		}
		if item.kind == text {
			names = append(names, item.text)
		}
	}
	if n.kind != list || len(names) != len(n.items) {
		r.wrong("env_vars")
	}
	return names
}

func cline() dialect {
	return dialect{
		format: JSON,
		kept:   []string{"autoApprove", "alwaysAllow", "timeout"},
		list: func(root node) (l listing) {
			l.entries = members(container(root, &l, "mcpServers"), "mcpServers")
			return l
		},
		read: func(r *reader) {
			r.entryOff = r.bool("disabled", false)
			if nested := r.get("transport"); nested.kind == object {
				r.nested(nested)
				return
			}
			r.clineFields()
		},
	}
}

// nested reads the newer form of Cline, where the fields lie below transport.
func (r *reader) nested(transport node) {
	inner := reader{dialect: r.dialect, agent: r.agent, hub: r.hub, found: r.found, used: map[string]bool{}, ignored: r.ignored}
	inner.urlField, inner.headerField, inner.envField = "transport.url", "transport.headers", "transport.env"
	inner.found.value = transport
	inner.clineFields()
	r.def, r.faults, r.breaking = inner.def, append(r.faults, inner.faults...), append(r.breaking, inner.breaking...)
	r.urlField, r.headerField, r.envField = inner.urlField, inner.headerField, inner.envField
	for _, f := range transport.fields {
		if !inner.used[f.name] {
			r.deeper = append(r.deeper, "transport."+f.name)
		}
	}
}

func (r *reader) clineFields() {
	r.def.command, r.def.args, r.def.cwd, r.def.url = r.text("command"), r.texts("args"), r.text("cwd"), r.text("url")
	r.def.env, r.def.headers = r.values("env"), r.values("headers")
	switch typ := r.text("type"); typ {
	case "stdio":
		r.stdio()
	case "streamableHttp":
		r.remote(HTTP)
	case "sse":
		r.remote(SSE)
	case "":
		if r.def.url != "" && r.def.command == "" {
			r.remote(SSE)
			return
		}
		r.stdio()
	case "http", "streamable-http": // Cline refuses its whole file for these
		r.breaks("unknown-type", "type")
	default:
		r.fault("unknown-type", "type")
	}
}

// stdio ends the reading of an entry with a command.
func (r *reader) stdio() {
	if r.def.command == "" {
		r.fault("missing-field", "command")
	}
	r.def.transport, r.def.url = Stdio, ""
}
