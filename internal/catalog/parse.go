package catalog

import (
	"strings"

	"mcpx/internal/fault"
)

// ParseSharing reads a sharing mode as a person writes it.
func ParseSharing(s string) (Sharing, error) {
	return parse("sharing", s, ShareSession, ShareAgent, ShareWorkspace, ShareAccount, ShareGlobal, ShareNone)
}

// CwdPolicies are the words for the directory of a program.
var CwdPolicies = []string{string(CwdNone), string(CwdHome), string(CwdFixed), string(CwdWorkspace)}

// ParseProtocol reads a protocol override as a person writes it.
func ParseProtocol(s string) (Protocol, error) {
	return parse("protocol", s, ProtocolAuto, ProtocolLegacy, ProtocolModern)
}

// ParseTransport reads the transport of an HTTP backend as a person writes it.
func ParseTransport(s string) (Transport, error) {
	return parse("transport", s, TransportAuto, TransportStreamable, TransportSSE)
}

// parse finds s among the values, and names the nearest one when it is none of them.
func parse[T ~string](field, s string, values ...T) (T, error) {
	words := make([]string, len(values))
	for i, v := range values {
		if string(v) == s {
			return v, nil
		}
		words[i] = string(v)
	}
	return "", unknownValue(field, s, words)
}

func unknownValue(field, s string, words []string) *fault.Error {
	e := invalid(field, "%q is not one of %s", s, strings.Join(words, ", "))
	if n := Nearest(strings.ToLower(s), words); n != "" {
		return e.Hinting("did you mean %q?", n)
	}
	return e.Hinting("use %s", words[0])
}
