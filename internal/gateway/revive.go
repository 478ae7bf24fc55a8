package gateway

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"mcpx/internal/rpc"
	"mcpx/internal/store"
)

// sessionSetup is the part of a stored session that only the gateway reads.
type sessionSetup struct {
	Process  string        `json:"process"`          // catalog.Server.Process of its server
	Level    int           `json:"level"`            // rank of the log level, -1 all
	Subs     []string      `json:"subs,omitempty"`   // subscribed resources
	Own      bool          `json:"own,omitempty"`    // see Session
	Alone    bool          `json:"alone,omitempty"`  // see Session
	Bridge   bool          `json:"bridge,omitempty"` // cell L-M
	Upstream upstreamState `json:"upstream,omitzero"`
	Home     home          `json:"home,omitzero"`
}

// upstreamState is the session of an HTTP backend that the lane of a session has.
type upstreamState struct {
	Session string `json:"session,omitempty"`
	Version string `json:"version,omitempty"`
}

// shortKey names a session in ids on shared lanes and in tags. It is made from the id, so that it is the same in every
// daemon.
func shortKey(id string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	return (strconv.FormatUint(h.Sum64(), 36) + "000000000000")[:shortKeyLen]
}

// stored is the session as it must outlive the daemon.
func (x *Session) stored() store.Session {
	def := x.srv.def.Load()
	set := sessionSetup{Process: def.Process(), Own: x.own, Alone: x.alone, Bridge: x.bridged, Home: x.home}
	if l := x.slot.usable(); l != nil && def.HTTP != nil && !x.bridged && !x.srv.sse.Load() {
		set.Upstream = upstreamState{Session: l.link.Info().Session, Version: l.version()}
	}
	x.mu.Lock()
	set.Level = x.level
	for uri := range x.subs {
		set.Subs = append(set.Subs, uri)
	}
	if set.Upstream.Session != "" {
		x.upstream = set.Upstream
	}
	set.Upstream = x.upstream // at a stop the link may be closed already
	created := x.created
	c := x.caller
	x.mu.Unlock()
	slices.Sort(set.Subs)
	raw, err := json.Marshal(set)
	if err != nil {
		panic("gateway: the set-up of a session does not encode: " + err.Error())
	}
	return store.Session{
		ID: x.ID, Server: def.ID, Principal: c.Principal, Agent: c.Agent, Workspace: c.Workspace, Instance: c.Instance,
		Version: x.Version, Lane: x.slot.key, Initial: x.body, Answer: x.first, Setup: raw, Created: store.CutTime(created),
	}
}

// changed has the session written again: what it set up must outlive the daemon, too.
func (x *Session) changed() {
	x.mu.Lock()
	ready := x.ready
	x.mu.Unlock()
	if ready {
		x.srv.g.shelf.save(x)
	}
}

func (x *Session) isOver() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ended
}

// revive puts a stored session back into its server. False: it cannot go on, because the server changed or the record
// cannot be read.
func (s *Server) revive(st store.Session, now time.Time) bool {
	var set sessionSetup
	m, err := rpc.Scan(st.Initial)
	if err != nil || json.Unmarshal(st.Setup, &set) != nil || set.Process != s.def.Load().Process() {
		return false
	}
	if _, err := rpc.Scan(st.Answer); err != nil {
		return false
	}
	c := Caller{Principal: st.Principal, Agent: st.Agent, Workspace: st.Workspace, Instance: st.Instance}
	x := s.sessionOf(st.ID, st.Initial, m, c)
	x.Version, x.first, x.own, x.alone, x.bridged = st.Version, st.Answer, set.Own, set.Alone, set.Bridge
	x.ready, x.used, x.created, x.upstream = true, now, st.Created, set.Upstream
	x.home = set.Home
	if set.Level < len(levels) {
		x.level = set.Level
	}
	for _, uri := range set.Subs {
		x.subs[uri] = true
	}
	x.past = s.noWitness(now)
	if e := s.def.Load(); e.Direct && !e.Stateful {
		x.news.Store(&trouble{class: NotSent, text: unsupervised + ", with all that it kept in memory; the next request starts it again"})
	}
	start := x.startExclusive
	switch {
	case x.bridged:
		start = s.startModern(c)
	case !x.own:
		start = s.startShared([]byte(allCapabilities), c)
	}
	if x.slot, err = s.slotFor(st.Lane, start); err != nil {
		return false
	}
	if j := x.upstreamOf(c); j != nil {
		x.slot.joins(j)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.sessions[x.ID] = x
	return true
}
