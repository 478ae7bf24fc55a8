package approval

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mcpx/internal/fault"
)

const (
	// Nobody waits in a call for the decision on a plan, so its question may lie over a weekend.
	planPendingLife = 7 * 24 * time.Hour
	pendingLife     = 30 * time.Minute

	// approvedLife is short: a yes is about what was on the screen a moment ago.
	approvedLife = 15 * time.Minute

	// planRest keeps a plan that a person refused from being asked about at every audit.
	planRest = 30 * 24 * time.Hour
	rest     = 10 * time.Minute

	// MaxDisplay bounds what a question shows in short, in bytes; the full record has a place of its own.
	MaxDisplay = 4 << 10
	// maxClaim bounds what a model may say to a question.
	maxClaim = 512

	// MaxPending bounds the questions of one session that wait for an answer: a person who is asked more does not look.
	MaxPending = 20
)

// Codes of Why.
const (
	WhyUnanswered = "approval-unanswered" // nobody decided in time
	WhyUnused     = "approval-unused"     // the yes was not used in time
	WhyStale      = "approval-stale"      // a file, the catalog or the policy has changed since
	WhyWithdrawn  = "approval-withdrawn"  // a person took the question or the yes back
	WhyClosed     = "approval-closed"     // the session was closed
	WhyAbandoned  = "approval-abandoned"  // whoever asked gave the operation up
)

// Final tells that the state never changes.
func (s State) Final() bool {
	switch s {
	case Pending, Approved:
		return false
	case Denied, Expired, Revoked, Consumed:
		return true
	}
	return true // a state of a newer build: nothing may be done with it
}

// Question is what a person is asked.
type Question struct {
	Kind      Kind
	About     string
	Subject   string // hex of a SHA-256
	Display   string
	Full      string // reference to the whole of a Display that is too long
	Reasons   []string
	Claim     string
	Principal string
	Project   string
	Session   string
	Operation string
}

// New makes the pending approval of a question.
func New(id string, q Question, now time.Time) (Approval, error) {
	if digest, err := hex.DecodeString(q.Subject); err != nil || len(digest) != 32 {
		return Approval{}, fmt.Errorf("approval: Question.Subject is %q, want a SHA-256 in hex", q.Subject)
	}
	for _, required := range []struct{ name, value string }{
		{"id", id}, {"Question.Kind", string(q.Kind)}, {"Question.About", q.About}, {"Question.Principal", q.Principal},
	} {
		if required.value == "" {
			return Approval{}, errors.New("approval: " + required.name + " is required")
		}
	}
	return Approval{
		ID: id, Kind: q.Kind, About: q.About, Subject: q.Subject, Display: Escape(q.Display, MaxDisplay), Full: q.Full,
		Reasons: slices.Clone(q.Reasons), Claim: Escape(q.Claim, maxClaim), Principal: q.Principal,
		Project: q.Project, Session: q.Session, Operation: q.Operation,
		Requested: now, Expires: now.Add(q.Kind.pendingLife()), State: Pending,
	}, nil
}

func (k Kind) pendingLife() time.Duration {
	if k == KindPlan {
		return planPendingLife
	}
	return pendingLife
}

func (k Kind) rest() time.Duration {
	if k == KindPlan {
		return planRest
	}
	return rest
}

// Escape escapes what could make a terminal show something else than what is approved: controls, and the characters
// that turn the direction of text or are not seen at all. Line feeds and tabs stay. What is longer than most is cut.
func Escape(s string, most int) string {
	var b strings.Builder
	for _, r := range s {
		part := string(r)
		if r == utf8.RuneError || r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
			part = fmt.Sprintf(`\u{%x}`, r)
		}
		if b.Len()+len(part) > most-len("…") {
			return b.String() + "…"
		}
		b.WriteString(part)
	}
	return b.String()
}

// Decide records the yes or no of a person. What was displayed must be what is asked about now, else kind Stale, code
// approval-stale.
func Decide(a Approval, d Decision, yes bool) (Approval, error) {
	if a, expired := Expire(a, d.At); expired {
		return Approval{}, refused(a)
	}
	if a.State != Pending {
		return Approval{}, refused(a)
	}
	if d.Digest != a.Subject {
		return Approval{}, fault.New(fault.Stale, "approval-stale").
			Saying("what was shown is not what %s asks about now", a.ID).
			Hinting("look at it again with `mcpx approval show %s`", a.ID).Retrying(fault.AfterFix)
	}
	if d.Principal == "" || d.Channel == "" || d.At.IsZero() {
		return Approval{}, errors.New("approval: a decision needs a principal, a channel and a time")
	}
	a.Decision = &d
	if !yes {
		a.State = Denied
		return a, nil
	}
	a.State, a.Expires = Approved, d.At.Add(approvedLife)
	return a, nil
}

// Consume uses a yes for one effect, the receipt or operation that consumer names. subject is the hash of what is about
// to be done, made again from what is there now.
func Consume(a Approval, subject, consumer string, now time.Time) (Approval, error) {
	if consumer == "" {
		return Approval{}, errors.New("approval: Consume needs the id of the consumer")
	}
	if a, expired := Expire(a, now); expired {
		return Approval{}, refused(a)
	}
	if a.State != Approved {
		return Approval{}, refused(a)
	}
	if subject != a.Subject || a.Decision == nil || a.Decision.Digest != subject {
		return Approval{}, stale(a)
	}
	a.State, a.Consumer, a.Used = Consumed, consumer, now
	return a, nil
}

// Revoke ends an approval that is not final; why is a code.
func Revoke(a Approval, why string) (Approval, error) {
	if a.State.Final() {
		return Approval{}, refused(a)
	}
	a.State, a.Why = Revoked, why
	return a, nil
}

// Expire ends an approval whose time is over, and tells whether it did. The moment Expires is too late.
func Expire(a Approval, now time.Time) (Approval, bool) {
	if a.State.Final() || now.Before(a.Expires) {
		return a, false
	}
	a.Why = WhyUnanswered
	if a.State == Approved {
		a.Why = WhyUnused
	}
	a.State = Expired
	return a, true
}

// Ask tells whether a question may be asked, given every approval about the same thing. Open is the one that is asked
// already, denied the no to exactly this subject that still counts: what a person refused rests, unless what it was made
// from has changed. Each is nil when there is none.
func Ask(earlier []Approval, q Question, now time.Time) (open, denied *Approval) {
	for _, a := range earlier {
		if a.Kind != q.Kind || a.About != q.About || a.Subject != q.Subject {
			continue
		}
		if now, expired := Expire(a, now); !expired && !now.State.Final() {
			open = &a
		}
		if a.rests(now) && (denied == nil || denied.Decision.At.Before(a.Decision.At)) {
			denied = &a
		}
	}
	return open, denied
}

// rests tells that what a person refused is not asked again yet.
func (a Approval) rests(now time.Time) bool {
	return a.State == Denied && a.Decision != nil && a.Decision.At.Add(a.Kind.rest()).After(now)
}

// refused is the error for a step that the state does not allow.
func refused(a Approval) *fault.Error {
	f := refusedStep(a)
	switch {
	case a.Kind == KindPlan || a.State == Pending || a.State == Denied:
		return f
	case a.State == Approved:
		return f.Hinting("the identical call uses it")
	}
	return f.Hinting("whoever asked calls again with another operation_id")
}

func refusedStep(a Approval) *fault.Error {
	switch a.State {
	case Pending:
		return fault.New(fault.NeedsApproval, "approval-pending").
			Saying("%s waits for the decision of a person", a.ID).
			Hinting("a person runs `mcpx approval show %s`", a.ID)
	case Approved:
		return fault.New(fault.Conflict, "approval-approved").
			Saying("%s is approved already", a.ID).Hinting("apply it: `mcpx apply %s`", a.About)
	case Denied:
		return fault.New(fault.Denied, "approval-denied").
			Saying("%s was denied%s", a.ID, note(a)).
			Hinting("it is not asked again for a while unless what it is about changes")
	case Expired:
		return fault.New(fault.Stale, "approval-expired").
			Saying("the time of %s is over", a.ID).
			Hinting("`mcpx audit run` asks again").Retrying(fault.AfterFix)
	case Revoked:
		return stale(a)
	case Consumed:
		return fault.New(fault.Conflict, "approval-consumed").
			Saying("%s was used by %s", a.ID, a.Consumer).
			Hinting("a yes counts once; `mcpx audit run` asks again if there is more to do")
	}
	return fault.New(fault.Conflict, "approval-final").
		Saying("%s is %s, which this mcpx does not know", a.ID, a.State).Hinting("start the newer mcpx that wrote it")
}

func note(a Approval) string {
	if a.Decision == nil || a.Decision.Note == "" {
		return ""
	}
	return ": " + a.Decision.Note
}

func stale(a Approval) *fault.Error {
	return fault.New(fault.Stale, "approval-stale").
		Saying("what %s is about has changed since it was shown", a.ID).
		Hinting("`mcpx audit run` makes a new plan and asks again").Retrying(fault.AfterFix)
}

// Unknown is the error for an id that no approval has.
func Unknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "approval-unknown").
		Saying("there is no approval %s", id).Hinting("`mcpx approval list` shows them")
}

// Ambiguous is the error for a beginning of an id that several approvals have.
func Ambiguous(id string) *fault.Error {
	return fault.New(fault.Conflict, "approval-ambiguous").
		Saying("several approvals begin with %s", id).Hinting("give more of the id; `mcpx approval list` shows them")
}

// Final is the error for a change of an approval that is final.
func Final(id string) *fault.Error {
	return fault.New(fault.Conflict, "approval-final").
		Saying("%s is final and cannot change", id).Hinting("look at it with `mcpx approval show %s`", id)
}
