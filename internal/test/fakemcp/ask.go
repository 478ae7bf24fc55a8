package fakemcp

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ask sends requests to the client and answers with what came back: arguments {method, params, mark, wait_ms}. The mark is in
// the question and in the answer, so a test sees which client was asked for which call.
//
// Legacy: one request on the wire, answered by the client. Modern: input_required, answered by the retry.
func (c *call) ask() {
	method, mark := "elicitation/create", ""
	var params json.RawMessage
	_ = c.msg.arg("method", &method) // the defaults
	_ = c.msg.arg("mark", &mark)
	_ = c.msg.arg("params", &params)
	if params == nil {
		params = question(method, mark)
	}
	if c.modern {
		c.askModern(method, mark, params)
		return
	}
	if !c.pause() {
		return
	}
	s := c.server
	answer := make(chan message, 1)
	s.mu.Lock()
	s.asks++
	id := quote(fmt.Sprintf("ask-%d-%s", s.asks, mark))
	s.waiting[id] = answer
	s.mu.Unlock()
	c.send([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":` + quote(method) + `,"params":` + string(params) + `}`))
	select {
	case m := <-answer:
		body := m.top["result"]
		if body == nil {
			body = m.top["error"]
		}
		c.says("mark=%s answer=%s", mark, body)
	case <-c.ctx.Done():
	}
}

func (c *call) askModern(method, mark string, params json.RawMessage) {
	var got map[string]json.RawMessage
	_ = json.Unmarshal(c.msg.params["inputResponses"], &got) // absent: the first round
	if answer, ok := got["q"]; ok {
		if state := text(c.msg.params["requestState"]); state != "state:"+mark {
			c.fails(-32602, "wrong requestState "+state, "")
			return
		}
		c.says("mark=%s answer=%s", mark, answer)
		return
	}
	c.result(`"resultType":"input_required","inputRequests":{"q":{"method":` + quote(method) + `,"params":` + string(params) +
		`}},"requestState":` + quote("state:"+mark))
}

// question is a valid request of its method that carries the mark.
func question(method, mark string) json.RawMessage {
	switch {
	case strings.HasPrefix(method, "elicitation/"):
		return json.RawMessage(`{"mode":"form","message":` + quote(mark) + `,"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`)
	case strings.HasPrefix(method, "sampling/"):
		return json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":` + quote(mark) + `}}],"maxTokens":10}`)
	}
	return json.RawMessage(`{"_meta":{"mark":` + quote(mark) + `}}`)
}
