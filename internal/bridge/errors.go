package bridge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// The bridge's own answers are those of the gateway for the same causes (protocol.md section 4).
const (
	codeNotSent      = "-31901" // as it stands in the daemon's answer; the bridge makes none
	codeSentUnknown  = -31902
	codeAnsweredLost = -31903
	codeUnavailable  = -31905
	codeBusy         = -31907
	codeInternal     = -32603
)

// causeRestart is data.mcpx.cause of a request that was not handed on because its daemon ended.
const causeRestart = "daemon_restart"

// trouble is why a request gets an answer of the bridge.
type trouble struct {
	code  int
	class string // "" for an error that is no loss
	retry string
	text  string
}

var busy = &trouble{code: codeBusy, class: "busy", retry: "after_wait", text: "too many requests are under way"}

func sentUnknown(text string) *trouble {
	return &trouble{code: codeSentUnknown, class: "sent_unknown", retry: "unsafe", text: text + "; the request may have run"}
}

func answeredLost(text string) *trouble {
	return &trouble{code: codeAnsweredLost, class: "answered_lost", retry: "unsafe", text: text}
}

func unavailable(err error) *trouble {
	return &trouble{code: codeUnavailable, class: "unavailable", retry: "after_wait", text: sentence(err)}
}

// fail answers every open id of a request with the trouble.
func (b *bridge) fail(c *call, t *trouble) {
	var data []byte
	if t.class != "" {
		var err error
		data, err = json.Marshal(map[string]any{"mcpx": map[string]string{
			"class": t.class, "retry": t.retry, "server": b.name(), "method": c.method,
		}})
		if err != nil {
			panic("bridge: own error data does not encode: " + err.Error())
		}
	}
	c.mu.Lock()
	open := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	for _, id := range open {
		b.deliver(rpc.ErrorResponse(id, t.code, b.name()+": "+t.text, data))
	}
}

// words are the parts of a refusal that people can use. The gateway refuses with a JSON-RPC error, the local API with
// its own; both have the member error.
type words struct {
	Error struct {
		Code    json.RawMessage `json:"code"` // a number or a name
		Message string          `json:"message"`
		Hint    string          `json:"hint"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// refused is the error for a route that the daemon does not have.
func refused(server string, body []byte) *fault.Error {
	var w words
	if json.Unmarshal(body, &w) != nil || w.Error.Message == "" {
		return fault.New(fault.NotFound, "server-unknown").Saying("there is no server named %s", server).
			Hinting("see the names with `mcpx server list`").Retrying(fault.AfterFix)
	}
	var data struct {
		Hint string `json:"hint"`
		Mcpx struct {
			Hint string `json:"hint"`
		} `json:"mcpx"`
	}
	_ = json.Unmarshal(w.Error.Data, &data) // data of another shape holds no hint
	hint := w.Error.Hint
	if hint == "" {
		hint = data.Hint
	}
	if hint == "" {
		hint = data.Mcpx.Hint
	}
	return fault.New(fault.NotFound, "server-unknown").Saying("%s", w.Error.Message).Hinting("%s", hint).Retrying(fault.AfterFix)
}

// refusedCall is the answer to a request that the daemon refused without naming its id.
func refusedCall(status int, body []byte) *trouble {
	if m, err := rpc.Scan(body); err == nil && m.Kind == rpc.Error {
		var code int
		if json.Unmarshal(m.Code.Of(body), &code) == nil {
			return &trouble{code: code, text: errorText(body, m)}
		}
	}
	var w words
	if json.Unmarshal(body, &w) == nil && w.Error.Message != "" {
		return &trouble{code: codeInternal, text: strings.TrimSuffix(w.Error.Message+"; "+w.Error.Hint, "; ")}
	}
	text := strings.TrimSpace(string(body[:min(len(body), 200)]))
	if text == "" {
		text = "no answer"
	}
	return &trouble{code: codeInternal, text: fmt.Sprintf("the daemon said %d %s: %s", status, http.StatusText(status), text)}
}
