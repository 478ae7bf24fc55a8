package auth

import "fmt"

// DenialCode is what the authorization server says instead of yes (RFC 6749 sections 4.1.2.1 and 5.2, RFC 7591 section
// 3.2.2, RFC 8707 section 2).
type DenialCode string

// The codes.
const (
	InvalidRequest          DenialCode = "invalid_request"
	InvalidClient           DenialCode = "invalid_client"
	InvalidGrant            DenialCode = "invalid_grant"
	InvalidTarget           DenialCode = "invalid_target"
	InvalidRedirect         DenialCode = "invalid_redirect_uri"
	InvalidMetadata         DenialCode = "invalid_client_metadata"
	AccessDenied            DenialCode = "access_denied"
	UnsupportedResponseType DenialCode = "unsupported_response_type"
	UnsupportedGrantType    DenialCode = "unsupported_grant_type"
	TemporarilyUnavailable  DenialCode = "temporarily_unavailable"
)

// Attempt names what somebody may have tried who was refused, for the log: clients learn the code alone.
type Attempt string

// The attempts. Of everything else the log says by which endpoint it was refused.
const (
	AttemptRedirect Attempt = "redirect-wrong" // an answer that goes elsewhere: open redirect
	AttemptPKCE     Attempt = "pkce-wrong"     // no challenge, a plain one, or another verifier: downgrade, a stolen code
	AttemptAudience Attempt = "audience-wrong" // a token for something else
	AttemptForged   Attempt = "form-forged"    // a form that another page, or another browser, sent
	AttemptGuess    Attempt = "code-guessed"   // a code that is not the one of the person
	AttemptFramed   Attempt = "page-framed"    // our page in a page of somebody else: clickjacking
)

// Denial is such an answer. Its text is for the people who make the client; it holds nothing that is secret.
type Denial struct {
	Code DenialCode
	Text string
	// Open says that the redirect address of the request is one of its client: the client is told there. Otherwise the
	// person in front of the browser is, since the address may be anybody's.
	Open bool
	// Attempt is what this may be; "" nothing in particular.
	Attempt Attempt
}

func (d *Denial) Error() string { return string(d.Code) + ": " + d.Text }

// as says what a denial may have been an attempt at.
func (d *Denial) as(a Attempt) *Denial {
	d.Attempt = a
	return d
}

func deny(code DenialCode, format string, args ...any) *Denial {
	return &Denial{Code: code, Text: fmt.Sprintf(format, args...)}
}
