package tools

import (
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpx/internal/operation"
	"mcpx/internal/work"
)

// A question to the user of a client is the result of its call, and what the user said comes with the next try of it
// (multi-round trips of revision 2026-07-28).

// questionKey names our question among those of a result: there is one.
const questionKey = "decision"

// showsForms says whether a client can put a form to its user. One that does not say which modes it has, has forms.
func showsForms(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// asForm is the result that asks.
func asForm(f *operation.Form) *mcp.CallToolResult {
	return &mcp.CallToolResult{RequestState: f.State, InputRequests: mcp.InputRequestMap{questionKey: &mcp.ElicitParams{
		Mode: "form", Message: f.Message,
		RequestedSchema: &jsonschema.Schema{
			Type: "object", Required: []string{"decision"},
			Properties: map[string]*jsonschema.Schema{
				"decision": {Type: "string", Enum: []any{string(work.Approve), string(work.Deny)}, Description: "approve lets exactly this happen, once; deny does not"},
				"note":     {Type: "string", Description: "why, for the agent"},
			},
		},
	}}}
}

// maxNote bounds what a person may write beside a decision, in bytes.
const maxNote = 500

// saidIn is what the user of a client said; nil: nobody was asked.
func saidIn(p *mcp.CallToolParamsRaw) *work.Said {
	answer, ok := p.InputResponses[questionKey].(*mcp.ElicitResult)
	if !ok {
		return nil
	}
	out := &work.Said{State: p.RequestState}
	switch answer.Action {
	case "accept":
		decision, _ := answer.Content["decision"].(string)
		note, _ := answer.Content["note"].(string)
		if len(note) <= maxNote {
			out.Note = note
		}
		if d := work.Decision(decision); d == work.Approve || d == work.Deny {
			out.Decision = d
		}
	case "decline":
		out.Decision = work.Deny
	}
	return out
}
