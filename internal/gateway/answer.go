package gateway

import (
	"strconv"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// Respond takes a client's answer to a question of the server. Answers to unknown or settled questions are dropped.
func (x *Session) Respond(body []byte, m rpc.Message) {
	idKey, ok := rpc.IDKey(m.ID.Of(body))
	if !ok {
		return
	}
	x.settled()
	x.mu.Lock()
	a := x.asks[idKey]
	delete(x.asks, idKey)
	if a == nil && x.past != nil && len(x.early) < maxEarly {
		// The question of an earlier daemon comes back in a moment.
		if x.early == nil {
			x.early = map[string][]byte{}
		}
		x.early[idKey] = body
	}
	x.mu.Unlock()
	if a == nil || !a.answered(body, m) {
		x.srv.late.Add(1)
	}
}

var _ notifiable = (*Session)(nil)

// ask shows a server's question to the client.
func (x *Session) ask(a *ask, via *call) {
	if why := x.caps.refuses(a); why != "" {
		a.refuse(era.CodeMethodNotFound, why)
		return
	}
	id := a.upID
	body := a.body
	if !x.own || id == nil {
		w := wireID{Epoch: x.srv.g.cfg.Epoch, Kind: idOwn, Session: x.short, Orig: origOf(orEmpty(a.upID))}
		if l := a.lane; id != nil && l != nil {
			w.Epoch, w.Stream = l.epoch, "q"+strconv.FormatUint(l.serial, 36) // a later daemon asks it under the same id
		} else {
			w.Stream = strconv.FormatUint(x.srv.g.posts.Add(1), 36)
		}
		id = w.encode()
		body = rpc.Splice(body, rpc.Edit{At: a.msg.ID, With: id})
	}
	idKey, _ := rpc.IDKey(id)
	st := a.stream
	if st == nil {
		st = x.streamFor(via)
	}
	if st.plain {
		st = x.get
	}
	nobodyReads := st == x.get && !st.isLive()
	wait := askPerson
	switch adopted := a.lane != nil && a.lane.adopted; {
	case adopted && !st.isLive():
		nobodyReads, wait = true, askAgain
	case nobodyReads:
		wait = askNobody
	}
	gone := func() {
		params := append(append([]byte(`{"requestId":`), id...), `,"reason":"the server does not wait for it any more"}`...)
		if !st.push(rpc.NotificationMessage("notifications/cancelled", params)) {
			x.get.push(rpc.NotificationMessage("notifications/cancelled", params))
		}
	}
	x.mu.Lock()
	ended := x.ended
	early := x.early[idKey]
	delete(x.early, idKey)
	if !ended && early == nil {
		x.asks[idKey] = a
	}
	x.mu.Unlock()
	switch {
	case ended:
		a.giveUp()
		return
	case early != nil:
		a.answered(early, mustScan(early))
		return
	}
	settled := func() { x.forgetAsk(idKey, a) }
	late := func() {
		if !nobodyReads || !st.isLive() || !a.rearm(askPerson, a.giveUp) {
			a.giveUp() // else somebody opened the stream meanwhile and reads the question now
		}
	}
	if a.shown(wait, late, gone, settled) {
		st.push(rpc.OneLine(body))
	}
}

func orEmpty(raw []byte) []byte {
	if raw == nil {
		return []byte(`""`)
	}
	return raw
}

func (x *Session) forgetAsk(idKey string, a *ask) {
	x.mu.Lock()
	if x.asks[idKey] == a {
		delete(x.asks, idKey)
	}
	x.mu.Unlock()
}

// refuses says why this client cannot be asked, "" when it can. Only declared capabilities and modes are used.
func (c clientCaps) refuses(a *ask) string {
	switch a.method {
	case "roots/list":
		if c.Roots == nil {
			return "the client did not declare roots"
		}
	case "sampling/createMessage":
		if c.Sampling == nil {
			return "the client did not declare sampling"
		}
		if c.Sampling.Tools == nil && rpc.Find(a.body, a.msg.Params, "tools").Ok() {
			return "the client did not declare sampling.tools"
		}
	case "elicitation/create":
		if c.Elicitation == nil {
			return "the client did not declare elicitation"
		}
		mode, _ := rpc.Unquote(rpc.Find(a.body, a.msg.Params, "mode").Of(a.body))
		// An empty elicitation capability is form mode (2025-11-25).
		formOnly := c.Elicitation.URL == nil
		urlOnly := c.Elicitation.Form == nil && c.Elicitation.URL != nil
		if mode == "url" && formOnly || mode != "url" && urlOnly {
			return "the client did not declare this mode of elicitation"
		}
	}
	return ""
}
