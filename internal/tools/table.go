package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpx/internal/api"
	"mcpx/internal/fault"
)

// instructions tell a model what the server is for.
const instructions = "mcpx connects this agent to its MCP servers and looks after their configuration. These tools only read: " +
	"how the configuration is, what is planned, which servers there are. Plans are approved and applied by a person, with the commands that the answers name."

// newServer makes the MCP server of one agent.
func newServer(service api.Service, agent, version string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "mcp_hub", Title: "mcpx control plane", Version: version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // the list never changes, and there is no log
	})
	as := func(ctx context.Context) context.Context {
		return api.As(ctx, api.Principal{Name: api.Owner.Name, Agent: agent})
	}

	add(s, "self_check", "Check this agent", "Says whether this agent is configured as it should be: its files, its problems and how to cure them, its access to mcpx.",
		func(ctx context.Context, _ none) (api.SelfCheck, string, error) {
			all, err := service.CheckAgents(as(ctx), api.ChecksQuery{})
			if err != nil {
				return api.SelfCheck{}, "", err
			}
			if len(all.Agents) != 1 {
				return api.SelfCheck{}, "", fault.New(fault.Internal, "answer-malformed").Saying("the check of this agent has no answer")
			}
			one := all.Agents[0]
			word := "ok"
			if !one.OK {
				word = "not ok"
			}
			return one, fmt.Sprintf("%s is %s; problems: %d, plans that wait: %d", one.Agent, word, len(one.Problems), one.Plans), nil
		})
	add(s, "status", "Status of mcpx", "The daemon, the servers that this agent has with their state, and how many findings there are.",
		func(ctx context.Context, _ none) (api.HubStatus, string, error) {
			out, err := service.HubStatus(as(ctx), api.HubQuery{Agent: agent})
			return out, fmt.Sprintf("mcpx %s; servers: %d, blockers: %d, warnings: %d, notices: %d", out.Daemon.Version, len(out.Servers),
				out.Blockers.Count, out.Warnings.Count, out.Notices.Count), err
		})
	add(s, "plan_list", "List plans", "Changes to the configuration of this agent that mcpx proposes, the newest first. Without a state: those that wait for something.",
		func(ctx context.Context, in planList) (api.HubPlans, string, error) {
			out, err := service.HubPlans(as(ctx), api.HubPlansQuery{Agent: agent, State: in.State, Limit: in.Limit, Cursor: in.Cursor})
			lines := []string{fmt.Sprintf("plans: %d", len(out.Plans))}
			for _, p := range out.Plans {
				lines = append(lines, fmt.Sprintf("%s %s: %s", p.ID, p.State, p.Summary))
			}
			return out, strings.Join(lines, "\n"), err
		}, bounded("limit", 1, api.MaxHubPlans))
	add(s, "plan_show", "Show a plan", "One plan of this agent: the exact difference in its files, the reasons, and what a person does next. Secrets are not shown.",
		func(ctx context.Context, in planShow) (api.HubPlanView, string, error) {
			out, err := service.HubPlan(as(ctx), api.HubPlanRef{Agent: agent, Plan: in.Plan})
			lines := []string{fmt.Sprintf("%s %s: %s", out.ID, out.State, out.Summary), out.Next}
			for _, f := range out.Files {
				lines = append(lines, f.Diff)
			}
			return out, strings.Join(lines, "\n"), err
		})
	add(s, "proxy_url", "Address of a server", "How this agent reaches a server through mcpx: the URL or the command, and the entry for its own configuration file. Nothing is written.",
		func(ctx context.Context, in serverArg) (api.HubEntry, string, error) {
			out, err := service.HubEntry(as(ctx), api.HubEntryQuery{Agent: agent, Server: in.Server})
			text := out.Name + ": " + string(out.Form)
			if out.URL != "" {
				text = out.Name + ": " + out.URL
			}
			return out, text, err
		})
	add(s, "runtime_status", "What runs", "The processes and connections that serve this agent: their state, the calls in work, the last error.",
		func(ctx context.Context, in someServer) (api.HubRuntime, string, error) {
			out, err := service.HubRuntime(as(ctx), api.HubRuntimeQuery{Agent: agent, Server: in.Server})
			var lines []string
			for _, l := range out.Servers {
				lines = append(lines, fmt.Sprintf("%s: %s, calls: %d", l.Server, l.State, l.Calls))
			}
			if len(lines) == 0 {
				lines = []string{"this agent has no servers"}
			}
			return out, strings.Join(lines, "\n"), err
		})
	add(s, "credential_status", "Credentials", "Which credentials the servers of this agent need, and whether they are ready. There are no values.",
		func(ctx context.Context, _ none) (api.HubCredentials, string, error) {
			out, err := service.HubCredentials(as(ctx), api.HubQuery{Agent: agent})
			lines := []string{fmt.Sprintf("credentials: %d", len(out.Credentials))}
			for _, c := range out.Credentials {
				lines = append(lines, fmt.Sprintf("%s: %s", c.Name, c.Readiness))
			}
			return out, strings.Join(lines, "\n"), err
		})
	add(s, "catalog_search", "Search servers", "Servers that mcpx has, by words of their name, title, notes and tags, and whether this agent has them.",
		func(ctx context.Context, in catalogSearch) (api.HubCatalog, string, error) {
			out, err := service.HubCatalog(as(ctx), api.HubCatalogQuery{Agent: agent, Query: in.Query, Limit: in.Limit, Cursor: in.Cursor})
			lines := []string{fmt.Sprintf("servers: %d", len(out.Servers))}
			for _, one := range out.Servers {
				lines = append(lines, strings.TrimSpace(one.Name+" "+one.Title))
			}
			return out, strings.Join(lines, "\n"), err
		}, bounded("limit", 1, api.MaxHubCatalog))
	return s
}

// The arguments of the tools.
type (
	none     struct{}
	planList struct {
		State  string `json:"state,omitempty" jsonschema:"only plans in this state: ready, errored, superseded, applying, applied, failed, rolled-back"`
		Limit  int    `json:"limit,omitempty" jsonschema:"at most so many"`
		Cursor string `json:"cursor,omitempty" jsonschema:"the cursor of the page before"`
	}
	planShow struct {
		Plan string `json:"plan_id" jsonschema:"id of the plan, or a beginning of it that is unique"`
	}
	serverArg struct {
		Server string `json:"server" jsonschema:"name of the server"`
	}
	someServer struct {
		Server string `json:"server,omitempty" jsonschema:"name of one server; all that this agent has without it"`
	}
	catalogSearch struct {
		Query  string `json:"query" jsonschema:"words; every one has to occur; empty finds all"`
		Limit  int    `json:"limit,omitempty" jsonschema:"at most so many"`
		Cursor string `json:"cursor,omitempty" jsonschema:"the cursor of the page before"`
	}
)

// bounded gives a number in the arguments its bounds.
func bounded(name string, least, most float64) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		s.Properties[name].Minimum, s.Properties[name].Maximum = &least, &most
	}
}

// add adds one tool: it only reads, its answer is structured, and a short text says the same.
func add[In, Out any](s *mcp.Server, name, title, description string, call func(context.Context, In) (Out, string, error), narrow ...func(*jsonschema.Schema)) {
	in, err := jsonschema.For[In](nil)
	if err != nil {
		panic("tools: " + name + ": " + err.Error()) // types of this package and of api: TestSchemas makes them all
	}
	for _, f := range narrow {
		f(in)
	}
	closed := false
	tool := &mcp.Tool{
		Name: name, Title: title, Description: description, InputSchema: in,
		Annotations: &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed, DestructiveHint: &closed},
	}
	mcp.AddTool(s, tool, func(ctx context.Context, _ *mcp.CallToolRequest, args In) (*mcp.CallToolResult, Out, error) {
		out, text, err := call(ctx, args)
		if err != nil {
			var none Out
			return nil, none, errors.New(explain(err))
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, out, nil
	})
}

// explain is an error in one line for a model: what to look up, what happened, what comes next.
func explain(err error) string {
	f := fault.From(err)
	text := f.Code + ": " + f.Message
	if f.Hint != "" {
		text += "; " + f.Hint
	}
	if quoted, err := json.Marshal(text); err == nil && len(quoted) > maxError {
		return text[:maxError/2] // names that a caller made up are part of some messages
	}
	return text
}

// maxError bounds the text of an error.
const maxError = 2 << 10
