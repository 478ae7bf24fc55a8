package httpedge

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// tokenError is the no of a token endpoint (RFC 6749 section 5.2).
type tokenError struct {
	Code string
	Text string
}

func (e *tokenError) Error() string {
	if e.Text == "" {
		return "the authorization server says " + e.Code
	}
	return "the authorization server says " + e.Code + ": " + e.Text
}

// final says that the same request can never succeed: what was granted is gone, or the client is. A secret that a person
// keeps may be given another value.
func (e *tokenError) final(c clientAs) bool {
	return e.Code == "invalid_grant" || e.Code == "unauthorized_client" || e.Code == "invalid_client" && c.Ref == ""
}

// obtain gets another token for a sign-in without a person, and puts it in.
func (s *SignIns) obtain(ctx context.Context, server catalog.Server, g *grant) error {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}
	if g.Machine {
		form = url.Values{"grant_type": {"client_credentials"}}
		if len(g.Scopes) > 0 {
			form.Set("scope", strings.Join(g.Scopes, " "))
		}
	}
	return s.exchange(ctx, s.client(server), g, form)
}

// exchange makes one request at the token endpoint and puts what it gives into the sign-in. The library for OAuth cannot
// send `resource` with a renewal, so all three kinds of requests are made here.
func (s *SignIns) exchange(ctx context.Context, client *http.Client, g *grant, form url.Values) error {
	form.Set("resource", g.Resource)
	hidden := []string{form.Get("code"), form.Get("code_verifier"), form.Get("refresh_token")}
	r, err := s.prove(ctx, g, g.Endpoint, form)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return signInFailed("the token endpoint of %s cannot be reached: %s", auth.RedactedURL(g.Issuer), plainCause(err))
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, signInBody))
	if err != nil {
		return signInFailed("the answer of the token endpoint of %s broke off", auth.RedactedURL(g.Issuer))
	}
	var out struct {
		Access  string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Expires json.Number `json:"expires_in"`
		Refresh string      `json:"refresh_token"`
		Scope   string      `json:"scope"`
		Error   string      `json:"error"`
		Text    string      `json:"error_description"`
	}
	readable := json.Unmarshal(body, &out) == nil
	switch {
	case readable && out.Error != "" && answer.StatusCode/100 != 5:
		for _, secret := range hidden {
			if secret != "" {
				out.Text = strings.ReplaceAll(out.Text, secret, "(redacted)")
			}
		}
		return &tokenError{Code: plainText(out.Error, upMaxQuote), Text: plainText(out.Text, upMaxQuote)}
	case answer.StatusCode != http.StatusOK:
		return signInFailed("the token endpoint of %s answers %s", auth.RedactedURL(g.Issuer), upStatus(answer.StatusCode))
	case !readable || out.Access == "" || strings.ContainsFunc(out.Access, func(r rune) bool { return r <= ' ' || r > '~' }):
		return signInFailed("the token endpoint of %s gives no token", auth.RedactedURL(g.Issuer))
	case !strings.EqualFold(out.Type, "Bearer"):
		return signInFailed("the token endpoint of %s gives a token of a kind that is not known here (only Bearer is)", auth.RedactedURL(g.Issuer))
	}
	s.cfg.Store.Hide(out.Access, out.Refresh)
	g.Access, g.Got, g.Expires = out.Access, s.cfg.Now(), time.Time{}
	if seconds, err := out.Expires.Int64(); err == nil && seconds > 0 {
		const most = 10 * 365 * 24 * 60 * 60 // more would overflow, and is never meant
		g.Expires = g.Got.Add(time.Duration(min(seconds, most)) * time.Second)
	}
	if out.Refresh != "" {
		g.Refresh = out.Refresh
	}
	if got := auth.Scopes(strings.Fields(out.Scope)); got != nil {
		g.Scopes = got
	}
	return nil
}

// prove makes a request of a client that proves who it is.
func (s *SignIns) prove(ctx context.Context, g *grant, endpoint string, form url.Values) (*http.Request, error) {
	value := g.Client.Secret
	if g.Client.Ref != "" {
		held, err := s.cfg.Store.Resolve(ctx, g.Client.Ref)
		if err != nil {
			return nil, err
		}
		value = held.Reveal()
	}
	switch g.Client.Method {
	case auth.MethodPost:
		form.Set("client_id", g.Client.ID)
		form.Set("client_secret", value)
	case auth.MethodKey:
		assertion, err := assert(value, g.Client.ID, g.Issuer, s.cfg.Now())
		if err != nil {
			return nil, err
		}
		form.Set("client_id", g.Client.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	case auth.MethodNone:
		form.Set("client_id", g.Client.ID)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, auth.SignInRefused("the token endpoint of %s cannot be read", auth.RedactedURL(g.Issuer))
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if g.Client.Method == auth.MethodBasic {
		r.SetBasicAuth(url.QueryEscape(g.Client.ID), url.QueryEscape(value)) // RFC 6749 section 2.3.1
	}
	return r, nil
}

// End forgets the sign-in at a server, and tells the authorization server so. False: there was none.
func (s *SignIns) End(ctx context.Context, server catalog.Server) (bool, error) {
	st, err := s.standingOf(ctx, server)
	if err != nil {
		return false, err
	}
	if err := s.cfg.Store.Forget(ctx, recordOf(server)); err != nil {
		return false, err
	}
	s.change(server, func(st *standing) { *st = standing{loaded: true} })
	if g := st.grant; g != nil && g.Revoke != "" && g.Ended == "" {
		s.revoke(ctx, server, *g)
	}
	return st.grant != nil, nil
}

// revoke tells an authorization server that a token is not needed any more (RFC 7009). Best effort: it is forgotten here.
func (s *SignIns) revoke(ctx context.Context, server catalog.Server, g grant) {
	form := url.Values{"token": {g.Access}, "token_type_hint": {"access_token"}}
	if g.Refresh != "" {
		form = url.Values{"token": {g.Refresh}, "token_type_hint": {"refresh_token"}}
	}
	ctx, stop := context.WithTimeout(ctx, upEndWait)
	defer stop()
	r, err := s.prove(ctx, &g, g.Revoke, form)
	if err != nil {
		return
	}
	if answer, err := s.client(server).Do(r); err == nil {
		answer.Body.Close()
	}
}

func signInFailed(format string, args ...any) *fault.Error {
	return fault.New(fault.Unavailable, "sign-in-failed").Saying(format, args...).Hinting("try again").Retrying(fault.AfterWait)
}

// plainCause is the text of a transport error, without the URL in front of it.
func plainCause(err error) string { return plainText(upReason(err), upMaxText) }

// plainText makes a foreign text fit for people: one line, no control bytes, bounded.
func plainText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
	}
	return text
}
