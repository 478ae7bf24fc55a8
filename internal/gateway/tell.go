package gateway

import (
	"slices"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// streamFor picks the stream of a message that belongs to a call, or to the session as a whole: the call's own stream
// while it is open, else that of the only call in flight, else the standalone stream.
func (x *Session) streamFor(via *call) *Stream {
	if via != nil && via.stream != nil && !via.ended.Load() {
		return via.stream
	}
	if x.get.isLive() {
		return x.get
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var newest *call
	for _, c := range x.calls {
		if c.stream != nil && !c.ended.Load() && (newest == nil || c.number() > newest.number()) {
			newest = c
		}
	}
	if newest != nil {
		return newest.stream
	}
	return x.get
}

// tell passes one notification to the client.
func (x *Session) tell(via *call, method string, body []byte, m rpc.Message) {
	l := x.slot.usable()
	if x.bridged {
		x.tellBridged(via, method, body, m)
		return
	}
	if !x.own && l != nil {
		if method == "notifications/message" && !x.wants(body, m) {
			return
		}
		if method == "notifications/resources/updated" && !x.subscribed(body, m) {
			return
		}
		if x.Version < l.version() {
			body = era.DowngradeNotification(method, x.Version, body)
		}
	}
	x.streamForNote(via, method).push(rpc.OneLine(body))
}

// streamForNote prefers the stream of the only call in flight for messages that most likely belong to it: log lines
// are read where the call is read.
func (x *Session) streamForNote(via *call, method string) *Stream {
	if via == nil && method == "notifications/message" {
		x.mu.Lock()
		if len(x.calls) == 1 {
			for _, c := range x.calls {
				via = c
			}
		}
		x.mu.Unlock()
	}
	return x.streamFor(via)
}

func (x *Session) wants(body []byte, m rpc.Message) bool {
	level, _ := rpc.Unquote(rpc.Find(body, m.Params, "level").Of(body))
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.level < 0 || slices.Index(levels, level) >= x.level
}

func (x *Session) subscribed(body []byte, m rpc.Message) bool {
	uri, _ := rpc.Unquote(m.URI.Of(body))
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.subs[uri]
}
