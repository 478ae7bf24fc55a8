package converge

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"mcpx/internal/catalog"
)

// Class is what an entry means for the catalog, governance.md section 4.
type Class string

// The classes.
const (
	Compliant    Class = "compliant"
	Dormant      Class = "dormant"
	Bypass       Class = "bypass"
	Unknown      Class = "unknown"
	Ambiguous    Class = "ambiguous"
	NameConflict Class = "name-conflict"
	Broken       Class = "broken"
	Unsupported  Class = "unsupported"
	Unsafe       Class = "unsafe"
	Ineffective  Class = "ineffective"
)

// Weight says how much a finding asks for a person.
type Weight string

// The weights, the lightest first.
const (
	WeightOK      Weight = "ok"
	WeightNotice  Weight = "notice"
	WeightWarning Weight = "warning"
	WeightBlocker Weight = "blocker"
)

// Finding is one entry with its class.
type Finding struct {
	Entry

	Class   Class         `json:"class"`
	Weight  Weight        `json:"weight"`
	Reasons []string      `json:"reasons"` // codes, see docs/findings.md
	Match   catalog.Match `json:"match"`
}

// Reasons that the classification finds by itself; those of a match are in package catalog, and those of an entry in
// its Problems.
const (
	reasonDisabled        = "disabled-by-agent"
	reasonLayer           = "layer-only"
	reasonShadowed        = "shadowed"
	reasonLayered         = "layered"
	reasonFileBroken      = "file-broken"
	reasonDirect          = "direct"
	reasonPlainHTTP       = "plain-http"
	reasonURLCredentials  = "url-credentials"
	reasonTLSOff          = "tls-checks-off"
	reasonShell           = "shell-string"
	reasonFileWritable    = "file-world-writable"
	reasonProgramWritable = "program-world-writable"
	reasonWebsocket       = "websocket"
	reasonOAuth           = "client-oauth"
	reasonIneffective     = "ineffective-field" // also a problem of the reader
)

// Classify judges every entry against the servers of the catalog, and by what a person has said about single ones: links
// leads from the digest of an entry to the id of its server. The findings are in the order of the entries.
func Classify(entries []Entry, servers []catalog.Server, links map[string]string) []Finding {
	index := catalog.NewIndex(servers)
	out := make([]Finding, 0, len(entries))
	for _, e := range entries {
		out = append(out, classify(e, index, links[e.Digest]))
	}
	return out
}

func classify(e Entry, index *catalog.Index, link string) Finding {
	f := Finding{Entry: e, Match: match(e, index, link)}
	dangers := unsafe(e)
	f.Class, f.Weight, f.Reasons = judge(e, f.Match, dangers)
	if f.Class == Bypass {
		if s, ok := index.Server(f.Match.Server); ok && s.Sharing == catalog.ShareNone && f.Match.Confidence == catalog.MatchHigh {
			f.Class, f.Weight, f.Reasons = Compliant, WeightOK, []string{catalog.SharedWithNobody}
		}
	}
	f.Reasons = append(f.Reasons, dangers...)
	if f.Match.Confidence == catalog.MatchExact {
		if s, ok := index.Server(f.Match.Server); ok && len(catalog.NotRoutable(s)) > 0 {
			f.Reasons = append(f.Reasons, catalog.ReasonServerNotRouted)
			f.Weight = heavier(f.Weight, WeightWarning)
		}
	}
	if e.Facts.Shadowed {
		f.Reasons = append(f.Reasons, reasonShadowed)
	}
	if e.Facts.Layered {
		f.Reasons = append(f.Reasons, reasonLayered)
	}
	if e.Facts.FileBroken {
		f.Reasons = append(f.Reasons, reasonFileBroken)
		f.Weight = heavier(f.Weight, WeightWarning)
	}
	for _, p := range e.Problems {
		f.Reasons = append(f.Reasons, p.Code)
	}
	f.Reasons = unique(f.Reasons)
	return f
}

// match compares by what the entry is, or by the name to which it is routed.
func match(e Entry, index *catalog.Index, link string) catalog.Match {
	if e.Routed != nil && e.Routed.State != RoutedForeign {
		if e.Routed.Server == HubName {
			return byName(HubName)
		}
		return index.Routed(e.Routed.Server)
	}
	s := catalog.Sighting{Name: e.Name, Cwd: e.Cwd, Variables: e.Variables, Headers: e.Headers, Hidden: e.Facts.Hidden}
	if e.Package != nil {
		s.Package = *e.Package
	}
	if link != "" && e.Digest != "" {
		if m, ok := index.Linked(s, link); ok {
			return m
		}
	}
	return index.Match(s)
}

// byName is the match of an entry that says by name what it is.
func byName(server string) catalog.Match {
	reasons := []string{catalog.ReasonRouted}
	return catalog.Match{
		Confidence: catalog.MatchExact, Server: server, Reasons: reasons,
		Candidates: []catalog.Likeness{{Server: server, Confidence: catalog.MatchExact, Reasons: reasons}},
	}
}

// judge picks the class. The order is that of what a person has to know first: an entry that cannot be read says
// nothing else, one that is off does nothing, one that is routed runs nothing of its own.
func judge(e Entry, m catalog.Match, dangers []string) (Class, Weight, []string) {
	switch {
	case e.Parse == "broken":
		return Broken, WeightWarning, nil // the problems of the entry say why
	case !e.Enabled:
		return Dormant, WeightNotice, append([]string{reasonDisabled}, routedReason(e)...)
	case e.Transport == "":
		return Dormant, WeightNotice, []string{reasonLayer}
	case len(dangers) > 0:
		return Unsafe, WeightBlocker, routedReason(e)
	case e.Routed != nil:
		return routed(e.Routed.State)
	case e.Transport == "ws":
		return Unsupported, WeightWarning, []string{reasonWebsocket}
	case e.Auth == "oauth":
		return Unsupported, WeightWarning, []string{reasonOAuth}
	case m.Has(catalog.ReasonNameConflict):
		return NameConflict, WeightWarning, []string{catalog.ReasonNameConflict}
	case m.Has(catalog.ReasonAliasConflict):
		return NameConflict, WeightWarning, []string{catalog.ReasonAliasConflict}
	case m.Confidence == catalog.MatchAmbiguous:
		return Ambiguous, WeightWarning, m.Reasons
	case m.Confidence == catalog.MatchHigh || m.Confidence == catalog.MatchMedium:
		return Bypass, WeightWarning, []string{reasonDirect}
	case slices.ContainsFunc(e.Problems, func(p Problem) bool { return p.Code == reasonIneffective }):
		return Ineffective, WeightWarning, m.Reasons
	}
	return Unknown, WeightWarning, m.Reasons
}

func routedReason(e Entry) []string {
	if e.Routed == nil {
		return nil
	}
	return []string{string(e.Routed.State)}
}

// routed judges an entry that goes through some mcpx and is on.
func routed(state RoutedState) (Class, Weight, []string) {
	reasons := []string{string(state)}
	switch state {
	case RoutedHere, RoutedAlias:
		return Compliant, WeightOK, reasons
	case RoutedSpelling:
		return Compliant, WeightNotice, reasons
	case RoutedStalePort: // the person believes that it is routed, and nothing of ours answers there
		return Ineffective, WeightWarning, reasons
	case RoutedUnknown: // the agent gets an error at every start
		return Unknown, WeightBlocker, reasons
	case RoutedForeign:
		return Unknown, WeightWarning, reasons
	case RoutedDisabled:
	}
	return Dormant, WeightNotice, reasons
}

var (
	shells = []string{"sh", "bash", "zsh", "dash", "ksh", "fish", "ash"}
	// tlsOff are variables that exist to turn TLS checks off, and flags of the same meaning. Values are not known
	// here: who sets such a variable to "on" is told so once too often.
	tlsOffVariables = []string{"NODE_TLS_REJECT_UNAUTHORIZED", "PYTHONHTTPSVERIFY", "GIT_SSL_NO_VERIFY"}
	tlsOffFlags     = []string{"--insecure", "--no-check-certificate", "--no-verify-ssl", "--ignore-certificate-errors", "--ignore-https-errors"}
)

// unsafe lists what makes an entry dangerous, whatever it runs.
func unsafe(e Entry) []string {
	var reasons []string
	add := func(is bool, reason string) {
		if is {
			reasons = append(reasons, reason)
		}
	}
	add(plainHTTP(e.URL) || e.Package != nil && e.Package.Kind == catalog.PackageURL && plainHTTP(e.Package.Name), reasonPlainHTTP)
	add(e.Facts.URLCredentials, reasonURLCredentials)
	add(slices.ContainsFunc(e.Variables, func(name string) bool { return slices.Contains(tlsOffVariables, name) }) ||
		slices.ContainsFunc(e.Args, func(a string) bool {
			flag, _, _ := strings.Cut(a, "=")
			return slices.Contains(tlsOffFlags, flag)
		}), reasonTLSOff)
	add(shellString(e), reasonShell)
	add(e.Facts.FileWritable, reasonFileWritable)
	add(e.Facts.ProgramWritable, reasonProgramWritable)
	return reasons
}

// plainHTTP says whether the text travels unencrypted to another machine. A host that is a reference is not judged.
func plainHTTP(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || catalog.HasTemplate(u.Host) {
		return false
	}
	scheme := strings.ToLower(u.Scheme)
	return (scheme == "http" || scheme == "ws") && !catalog.IsLoopback(strings.ToLower(u.Hostname()))
}

// shellString says whether a shell reads the command: what it runs cannot be told without running it.
func shellString(e Entry) bool {
	if !slices.Contains(shells, path.Base(e.Command)) {
		return false
	}
	return slices.ContainsFunc(e.Args, func(a string) bool { // -c, -lc, -exc
		return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c")
	})
}

func heavier(a, b Weight) Weight {
	order := []Weight{WeightOK, WeightNotice, WeightWarning, WeightBlocker}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

func unique(codes []string) []string {
	out := make([]string, 0, len(codes))
	for _, code := range codes {
		if !slices.Contains(out, code) {
			out = append(out, code)
		}
	}
	return out
}
