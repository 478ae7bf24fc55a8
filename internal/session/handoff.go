package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"mcpx/internal/id"
	"mcpx/internal/operation"
)

// Bounds of a hand-over.
const (
	HandoffTTL    = 10 * time.Minute // when nothing else is asked for
	MinHandoffTTL = time.Minute
	MaxHandoffTTL = 24 * time.Hour
)

// TokenPrefix begins every token of a hand-over, so that scanners for secrets and people recognise one.
const TokenPrefix = "mcpx_ho_"

// tokenMAC is the part of the MAC that a token carries, in bytes: 160 bits are not guessed within a day.
const tokenMAC = 20

var tokenText = base32.StdEncoding.WithPadding(base32.NoPadding)

// Handoff is one way into a session for somebody who has none: one use, one role, for a while.
type Handoff struct {
	ID        string    `json:"handoff_id"` // ho_
	Session   string    `json:"remote_session_id"`
	Role      Role      `json:"role"`
	By        string    `json:"by"`                  // principal that made it
	Operation string    `json:"operation,omitempty"` // under which it was made
	Made      time.Time `json:"made_at"`
	Expires   time.Time `json:"expires_at"`
	UsedBy    string    `json:"used_by,omitempty"` // principal
	Used      time.Time `json:"used_at,omitzero"`
}

// HandoffRequest asks for a hand-over.
type HandoffRequest struct {
	ID        string
	Session   string
	Role      Role          // "" viewer
	TTL       time.Duration // 0 HandoffTTL
	By        string
	Operation string
	Now       time.Time
}

// MakeHandoff makes a hand-over. ARGUMENT_INVALID: the role or the time cannot be given.
func MakeHandoff(in HandoffRequest) (Handoff, error) {
	if in.Role == "" {
		in.Role = Viewer
	}
	if in.TTL == 0 {
		in.TTL = HandoffTTL
	}
	if !slices.Contains(given, in.Role) {
		return Handoff{}, operation.Refuse(operation.ArgumentInvalid, "the role %s cannot be handed over", quoted(string(in.Role))).With("argument", "role").With("roles", given)
	}
	if in.TTL < MinHandoffTTL || in.TTL > MaxHandoffTTL {
		return Handoff{}, operation.Refuse(operation.ArgumentInvalid, "ttl_s is %d, want %d to %d", in.TTL/time.Second, MinHandoffTTL/time.Second, MaxHandoffTTL/time.Second).
			With("argument", "ttl_s").With("limit", int(MaxHandoffTTL/time.Second))
	}
	return Handoff{ID: in.ID, Session: in.Session, Role: in.Role, By: in.By, Operation: in.Operation, Made: in.Now, Expires: in.Now.Add(in.TTL)}, nil
}

// Counts says whether the hand-over still opens anything.
func (h Handoff) Counts(now time.Time) bool { return h.UsedBy == "" && now.Before(h.Expires) }

// Token is the text that opens the session, "" when it does so no more. It follows from the key of the daemon and the id,
// so nothing that is stored holds it, and a retry shows the same one.
func (h Handoff) Token(key []byte, now time.Time) string {
	if !h.Counts(now) {
		return ""
	}
	return tokenOf(key, h.ID)
}

func tokenOf(key []byte, handoff string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("mcpx handoff " + handoff))
	return TokenPrefix + strings.TrimPrefix(handoff, string(id.Handoff)+"_") + "_" + tokenText.EncodeToString(mac.Sum(nil)[:tokenMAC])
}

// HandoffOf is the id of the hand-over that a token belongs to. HANDOFF_INVALID for what was not made with the key: a
// caller looks nothing up for a guess.
func HandoffOf(key []byte, token string) (string, error) {
	rest, _ := strings.CutPrefix(token, TokenPrefix)
	ulid, _, _ := strings.Cut(rest, "_")
	handoff := string(id.Handoff) + "_" + ulid
	if !hmac.Equal([]byte(tokenOf(key, handoff)), []byte(token)) {
		return "", InvalidHandoff()
	}
	return handoff, nil
}

// RedeemRequest is a principal that presents the token of a hand-over.
type RedeemRequest struct {
	Handoff   Handoff
	Session   Session
	Principal string
	Now       time.Time
}

// Redeem uses a hand-over. The grant is the zero one for the principal of the session, who needs none; the token is used
// up all the same. HANDOFF_INVALID: used or expired, and the same for a session that is closed.
func Redeem(in RedeemRequest) (Handoff, Grant, error) {
	h := in.Handoff
	if !h.Counts(in.Now) || in.Session.ID != h.Session || in.Session.State == Closed {
		return Handoff{}, Grant{}, InvalidHandoff()
	}
	h.UsedBy, h.Used = in.Principal, in.Now
	if in.Principal == in.Session.Principal {
		return h, Grant{}, nil
	}
	return h, Grant{About: h.Session, Principal: in.Principal, Role: h.Role, By: h.By, Handoff: h.ID, At: in.Now}, nil
}

// InvalidHandoff is the one refusal for every token that opens nothing.
func InvalidHandoff() *operation.Refusal {
	return operation.Refuse(HandoffInvalid, "this hand-over token is unknown, used or expired; ask for another one")
}
