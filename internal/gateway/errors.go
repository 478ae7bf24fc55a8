package gateway

import (
	"encoding/json"
	"fmt"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// JSON-RPC codes of the gateway's own errors (protocol.md section 4). They lie outside the ranges that JSON-RPC and
// MCP reserve, so that nothing the gateway says can be taken for an answer of the backend.
const (
	CodeNotSent      = -31901
	CodeSentUnknown  = -31902
	CodeAnsweredLost = -31903
	CodeTimeout      = -31904
	CodeUnavailable  = -31905
	CodeBusy         = -31907
)

// Refusal is a request that is answered by the gateway itself, with the HTTP status that the edge must use.
type Refusal struct {
	Status  int
	Code    int
	Message string
	Data    []byte // raw JSON, nil for none
}

// Body renders the refusal as a JSON-RPC error for the request id (nil: without id).
func (r *Refusal) Body(id []byte) []byte { return rpc.ErrorResponse(id, r.Code, r.Message, r.Data) }

// trouble is why a call gets an answer of the gateway instead of the backend's.
type trouble struct {
	class Class
	text  string
	wait  time.Duration // for unavailable and busy
	exit  *Exit
	code  int  // overrides the class's code, for refusals that are no loss
	fix   bool // it stays so until a person has done what text says
	stops bool // nothing is wrong but that a daemon ends or ended: whoever can ask the next one need not tell its client
}

// body renders the trouble as the final answer of one call. A 5xx would invite blind retries by HTTP layers, so own
// errors travel as JSON-RPC errors with HTTP 200.
func (t trouble) body(id []byte, server, method string) []byte {
	if t.code != 0 {
		return rpc.ErrorResponse(id, t.code, t.text, nil)
	}
	type exit struct {
		Code   *int   `json:"code,omitempty"`
		Signal string `json:"signal,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	data := struct {
		Class        Class  `json:"class"`
		Cause        string `json:"cause,omitempty"` // daemon_restart, or none
		Retry        string `json:"retry"`
		Server       string `json:"server"`
		Method       string `json:"method,omitempty"` // nobody knows it of a call whose daemon is gone
		RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
		Exit         *exit  `json:"exit,omitempty"`
		Stderr       string `json:"stderr,omitempty"`
	}{Class: t.class, Server: server, Method: method, RetryAfterMs: t.wait.Milliseconds()}
	if t.stops {
		data.Cause = "daemon_restart"
	}
	code, retry := t.class.codes()
	data.Retry = retry
	if t.fix {
		data.Retry = "after_fix"
	}
	text := fmt.Sprintf("%s: %s", server, t.text)
	if t.exit != nil {
		data.Exit = &exit{Reason: string(t.exit.Reason), Signal: t.exit.Name}
		if t.exit.Signal == 0 && (t.exit.Reason == Exited || t.exit.Reason == Terminated) {
			data.Exit.Code = &t.exit.Code
		}
		data.Stderr = string(t.exit.Tail)
		if last := lastLine(t.exit.Tail); last != "" {
			text += " (stderr: " + last + ")"
		}
	}
	raw, err := json.Marshal(map[string]any{"mcpx": data})
	if err != nil {
		panic("gateway: own error data does not encode: " + err.Error())
	}
	return rpc.ErrorResponse(id, code, text, raw)
}

// codes gives the JSON-RPC code and the retry advice of a class.
func (c Class) codes() (code int, retry string) {
	switch c {
	case NotSent:
		return CodeNotSent, "safe"
	case SentUnknown:
		return CodeSentUnknown, "unsafe"
	case AnsweredLost:
		return CodeAnsweredLost, "unsafe"
	case TimedOut:
		return CodeTimeout, "unsafe"
	case Unavailable:
		return CodeUnavailable, "after_wait"
	case Busy:
		return CodeBusy, "after_wait"
	}
	panic("gateway: unknown class " + string(c))
}

// RPCError is a JSON-RPC error answer, as the gateway's own client returns it.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error is the message with its code.
func (e *RPCError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// startTrouble turns the error of a failed start into a trouble.
func startTrouble(err error) trouble {
	if t, ok := err.(*startError); ok { //nolint:errorlint // made and read in this package, never wrapped
		return trouble{class: Unavailable, text: t.text, wait: t.wait, exit: t.exit, fix: t.fix}
	}
	f := fault.From(err)
	text := f.Error()
	if f.Hint != "" {
		text += "; " + f.Hint
	}
	if f.Kind == fault.Busy {
		return trouble{class: Busy, text: text, wait: time.Second}
	}
	if f.Kind == fault.Unauthenticated {
		return trouble{class: Unavailable, text: text, fix: true}
	}
	return trouble{class: Unavailable, text: text, wait: time.Second}
}

// startError is a start that failed, with what is known about the process.
type startError struct {
	text string
	wait time.Duration
	exit *Exit
	fix  bool // it stays so until a person has done what text says
}

func (e *startError) Error() string {
	if e.exit != nil && len(e.exit.Tail) > 0 {
		return e.text + "\n" + string(e.exit.Tail)
	}
	return e.text
}

// lastLine is the last non-empty line of stderr, cut to a length that fits an error message.
func lastLine(tail []byte) string {
	end := len(tail)
	for end > 0 && (tail[end-1] == '\n' || tail[end-1] == '\r' || tail[end-1] == ' ') {
		end--
	}
	start := end
	for start > 0 && tail[start-1] != '\n' {
		start--
	}
	const most = 200
	if end-start > most {
		start = end - most
	}
	return string(tail[start:end])
}

// unrouted is the error of a name that no server has.
func unrouted(name string) error {
	return fault.New(fault.NotFound, "server-unknown").Saying("no server is routed as %q", name).Hinting("`mcpx server list` shows the names")
}
