package catalog

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// Readiness says whether a credential would give a value now. It is found by the same way as the value.
type Readiness string

// The readiness states, governance.md section 8.
const (
	ReadinessUnchecked   Readiness = "unchecked"   // nobody has looked
	ReadinessReady       Readiness = "ready"       // there is a value
	ReadinessMissing     Readiness = "missing"     // what the reference names does not exist or is empty
	ReadinessLocked      Readiness = "locked"      // the keyring is locked, and a check asks nobody
	ReadinessDenied      Readiness = "denied"      // it is there and may not be read, or everybody may read it
	ReadinessUnavailable Readiness = "unavailable" // what keeps the value does not answer, or cannot be read
	ReadinessExpired     Readiness = "expired"     // it ended at the time that a person gave
)

// Credential is a name for a value that is kept elsewhere. It never holds the value.
type Credential struct {
	Name      string    `json:"name"`
	Ref       string    `json:"ref"`
	Account   string    `json:"account,omitempty"` // whose value it is, in words for people
	Expires   time.Time `json:"expires,omitzero"`  // zero: not known
	Commands  Grant     `json:"commands,omitzero"` // which commands of agents may be given it
	Readiness Readiness `json:"readiness"`
	CheckedAt time.Time `json:"checked_at,omitzero"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"` // when the reference or the value was last set
}

// Grant says which commands of agents may be given a value. The zero Grant gives it to none.
type Grant struct {
	Projects []string `json:"projects,omitempty"` // ids
	Programs []string `json:"programs,omitempty"` // names or absolute paths; none: each one that a person or a rule allows
	Variable string   `json:"variable,omitempty"` // in which the value comes
}

// IsZero tells that no command may be given the value.
func (g Grant) IsZero() bool { return len(g.Projects) == 0 }

// Variable is the variable in which a command gets the value of a credential when nobody has said which: GITHUB_TOKEN of
// github-token.
func Variable(credential string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(credential))
}

// credentialKind is the kind of references that name a credential.
const credentialKind = "cred:"

// CredentialRef is the reference by which a binding names a credential.
func CredentialRef(name string) string { return credentialKind + name }

// CredentialNamed is the name of the credential that a reference names; false for the other kinds.
func CredentialNamed(ref string) (string, bool) { return strings.CutPrefix(ref, credentialKind) }

// maxCredentialName bounds the name of a credential: that of a server, a dash, and that of a variable.
const maxCredentialName = 2*maxName + 1

// ValidCredentialName says whether text can be the name of a credential: letters, digits, and - . _ after the first one.
func ValidCredentialName(name string) error {
	e := fault.New(fault.Invalid, "credential-name").Retrying(fault.AfterFix)
	switch {
	case name == "":
		return e.Saying("a credential needs a name").Hinting("for example github-token")
	case len(name) > maxCredentialName:
		return e.Saying("the name of the credential has %d characters, at most %d are allowed", len(name), maxCredentialName).Hinting("choose a shorter one")
	}
	for i := range len(name) {
		if !isNameByte(name[i]) || i == 0 && strings.IndexByte("-._", name[0]) >= 0 {
			// The text is not repeated: somebody may have given the secret in place of the name.
			return e.Saying("the name of a credential has letters, digits, and - . _ after the first of them").Hinting("for example github-token")
		}
	}
	return nil
}

// Credentials lists the names of the credentials that an entry takes values from, sorted, each once.
func (s Server) Credentials() []string {
	var names []string
	for _, b := range s.bindings() {
		refs, _ := b.Refs() // a binding that cannot be read names nothing
		for _, ref := range refs {
			if name, ok := CredentialNamed(ref); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Uses says whether an entry takes a value from the credential, by its name or by its reference.
func (s Server) Uses(c Credential) bool {
	for _, b := range s.bindings() {
		refs, _ := b.Refs()
		if slices.Contains(refs, CredentialRef(c.Name)) || slices.Contains(refs, c.Ref) {
			return true
		}
	}
	return false
}

// bindings are those of the variables and the headers.
func (s Server) bindings() []Binding {
	return append(slices.Collect(maps.Values(s.variables())), slices.Collect(maps.Values(s.headers()))...)
}

// CredentialReader reads the credentials. It is part of the transaction port that package store joins.
type CredentialReader interface {
	// Credentials is one page in order of name. A page that is shorter than the limit is the last one.
	Credentials(ctx context.Context, p ListCredentials) ([]Credential, error)
	// CredentialByName finds one. NotFound credential-unknown.
	CredentialByName(ctx context.Context, p CredentialByName) (Credential, error)
}

// CredentialStore reads and changes them.
type CredentialStore interface {
	CredentialReader
	// PutCredential writes a credential whole, new or in place of the one with the same name.
	PutCredential(ctx context.Context, p PutCredential) error
	// DeleteCredential removes one. NotFound credential-unknown.
	DeleteCredential(ctx context.Context, p DeleteCredential) error
}

// MaxCredentialPage bounds one page of Credentials.
const MaxCredentialPage = 200

// ListCredentials asks for the credentials after the name After.
type ListCredentials struct {
	After string
	Limit int // 0 and everything above MaxCredentialPage is MaxCredentialPage
}

// PageLimit is the number of credentials that the page may hold.
func (p ListCredentials) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxCredentialPage {
		return MaxCredentialPage
	}
	return p.Limit
}

// CredentialByName names one credential.
type CredentialByName struct{ Name string }

// PutCredential carries the credential to write.
type PutCredential struct{ Credential Credential }

// DeleteCredential names the credential to remove.
type DeleteCredential struct{ Name string }

// AllCredentials reads every credential, page by page, in order of name.
func AllCredentials(ctx context.Context, r CredentialReader) ([]Credential, error) {
	return page.All(MaxCredentialPage, func(last *Credential) ([]Credential, error) {
		var list ListCredentials
		if last != nil {
			list.After = last.Name
		}
		return r.Credentials(ctx, list)
	})
}

// CredentialUnknown is the error of a name that no credential has.
func CredentialUnknown(name string) *fault.Error {
	return fault.New(fault.NotFound, "credential-unknown").Saying("there is no credential %q", name).
		Hinting("`mcpx credential list` shows all of them; make one with `mcpx credential add %s --ref env:NAME` or `mcpx credential set %s`", name, name)
}
