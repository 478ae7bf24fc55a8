package clientfile

import "slices"

func openCode() dialect {
	return dialect{
		format:  JSONC,
		lenient: lenience{comments: true, trailingCommas: true, mark: true, empty: true},
		kept:    []string{"timeout"},
		expand:  expandCurly,
		merges:  true,
		list: func(root node) (l listing) {
			mcp := container(root, &l, "mcp")
			for _, f := range members(mcp, "mcp") {
				// mcp.servers.N is the second place for entries; "servers" itself is one only when it looks like one.
				if f.name == "servers" && f.value.get("type").kind != text {
					l.entries = append(l.entries, members(f.value, "mcp", "servers")...)
					continue
				}
				l.entries = append(l.entries, f)
			}
			return l
		},
		read: func(r *reader) {
			r.envField = "environment"
			r.entryOff = !r.bool("enabled", true)
			if len(r.found.at) > 2 { // below mcp.servers the word is disabled
				r.entryOff = r.bool("disabled", false) || r.entryOff
			}
			r.def.env, r.def.headers = r.values("environment"), r.values("headers")
			r.def.cwd, r.def.url = r.text("cwd"), r.text("url")
			if r.get("oauth").kind == object {
				r.auth = AuthOAuth
			}
			command := r.get("command")
			argv, isList := command.texts()
			typ := r.get("type")
			switch {
			case typ.kind == absent && len(r.found.value.fields) > 0 && r.overlay():
				// A later layer may switch an entry or change single fields; the type is in the layer below.
			case command.kind != absent && !isList:
				r.breaks("wrong-type", "command")
			case typ.text == "local" && len(argv) > 0 && argv[0] != "":
				r.def.transport, r.def.command, r.def.args, r.def.url = Stdio, argv[0], argv[1:], ""
			case typ.text == "local":
				r.breaks("missing-field", "command")
			case typ.text == "remote" && r.def.url == "":
				r.breaks("missing-field", "url")
			case typ.text == "remote":
				r.def.probe = true // OpenCode tries Streamable HTTP first, then SSE
				r.remote(HTTP)
			default:
				r.breaks("unknown-type", "type")
			}
		},
	}
}

// overlay says whether an entry only switches another layer's entry: enabled alone is enough.
func (r *reader) overlay() bool {
	return !slices.ContainsFunc(r.found.value.fields, func(f field) bool { return f.name != "enabled" && f.name != "disabled" })
}
