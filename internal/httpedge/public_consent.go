package httpedge

import (
	"cmp"
	"crypto/rand"
	_ "embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mcpx/internal/auth"
	"mcpx/internal/key"
)

//go:embed consent.html
var consentHTML string

var consentPage = template.Must(template.New("consent").Parse(consentHTML))

// consentView is what the page shows.
type consentView struct {
	Title   string
	Nonce   string
	Consent *auth.Consent // nil: only the problem is shown
	Host    string        // of the client, by which people know it; "" it has none
	Wants   []string
	Mark    string
	Problem string
	Back    string // where the client hears of the problem, if the person goes there; "" nowhere
	BackTo  string // its host
}

// wants says in words what a scope allows.
var wants = map[auth.Scope]string{
	auth.RuntimeRead: "read the files of your projects, and what agents did there",
	auth.RuntimeUse:  "change files of your projects and run commands there, as far as your policy lets agents, and with your approval where they need it",
}

// frames are the destinations of a request for a page in another page (Fetch Metadata).
var frames = []string{"iframe", "frame", "embed", "object", "fencedframe"}

// ask shows the page for an authorization request.
func (p *Public) ask(w http.ResponseWriter, r *http.Request) {
	// A browser shows our page in no frame; one that says what it wants the page for opens no question either.
	if slices.Contains(frames, r.Header.Get("Sec-Fetch-Dest")) {
		err := p.cfg.Authority.Refused(r.Context(), &auth.Denial{Code: auth.InvalidRequest, Text: "this page stands in no other page", Attempt: auth.AttemptFramed})
		p.show(w, r, http.StatusForbidden, consentView{Problem: problemText(err)})
		return
	}
	query, err := p.parameters(r, r.URL.RawQuery)
	if err != nil {
		p.show(w, r, http.StatusBadRequest, consentView{Problem: problemText(err)})
		return
	}
	a := auth.Ask{
		ResponseType: query.Get("response_type"), Client: query.Get("client_id"), Redirect: query.Get("redirect_uri"), Scope: query.Get("scope"),
		State: query.Get("state"), Challenge: query.Get("code_challenge"), Method: query.Get("code_challenge_method"), Resources: query["resource"],
	}
	q, cookie, err := p.cfg.Authority.AskConsent(r.Context(), a)
	if err != nil {
		v := consentView{Problem: p.problem(r, err)}
		// Anybody can register any address: the browser goes there only when a person says so (RFC 9700 section 4.11.2).
		if d, ok := errors.AsType[*auth.Denial](err); ok && d.Open {
			v.Back, v.BackTo = p.told(a.Redirect, a.State, "", d)
		}
		p.show(w, r, http.StatusBadRequest, v)
		return
	}
	p.remember(w, q.ID, cookie)
	p.show(w, r, http.StatusOK, consentView{Consent: &q, Mark: auth.Mark(q.ID, cookie)})
}

// typed takes what the person did on the page.
func (p *Public) typed(w http.ResponseWriter, r *http.Request) {
	form, err := p.form(w, r)
	if err != nil {
		p.show(w, r, http.StatusBadRequest, consentView{Problem: problemText(err)})
		return
	}
	in := auth.Typed{Consent: form.Get("request"), Mark: form.Get("mark"), Code: form.Get("code"), Refuse: form.Get("answer") == "no"}
	if c, err := r.Cookie(p.cookie(in.Consent)); err == nil {
		in.Cookie = c.Value
	}
	q, code, err := p.cfg.Authority.AnswerConsent(r.Context(), in)
	d, denial := errors.AsType[*auth.Denial](err)
	switch {
	case err == nil:
		p.forget(w, q.ID)
		p.back(w, r, q.Redirect, q.State, code, nil)
	case denial && d.Open:
		p.forget(w, q.ID)
		p.back(w, r, q.Redirect, q.State, "", d)
	case denial && d.Code == auth.AccessDenied: // a code was mistyped
		p.show(w, r, http.StatusForbidden, consentView{Consent: &q, Mark: auth.Mark(q.ID, in.Cookie), Problem: d.Text})
	default:
		p.show(w, r, http.StatusBadRequest, consentView{Problem: p.problem(r, err)})
	}
}

// back sends the browser to the client, with the code or with what was said instead (OAuth 2.1 section 4.1.2, RFC 9207).
func (p *Public) back(w http.ResponseWriter, r *http.Request, redirect, state, code string, d *auth.Denial) {
	to, _ := p.told(redirect, state, code, d)
	if to == "" {
		p.show(w, r, http.StatusBadRequest, consentView{Problem: "the address of the client cannot be read"})
		return
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// told is the address at which a client hears of an answer, and its host; "" when it cannot be read.
func (p *Public) told(redirect, state, code string, d *auth.Denial) (to, host string) {
	u, err := url.Parse(redirect)
	if err != nil {
		return "", ""
	}
	query := u.Query()
	if d != nil {
		query.Set("error", string(d.Code))
		query.Set("error_description", d.Text)
	} else {
		query.Set("code", code)
	}
	if state != "" {
		query.Set("state", state)
	}
	query.Set("iss", p.base)
	u.RawQuery = query.Encode()
	return u.String(), cmp.Or(u.Host, u.Scheme)
}

// secure says whether browsers reach the page over TLS.
func (p *Public) secure() bool { return strings.HasPrefix(p.base, "https:") }

// cookie is the name of the cookie of a question: a browser may have several open.
func (p *Public) cookie(request string) string {
	if p.secure() {
		return "__Host-mcpx-" + request
	}
	return "mcpx-" + request
}

// remember lets the browser that asks prove that it is the same.
func (p *Public) remember(w http.ResponseWriter, request, value string) {
	http.SetCookie(w, &http.Cookie{
		Name: p.cookie(request), Value: value, Path: "/", MaxAge: 15 * 60, HttpOnly: true, Secure: p.secure(), SameSite: http.SameSiteStrictMode,
	})
}

func (p *Public) forget(w http.ResponseWriter, request string) {
	http.SetCookie(w, &http.Cookie{
		Name: p.cookie(request), Path: "/", MaxAge: -1, HttpOnly: true, Secure: p.secure(), SameSite: http.SameSiteStrictMode,
	})
}

// problem is what the page says about an error; what is ours is logged.
func (p *Public) problem(r *http.Request, err error) string {
	if _, ok := errors.AsType[*auth.Denial](err); !ok {
		p.cfg.Log.LogAttrs(r.Context(), slog.LevelError, "a question to the person failed", slog.Any(key.Cause, err))
	}
	return problemText(err)
}

func problemText(err error) string {
	if d, ok := errors.AsType[*auth.Denial](err); ok {
		return d.Text + "."
	}
	return "mcpx cannot answer now. Try again."
}

// show writes the page. It loads nothing, runs nothing, and stands in no frame.
func (p *Public) show(w http.ResponseWriter, r *http.Request, status int, v consentView) {
	v.Nonce, v.Title = rand.Text(), "This cannot be done"
	form := "'none'"
	if v.Consent != nil {
		v.Title = "Let " + v.Consent.Client.Name + " in?"
		form = "'self'" + formTarget(v.Consent.Redirect)
		if u, err := url.Parse(v.Consent.Redirect); err == nil {
			v.Host = u.Host
		}
		for _, s := range v.Consent.Scopes {
			v.Wants = append(v.Wants, wants[s])
		}
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+v.Nonce+"'; form-action "+form+"; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := consentPage.Execute(w, v); err != nil {
		p.cfg.Log.LogAttrs(r.Context(), slog.LevelDebug, "the page was not written", slog.Any(key.Cause, err))
	}
}

// formTarget is where a form may lead beside here: browsers hold the redirect after it against the policy, too.
func formTarget(redirect string) string {
	u, err := url.Parse(redirect)
	if err != nil || strings.ContainsAny(u.Host, " ;,'\"") {
		return ""
	}
	// A policy cannot name a host that is an IPv6 address.
	if u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.HasPrefix(u.Host, "[") {
		return " " + u.Scheme + ":"
	}
	return " " + u.Scheme + "://" + u.Host
}
