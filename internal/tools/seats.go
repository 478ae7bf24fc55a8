package tools

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"

	"mcpx/internal/auth"
)

// maxSeats bounds the sessions of one agent: a person has a few windows of it open. The one more takes the place of the
// session that was used least recently.
const maxSeats = 16

// maxKnown bounds what is remembered of one agent: its sessions, and those that ended.
const maxKnown = 16 * maxSeats

// seats are the sessions of all agents. The id of a session says for whom it was made and is sealed, so a daemon knows
// the sessions of the one before without a row for each.
type seats struct {
	key   []byte
	start int64 // ms: sessions from before this daemon may be unknown to it, later ones not

	mu     sync.Mutex // guards agents
	agents map[string]map[string]*seat
}

type seat struct {
	used  time.Time
	ended bool
}

func newSeats(key []byte, now time.Time) *seats {
	return &seats{key: key, start: now.UnixMilli(), agents: map[string]map[string]*seat{}}
}

// Layout of an id: milliseconds, random bytes, seal.
const (
	seatTime   = 8
	seatRandom = 8
	seatSeal   = 16
)

func (s *seats) seal(line string, head []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write(head)
	mac.Write([]byte(line))
	return mac.Sum(nil)[:seatSeal]
}

// take makes a session for the holder of the token.
func (s *seats) take(t auth.Token, now time.Time) string {
	head := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli()))
	head = append(head, make([]byte, seatRandom)...)
	_, _ = rand.Read(head[seatTime:]) // never fails
	id := base64.RawURLEncoding.EncodeToString(append(head, s.seal(t.Line, head)...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sitLocked(t.Agent, id, now)
	return id
}

// use says whether the session is one of the holder of the token, and goes on.
func (s *seats) use(t auth.Token, id string, now time.Time) bool {
	made, ok := s.opened(t, id)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.agents[t.Agent][id]
	switch {
	case one == nil && made >= s.start:
		return false // of this daemon, and forgotten since it ended
	case one == nil:
		s.sitLocked(t.Agent, id, now)
	case one.ended:
		return false
	default:
		one.used = now
	}
	return true
}

// end ends a session. One that is not there is no error: a client may end it twice.
func (s *seats) end(t auth.Token, id string, now time.Time) {
	if _, ok := s.opened(t, id); !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agents[t.Agent][id] == nil {
		s.sitLocked(t.Agent, id, now)
	}
	s.agents[t.Agent][id].ended = true
}

// opened checks the seal: who has another token cannot even end the session.
func (s *seats) opened(t auth.Token, id string) (made int64, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(raw) != seatTime+seatRandom+seatSeal {
		return 0, false
	}
	head, seal := raw[:seatTime+seatRandom], raw[seatTime+seatRandom:]
	if !hmac.Equal(seal, s.seal(t.Line, head)) {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(head)), true
}

// sitLocked adds a session and makes room for it.
func (s *seats) sitLocked(agent, id string, now time.Time) {
	all := s.agents[agent]
	if all == nil {
		all = map[string]*seat{}
		s.agents[agent] = all
	}
	live := 0
	var oldest, stalest string // of the live ones, of the ended ones
	for other, one := range all {
		if one.ended {
			if stalest == "" || one.used.Before(all[stalest].used) {
				stalest = other
			}
			continue
		}
		live++
		if oldest == "" || one.used.Before(all[oldest].used) {
			oldest = other
		}
	}
	if live >= maxSeats {
		all[oldest].ended = true
	}
	if len(all) >= maxKnown && stalest != "" {
		delete(all, stalest)
	}
	all[id] = &seat{used: now}
}
