package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"mcpx/internal/catalog"
)

// SecretText is a value on its way to the store. Only its JSON has it: verbs and loggers show that there is one.
type SecretText string

// hiddenText is all that a SecretText says about itself.
const hiddenText = "secret(redacted)"

// String hides the value.
func (SecretText) String() string { return hiddenText }

// GoString hides the value.
func (SecretText) GoString() string { return hiddenText }

// Format hides the value from every verb.
func (SecretText) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hiddenText) } // fmt.State has no error to give

// LogValue hides the value.
func (SecretText) LogValue() slog.Value { return slog.StringValue(hiddenText) }

// SetMode says what must be there before a credential is set.
type SetMode string

// The modes; "" is SetAny.
const (
	SetAny      SetMode = "any"      // new, or in place of the one with that name
	SetNew      SetMode = "new"      // a credential of that name is a conflict
	SetExisting SetMode = "existing" // no credential of that name is not-found
)

// SetCredential gives a credential a reference, or a value in the encrypted store: one of the two.
type SetCredential struct {
	Name    string     `json:"name"`
	Ref     string     `json:"ref,omitempty"`
	Value   SecretText `json:"value,omitempty"`
	Mode    SetMode    `json:"mode,omitempty"`
	Account *string    `json:"account,omitempty"` // absent: as it was
	Expires *time.Time `json:"expires,omitempty"` // absent: as it was with the same reference, else not known; the zero time takes it away
}

// CredentialRef names one credential.
type CredentialRef struct {
	Name string `json:"-" path:"credential"`
}

// CheckCredentials asks for a look at one credential, or at all. All leaves out those that run a program, which could ask
// a person.
type CheckCredentials struct {
	Name string `json:"name,omitempty"`
}

// CredentialQuery selects credentials.
type CredentialQuery struct{}

// Credential is a name for a value, and who takes it. It never has the value.
type Credential struct {
	catalog.Credential
	Servers  []string `json:"servers"`        // names of the servers that take it
	Projects []string `json:"projects"`       // names of the projects whose commands may be given it
	Active   bool     `json:"active"`         // one of them runs, or an agent has it
	Text     string   `json:"text,omitempty"` // why it is not ready, as far as that was just looked at
	Hint     string   `json:"hint,omitempty"`
	// Rotated says that there was another value or reference before.
	Rotated   bool   `json:"rotated,omitempty"`
	Operation string `json:"operation,omitempty"`
}

// CredentialPage is all credentials by name, and the encrypted store.
type CredentialPage struct {
	Credentials []Credential    `json:"credentials"`
	Store       CredentialStore `json:"store"`
}

// CredentialStore describes the encrypted store.
type CredentialStore struct {
	Key  string `json:"key"`            // where its key is: none (nothing was stored yet), file or keyring; "" unknown
	Text string `json:"text,omitempty"` // why that is not known
}

// BindCredentials lets variables or headers of a server take their values from credentials: by variable or header the name
// of a credential, or a text with {NAME} in it.
type BindCredentials struct {
	Server    string            `json:"-" path:"server"`
	Variables map[string]string `json:"variables,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
}

// GrantCredential says which commands of agents may be given a credential, in place of what was said before. Without a
// project none may.
type GrantCredential struct {
	Name     string   `json:"-" path:"credential"`
	Projects []string `json:"projects"`           // names, ids or paths
	Programs []string `json:"programs,omitempty"` // names or absolute paths; none: each one that a person or a rule allows
	Variable string   `json:"variable,omitempty"` // in which the value comes; without it made from the name
}

// CredentialRemoved says that a credential is gone.
type CredentialRemoved struct {
	Name      string `json:"name"`
	Operation string `json:"operation,omitempty"`
}

// Credentials lists the credentials.
func (c *Client) Credentials(ctx context.Context, in CredentialQuery) (CredentialPage, error) {
	return call[CredentialPage](ctx, c, "credential.list", in)
}

// Credential gives one credential.
func (c *Client) Credential(ctx context.Context, in CredentialRef) (Credential, error) {
	return call[Credential](ctx, c, "credential.show", in)
}

// SetCredential sets a credential.
func (c *Client) SetCredential(ctx context.Context, in SetCredential) (Credential, error) {
	return call[Credential](ctx, c, "credential.set", in)
}

// CheckCredentials looks whether credentials are ready.
func (c *Client) CheckCredentials(ctx context.Context, in CheckCredentials) (CredentialPage, error) {
	return call[CredentialPage](ctx, c, "credential.check", in)
}

// BindCredentials binds variables and headers of a server.
func (c *Client) BindCredentials(ctx context.Context, in BindCredentials) (Server, error) {
	return call[Server](ctx, c, "credential.bind", in)
}

// GrantCredential says which commands of agents may be given a credential.
func (c *Client) GrantCredential(ctx context.Context, in GrantCredential) (Credential, error) {
	return call[Credential](ctx, c, "credential.grant", in)
}

// RemoveCredential removes a credential.
func (c *Client) RemoveCredential(ctx context.Context, in CredentialRef) (CredentialRemoved, error) {
	return call[CredentialRemoved](ctx, c, "credential.remove", in)
}
