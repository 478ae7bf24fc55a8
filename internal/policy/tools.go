package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Tools are the tools of other servers that a user lets agents call without asking. The zero value allows none.
type Tools struct{ allow []string }

// ParseTools reads the list of a policy file: server/tool, or server/* for every tool of a server.
func ParseTools(allow []string) (Tools, error) {
	for _, one := range allow {
		server, tool, ok := strings.Cut(one, "/")
		if !ok || server == "" || tool == "" || strings.Contains(server, "*") || strings.Contains(tool, "*") && tool != "*" {
			return Tools{}, fmt.Errorf("tools.allow: %q is neither SERVER/TOOL nor SERVER/*", one)
		}
	}
	return Tools{allow: slices.Clone(allow)}, nil
}

// Allow says whether a tool may be called.
func (t Tools) Allow(server, tool string) bool {
	return slices.Contains(t.allow, server+"/"+tool) || slices.Contains(t.allow, server+"/*")
}
