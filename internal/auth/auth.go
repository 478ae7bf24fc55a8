// Package auth decides what the token of an agent looks like, what it allows, when it counts, and what its record says.
// It refuses to know where values are kept and how they travel: times, random bytes and records come in as values.
//
// Invariant: a record holds the digest of a value, never the value, and no scope lets anybody approve.
package auth

import (
	"slices"
	"strings"

	"mcpx/internal/fault"
)

// Scope is one thing that the holder of a token may do.
type Scope string

// The scopes. There is none that approves, applies or rolls back.
const (
	HubRead    Scope = "hub:read"    // the tools of mcp_hub
	HubPropose Scope = "hub:propose" // tools of mcp_hub that make a plan, which a person decides
	ServersUse Scope = "servers:use" // every server; "servers:use:NAME" one of them
)

// Usual are the scopes of a token for which nobody asked for others.
func Usual() []Scope { return []Scope{HubRead, ServersUse} }

// maxScopes bounds the scopes of one token: one for each server that an agent has, which are dozens.
const maxScopes = 200

// ParseScopes reads scopes as a person writes them. None are the usual ones.
func ParseScopes(texts []string) ([]Scope, error) {
	if len(texts) == 0 {
		return Usual(), nil
	}
	if len(texts) > maxScopes {
		return nil, fault.New(fault.Invalid, "scope-invalid").Saying("%d scopes are too many, at most %d are allowed", len(texts), maxScopes)
	}
	var out []Scope
	for _, text := range texts {
		s := Scope(text)
		name, single := strings.CutPrefix(text, string(ServersUse)+":")
		switch {
		case s == HubRead, s == HubPropose, s == ServersUse:
		case single && name != "" && len(name) <= 64 && !strings.ContainsAny(name, ": \t\r\n/"):
		default:
			return nil, fault.New(fault.Invalid, "scope-invalid").Saying("%q is no scope", text).
				Hinting("the scopes are hub:read, hub:propose, servers:use and servers:use:NAME; none of them approves")
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Allows says whether the scopes have what is needed.
func Allows(have []Scope, need Scope) bool {
	if slices.Contains(have, need) {
		return true
	}
	return strings.HasPrefix(string(need), string(ServersUse)+":") && slices.Contains(have, ServersUse)
}

// Named are the servers that the scopes allow one by one.
func Named(scopes []Scope) []string {
	var names []string
	for _, s := range scopes {
		if name, ok := strings.CutPrefix(string(s), string(ServersUse)+":"); ok {
			names = append(names, name)
		}
	}
	return names
}
