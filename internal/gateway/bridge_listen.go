package gateway

import (
	"encoding/json"
	"slices"
	"sync"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// bridgedListen is a subscriptions/listen of a modern client on a legacy lane: the backend's notifications, filtered
// by what was granted, tagged with the client's own listen id.
type bridgedListen struct {
	srv    *Server
	id     []byte
	stream *Stream
	filter listenFilter

	mu   sync.Mutex // guards lane and over
	lane *lane
	over bool
}

// listenFilter is params.notifications of a listen.
type listenFilter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

// bridgeListen acknowledges the honest subset first and then passes what belongs to it.
func (s *Server) bridgeListen(st *Stream, l *lane, r ModernRequest) {
	var want listenFilter
	if raw := rpc.Find(r.Body, r.Msg.Params, "notifications"); raw.Ok() {
		if err := json.Unmarshal(raw.Of(r.Body), &want); err != nil {
			st.finish(rpc.ErrorResponse(r.id(), era.CodeInvalidParams, "params.notifications is not a filter: "+err.Error(), nil), 200)
			return
		}
	}
	b := &bridgedListen{srv: s, id: r.id(), stream: st, filter: l.granted(want)}
	if !b.attach(l) {
		st.finish(trouble{class: Unavailable, text: "the server ended"}.body(r.id(), s.name(), r.method()), 200)
		return
	}
	filter, err := json.Marshal(b.filter)
	if err != nil {
		panic("gateway: listen filter does not encode: " + err.Error())
	}
	params := append([]byte(`{"_meta":`), b.tag()...)
	params = append(append(append(params, `,"notifications":`...), filter...), '}')
	st.push(rpc.NotificationMessage("notifications/subscriptions/acknowledged", params))
	st.onGone(b.leave)
}

// granted is the part of a filter that the backend can serve.
func (l *lane) granted(want listenFilter) listenFilter {
	caps := rpc.Find(l.result, rpc.Span{To: len(l.result)}, "capabilities")
	has := func(kind, flag string) bool {
		if !caps.Ok() {
			return false
		}
		at := rpc.Find(l.result, caps, kind)
		return at.Ok() && l.result[at.From] == '{' && string(rpc.Find(l.result, at, flag).Of(l.result)) == "true"
	}
	got := listenFilter{
		Tools:     want.Tools && has("tools", "listChanged"),
		Prompts:   want.Prompts && has("prompts", "listChanged"),
		Resources: want.Resources && has("resources", "listChanged"),
	}
	if has("resources", "subscribe") {
		got.URIs = want.URIs[:min(len(want.URIs), maxSubscriptions)]
	}
	return got
}

func (b *bridgedListen) tag() []byte {
	return append(append(append([]byte("{"), rpc.Quote(era.MetaSubscriptionID)...), ':'), append(slices.Clone(b.id), '}')...)
}

// attach makes the listen part of a lane's audience and subscribes its resources there.
func (b *bridgedListen) attach(l *lane) bool {
	l.mu.Lock()
	if l.isEndedLocked() {
		l.mu.Unlock()
		return false
	}
	if l.listens == nil {
		l.listens = map[*bridgedListen]struct{}{}
	}
	l.listens[b] = struct{}{}
	var first []string
	for _, uri := range b.filter.URIs {
		if l.subs[uri]++; l.subs[uri] == 1 {
			first = append(first, uri)
		}
	}
	l.mu.Unlock()
	b.mu.Lock()
	b.lane = l
	b.mu.Unlock()
	for _, uri := range first {
		l.fire("resources/subscribe", append(append([]byte(`{"uri":`), rpc.Quote(uri)...), '}'))
	}
	return true
}

// leave ends the listen: its client closed the stream.
func (b *bridgedListen) leave() {
	b.mu.Lock()
	l := b.lane
	b.over = true
	b.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	delete(l.listens, b)
	l.mu.Unlock()
	l.mergeSubs()
}

// moved puts the listen on the next process after its lane ended, and says what may have changed meanwhile.
func (b *bridgedListen) moved(sl *slot) {
	b.mu.Lock()
	over := b.over
	b.mu.Unlock()
	if over {
		return
	}
	l, err := sl.get(b.srv.g.ctx)
	if err != nil || !b.attach(l) {
		b.stream.finish(rpc.ResultResponse(b.id, append(append([]byte(`{"resultType":"complete","_meta":`), b.tag()...), '}')), 200)
		return
	}
	for kind, wanted := range map[string]bool{"tools": b.filter.Tools, "prompts": b.filter.Prompts, "resources": b.filter.Resources} {
		if wanted {
			method := "notifications/" + kind + "/list_changed"
			b.push(rpc.NotificationMessage(method, nil))
		}
	}
}

func (b *bridgedListen) ask(a *ask, _ *call) { a.giveUp() }

// tell passes a notification that the filter grants.
func (b *bridgedListen) tell(_ *call, method string, body []byte, m rpc.Message) {
	switch method {
	case "notifications/tools/list_changed":
		if !b.filter.Tools {
			return
		}
	case "notifications/prompts/list_changed":
		if !b.filter.Prompts {
			return
		}
	case "notifications/resources/list_changed":
		if !b.filter.Resources {
			return
		}
	case "notifications/resources/updated":
		uri, _ := rpc.Unquote(m.URI.Of(body))
		if !slices.Contains(b.filter.URIs, uri) {
			return
		}
	default:
		return
	}
	b.push(body)
}

// push adds the subscription id to a notification and sends it.
func (b *bridgedListen) push(body []byte) {
	m := mustScan(body)
	whole := rpc.Span{To: len(body)}
	switch {
	case m.Meta.Ok():
		body = rpc.Splice(body, rpc.EditObject(body, m.Meta, nil, rpc.Pair{Key: era.MetaSubscriptionID, Value: b.id})...)
	case m.Params.Ok():
		body = rpc.Splice(body, rpc.EditObject(body, m.Params, nil, rpc.Pair{Key: "_meta", Value: b.tag()})...)
	default:
		body = rpc.Splice(body, rpc.EditObject(body, whole, nil, rpc.Pair{Key: "params", Value: append(append([]byte(`{"_meta":`), b.tag()...), '}')})...)
	}
	b.stream.push(rpc.OneLine(body))
}
