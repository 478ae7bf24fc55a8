package catalog

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// longName: clients join server and tool names and cut or refuse at 64 characters; tools use up to about half.
const longName = 30

// Warnings lists what is valid and still worth a word to the person who adds the entry.
func Warnings(s Server) []Warning {
	var all []Warning
	warn := func(code, format string, args ...any) {
		all = append(all, Warning{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	if strings.Contains(s.Name, ".") {
		warn("name-dot", "some clients refuse tool names with a dot in them: %q may become %q there", s.Name, strings.ReplaceAll(s.Name, ".", "_"))
	}
	if len(s.Name) > longName {
		warn("name-long", "clients build tool names of at most 64 characters from server and tool: %d is long for a server", len(s.Name))
	}
	if b := s.Stdio; b != nil {
		for _, name := range slices.Sorted(maps.Keys(b.Env)) {
			if v := b.Env[name].Literal; v != "" && (SecretName(name) || SecretValue(v)) {
				warn("raw-secret", "the value of %s looks like a secret and is stored as it is; `--env-from %s=env:%s` stores only a reference", name, name, name)
			}
		}
		if !slices.Equal(RedactArgs(b.Args), b.Args) {
			warn("secret-argument", "an argument looks like a secret; every user of this machine can see it in the process list")
		}
		if p, ok := Identify(s); ok && b.Cwd == "" && s.Sharing != ShareWorkspace && (NatureOf(p) == Files || relative(p.Rest)) {
			warn("workspace-bound", "it seems to work on the directory it starts in; `--cwd DIR` or `--sharing workspace` says which")
		}
	}
	if b := s.HTTP; b != nil {
		for _, name := range slices.Sorted(maps.Keys(b.Headers)) {
			if v := b.Headers[name].Literal; SecretName(name) || SecretValue(v) {
				if v != "" {
					warn("raw-secret", "the value of the header %s looks like a secret and is stored as it is", name)
				}
			}
		}
		if u, err := url.Parse(b.URL); err == nil && u.Scheme == "http" && !IsLoopback(u.Hostname()) {
			warn("plain-http", "everything sent to %s can be read on the way; use https if the server has it", u.Hostname())
		}
	}
	if a, ok := Advise(s); ok && (s.Sharing == ShareGlobal || s.Sharing == ShareAccount) {
		warn("sharing", "%s", a.Text)
	}
	return all
}

// relative says whether an argument is "." or a relative path, governance.md section 2.3.
func relative(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return a == "." || a == ".." || strings.HasPrefix(a, "./") || strings.HasPrefix(a, "../")
	})
}
