package clientfile

import (
	"path/filepath"
	"strings"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// maxMoved bounds the variables that a caller may hand on: agents know some dozens.
const maxMoved = 64

// SystemOf is the system that a look means. Variables that moved files for the caller win over those of getenv.
func SystemOf(look converge.Look, getenv func(string) string) (System, error) {
	no := func(format string, args ...any) (System, error) {
		return System{}, fault.New(fault.Invalid, "request-invalid").Saying(format, args...)
	}
	home := look.Home
	if home == "" {
		home = getenv("HOME")
	}
	if !filepath.IsAbs(home) {
		return no("the home directory %q is no absolute path", home)
	}
	if look.Project != "" && !filepath.IsAbs(look.Project) {
		return no("the project %q is no absolute path", look.Project)
	}
	if len(look.Moved) > maxMoved {
		return no("%d variables that move files, want at most %d", len(look.Moved), maxMoved)
	}
	moved := map[string]string{}
	for _, pair := range look.Moved {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !filepath.IsAbs(value) {
			return no("a variable that moves files has no absolute path")
		}
		moved[name] = value
	}
	return System{Home: home, Project: look.Project, Lookup: func(name string) (string, bool) {
		if v, ok := moved[name]; ok {
			return v, true
		}
		v := getenv(name)
		return v, v != ""
	}}, nil
}
