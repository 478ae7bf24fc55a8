package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"slices"
	"strings"
)

// Scopes of access over OAuth. There is none that approves.
const (
	RuntimeRead Scope = "runtime:read" // the tools at /mcp that only read
	RuntimeUse  Scope = "runtime:use"  // all tools at /mcp, as far as policy and approvals let them
)

// RemoteScopes are the scopes that a client can ask for over OAuth.
func RemoteScopes() []Scope { return []Scope{RuntimeRead, RuntimeUse} }

// Ask is an authorization request (OAuth 2.1 section 4.1.1) as a browser brought it.
type Ask struct {
	ResponseType string
	Client       string
	Redirect     string
	Scope        string // separated by spaces
	State        string
	Challenge    string
	Method       string   // of the challenge
	Resources    []string // RFC 8707
}

// maxState bounds what a client wants back with the answer, in bytes.
const maxState = 2 << 10

// Check says what is wrong with a request of a client for the resource that is served here. The scopes are those that were
// asked for; a client that names none gets the tools that only read.
func (a Ask) Check(c Client, resource string) ([]Scope, error) {
	if !c.Redirect(a.Redirect) {
		return nil, deny(InvalidRequest, "redirect_uri is none of those that the client registered").as(AttemptRedirect)
	}
	scopes, err := a.check(resource)
	if err != nil {
		err.Open = true
		return nil, err
	}
	return scopes, nil
}

func (a Ask) check(resource string) ([]Scope, *Denial) {
	switch {
	case a.ResponseType != "code":
		return nil, deny(UnsupportedResponseType, "response_type is code")
	case a.Method != "S256" || !challengeFormed(a.Challenge):
		return nil, deny(InvalidRequest, "code_challenge of the method S256 is required (RFC 7636)").as(AttemptPKCE)
	case len(a.State) > maxState:
		return nil, deny(InvalidRequest, "state has more than %d bytes", maxState)
	}
	if err := CheckResource(a.Resources, resource); err != nil {
		return nil, err
	}
	return remoteScopes(a.Scope), nil
}

// CheckResource says whether a client asks for what is served here, and nothing else. None at all is that, too: clients of
// before 2025-06-18 name none, and nothing else can be had here.
func CheckResource(asked []string, resource string) *Denial {
	for _, one := range asked {
		if strings.TrimSuffix(one, "/") != resource {
			return deny(InvalidTarget, "the resource that is served here is %s", resource).as(AttemptAudience)
		}
	}
	return nil
}

// remoteScopes reads the scopes of a request. Names that are not known are left out, as the answer then says: clients ask
// for offline_access or openid wherever they go.
func remoteScopes(text string) []Scope {
	var out []Scope
	for _, s := range RemoteScopes() {
		if slices.Contains(strings.Fields(text), string(s)) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return []Scope{RuntimeRead}
	}
	return out
}

// JoinScopes writes scopes as they are sent.
func JoinScopes(scopes []Scope) string {
	texts := make([]string, len(scopes))
	for i, s := range scopes {
		texts[i] = string(s)
	}
	return strings.Join(texts, " ")
}

// challengeFormed says whether a challenge can be a SHA-256 in base64url.
func challengeFormed(challenge string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(challenge)
	return err == nil && len(raw) == sha256.Size
}

// verifies says whether the verifier is the one of a challenge (RFC 7636 section 4.6).
func verifies(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}
