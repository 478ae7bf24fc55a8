package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/key"
	"mcpx/internal/rpc"
)

// mergeLevel sets the lowest log level that any session of a shared lane wants; each session is filtered by its own.
func (l *lane) mergeLevel() {
	l.mu.Lock()
	lowest := len(levels)
	for x := range l.sessions {
		x.mu.Lock()
		if x.level >= 0 {
			lowest = min(lowest, x.level)
		}
		x.mu.Unlock()
	}
	change := lowest < len(levels) && lowest != l.level
	if change {
		l.level = lowest
	}
	l.mu.Unlock()
	if change {
		l.remember()
		l.fire("logging/setLevel", append(append([]byte(`{"level":`), rpc.Quote(levels[lowest])...), '}'))
	}
}

// countSub counts the sessions that subscribe to one resource of a shared lane. It reports whether the backend must
// be told: for the first subscriber and after the last one.
// What changes nothing for the session (had says whether it was subscribed) changes nothing for the others either.
func (l *lane) countSub(had bool, method string, body []byte, m rpc.Message) (pass bool) {
	uri, ok := rpc.Unquote(m.URI.Of(body))
	if !ok {
		return true // the backend says what is wrong with it
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if had == (method == "resources/subscribe") {
		return l.subs[uri] == 0 // nothing to take back, or subscribed already; the backend judges what nobody holds
	}
	if method == "resources/subscribe" {
		l.subs[uri]++
		return l.subs[uri] == 1
	}
	if l.subs[uri] > 1 {
		l.subs[uri]--
		return false
	}
	delete(l.subs, uri)
	return true
}

// mergeSubs recounts the subscriptions after a session left and ends those that nobody has any more.
func (l *lane) mergeSubs() {
	if !l.shared {
		return
	}
	l.mu.Lock()
	counts := map[string]int{}
	for x := range l.sessions {
		x.mu.Lock()
		for uri := range x.subs {
			counts[uri]++
		}
		x.mu.Unlock()
	}
	for b := range l.listens {
		for _, uri := range b.filter.URIs {
			counts[uri]++
		}
	}
	var over []string
	for uri := range l.subs {
		if counts[uri] == 0 {
			over = append(over, uri)
		}
	}
	l.subs = counts
	l.mu.Unlock()
	for _, uri := range over {
		l.fire("resources/unsubscribe", append(append([]byte(`{"uri":`), rpc.Quote(uri)...), '}'))
	}
}

// restoreShared gives a new process of a shared lane what its sessions had set up, and tells them that lists may have
// changed. The sessions of the former lane come along.
func (l *lane) restoreShared() {
	l.srv.mu.Lock()
	var back []*Session
	for _, x := range l.srv.sessions {
		if x.slot == l.slot && !x.bridged {
			back = append(back, x)
		}
	}
	l.srv.mu.Unlock()
	if len(back) == 0 {
		return
	}
	l.mu.Lock()
	for _, x := range back {
		l.enlistLocked(x)
	}
	uris := make([]string, 0, len(l.subs))
	for uri := range l.subs {
		uris = append(uris, uri)
	}
	l.mu.Unlock()
	l.mergeLevel()
	for _, uri := range uris {
		l.fire("resources/subscribe", append(append([]byte(`{"uri":`), rpc.Quote(uri)...), '}'))
	}
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if l.declares(kind) {
			for _, x := range back {
				x.get.push(rpc.NotificationMessage("notifications/"+kind+"/list_changed", nil))
			}
		}
	}
}

// declares reports whether the backend's handshake result has a capability.
func (l *lane) declares(name string) bool {
	caps := rpc.Find(l.result, rpc.Span{To: len(l.result)}, "capabilities")
	return caps.Ok() && rpc.Find(l.result, caps, name).Ok()
}

// rootsHintFor is how long the question for roots that follows a change of roots is taken for its echo.
const rootsHintFor = 5 * time.Second

// hintRoots remembers whose roots changed: a server asks for them right after, with no call in flight.
func (l *lane) hintRoots(x *Session) {
	l.mu.Lock()
	l.roots, l.rootsAt = x, l.srv.g.now()
	l.mu.Unlock()
}

// maxSchemaPages bounds the pages of tools/list that the gateway reads for header rules.
const maxSchemaPages = 64

// toolSchemas holds which tools of a lane mirror parameters into headers (Mcp-Param-*), read once from tools/list.
type toolSchemas struct {
	once   sync.Once
	done   chan struct{}
	failed bool                         // the list could not be read: the next call tries again
	params map[string][]era.ParamHeader // only tools that have any
}

// schemas gives the header rules of the lane's tools, from a tools/list of the gateway's own.
func (l *lane) schemas() *toolSchemas {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.schema == nil || l.schema.known() && l.schema.failed {
		l.schema = &toolSchemas{done: make(chan struct{})}
	}
	return l.schema
}

// forgetSchemas drops the header rules; the next call reads the list again.
func (l *lane) forgetSchemas() {
	l.mu.Lock()
	l.schema = nil
	l.mu.Unlock()
}

// known reports whether the rules are there already.
func (t *toolSchemas) known() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// load fetches the list once; everyone else waits.
func (t *toolSchemas) load(l *lane) {
	t.once.Do(func() {
		defer close(t.done)
		t.params, t.failed = l.fetchParams()
	})
	<-t.done
}

// of gives the rules of the tool that a request calls.
func (t *toolSchemas) of(r ModernRequest) []era.ParamHeader {
	if len(t.params) == 0 {
		return nil
	}
	name, _ := rpc.Unquote(r.Msg.Name.Of(r.Body))
	return t.params[name]
}

// check verifies Mcp-Param-* of a request; the gateway's own client sends none.
func (t *toolSchemas) check(r ModernRequest) *Refusal {
	if r.Header == nil {
		return nil
	}
	if bad := era.CheckParams(r.Body, r.Msg, r.Header, t.of(r)); bad != nil {
		return &Refusal{Status: bad.Status, Code: bad.Code, Message: bad.Message, Data: bad.Data}
	}
	return nil
}

func (l *lane) fetchParams() (rules map[string][]era.ParamHeader, failed bool) {
	rules = map[string][]era.ParamHeader{}
	var cursor []byte
	for range maxSchemaPages {
		params := l.pageParams(cursor)
		ctx, stop := context.WithTimeout(l.srv.g.ctx, 30*time.Second)
		a, err := l.roundTrip(ctx, "tools/list", rpc.RequestMessage(l.ownID(), "tools/list", params), nobody{}, map[string]string{"Mcp-Method": "tools/list"}, 30*time.Second)
		stop()
		if err != nil || a.own != nil || a.msg.Kind != rpc.Result {
			// A server without tools has no rules: a call to it is judged by the server.
			return rules, err != nil || a.own != nil
		}
		list := rpc.Find(a.body, a.msg.Result, "tools")
		if list.Ok() && a.body[list.From] == '[' {
			for tool := range rpc.Elements(a.body, list) {
				raw := tool.Of(a.body)
				name, ok := rpc.Unquote(rpc.Find(raw, rpc.Span{To: len(raw)}, "name").Of(raw))
				hs, err := era.ParamHeaders(raw)
				if err != nil {
					l.srv.g.log.LogAttrs(ctxNone, slog.LevelWarn, "tool has an invalid x-mcp-header annotation", slog.String(key.Server, l.srv.name()), slog.String(key.Cause, err.Error()))
					continue
				}
				if ok && len(hs) > 0 {
					rules[name] = hs
				}
			}
		}
		next := rpc.Find(a.body, a.msg.Result, "nextCursor")
		if !next.Ok() || string(next.Of(a.body)) == "null" {
			break
		}
		cursor = bytes.Clone(next.Of(a.body))
	}
	return rules, false
}

// pageParams is the params of a list request, in the form of the lane's era.
func (l *lane) pageParams(cursor []byte) []byte {
	if l.era == era.Modern {
		return l.envelope(cursor)
	}
	if cursor == nil {
		return []byte("{}")
	}
	return append(append([]byte(`{"cursor":`), cursor...), '}')
}

// envelope is the params of a request of the gateway's own to a modern backend.
func (l *lane) envelope(cursor []byte) []byte {
	var b strings.Builder
	b.WriteString(`{"_meta":{`)
	b.Write(rpc.Quote(era.MetaProtocolVersion))
	b.WriteString(`:"` + era.V20260728 + `",`)
	b.Write(rpc.Quote(era.MetaClientInfo))
	b.WriteByte(':')
	b.Write(l.srv.g.clientInfo())
	b.WriteByte(',')
	b.Write(rpc.Quote(era.MetaClientCapabilities))
	b.WriteString(`:{}}`)
	if cursor != nil {
		b.WriteString(`,"cursor":`)
		b.Write(cursor)
	}
	b.WriteByte('}')
	return []byte(b.String())
}
