package auth

import (
	"crypto/subtle"
	"slices"
	"time"

	"mcpx/internal/fault"
)

// RotationGrace is how long a token counts after another took its place: a client that read it before goes on until it
// asks for headers, or is started, again.
const RotationGrace = 10 * time.Minute

// Token is the record of one token.
type Token struct {
	ID     string  `json:"token_id"` // tok_
	Agent  string  `json:"agent"`
	Scopes []Scope `json:"scopes"`
	Digest string  `json:"digest"` // SHA-256 of the value, hex
	// Line is the id of the first of the tokens that took each other's place. What is bound to a token, such as a
	// session of mcp_hub, is bound to its line: a rotation cuts nobody off.
	Line    string    `json:"line"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"last_used,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"`
	Next    string    `json:"replaced_by,omitempty"` // the token that took its place
}

// State is what a token is worth now.
type State string

// The states.
const (
	Live     State = "live"
	Replaced State = "replaced" // counts until Expires
	Expired  State = "expired"
	Revoked  State = "revoked"
)

// At is the state of the token at a moment.
func (t Token) At(now time.Time) State {
	switch {
	case !t.Revoked.IsZero():
		return Revoked
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return Expired
	case t.Next != "":
		return Replaced
	}
	return Live
}

// Counts says whether the token opens anything.
func (t Token) Counts(now time.Time) bool {
	s := t.At(now)
	return s == Live || s == Replaced
}

// Order is what a new token shall be.
type Order struct {
	ID     string // of the record
	Agent  string
	Scopes []Scope
	// For is how long it counts; 0 until it is revoked.
	For time.Duration
}

// Issue makes the record of a new token.
func Issue(o Order, v Value, now time.Time) Token {
	t := Token{ID: o.ID, Agent: o.Agent, Scopes: slices.Clone(o.Scopes), Digest: v.Digest(), Line: o.ID, Created: now}
	if o.For > 0 {
		t.Expires = now.Add(o.For)
	}
	return t
}

// Rotate puts a new token in the place of old, which counts for RotationGrace more. The new one keeps agent, scopes, line
// and length of life.
func Rotate(old Token, id string, v Value, now time.Time) (before, after Token, err error) {
	if old.At(now) != Live {
		return old, Token{}, fault.New(fault.Conflict, "token-not-live").Saying("the token %s is %s", old.ID, old.At(now)).
			Hinting("make another one: `mcpx token issue --agent %s`", old.Agent)
	}
	after = Issue(Order{ID: id, Agent: old.Agent, Scopes: old.Scopes}, v, now)
	after.Line = old.Line
	if !old.Expires.IsZero() {
		after.Expires = now.Add(old.Expires.Sub(old.Created))
	}
	before = old
	before.Next = id
	if until := now.Add(RotationGrace); before.Expires.IsZero() || until.Before(before.Expires) {
		before.Expires = until
	}
	return before, after, nil
}

// Revoke ends a token at once; false when it had ended before.
func Revoke(t Token, now time.Time) (Token, bool) {
	if t.At(now) == Revoked || t.At(now) == Expired {
		return t, false
	}
	t.Revoked = now
	return t, true
}

// Current is the token that an agent uses now: the only one that is live. False: it has none.
func Current(all []Token, agent string, now time.Time) (Token, bool) {
	for _, t := range all {
		if t.Agent == agent && t.At(now) == Live {
			return t, true
		}
	}
	return Token{}, false
}

// Book is every token by its digest, to judge a request without a look at the database. A Book does not change.
type Book struct{ tokens map[string]Token }

// NewBook makes a book of records.
func NewBook(all []Token) *Book {
	b := &Book{tokens: make(map[string]Token, len(all))}
	for _, t := range all {
		b.tokens[t.Digest] = t
	}
	return b
}

// Check judges what a request presents. The text is hashed before it is looked up, so how long that takes tells nothing
// about any token. The record is given back for one that counts no more, too, so that a refusal can name it.
func (b *Book) Check(text string, now time.Time) (Token, error) {
	if text == "" {
		return Token{}, Missing()
	}
	v, err := Parse(OfAgent, text)
	if err != nil {
		return Token{}, err
	}
	digest := v.Digest()
	t, ok := b.tokens[digest]
	if !ok || subtle.ConstantTimeCompare([]byte(t.Digest), []byte(digest)) != 1 {
		return Token{}, fault.New(fault.Unauthenticated, "token-unknown").Saying("this token was not issued here").
			Hinting("`mcpx token issue --agent AGENT` makes one; `mcpx token list` shows what there is")
	}
	switch t.At(now) {
	case Live, Replaced:
		return t, nil
	case Expired:
		return t, fault.New(fault.Unauthenticated, "token-expired").Saying("the token %s is over since %s", t.ID, t.Expires.UTC().Format(time.RFC3339)).
			Hinting("`mcpx token issue --agent %s` makes another one", t.Agent)
	case Revoked:
		return t, fault.New(fault.Unauthenticated, "token-revoked").Saying("the token %s was revoked", t.ID).
			Hinting("`mcpx token issue --agent %s` makes another one", t.Agent)
	}
	panic("auth: unknown state of " + t.ID)
}
