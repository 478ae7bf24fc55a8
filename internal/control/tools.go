package control

import (
	"context"
	"encoding/json"
	"errors"

	"mcpx/internal/api"
	"mcpx/internal/era"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
)

// own is the daemon itself: no list is screened for it.
var own = gateway.Caller{Principal: "owner", Local: true}

// ServerTools lists the tools of a server, all pages.
func (c *Control) ServerTools(ctx context.Context, in api.ServerRef) (api.ToolPage, error) {
	if err := c.allow(ctx, "server.tools"); err != nil {
		return api.ToolPage{}, err
	}
	s, err := c.routed(ctx, in.Name)
	if err != nil {
		return api.ToolPage{}, err
	}
	tools, err := c.listTools(ctx, s.Name)
	return api.ToolPage{Server: s.Name, Tools: tools}, err
}

// listTools asks a server for all its tools. The tools that are held back from clients are among them.
func (c *Control) listTools(ctx context.Context, server string) ([]api.Tool, error) {
	list, err := gateway.ListTools(ctx, c.cfg.Gateway, own, server)
	if err != nil {
		return nil, explain(server, err)
	}
	tools := make([]api.Tool, 0, len(list))
	for _, raw := range list {
		var tool api.Tool
		if err := json.Unmarshal(raw, &tool); err != nil {
			return nil, badAnswer(server, "tools/list", err)
		}
		tool.Raw = raw
		tools = append(tools, tool)
	}
	return tools, nil
}

// CallTool calls one tool. Its arguments and its result pass as they are.
func (c *Control) CallTool(ctx context.Context, in api.CallTool) (api.ToolResult, error) {
	if err := c.allow(ctx, "server.call"); err != nil {
		return api.ToolResult{}, err
	}
	s, err := c.routed(ctx, in.Name)
	if err != nil {
		return api.ToolResult{}, err
	}
	if c.cfg.Tools.Held(s.ID)[in.Tool] {
		return api.ToolResult{}, heldFault(s.Name, in.Tool)
	}
	arguments := in.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage(`{}`)
	}
	params, err := api.Marshal(struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{in.Tool, arguments})
	if err != nil {
		return api.ToolResult{}, fault.New(fault.Invalid, "arguments-invalid").Saying("the arguments are no JSON").Because(err)
	}
	result, err := c.cfg.Gateway.Call(ctx, gateway.Request{As: own, Server: s.Name, Method: "tools/call", Params: params})
	if err != nil {
		return api.ToolResult{}, explain(s.Name, err)
	}
	var head struct {
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(result, &head); err != nil {
		return api.ToolResult{}, badAnswer(s.Name, "tools/call", err)
	}
	return api.ToolResult{IsError: head.IsError, Raw: result}, nil
}

func (c *Control) routed(ctx context.Context, name string) (api.Server, error) {
	s, err := c.view(ctx, name)
	if err == nil && !s.Routable {
		err = notRouted(s)
	}
	return s, err
}

func badAnswer(server, method string, err error) error {
	return fault.New(fault.Unavailable, "answer-invalid").Saying("the answer of %s to %s is not what MCP asks for", server, method).
		Hinting("see `mcpx server logs %s`", server).Because(err)
}

// explain turns a JSON-RPC error of the server into one for people.
func explain(server string, err error) error {
	e, ok := errors.AsType[*gateway.RPCError](err)
	if !ok {
		return err
	}
	switch e.Code {
	case era.CodeInvalidParams:
		return fault.New(fault.Invalid, "server-refused").Saying("%s refused the call: %s", server, e.Message).
			Hinting("see its tools and their arguments with `mcpx server tools %s`", server)
	case era.CodeMethodNotFound:
		return fault.New(fault.NotFound, "server-refused").Saying("%s does not offer this: %s", server, e.Message)
	case gateway.CodeSentUnknown, gateway.CodeAnsweredLost, gateway.CodeTimeout: // it may have run
		return fault.New(fault.UnknownOutcome, "call-unknown").Saying("%s", e.Message).
			Hinting("it may have run: look before you repeat it. See `mcpx server logs %s`", server)
	case gateway.CodeNotSent, gateway.CodeUnavailable:
		return fault.New(fault.Unavailable, "server-unavailable").Saying("%s", e.Message).
			Hinting("see `mcpx server logs %s`; `mcpx server restart %s` tries again at once", server, server).Retrying(fault.AfterWait)
	case gateway.CodeBusy:
		return fault.New(fault.Busy, "server-busy").Saying("%s", e.Message).Retrying(fault.AfterWait)
	}
	return fault.New(fault.Unavailable, "server-error").Saying("%s answered with error %d: %s", server, e.Code, e.Message)
}
