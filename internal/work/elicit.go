package work

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// A client that can put a form to its user may be asked to put the question to them that a call waits for: an elicitation
// (runtime.md section 8). It is off for every kind that the operator does not name, because the word of the client is all
// there is for a person having answered.

// Elicitable are the kinds of questions that an operator may let clients put to their users. Removals and what is run with
// other rights are never among them.
func Elicitable() []approval.Kind {
	return []approval.Kind{approval.KindCommand, approval.KindInput, approval.KindFileWrite, approval.KindCallTool}
}

// elicitation is the channel of decisions that come by a form.
const elicitation = "elicitation"

// Said is what a client's user said to the form of an answer.
type Said struct {
	State    string // of the form
	Decision Decision
	Note     string
}

// Decision is a yes or a no; "" is neither: the user has turned away.
type Decision string

// The decisions.
const (
	Approve Decision = "approve"
	Deny    Decision = "deny"
)

// formState binds a form to the question and to what was shown of it.
type formState struct {
	Approval string `json:"a"`
	Subject  string `json:"s"`
}

// seal makes the text that comes back with the answer to a form; it is good for one principal.
func (s *Service) seal(principal string, f formState) (string, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(raw) + "." + base64.RawURLEncoding.EncodeToString(s.sealOf(principal, raw)), nil
}

func (s *Service) sealOf(principal string, raw []byte) []byte {
	mac := hmac.New(sha256.New, s.cfg.Key)
	mac.Write([]byte("mcpx form 1\n" + principal + "\n"))
	mac.Write(raw)
	return mac.Sum(nil)
}

func (s *Service) unseal(principal, text string) (f formState, ok bool) {
	body, seal, _ := strings.Cut(text, ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	mac, bad := base64.RawURLEncoding.DecodeString(seal)
	if err != nil || bad != nil || !hmac.Equal(mac, s.sealOf(principal, raw)) {
		return f, false
	}
	return f, json.Unmarshal(raw, &f) == nil
}

// offerForm adds to an answer the form by which the client may ask its user: about what the call waits for, or, to whoever
// looks at the questions of others and may decide, about the newest of those. Whoever has just answered one is not asked again
// by the same call.
func (s *Service) offerForm(ctx context.Context, t *turn, a *operation.Answer) {
	if !t.Forms {
		return
	}
	refs := t.others
	if a.Waiting != nil {
		refs = []string{a.Waiting.Approval}
	}
	var asked approval.Approval
	for _, ref := range refs {
		err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
			asked, err = s.elicited(ctx, r, t.Principal, ref)
			return err
		})
		if err == nil {
			break
		}
		asked = approval.Approval{} // it waits for a person elsewhere
	}
	if asked.ID == "" {
		return
	}
	if a.Waiting != nil {
		a.Waiting.Channels = append(slices.Clone(a.Waiting.Channels), elicitation)
	}
	if t.Said != nil {
		return
	}
	state, err := s.seal(t.Principal, formState{Approval: asked.ID, Subject: asked.Subject})
	if err != nil {
		return // as above
	}
	a.Form = &operation.Form{Message: formMessage(asked), State: state}
}

// elicited finds a question that may be decided by a form, by this principal: whoever has a role that decides in its session,
// whoever asked.
func (s *Service) elicited(ctx context.Context, r store.Reader, principal, ref string) (approval.Approval, error) {
	a, err := r.ApprovalByID(ctx, approval.ByID{ID: ref})
	if err != nil {
		return a, err
	}
	elevated := slices.ContainsFunc(a.Reasons, func(reason string) bool { return strings.HasPrefix(reason, "elevate: ") })
	switch {
	case !slices.Contains(s.cfg.Elicit, a.Kind), !slices.Contains(Elicitable(), a.Kind), elevated:
		return a, operation.Refuse(operation.RoleDenied, "%s is not decided by a form", a.ID)
	case a.Full != "": // what is not shown whole is not decided
		return a, operation.Refuse(operation.LimitExceeded, "%s is too long for a form", a.ID)
	}
	_, err = admitTo(ctx, r, a.Session, a.Project, principal, session.ActDecide)
	return a, err
}

// formMessage is what a person sees: what will happen, why they are asked, and what their word is bound to.
func formMessage(a approval.Approval) string {
	var b strings.Builder
	b.WriteString("An agent wants to do this, once. mcpx asks whether it may:\n\n" + a.Display + "\n")
	for _, reason := range a.Reasons {
		b.WriteString("\nasked because of " + approval.Escape(reason, maxSummary))
	}
	if a.Claim != "" {
		b.WriteString("\nthe agent says, and nobody has checked it: " + a.Claim)
	}
	b.WriteString("\n" + string(a.Kind) + " " + a.ID + "\nsha256 " + a.Subject)
	return b.String()
}

// hear records what the user of a client said, before the call is looked at. What does not count any more is a warning: the
// call tells where it stands.
func (s *Service) hear(ctx context.Context, t *turn) (warnings []string, err error) {
	f, ok := s.unseal(t.Principal, t.Said.State)
	if !ok {
		return nil, operation.Refuse(operation.ArgumentInvalid, "requestState is not the one of a question to you; make the call without it")
	}
	if t.Said.Decision == "" {
		return nil, nil
	}
	err = s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		a, err := s.elicited(ctx, tx, t.Principal, f.Approval)
		if err != nil {
			return err
		}
		decided, err := approval.Decide(a, approval.Decision{
			Principal: t.Principal, Channel: elicitation, Client: t.Client, At: s.cfg.Now(), Note: t.Said.Note, Digest: f.Subject,
		}, t.Said.Decision == Approve)
		if err != nil {
			return err
		}
		by := t.actor()
		by.Channel = elicitation
		if err := s.putApproval(ctx, tx, by, decided, event.ApprovalDecided, decided.ID+" was "+string(decided.State)+": "+decided.Display); err != nil {
			return err
		}
		if decided.State == approval.Denied {
			return s.Ended(ctx, tx, by, decided)
		}
		return nil
	})
	if r, ok := errors.AsType[*operation.Refusal](err); ok {
		return []string{"what was said does not count: " + r.Message}, nil
	}
	switch f := fault.From(err); {
	case err == nil:
		return nil, nil
	case f.Kind == fault.Stale, f.Kind == fault.Conflict, f.Kind == fault.Denied, f.Kind == fault.NotFound:
		return []string{"what was said does not count: " + f.Message}, nil
	}
	return nil, unwritten(err)
}
