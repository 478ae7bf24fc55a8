package work

import "sync"

// maxSeen bounds the tools that are remembered, of all sessions together.
const maxSeen = 20000

// seen remembers in which revision sessions were shown tools, so that none is called by a description that has changed
// since. It lives as long as the daemon: a session of an earlier one goes by what is stored about the tools.
type seen struct {
	mu  sync.Mutex // guards all
	all map[shown]string
}

// shown is a tool in a session.
type shown struct{ session, tool string }

func (s *seen) note(session, tool, revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= maxSeen {
		s.all = map[shown]string{} // forgetting only costs a comparison
	}
	s.all[shown{session, tool}] = revision
}

// revision is "" for a tool that the session was not shown.
func (s *seen) revision(session, tool string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[shown{session, tool}]
}
