package rpc

// Kind is the kind of a JSON-RPC message.
type Kind uint8

// The kinds. The zero Kind is no message.
const (
	Request Kind = iota + 1
	Notification
	Result
	Error
)

// String is the name of the kind, for logs and tests.
func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Result:
		return "result"
	case Error:
		return "error"
	}
	return "none"
}

// Span is a range of bytes of a message. The zero Span is absent: no value of a message can start at its first byte
// and be empty.
type Span struct{ From, To int }

// Of is the range itself; it shares memory with b. Nil for an absent span.
func (s Span) Of(b []byte) []byte {
	if !s.Ok() {
		return nil
	}
	return b[s.From:s.To:s.To]
}

// Ok says whether the span is present.
func (s Span) Ok() bool { return s.To > s.From }

// Message is where the routing members of one message lie. Every span covers a raw token: strings with their quotes
// and escapes, objects with their braces. Absent members have absent spans.
type Message struct {
	Kind Kind

	ID     Span // absent for notifications and for error responses without an id or with a null one
	Method Span
	Params Span
	Result Span
	Error  Span

	Meta          Span // params._meta or result._meta; absent unless it is an object
	ProgressToken Span // params._meta.progressToken of requests, params.progressToken of notifications
	RequestID     Span // params.requestId
	Name          Span // params.name
	URI           Span // params.uri
	TaskID        Span // params.taskId
	Cursor        Span // params.cursor
	ResultType    Span // result.resultType
	Version       Span // _meta["io.modelcontextprotocol/protocolVersion"]
	Subscription  Span // _meta["io.modelcontextprotocol/subscriptionId"]
	Code          Span // error.code
}

// MethodOf is the decoded method of the message b, "" for responses. Methods of the MCP revisions cost no allocation.
func (m Message) MethodOf(b []byte) string {
	raw := m.Method.Of(b)
	if len(raw) < 2 {
		return ""
	}
	if known := intern(raw[1 : len(raw)-1]); known != "" {
		return known
	}
	method, _ := Unquote(raw)
	return method
}

// intern gives the constant for a method name that contains no escape. The compiler looks b up without copying it.
func intern(b []byte) string {
	if s := internRequest(b); s != "" {
		return s
	}
	return internOther(b)
}

func internRequest(b []byte) string {
	switch string(b) {
	case "initialize":
		return "initialize"
	case "ping":
		return "ping"
	case "server/discover":
		return "server/discover"
	case "tools/list":
		return "tools/list"
	case "tools/call":
		return "tools/call"
	case "prompts/list":
		return "prompts/list"
	case "prompts/get":
		return "prompts/get"
	case "resources/list":
		return "resources/list"
	case "resources/templates/list":
		return "resources/templates/list"
	case "resources/read":
		return "resources/read"
	case "resources/subscribe":
		return "resources/subscribe"
	case "resources/unsubscribe":
		return "resources/unsubscribe"
	case "subscriptions/listen":
		return "subscriptions/listen"
	case "completion/complete":
		return "completion/complete"
	case "logging/setLevel":
		return "logging/setLevel"
	case "tasks/get":
		return "tasks/get"
	case "tasks/list":
		return "tasks/list"
	case "tasks/update":
		return "tasks/update"
	case "tasks/cancel":
		return "tasks/cancel"
	case "tasks/result":
		return "tasks/result"
	}
	return ""
}

func internOther(b []byte) string {
	switch string(b) {
	case "sampling/createMessage":
		return "sampling/createMessage"
	case "roots/list":
		return "roots/list"
	case "elicitation/create":
		return "elicitation/create"
	case "notifications/initialized":
		return "notifications/initialized"
	case "notifications/cancelled":
		return "notifications/cancelled"
	case "notifications/progress":
		return "notifications/progress"
	case "notifications/message":
		return "notifications/message"
	case "notifications/tools/list_changed":
		return "notifications/tools/list_changed"
	case "notifications/prompts/list_changed":
		return "notifications/prompts/list_changed"
	case "notifications/resources/list_changed":
		return "notifications/resources/list_changed"
	case "notifications/resources/updated":
		return "notifications/resources/updated"
	case "notifications/roots/list_changed":
		return "notifications/roots/list_changed"
	case "notifications/elicitation/complete":
		return "notifications/elicitation/complete"
	case "notifications/subscriptions/acknowledged":
		return "notifications/subscriptions/acknowledged"
	case "notifications/tasks/status":
		return "notifications/tasks/status"
	}
	return ""
}
