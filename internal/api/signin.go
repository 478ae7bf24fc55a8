package api

import (
	"context"
	"time"

	"mcpx/internal/auth"
)

// LogIn signs in at a server behind a URL.
type LogIn struct {
	Name    string        `json:"-" path:"server"`
	Client  string        `json:"client_id,omitempty"`         // of a client that is registered, or the URL of its document
	Secret  string        `json:"client_secret_ref,omitempty"` // reference of its secret
	Key     string        `json:"client_key_ref,omitempty"`    // reference of its private key
	Machine bool          `json:"machine,omitempty"`           // the client signs in for itself, no person does
	Scopes  []string      `json:"scopes,omitempty"`            // in place of those that the server names
	Port    int           `json:"port,omitempty"`              // of the loopback address that the browser is sent back to
	Within  time.Duration `json:"within,omitempty"`            // nanoseconds; 0: five minutes
}

// Beats keeps the connection alive, so that a caller who left is noticed.
func (LogIn) Beats() bool { return true }

// LogInState says how far a sign-in has come.
type LogInState string

// The states.
const (
	LogInWaiting   LogInState = "waiting"    // for a person in a browser, at URL
	LogInDone      LogInState = "signed_in"  // SignIn says how
	LogInNotNeeded LogInState = "not_needed" // the server asks for no sign-in
)

// LogInStep is one line about a sign-in: where a person says yes, and how it ended.
type LogInStep struct {
	State     LogInState   `json:"state"`
	Server    string       `json:"server"`
	URL       string       `json:"url,omitempty"`
	Until     time.Time    `json:"until,omitzero"`
	SignIn    *auth.SignIn `json:"sign_in,omitempty"`
	Before    string       `json:"issuer_before,omitempty"` // that the server had named at the sign-in before, when it is another one
	Operation string       `json:"operation,omitempty"`
}

// LogIn signs in at a server.
func (c *Client) LogIn(ctx context.Context, in LogIn, emit func(LogInStep) error) error {
	return lines(ctx, c, "server.login", in, emit)
}

// LogOut forgets the sign-in at a server.
func (c *Client) LogOut(ctx context.Context, in ServerRef) (Done, error) {
	return call[Done](ctx, c, "server.logout", in)
}
