package clientfile

func gemini() dialect {
	return dialect{
		format:  JSONC,
		lenient: lenience{comments: true},
		kept:    []string{"timeout", "trust", "description", "oauth", "authProviderType", "extension", "targetAudience", "targetServiceAccount"},
		expand:  expandDollar,
		list: func(root node) (l listing) {
			l.entries = members(container(root, &l, "mcpServers"), "mcpServers")
			offNames(&l, root.get("mcp").get("excluded"), "", false)
			offNames(&l, root.get("mcp").get("allowed"), "", true)
			return l
		},
		read: func(r *reader) {
			r.geminiFields()
			older, newer, typ := r.text("httpUrl"), r.text("url"), r.text("type")
			switch {
			case older != "": // wins if both are there
				r.urlField, r.def.url = "httpUrl", older
				r.remote(HTTP)
			case newer != "" && typ == "sse":
				r.def.url = newer
				r.remote(SSE)
			case newer != "":
				r.def.url, r.def.probe = newer, typ == ""
				r.remote(HTTP)
			case r.def.command != "":
				r.def.transport = Stdio
			default:
				r.fault("missing-field", "command")
			}
		},
	}
}

// geminiFields reads what the agents of this family have in common.
func (r *reader) geminiFields() {
	r.ignores("disabled")
	r.def.command, r.def.args, r.def.cwd = r.text("command"), r.texts("args"), r.text("cwd")
	r.def.env, r.def.headers = r.values("env"), r.values("headers")
	r.tools.Allow = r.texts("includeTools")
	r.tools.Deny = append(r.tools.Deny, r.texts("excludeTools")...)
	if r.found.value.get("oauth").kind == object {
		r.auth = AuthOAuth
	}
}

// qwen is a fork of Gemini CLI that never looks at type: the name of the field with the URL decides.
func qwen() dialect {
	d := gemini()
	d.lenient.mark = true
	d.kept = append(d.kept, "discoveryTimeoutMs")
	d.expand = expandPlain
	d.read = func(r *reader) {
		r.geminiFields()
		streamed, events, typ := r.text("httpUrl"), r.text("url"), r.text("type")
		switch {
		case streamed != "": // wins if both are there
			r.urlField, r.def.url = "httpUrl", streamed
			r.remote(HTTP)
		case events != "":
			r.def.url = events
			r.remote(SSE)
		case r.def.command != "":
			r.def.transport = Stdio
		default:
			r.fault("missing-field", "command")
		}
		if typ != "" && typ != string(r.def.transport) {
			r.ignores("type")
		}
	}
	return d
}
