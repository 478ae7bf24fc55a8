package api

import (
	"time"

	"mcpx/internal/auth"
)

// Remote says whether clients on other machines can reach this one, and how.
type Remote struct {
	On          bool   `json:"on"`
	URL         string `json:"url,omitempty"`       // the address of this machine for such clients
	Connector   string `json:"connector,omitempty"` // what a person gives to a client
	Address     string `json:"address,omitempty"`   // of the listener
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	Issuer      string `json:"issuer,omitempty"`  // an authorization server that gives the tokens in place of mcpx
	Subject     string `json:"subject,omitempty"` // who the person is there
	Listening   bool   `json:"listening"`
	Problem     string `json:"problem,omitempty"` // why it does not listen
	Requests    int    `json:"requests"`          // clients that wait for a person
	Clients     int    `json:"clients"`           // clients that have access

	Next      []string `json:"next"` // commands
	Operation string   `json:"operation,omitempty"`
}

// NoIssuer is the issuer of a RemoteOn that has mcpx give the tokens itself again.
const NoIssuer = "none"

// RemoteOn lets clients on other machines in. What is left empty stays as it was.
type RemoteOn struct {
	URL         string `json:"url,omitempty"`
	Address     string `json:"address,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	Issuer      string `json:"issuer,omitempty"` // "none": mcpx gives the tokens itself
	Subject     string `json:"subject,omitempty"`
}

// RemoteOff is the answer about the end of remote access.
type RemoteOff struct {
	State   string `json:"state"`   // off, already_off
	Revoked int    `json:"revoked"` // clients that had access

	Operation string `json:"operation,omitempty"`
}

// RemoteRequest is a client that asks for access.
type RemoteRequest struct {
	ID       string       `json:"request"`
	Client   string       `json:"client"`       // what it calls itself: anybody can use any name
	Redirect string       `json:"redirect_uri"` // where the browser goes with the answer
	Scopes   []auth.Scope `json:"scopes"`
	Asked    time.Time    `json:"asked_at"`
	Until    time.Time    `json:"until"`
	Approved bool         `json:"approved"`            // its code was given, and not typed yet
	As       string       `json:"principal,omitempty"` // on whose behalf it will act, once it is approved
}

// RemoteRequestPage are the clients that ask, the oldest first.
type RemoteRequestPage struct {
	Requests []RemoteRequest `json:"requests"`
	Next     []string        `json:"next"` // commands
}

// RemoteRequestRef names a request.
type RemoteRequestRef struct {
	Request string `json:"-" path:"request"`
}

// ApproveRemote says yes to a client.
type ApproveRemote struct {
	Request  string `json:"-" path:"request"`
	ReadOnly bool   `json:"read_only,omitempty"` // whatever it asked for
	As       string `json:"as,omitempty"`        // the principal on whose behalf it acts; "" the owner
}

// RemoteDecision is what became of a request.
type RemoteDecision struct {
	State   string        `json:"state"` // approved, denied
	Request RemoteRequest `json:"request"`
	Code    string        `json:"code,omitempty"` // works once, in the browser that asked

	Operation string `json:"operation,omitempty"`
}

// RemoteClient is a client that was given access.
type RemoteClient struct {
	ID        string       `json:"access"`
	State     auth.State   `json:"state"` // live, expired, revoked
	Client    string       `json:"client"`
	As        string       `json:"principal"` // on whose behalf it acts
	Redirect  string       `json:"redirect_uri"`
	Issuer    string       `json:"issuer,omitempty"` // of its tokens, where that is not mcpx
	Scopes    []auth.Scope `json:"scopes"`
	Made      time.Time    `json:"made_at"`
	Refreshed time.Time    `json:"refreshed_at,omitzero"`
	Expires   time.Time    `json:"expires_at"`
	Revoked   time.Time    `json:"revoked_at,omitzero"`
	Why       string       `json:"why,omitempty"`
}

// RemoteClientsQuery selects clients.
type RemoteClientsQuery struct {
	All bool `json:"-" query:"all"` // also those whose access has ended
}

// RemoteClientPage are clients in the order in which they were let in.
type RemoteClientPage struct {
	Clients []RemoteClient `json:"clients"`
	Next    []string       `json:"next"` // commands
}

// RemoteClientRef names the access of a client: its id or a beginning of it.
type RemoteClientRef struct {
	Access string `json:"-" path:"access"`
}

// RemoteClientChange is what became of the access of a client.
type RemoteClientChange struct {
	State  string       `json:"state"` // revoked, already_revoked, already_expired
	Client RemoteClient `json:"client"`

	Operation string `json:"operation,omitempty"`
}
