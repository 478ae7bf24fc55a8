package httpedge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/key"
)

const (
	// upMaxText bounds the text of a Failure, as the port promises.
	upMaxText = 500
	// upMaxQuote is how much of a foreign page is quoted: a title or the first sentence is enough to recognise it.
	upMaxQuote = 200
	// upMaxWait bounds Retry-After; a server cannot park callers for longer.
	upMaxWait = time.Hour
	// upMinSecret is the length from which a header value is treated as a secret in texts. Shorter ones ("1", "true")
	// would tear holes into every text.
	upMinSecret = 6

	upTooLarge = "the answer was larger than 64 MiB and was dropped"
)

// lost ends a request whose exchange broke.
func (l *upLink) lost(c *upCall, err error) {
	written, aborted := c.state()
	switch {
	case aborted, l.life.Err() != nil:
		return // the lane knows: it asked for it, or Closed follows
	case c.ctx.Err() != nil:
		err = errors.New("no answer in time")
	}
	// What the sign-in says, not the transport: the request was not sent, or refused.
	if f, ok := errors.AsType[*fault.Error](err); ok {
		if f.Kind == fault.Unauthenticated {
			l.fail(c, needsPerson(f, 0))
			return
		}
		l.fail(c, gateway.Failure{Class: gateway.Unavailable, Text: f.Message + "; " + f.Hint, Wait: renewPause})
		return
	}
	if written {
		l.fail(c, gateway.Failure{Class: gateway.SentUnknown, Text: "the connection broke before the answer: " + upReason(err)})
		return
	}
	l.fail(c, gateway.Failure{Class: gateway.NotSent, Text: "the server could not be reached: " + upReason(err)})
}

// fail reports that a request gets no answer. For other messages there is only the log: nobody waits for them.
func (l *upLink) fail(c *upCall, f gateway.Failure) {
	if _, aborted := c.state(); aborted {
		return
	}
	f.Text = l.clean(f.Text, upMaxText)
	if !c.isRequest() {
		l.up.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "message not accepted by the server",
			slog.String(key.Server, l.server), slog.String(key.Method, c.m.Method), slog.String(key.Cause, f.Text))
		return
	}
	l.release(c)
	l.sink.Failed(c.m.Ref, f)
}

// gone ends a link whose session the server does not know any more.
func (l *upLink) gone() {
	l.end(gateway.Exit{Reason: gateway.SessionGone, Text: "the server answered 404 for the session"}, false)
}

// refusal says what a response without an answer means.
func (l *upLink) refusal(resp *http.Response, body []byte) gateway.Failure {
	status := resp.StatusCode
	f := gateway.Failure{Class: gateway.NotSent, Status: status, Wait: upRetryAfter(resp, l.up.cfg.Now())}
	said := "the server answered " + upStatus(status)
	quote := l.quote(resp, body)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return l.unauthorized(resp, said)
	case status/100 == 3:
		f.Text = said + upToward(resp) + "; only 307 and 308 inside the same origin are followed, so put the final URL into the entry"
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, status/100 == 5 && f.Wait > 0:
		f.Class, f.Text = gateway.Unavailable, said+quote
	case status/100 == 5:
		// A proxy says 502 and 504 about calls that ran, and an application 500 after half of its work.
		f.Class, f.Text = gateway.SentUnknown, said+quote
	case status/100 == 4:
		f.Text = said + quote
	case upMediaType(resp) == "application/json" && len(body) > 0:
		f.Class, f.Text = gateway.AnsweredLost, said+" with a body that is no answer to this request"+quote
	default:
		f.Class, f.Text = gateway.SentUnknown, said+" without an answer to this request"+quote
	}
	return f
}

// quote is the beginning of a foreign body with its type, for a text.
func (l *upLink) quote(resp *http.Response, body []byte) string {
	const enough = 4 * upMaxQuote // white space and control bytes go away
	text := l.clean(string(body[:min(len(body), enough)]), upMaxQuote)
	kind := upMediaType(resp)
	switch {
	case text == "":
		return ""
	case kind == "":
		return ": " + text
	}
	return " (" + kind + "): " + text
}

// clean makes a foreign text fit for people: one line, no control bytes, no secrets of the entry, bounded.
func (l *upLink) clean(text string, limit int) string {
	for _, secret := range l.hide {
		text = strings.ReplaceAll(text, secret, "(redacted)")
	}
	if redact := l.up.cfg.Redact; redact != nil {
		text = redact(text) // tokens of sign-ins come and go
	}
	return plainText(text, limit)
}

// upSecrets lists what must not appear in texts: header values of the entry, their parts behind a scheme such as
// Bearer, and the query of the URL. Longest first, so that no secret survives as the rest of a shorter one.
func upSecrets(target *url.URL, own http.Header) []string {
	var all []string
	for name, values := range own {
		if name == "User-Agent" {
			continue
		}
		for _, v := range values {
			all = append(all, v)
			all = append(all, strings.Fields(v)...)
		}
	}
	for _, values := range target.Query() {
		all = append(all, values...)
	}
	all = append(all, target.RawQuery)
	all = slices.DeleteFunc(all, func(s string) bool { return len(s) < upMinSecret || strings.EqualFold(s, "bearer") })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// upReason is the text of a transport error without the URL in front of it.
func upReason(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}

func upStatus(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return strconv.Itoa(status)
}

// upToward names the target of a redirect without its query.
func upToward(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil {
		return ""
	}
	return " and points to " + upShow(to)
}

// upShow is a URL without what may be secret in it.
func upShow(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

func upMediaType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil && kind == "" {
		return ""
	}
	return kind
}

// upRetryAfter reads seconds or a date (RFC 9110 section 10.2.3); 0 without a usable value.
func upRetryAfter(resp *http.Response, now time.Time) time.Duration {
	value := resp.Header.Get("Retry-After")
	if s, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(s)*time.Second, upMaxWait)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), upMaxWait)
	}
	return 0
}
