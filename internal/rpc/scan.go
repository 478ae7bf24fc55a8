package rpc

import (
	"strconv"
	"unicode/utf8"
)

// Codes of a ScanError, as JSON-RPC 2.0 section 5.1 defines them.
const (
	ParseError     = -32700
	InvalidRequest = -32600
)

// maxID bounds the content of a request id, in bytes without quotes. Clients send a few dozen; the id is kept in every
// waiter and journal entry, so an unbounded one is a cheap way to fill memory. TestScan/long-id refuses the first byte
// above it.
const maxID = 1 << 10

// maxDepth bounds nesting. Every SDK parses recursively, and a deeper payload is an attack on one of them.
const maxDepth = 1000

// maxBatch bounds the elements of a batch: a body of 16 MiB could hold eight million, each with a span and a waiter.
const maxBatch = 1 << 12

// ScanError is why a message cannot be routed.
type ScanError struct {
	Code int    // ParseError or InvalidRequest
	Text string // for people
	ID   []byte // raw id when there is exactly one valid one; shares memory with the message
}

func (e *ScanError) Error() string { return e.Text }

// place is the object whose members are read. Members of any other object are validated and skipped.
type place uint8

const (
	elsewhere place = iota
	top
	ends // the top level, where only the members that Ends wants are read
	inParams
	inResult
	inError
	inMeta
)

// member is a routing member. Each has one bit in the set of members seen in its object.
type member uint8

const (
	none member = iota
	mVersionTag
	mID
	mMethod
	mParams
	mResult
	mError
	mMeta
	mName
	mURI
	mTaskID
	mRequestID
	mProgressToken
	mCursor
	mResultType
	mCode
	mVersion
	mSubscription
)

// Names of the members of _meta that route.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// longestRoute is the length of the longest routing member name; a decoded key that is longer is none of them.
const longestRoute = len(metaSubscription)

// scanner walks one message. Positions are indexes into b; -1 means that the walk failed and bad says where.
type scanner struct {
	b       []byte
	m       Message
	tag     Span   // the jsonrpc member
	meta    Span   // progressToken inside _meta
	direct  Span   // progressToken inside params
	refused string // first reason of an InvalidRequest; scanning goes on, since malformed JSON takes precedence
	bad     int    // index of the first byte that is not JSON
	tooDeep bool
}

// Scan finds the routing members of the one message in b and validates all of b as JSON: syntax, UTF-8, escapes, at
// most 1000 levels. A routing member that occurs twice is refused, because readers disagree on which one counts; a
// name in another case is an unknown member. The error is a *ScanError.
func Scan(b []byte) (Message, error) {
	s := scanner{b: b}
	if !utf8.Valid(b) {
		return Message{}, &ScanError{Code: ParseError, Text: "the message is not UTF-8"}
	}
	start := s.space(0)
	end := s.value(start, 0, top)
	if end >= 0 {
		if rest := s.space(end); rest != len(b) {
			s.bad, end = rest, -1
		}
	}
	if end < 0 {
		return Message{}, &ScanError{Code: ParseError, Text: s.parseText()}
	}
	if b[start] != '{' {
		return Message{}, &ScanError{Code: InvalidRequest, Text: "the message is not an object"}
	}
	if text := s.finish(); text != "" {
		return Message{}, &ScanError{Code: InvalidRequest, Text: text, ID: s.readableID()}
	}
	return s.m, nil
}

func (s *scanner) parseText() string {
	switch {
	case s.tooDeep:
		return "the message is nested more than 1000 levels deep"
	case s.bad >= len(s.b):
		return "the message ends in the middle of a JSON value"
	}
	return "the message is not JSON: unexpected byte at offset " + strconv.Itoa(s.bad)
}

// finish checks the shape of the message as a whole and sets its kind. It returns why the message is refused.
func (s *scanner) finish() string {
	m := &s.m
	if s.refused != "" {
		return s.refused
	}
	if !isText(s.tag.Of(s.b), "2.0") {
		return `the member jsonrpc is not "2.0"`
	}
	nullID := false
	if id := m.ID.Of(s.b); id != nil {
		nullID = id[0] == 'n'
		if text := badID(id); text != "" && !nullID {
			return text
		}
	}
	switch {
	case m.Method.Ok():
		if s.b[m.Method.From] != '"' {
			return "the member method is not a string"
		}
		if m.Result.Ok() || m.Error.Ok() {
			return "the message has a method and a result or an error"
		}
		if nullID {
			return "the id of a request is null"
		}
		if m.Kind = Notification; m.ID.Ok() {
			m.Kind = Request
		}
	case m.Result.Ok() && m.Error.Ok():
		return "the message has a result and an error"
	case m.Params.Ok():
		return "the message has params and no method"
	case m.Result.Ok():
		if nullID || !m.ID.Ok() {
			return "the result has no id"
		}
		m.Kind = Result
	case m.Error.Ok():
		if nullID {
			m.ID = Span{}
		}
		m.Kind = Error
	default:
		return "the message has no method, result or error"
	}
	m.ProgressToken = s.meta
	if m.Kind == Notification {
		m.ProgressToken = s.direct
	}
	return ""
}

// badID says what is wrong with a raw id, "" for nothing.
func badID(raw []byte) string {
	if raw[0] == '"' {
		if len(raw)-2 > maxID {
			return "the id is longer than 1 KiB"
		}
		return ""
	}
	if !isInteger(raw) {
		return "the id is neither a string nor an integer"
	}
	if len(raw) > maxID {
		return "the id is longer than 1 KiB"
	}
	return ""
}

// readableID is the id of a refused message, nil when it is missing, refused itself or given twice.
func (s *scanner) readableID() []byte {
	id := s.m.ID.Of(s.b)
	if id == nil || badID(id) != "" || s.refused == twice[mID] {
		return nil
	}
	return id
}

// isInteger says whether a valid JSON token is a number without fraction and exponent.
func isInteger(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	if len(raw) == 0 {
		return false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// twice is the reason for each member given more than once.
var twice = [...]string{
	mVersionTag: "the member jsonrpc occurs twice", mID: "the member id occurs twice",
	mMethod: "the member method occurs twice", mParams: "the member params occurs twice",
	mResult: "the member result occurs twice", mError: "the member error occurs twice",
	mMeta: "the member _meta occurs twice", mName: "the member name occurs twice",
	mURI: "the member uri occurs twice", mTaskID: "the member taskId occurs twice",
	mRequestID: "the member requestId occurs twice", mProgressToken: "the member progressToken occurs twice",
	mCursor: "the member cursor occurs twice", mResultType: "the member resultType occurs twice",
	mCode:         "the member code occurs twice",
	mVersion:      "the member " + metaVersion + " occurs twice",
	mSubscription: "the member " + metaSubscription + " occurs twice",
}

// route is the routing member that a decoded key names in this place, and the place inside its value.
func (p place) route(key []byte) (member, place) {
	switch p {
	case top:
		switch string(key) {
		case "jsonrpc":
			return mVersionTag, elsewhere
		case "id":
			return mID, elsewhere
		case "method":
			return mMethod, elsewhere
		case "params":
			return mParams, inParams
		case "result":
			return mResult, inResult
		case "error":
			return mError, inError
		}
	case ends:
		switch string(key) {
		case "id":
			return mID, elsewhere
		case "method":
			return mMethod, elsewhere
		}
	case inParams:
		switch string(key) {
		case "_meta":
			return mMeta, inMeta
		case "name":
			return mName, elsewhere
		case "uri":
			return mURI, elsewhere
		case "taskId":
			return mTaskID, elsewhere
		case "requestId":
			return mRequestID, elsewhere
		case "progressToken":
			return mProgressToken, elsewhere
		case "cursor":
			return mCursor, elsewhere
		}
	case inResult:
		switch string(key) {
		case "_meta":
			return mMeta, inMeta
		case "resultType":
			return mResultType, elsewhere
		}
	case inError:
		if string(key) == "code" {
			return mCode, elsewhere
		}
	case inMeta:
		switch string(key) {
		case "progressToken":
			return mProgressToken, elsewhere
		case metaVersion:
			return mVersion, elsewhere
		case metaSubscription:
			return mSubscription, elsewhere
		}
	case elsewhere:
	}
	return none, elsewhere
}

// set records where a routing member lies.
func (s *scanner) set(p place, f member, at Span) {
	m := &s.m
	switch f {
	case mVersionTag:
		s.tag = at
	case mID:
		m.ID = at
	case mMethod:
		m.Method = at
	case mParams:
		m.Params = at
	case mResult:
		m.Result = at
	case mError:
		m.Error = at
	case mMeta:
		if s.b[at.From] == '{' {
			m.Meta = at
		}
	case mName:
		m.Name = at
	case mURI:
		m.URI = at
	case mTaskID:
		m.TaskID = at
	case mRequestID:
		m.RequestID = at
	case mProgressToken:
		if p == inMeta {
			s.meta = at
		} else {
			s.direct = at
		}
	case mCursor:
		m.Cursor = at
	case mResultType:
		m.ResultType = at
	case mCode:
		m.Code = at
	case mVersion:
		m.Version = at
	case mSubscription:
		m.Subscription = at
	case none:
	}
}
