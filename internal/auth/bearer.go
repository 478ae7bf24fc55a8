package auth

import "strings"

// Bearer gives the token of an Authorization header. The name of the scheme is not case-sensitive (RFC 9110 section 11.1).
// False: the header is absent or of another scheme.
func Bearer(header string) (token string, ok bool) {
	scheme, token, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	return strings.TrimLeft(token, " "), true
}
