package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpx/internal/fault"
)

// How long things of a consent count.
const (
	consentLife = 10 * time.Minute // of a question
	spokenLife  = 5 * time.Minute  // of the code that the person types
	codeLife    = time.Minute      // of an authorization code (OAuth 2.1 section 4.1.2: ten minutes at most)
)

const (
	// maxConsents bounds the open questions: anybody who reaches the listener can ask. One makes room.
	maxConsents = 256
	// maxTries bounds what may be typed for one question: of a million million codes.
	maxTries = 5
	// maxCodes bounds the authorization codes that are kept, used ones included; there is one for each yes of a person.
	maxCodes = 256
)

// Consent is a question to the person: may this client have access? It is asked in a browser that may be anybody's, so the
// yes is said at the machine itself, which gives a code, and the code is typed in the browser: who asks and who says yes
// are proved to be one.
type Consent struct {
	ID       string // short, for a person to compare and type
	Client   Client
	Redirect string
	State    string
	Scopes   []Scope
	Asked    time.Time
	Until    time.Time
	Approved bool // a code was given, and nobody typed it yet
	// Principal is on whose behalf the client will act: the person said so. "" before that.
	Principal string

	challenge string
	browser   string // digest of the cookie of the browser that asked
	spoken    string // digest of the code that the person was given; "" none
	tries     int
}

// Issued is what a client gets for an authorization code.
type Issued struct {
	Client     Client
	Redirect   string
	Scopes     []Scope
	Principal  string // on whose behalf it will act
	Delegation string // id that was chosen for the delegation
	challenge  string
	until      time.Time
	used       bool
	replayed   bool // it came a second time
}

// Consents are the questions that are open, and the authorization codes that were not used yet. They are in memory alone: a
// daemon that is started anew asks again.
type Consents struct {
	mu      sync.Mutex // guards the fields below
	waiting map[string]*Consent
	codes   map[string]*Issued // by digest
}

// NewConsents makes an empty set.
func NewConsents() *Consents {
	return &Consents{waiting: map[string]*Consent{}, codes: map[string]*Issued{}}
}

// alphabet has no letters and digits that look alike; 32 of them make 5 bits each.
const alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"

// spell makes a text for people of n characters.
func spell(random io.Reader, n int) (string, error) {
	raw, err := draw(random, n)
	if err != nil {
		return "", err
	}
	for i, b := range raw {
		raw[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(raw), nil
}

// spelled is what a person typed, as it was made: without what groups it, in capitals.
func spelled(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToUpper(strings.TrimSpace(text)))
}

// secretText makes an unguessable text for machines.
func secretText(random io.Reader) (string, error) {
	raw, err := draw(random, valueBytes)
	return hex.EncodeToString(raw), err
}

// Ask opens a question about a request that was checked. cookie is for the browser that asks: only it may answer.
func (s *Consents) Ask(a Ask, c Client, scopes []Scope, now time.Time, random io.Reader) (q Consent, cookie string, err error) {
	if cookie, err = secretText(random); err != nil {
		return Consent{}, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(now)
	var name string
	for name == "" || s.waiting[name] != nil {
		if name, err = spell(random, 6); err != nil {
			return Consent{}, "", err
		}
	}
	if len(s.waiting) >= maxConsents {
		delete(s.waiting, s.spareLocked())
	}
	one := &Consent{
		ID: name, Client: c, Redirect: a.Redirect, State: a.State, Scopes: scopes, Asked: now, Until: now.Add(consentLife),
		challenge: a.Challenge, browser: digestOf(cookie),
	}
	s.waiting[name] = one
	return *one, cookie, nil
}

// Clear closes every question, and no code counts any more.
func (s *Consents) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.waiting)
	clear(s.codes)
}

// Replayed says whether a code came more than once, or is known no more.
func (s *Consents) Replayed(code string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.codes[digestOf(code)]
	return i == nil || i.replayed
}

// spareLocked is the question that makes room: the oldest of those that would be answered where most would be, but for those
// to which the person said yes. Who asks again and again pushes out itself first.
func (s *Consents) spareLocked() string {
	all := s.listLocked()
	most := map[string]int{}
	for _, q := range all {
		most[q.Redirect]++
	}
	spare := all[0]
	for _, q := range all[1:] {
		if spare.Approved && !q.Approved || spare.Approved == q.Approved && most[q.Redirect] > most[spare.Redirect] {
			spare = q
		}
	}
	return spare.ID
}

func (s *Consents) listLocked() []Consent {
	all := make([]Consent, 0, len(s.waiting))
	for _, q := range s.waiting {
		all = append(all, *q)
	}
	slices.SortFunc(all, func(a, b Consent) int {
		if c := a.Asked.Compare(b.Asked); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

func (s *Consents) sweepLocked(now time.Time) {
	for name, q := range s.waiting {
		if !now.Before(q.Until) {
			delete(s.waiting, name)
		}
	}
	for digest, i := range s.codes {
		if !now.Before(i.until.Add(consentLife)) { // a used one is known a while longer: its second use is an attack
			delete(s.codes, digest)
		}
	}
}

// Waiting are the open questions, the oldest first.
func (s *Consents) Waiting(now time.Time) []Consent {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(now)
	return s.listLocked()
}

// Approval is the yes of the person to one question.
type Approval struct {
	Consent   string
	Principal string  // on whose behalf the client will act
	Narrow    []Scope // what the person allows of what was asked for; none: all of it
}

// Approve is the yes of the person: the code that is to be typed in the browser. Saying it again gives another code.
func (s *Consents) Approve(in Approval, now time.Time, random io.Reader) (Consent, string, error) {
	text, err := spell(random, 8)
	if err != nil {
		return Consent{}, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.openLocked(in.Consent, now)
	if err != nil {
		return Consent{}, "", err
	}
	if len(in.Narrow) > 0 {
		q.Scopes = slices.DeleteFunc(slices.Clone(q.Scopes), func(have Scope) bool { return !slices.Contains(in.Narrow, have) })
		if len(q.Scopes) == 0 {
			q.Scopes = slices.Clone(in.Narrow)
		}
	}
	q.Principal = in.Principal
	q.spoken, q.Approved, q.tries = digestOf(text), true, 0
	if until := now.Add(spokenLife); until.After(q.Until) {
		q.Until = until
	}
	return *q, text[:4] + "-" + text[4:], nil
}

// Deny is the no of the person.
func (s *Consents) Deny(name string, now time.Time) (Consent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.openLocked(name, now)
	if err != nil {
		return Consent{}, err
	}
	delete(s.waiting, q.ID)
	return *q, nil
}

func (s *Consents) openLocked(name string, now time.Time) (*Consent, error) {
	s.sweepLocked(now)
	if q := s.waiting[spelled(name)]; q != nil {
		return q, nil
	}
	return nil, NoConsent(name)
}

// NoConsent is the error for a name under which nobody asks.
func NoConsent(name string) *fault.Error {
	return fault.New(fault.NotFound, "consent-unknown").Saying("no client asks for access under %q", name).
		Hinting("`mcpx remote requests` shows who asks; a question is open for %d minutes", int(consentLife/time.Minute))
}

// Mark is what a form of the page carries: a page of somebody else, which does not know the cookie, cannot send it.
func Mark(name, cookie string) string {
	mac := hmac.New(sha256.New, []byte(cookie))
	mac.Write([]byte("consent " + name))
	return hex.EncodeToString(mac.Sum(nil))
}

// Find is the question of the browser with this cookie.
func (s *Consents) Find(name, cookie string, now time.Time) (Consent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.ofLocked(name, cookie, now)
	if err != nil {
		return Consent{}, err
	}
	return *q, nil
}

func (s *Consents) ofLocked(name, cookie string, now time.Time) (*Consent, error) {
	s.sweepLocked(now)
	q := s.waiting[name]
	if q == nil || subtle.ConstantTimeCompare([]byte(q.browser), []byte(digestOf(cookie))) != 1 {
		return nil, deny(InvalidRequest, "this question is not open any more: begin again in your client").as(AttemptForged)
	}
	return q, nil
}

// Typed is what the browser sends.
type Typed struct {
	Consent string
	Cookie  string
	Mark    string
	Code    string
	Refuse  bool // the person said no in the browser
}

// Answer takes what was typed. With the code of the person it gives an authorization code for the client; delegation is the id
// that the delegation will have. A Denial that is open goes to the client; every other one is shown on the page.
func (s *Consents) Answer(in Typed, delegation string, now time.Time, random io.Reader) (q Consent, code string, err error) {
	if code, err = secretText(random); err != nil {
		return Consent{}, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one, err := s.ofLocked(in.Consent, in.Cookie, now)
	if err != nil {
		return Consent{}, "", err
	}
	q = *one
	if !hmac.Equal([]byte(in.Mark), []byte(Mark(in.Consent, in.Cookie))) {
		return q, "", deny(InvalidRequest, "the form was not made for this page: load it again").as(AttemptForged)
	}
	if in.Refuse {
		delete(s.waiting, q.ID)
		no := deny(AccessDenied, "the person said no")
		no.Open = true
		return q, "", no
	}
	if one.tries++; one.tries > maxTries {
		delete(s.waiting, q.ID)
		no := deny(AccessDenied, "too many codes were tried").as(AttemptGuess)
		no.Open = true
		return q, "", no
	}
	if one.spoken == "" || subtle.ConstantTimeCompare([]byte(one.spoken), []byte(digestOf(spelled(in.Code)))) != 1 {
		return q, "", deny(AccessDenied, "this is not the code; %d of %d tries are left", maxTries-one.tries, maxTries).as(AttemptGuess)
	}
	delete(s.waiting, q.ID)
	if len(s.codes) >= maxCodes {
		return q, "", &Denial{Code: TemporarilyUnavailable, Text: "too many clients are let in at once; try again in a minute", Open: true}
	}
	s.codes[digestOf(code)] = &Issued{Client: q.Client, Redirect: q.Redirect, Scopes: q.Scopes, Principal: q.Principal, Delegation: delegation, challenge: q.challenge, until: now.Add(codeLife)}
	return q, code, nil
}

// Redemption is what a client sends for a code (OAuth 2.1 section 4.1.3).
type Redemption struct {
	Code     string
	Client   string
	Redirect string // "" it does not say (OAuth 2.1 does not ask for it)
	Verifier string
}

// Replayed is the error for a code or a refresh token that comes again: two hold what counts once, and one of them has stolen
// it (OAuth 2.1 sections 4.1.2 and 4.3.1). The delegation ends.
type Replayed struct{ Delegation string }

func (e *Replayed) Error() string {
	return fmt.Sprintf("%s: what %s was given for was used already", InvalidGrant, e.Delegation)
}

// Redeem takes an authorization code. A code counts once, whether what came with it was right or not.
func (s *Consents) Redeem(in Redemption, now time.Time) (Issued, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.codes[digestOf(in.Code)]
	switch {
	case i == nil:
		return Issued{}, deny(InvalidGrant, "the code is not known")
	case i.used:
		i.replayed = true
		return Issued{}, &Replayed{i.Delegation}
	}
	i.used = true
	switch {
	case !now.Before(i.until):
		return Issued{}, deny(InvalidGrant, "the code is over")
	case i.Client.ID != in.Client:
		return Issued{}, deny(InvalidGrant, "the code is of another client")
	case in.Redirect != "" && in.Redirect != i.Redirect:
		return Issued{}, deny(InvalidGrant, "redirect_uri is another one than that of the request").as(AttemptRedirect)
	case !verifies(in.Verifier, i.challenge):
		return Issued{}, deny(InvalidGrant, "code_verifier does not fit code_challenge").as(AttemptPKCE)
	}
	return *i, nil
}
