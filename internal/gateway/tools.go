package gateway

import (
	"context"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// Tools says which tools of a server clients do not get, because they are not as a person has agreed to them. The gateway
// asks it about lists and calls, and knows nothing of why.
type Tools interface {
	// Held gives the names of the tools that cannot be called; nil: every one can. Server is the id of the entry. It is
	// asked for each tools/call and must not block.
	Held(server string) map[string]bool
	// List is shown one page of a list on its way to a client. Mask says which of its tools are left out, nil none; with
	// news, News is called afterwards. It must not block.
	List(server string, page [][]byte) (mask []bool, news bool)
	// News runs on a goroutine of its own, which ends with the gateway.
	News(ctx context.Context, server string)
}

// withheld says whether a request calls a tool that its clients do not get.
func (s *Server) withheld(method string, body []byte, m rpc.Message) bool {
	if s.g.cfg.Tools == nil || method != "tools/call" {
		return false
	}
	held := s.g.cfg.Tools.Held(s.def.Load().ID)
	if len(held) == 0 {
		return false
	}
	name, ok := rpc.Unquote(rpc.Find(body, m.Params, "name").Of(body))
	return ok && held[name]
}

// refuseWithheld answers the call of a tool that is held back as one of a tool that does not exist (MCP: -32602).
func (s *Server) refuseWithheld(st *Stream, id []byte) {
	st.finish(rpc.ErrorResponse(id, era.CodeInvalidParams,
		"this tool has changed since a person agreed to it, and is held back: `mcpx catalog review "+s.name()+" --tools` shows how", nil), 200)
}

// screened leaves the tools out of a list that its client does not get. Lists that the gateway asks for itself, and those
// of the daemon's own client, are whole.
func (c *call) screened(a answer) answer {
	if c.method != "tools/list" || c.srv.g.cfg.Tools == nil || a.own != nil || a.msg.Kind != rpc.Result {
		return a
	}
	switch o := c.owner.(type) {
	case *Session:
	case *modernCall:
		if o.req.Caller.Local {
			return a
		}
	default:
		return a
	}
	list := rpc.Find(a.body, a.msg.Result, "tools")
	if !list.Ok() || a.body[list.From] != '[' {
		return a
	}
	var page [][]byte
	for tool := range rpc.Elements(a.body, list) {
		page = append(page, tool.Of(a.body))
	}
	g, server := c.srv.g, c.srv.def.Load().ID
	mask, news := g.cfg.Tools.List(server, page)
	if news {
		g.goes.Go(func() { g.cfg.Tools.News(g.ctx, server) })
	}
	if mask == nil {
		return a
	}
	keep := []byte{'['}
	for i, tool := range page {
		if mask[i] {
			continue
		}
		if len(keep) > 1 {
			keep = append(keep, ',')
		}
		keep = append(keep, tool...)
	}
	a.body = rpc.Splice(a.body, rpc.Edit{At: list, With: append(keep, ']')})
	a.msg = mustScan(a.body)
	return a
}
