package httpedge

import (
	"context"
	"io"
	"net/http"
	"strings"

	"mcpx/internal/auth"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
)

// do sends a request of the link with the token of a sign-in, if there is one. A server that answers 401 has not acted on
// the request, so it is sent once more when there is another token then. What is sent again is the same to the byte.
func (l *upLink) do(client *http.Client, make func() (*http.Request, error)) (*http.Response, error) {
	for again := false; ; again = true {
		req, err := make()
		if err != nil {
			return nil, err
		}
		token := ""
		if l.signsIn() {
			if token, err = l.up.cfg.SignIns.Token(req.Context(), l.entry); err != nil {
				return nil, err
			}
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
		}
		resp, err := client.Do(req)
		if err != nil || !l.signsIn() || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		if again {
			if resp.StatusCode == http.StatusUnauthorized {
				l.up.cfg.SignIns.Rejected(req.Context(), l.entry, token)
			}
			return resp, nil
		}
		other, err := l.up.cfg.SignIns.Refused(req.Context(), l.entry, token, resp.StatusCode, resp.Header)
		if err != nil {
			resp.Body.Close()
			return nil, err
		}
		if !other {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, upMaxErrorBody) // an error only means that the connection is not used again
		resp.Body.Close()
	}
}

// signsIn says whether the link can carry the token of a sign-in: the entry brings none of its own.
func (l *upLink) signsIn() bool { return l.up.cfg.SignIns != nil && l.own.Get("Authorization") == "" }

// unauthorized says what a 401 or 403 asks of a person.
func (l *upLink) unauthorized(resp *http.Response, said string) gateway.Failure {
	s := auth.SignIn{}
	if l.signsIn() {
		s = l.up.cfg.SignIns.State(context.WithoutCancel(resp.Request.Context()), l.entry)
	}
	if s.State == "" && len(l.own) > 0 || !l.signsIn() {
		return gateway.Failure{
			Class: gateway.Unavailable, Status: resp.StatusCode, Fix: true,
			Text: said + ": sign-in required, or the credential of this entry is wrong; check its headers",
		}
	}
	switch {
	case s.State == auth.SignedIn && len(s.Lacks) > 0:
		said += ": the sign-in does not reach far enough, it lacks " + strings.Join(s.Lacks, ", ")
	case s.State == auth.SignedIn:
		return gateway.Failure{Class: gateway.Unavailable, Status: resp.StatusCode, Fix: true, Text: said + " to what was asked; the one who signed in may not do it"}
	}
	return needsPerson(auth.NeedsSignIn(l.server, said), resp.StatusCode)
}

// needsPerson is the failure of a call that can only succeed after somebody has done something.
func needsPerson(f *fault.Error, status int) gateway.Failure {
	return gateway.Failure{Class: gateway.Unavailable, Status: status, Fix: true, Text: f.Message + "; " + f.Hint}
}
