package gate

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Hub says how another hub on this machine is recognised: a rule of mcpx.toml, cutover.NAME. Nothing about one product
// is built in.
type Hub struct {
	Name        string   `json:"name"`
	Ports       []int    `json:"ports"`        // on loopback
	URLPatterns []string `json:"url_patterns"` // whole URLs, * stands for any text
	Commands    []string `json:"commands"`     // base names of its programs
	Units       []string `json:"units"`        // of the service manager
	Files       []string `json:"files"`        // that it has; ~/ is the home directory
}

// loopbacks are the spellings of this machine.
var loopbacks = []string{"localhost", "127.0.0.1", "::1"}

// Leads says why an entry with this command or URL leads to the hub: "" it does not.
func (h Hub) Leads(command, address string) string {
	if command != "" && h.IsProgram(command) {
		return "command " + base(command)
	}
	if address == "" {
		return ""
	}
	if u, err := url.Parse(address); err == nil && slices.Contains(loopbacks, u.Hostname()) {
		if port, err := strconv.Atoi(u.Port()); err == nil && slices.Contains(h.Ports, port) {
			return "port " + u.Port()
		}
	}
	for _, p := range h.URLPatterns {
		if matches(p, address) {
			return "pattern " + p
		}
	}
	return ""
}

// IsProgram says whether a program is one of the hub's, by its base name as a whole: a word elsewhere does not count.
func (h Hub) IsProgram(file string) bool {
	return slices.Contains(h.Commands, base(file))
}

// base is the last part of a path of any system.
func base(file string) string { return path.Base(strings.ReplaceAll(file, `\`, "/")) }

func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	ok, err := regexp.MatchString("^"+strings.Join(parts, ".*")+"$", text)
	return err == nil && ok
}
