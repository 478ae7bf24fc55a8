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

// Denial is such an answer. Its text is for the people who make the client; it holds nothing that is secret.
type Denial struct {
	Code DenialCode
	Text string
	// Open says that the redirect address of the request is one of its client: the client is told there. Otherwise the
	// person in front of the browser is, since the address may be anybody's.
	Open bool
}

func (d *Denial) Error() string { return string(d.Code) + ": " + d.Text }

func deny(code DenialCode, format string, args ...any) *Denial {
	return &Denial{Code: code, Text: fmt.Sprintf(format, args...)}
}
