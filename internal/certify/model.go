package certify

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// maxModelRequest bounds what an agent sends to its model: whole conversations with all tools are some hundred KiB.
const maxModelRequest = 16 << 20

// Call is one tool call that the stub makes.
type Call struct {
	Tool *regexp.Regexp  // of the name under which the agent offers the tool
	Args json.RawMessage // an object
}

// Model stands in for a language model. It calls the first offered tool that fits the next step of its plan, as long as
// the conversation holds fewer results than the plan has steps; then it says "FINAL: " and the last result. It speaks
// the Anthropic, OpenAI (responses and chat) and Gemini protocols, streamed or not.
type Model struct {
	Plan []Call
	// Between is called before each call but the first, once, with the number of results so far; nil: nothing happens.
	Between func(done int)

	mu      sync.Mutex
	seen    int      // requests for an answer
	other   []string // requests that it knows nothing about
	results []string // the most that a conversation has held
	offers  []string // full names of the tools of the last request that had any

	turn sync.Mutex // held while Between runs: the other requests wait
	past int        // for how many results Between was called
}

// offered is a tool as the agent offers it. Some agents group tools: then the full name is the group's and its own.
type offered struct{ full, name, group string }

// decision is what the stub does next: a call, or a text.
type decision struct {
	call *offered
	id   string // of the call
	args json.RawMessage
	text string
}

func (m *Model) decide(tools []offered, results []string) decision {
	m.heard(tools, results)
	if len(results) < len(m.Plan) {
		step := m.Plan[len(results)]
		for _, t := range tools {
			if step.Tool.MatchString(t.full) {
				return decision{call: &t, id: fmt.Sprintf("call_stub_%d", len(results)+1), args: step.Args}
			}
		}
	}
	if len(results) == 0 {
		return decision{text: "FINAL: no matching tool was offered"}
	}
	return decision{text: "FINAL: " + results[len(results)-1]}
}

// heard remembers the results, and lets happen what has to happen before the next call.
func (m *Model) heard(tools []offered, results []string) {
	m.mu.Lock()
	m.seen++
	if len(tools) > 0 {
		m.offers = m.offers[:0]
		for _, t := range tools {
			m.offers = append(m.offers, t.full)
		}
	}
	if len(results) > len(m.results) {
		m.results = append([]string{}, results...)
	}
	m.mu.Unlock()
	m.turn.Lock()
	defer m.turn.Unlock()
	if n := len(results); n > m.past && n < len(m.Plan) {
		m.past = n
		if m.Between != nil {
			m.Between(n)
		}
	}
}

// Results are those of the longest conversation.
func (m *Model) Results() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.results...)
}

// Offers are the tools that an agent offered last.
func (m *Model) Offers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.offers...)
}

// Asked says how often an answer was asked for, and which requests were not understood.
func (m *Model) Asked() (answers int, other []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen, append([]string{}, m.other...)
}

// ServeHTTP answers one request of an agent.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxModelRequest))
	if err != nil {
		return // the agent is gone
	}
	reply := replier{w: w}
	switch path := r.URL.Path; {
	case r.Method == http.MethodHead || path == "/":
		w.WriteHeader(http.StatusOK)
	case strings.HasSuffix(path, "/messages/count_tokens"):
		reply.json(object{"input_tokens": 10})
	case strings.HasSuffix(path, "/messages"):
		m.anthropic(reply, body)
	case strings.HasSuffix(path, "/responses"):
		m.responses(reply, body)
	case strings.HasSuffix(path, "/chat/completions"):
		m.chat(reply, body)
	case strings.HasSuffix(path, ":countTokens"):
		reply.json(object{"totalTokens": 10})
	case strings.HasSuffix(path, ":generateContent"):
		m.gemini(reply, body, false)
	case strings.HasSuffix(path, ":streamGenerateContent"):
		m.gemini(reply, body, true)
	case strings.HasSuffix(path, "/models"):
		reply.json(object{"object": "list", "data": []object{{"id": modelName, "object": "model", "created": 1, "owned_by": "stub"}}, "models": []object{}})
	default:
		m.mu.Lock()
		m.other = append(m.other, r.Method+" "+path)
		m.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"message":"the stub does not know this"}}`) // the agent may be gone
	}
}

// modelName is what the agents are told to ask for.
const modelName = "stub-model"

type object map[string]any

// replier writes an answer, whole or as a stream of events. An agent that is gone reads none of it, and no error of
// writing to it matters.
type replier struct{ w http.ResponseWriter }

func (r replier) json(v object) {
	r.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(r.w).Encode(v)
}

func (r replier) stream() { r.w.Header().Set("Content-Type", "text/event-stream") }

// event writes one event; the name is also its type.
func (r replier) event(name string, v object) {
	v["type"] = name
	_, _ = fmt.Fprintf(r.w, "event: %s\n", name)
	r.data(v)
}

func (r replier) data(v object) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("certify: an answer of the stub cannot be encoded: " + err.Error())
	}
	r.line(string(b))
}

func (r replier) line(text string) { _, _ = fmt.Fprintf(r.w, "data: %s\n\n", text) }

// plain gives the text of a result in whatever shape an agent sends it.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text    *string         `json:"text"`
		Output  *string         `json:"output"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var all []string
	for _, p := range parts {
		switch {
		case p.Text != nil:
			all = append(all, *p.Text)
		case p.Output != nil:
			all = append(all, *p.Output)
		case p.Content != nil:
			all = append(all, plain(p.Content))
		}
	}
	return strings.Join(all, " ")
}
