package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"mcpx/internal/session"
)

// ProjectTrust is what the repository of a project can start, and what a person agreed to of it.
type ProjectTrust struct {
	Project string             `json:"project"` // name
	ID      string             `json:"project_id"`
	Path    string             `json:"path"`
	State   session.TrustState `json:"state"`
	Digest  string             `json:"sha256"` // of all of it; a decision is about this
	Entries []TrustEntry       `json:"entries"`
	// Since is when a person agreed, by which approval; zero nobody does.
	Since    time.Time `json:"since,omitzero"`
	Approval string    `json:"approval_id,omitempty"`
	Next     []string  `json:"next"` // commands

	Operation string `json:"operation,omitempty"`
}

// TrustEntry is one thing of a repository that names something to run.
type TrustEntry struct {
	Kind   session.EntryKind `json:"kind"`
	Name   string            `json:"name"`
	File   string            `json:"file"`
	Digest string            `json:"sha256"`
	State  EntryState        `json:"state"`
	// Runs is the program with its arguments, URL where it is instead; Dir is where a program starts, "" the project.
	Runs []string `json:"runs,omitempty"`
	URL  string   `json:"url,omitempty"`
	Dir  string   `json:"cwd,omitempty"`
	// Variables and Headers are names, each with its value in quotes or the reference that it comes from.
	Variables []string `json:"variables,omitempty"`
	Headers   []string `json:"headers,omitempty"`
	Problem   string   `json:"problem,omitempty"` // why it cannot be started
}

// EntryState says whether a person agreed to an entry.
type EntryState string

// The states of an entry.
const (
	EntryTrusted EntryState = "trusted"
	EntryChanged EntryState = "changed" // a person agreed to another one of this name
	EntryNew     EntryState = "new"
)

// TrustProject is the decision of a person about the repository of a project.
type TrustProject struct {
	Project string `json:"-" path:"project"`
	Digest  string `json:"sha256,omitempty"` // of what was shown
	Note    string `json:"note,omitempty"`
	Revoke  bool   `json:"revoke,omitempty"` // trust it no more
}

// Text is what a person agrees to, whole. What could make a terminal show something else is escaped.
func (t ProjectTrust) Text() string {
	var b strings.Builder
	for _, e := range t.Entries {
		fmt.Fprintf(&b, "%s %s, in %s (%s)\n", e.Kind, word(e.Name), word(e.File), e.State)
		if len(e.Runs) > 0 {
			b.WriteString("  runs      ")
			for _, w := range e.Runs {
				b.WriteString(" " + strconv.Quote(w))
			}
			b.WriteString("\n")
			if e.Kind == session.EntryServer {
				where := "the directory of the project"
				if e.Dir != "" {
					where = word(e.Dir)
				}
				b.WriteString("  in         " + where + "\n")
			}
		}
		for _, fact := range [][2]string{{"connects   ", e.URL}, {"problem    ", e.Problem}} {
			if fact[1] != "" {
				b.WriteString("  " + fact[0] + word(fact[1]) + "\n")
			}
		}
		for _, fact := range []struct {
			what  string
			names []string
		}{{"variables  ", e.Variables}, {"headers    ", e.Headers}} {
			for _, name := range fact.names {
				b.WriteString("  " + fact.what + word(name) + "\n")
			}
		}
	}
	return b.String()
}

// word is a name as it is, quoted when it holds what is not seen.
func word(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
