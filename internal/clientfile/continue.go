package clientfile

import (
	"os"
	"path/filepath"
	"strconv"
)

// continueDev reads entries from a list. Their place is their number in it, as names may repeat.
func continueDev() dialect {
	return dialect{
		format: YAML,
		kept:   []string{"connectionTimeout", "faviconUrl", "serverName"},
		expand: expandSecrets,
		list: func(root node) (l listing) {
			servers := root.get("mcpServers")
			if servers.kind != list && servers.kind != absent {
				l.faults = append(l.faults, Problem{Code: "wrong-type", Field: "mcpServers"})
			}
			for i, item := range servers.items {
				number := strconv.Itoa(i)
				f := found{name: item.get("name").text, at: []string{"mcpServers", number}, value: item}
				if f.name == "" { // it is broken, and a person has to find it
					f.name = "mcpServers[" + number + "]"
				}
				l.entries = append(l.entries, f)
			}
			return l
		},
		read: func(r *reader) {
			if r.text("name") == "" {
				r.fault("missing-field", "name") // a block of the hub, which is named by uses, is not in the file
			}
			r.def.command, r.def.args, r.def.cwd, r.def.url = r.text("command"), r.texts("args"), r.text("cwd"), r.text("url")
			r.def.env, r.def.apiKey = r.values("env"), r.text("apiKey")
			r.requestOptions()
			switch typ := r.text("type"); {
			case typ == "stdio", typ == "" && r.def.command != "":
				r.stdio()
			case typ == "streamable-http":
				r.remote(HTTP)
			case typ == "sse":
				r.remote(SSE)
			case typ == "" && r.def.url != "":
				r.def.probe = true
				r.remote(HTTP)
			case typ == "":
				r.fault("missing-field", "command")
			default:
				r.fault("unknown-type", "type")
			}
		},
	}
}

// requestOptions holds the headers, and options of the connection that do not concern us.
func (r *reader) requestOptions() {
	options := r.get("requestOptions")
	if options.kind == absent {
		return
	}
	r.headerField = "requestOptions.headers"
	if options.kind != object {
		r.wrong("requestOptions")
		return
	}
	inner := reader{dialect: r.dialect, found: found{value: options}, used: map[string]bool{}}
	r.def.headers = inner.values("headers")
	for _, p := range inner.faults {
		r.fault(p.Code, "requestOptions."+p.Field)
	}
	for _, f := range options.fields {
		if !inner.used[f.name] {
			r.deeper = append(r.deeper, "requestOptions."+f.name)
		}
	}
}

// maxBlocks bounds the files of one directory: each holds a server that a person added by hand.
const maxBlocks = 100

// blocksOf is where Continue keeps the files of one directory of a project.
func blocksOf(dir string) string { return filepath.Join(dir, ".continue", "mcpServers") }

func (s System) continueFiles() []Location {
	all := []Location{at(Continue, ScopeUser, byDefault, s.Home, ".continue", "config.yaml")}
	for _, d := range s.upwards() {
		d = blocksOf(d)
		blocks, err := os.ReadDir(d)
		if err != nil {
			continue // most projects have none
		}
		for _, b := range blocks[:min(len(blocks), maxBlocks)] {
			if filepath.Ext(b.Name()) == ".yaml" {
				all = append(all, at(Continue, ScopeProject, byDefault, d, b.Name()))
			}
		}
	}
	return all
}
