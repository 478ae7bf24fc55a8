package work

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"mcpx/internal/key"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Claims is what a model may say about what it does (runtime.md section 3.1).
type Claims struct {
	Activity map[string]any `json:"activity,omitempty" jsonschema:"for the person"`
}

// note stores, before a call runs, what was said about it and that its session is used. It never fails a call: what a model
// says decides nothing, and the call finds out by itself that its session does not exist.
func (s *Service) note(ctx context.Context, t *turn) (warnings []string) {
	said, warnings := session.ReadActivity(session.ActivityRequest{Raw: t.args["activity"], Redact: s.cfg.RedactText})
	ref := t.text("remote_session_id")
	if ref == "" || len(said) == 0 && s.used.lately(ref, s.cfg.Now()) {
		return warnings
	}
	read := func(r store.Reader) (one session.Session, changed bool, err error) {
		a, err := session.Admit(ctx, r, session.AdmitRequest{Session: ref, Principal: t.Principal, Act: session.ActRead})
		if err != nil || a.Session.State == session.Closed {
			return one, false, err
		}
		one, used := session.Touch(a.Session, s.cfg.Now())
		one, spoke := session.Say(one, said)
		return one, used || spoke || len(said) > 0, nil
	}
	var one session.Session
	var needed bool
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		one, needed, err = read(r)
		return err
	})
	if err != nil {
		return warnings
	}
	if !needed {
		s.used.note(ref, one.Used)
		return warnings
	}
	err = s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		one, _, err := read(tx)
		if err != nil {
			return err
		}
		if err := tx.PutRemoteSession(ctx, session.PutSession{Session: one}); err != nil {
			return err
		}
		drafts, err := session.ActivityDrafts{Activity: said, Session: one, Operation: t.text("operation_id"), Actor: t.actor(), Now: s.cfg.Now()}.Drafts()
		if err != nil {
			return err
		}
		for _, d := range drafts {
			if _, err := tx.AppendEvent(ctx, d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "an activity was not stored", slog.Any(key.Cause, err))
	}
	return warnings
}

// maxUsed bounds the sessions of which is remembered when they were used.
const maxUsed = 1000

// used remembers when the last use of a session was written down, so that the calls after it need not look.
type used struct {
	mu  sync.Mutex // guards all
	all map[string]time.Time
}

func (u *used) note(session string, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil || len(u.all) >= maxUsed {
		u.all = map[string]time.Time{} // forgetting only costs a look
	}
	u.all[session] = at
}

// lately tells that a use at this time has not to be written down.
func (u *used) lately(id string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, ok := u.all[id]
	_, needed := session.Touch(session.Session{Used: at}, now)
	return ok && !needed
}
