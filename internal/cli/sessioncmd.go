package cli

import (
	"context"
	"io"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/session"
)

var sessionList = Command{
	Path: "session list", Short: "List the remote sessions, the last used first", Op: "session.list",
	Example: "mcpx session list\nmcpx session list --state all --match build",
	Flags: []Flag{
		{Name: "state", Kind: StringFlag, Value: "STATE", Usage: "open, closed or all (default: open)"},
		{Name: "match", Kind: StringFlag, Value: "TEXT", Usage: "only those with TEXT in their label, project or id"},
		{Name: "limit", Kind: IntFlag, Value: "N", Usage: "at most N, up to 200 (default: 200)"},
		{Name: "cursor", Kind: StringFlag, Value: "CURSOR", Usage: "go on behind the page that gave CURSOR"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.RemoteSessions(ctx, api.RemoteSessionsQuery{State: a.String("state"), Query: a.String("match"), Limit: a.Int("limit"), Cursor: a.String("cursor")})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Sessions) == 0 {
				line(w, "No sessions.")
				return
			}
			rows := make([][]cell, 0, len(page.Sessions))
			for _, s := range page.Sessions {
				rows = append(rows, []cell{{s.ID, bold}, sessionState(s), {s.Name, ""}, {plain(s.Principal), ""}, {stamp(s.Used), ""}, {dash(plain(s.Label)), ""}})
			}
			e.table(w, []string{"SESSION", "STATE", "PROJECT", "PRINCIPAL", "USED", "LABEL"}, rows)
			if page.Cursor != "" {
				e.Note("There are more: add --cursor %s", page.Cursor)
			}
		})
	},
}

func sessionState(s api.RemoteSession) cell {
	return cell{string(s.State), map[session.State]string{session.Open: green, session.Closed: dim}[s.State]}
}

var sessionShow = Command{
	Path: "session show", Short: "Show one remote session with its plans", Op: "session.show", Args: "SESSION", Min: 1, Max: 1, Complete: sessionNames,
	Long:    "SESSION is an id or a beginning of it. What the model says it is doing is a claim.",
	Example: "mcpx session show rs_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		s, err := service.RemoteSession(ctx, api.RemoteSessionRef{Session: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(s, func(w io.Writer) {
			state := sessionState(s)
			line(w, "%s  %s", e.paint(bold, s.ID), e.paint(state.color, state.text))
			line(w, "project   %s", s.Name)
			line(w, "principal %s", plain(s.Principal))
			line(w, "label     %s", dash(plain(s.Label)))
			line(w, "created   %s", stamp(s.Created))
			line(w, "used      %s", stamp(s.Used))
			if s.Intent != "" {
				line(w, "claims    %s", e.paint(dim, plain(s.Intent)))
			}
			e.showGrants(w, s.Grants)
			for _, p := range s.Plans {
				done, total, current := p.Progress()
				line(w, "plan      %s %s, %d of %d tasks done, at %s", p.ID, p.State, done, total, dash(current))
			}
		})
	},
}

var sessionGrant = Command{
	Path: "session grant", Short: "Give somebody a role in a remote session", Op: "session.grant", Args: "SESSION", Min: 1, Max: 1, Complete: sessionNames,
	Long:    "A viewer reads, an approver also says yes or no, an editor also changes. You need a terminal: others are let in.",
	Example: "mcpx session grant rs_01J --to ann --role viewer\nmcpx session grant rs_01J --to ann --revoke",
	Flags:   []Flag{toFlag, {Name: "role", Kind: StringFlag, Value: "ROLE", Usage: "editor, approver or viewer"}, revokeFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if err := grantWords(a, "session grant"); err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.GrantSession(e.operation(ctx), api.GrantSession{
			Session: a.Pos(0), Principal: a.String("to"), Role: session.Role(a.String("role")), Revoke: a.Bool("revoke"),
		})
		return e.showGranted(out, err)
	},
}

var sessionHandoff = Command{
	Path: "session handoff", Short: "Make a token that lets somebody into a remote session once", Op: "session.handoff", Args: "SESSION", Min: 1, Max: 1, Complete: sessionNames,
	Long:    "Whoever has the token gives it to the tool session as handoff_token. It works once. You need a terminal.",
	Example: "mcpx session handoff rs_01J --role editor --ttl 1h",
	Flags: []Flag{
		{Name: "role", Kind: StringFlag, Value: "ROLE", Usage: "editor, approver or viewer (default: viewer)"},
		{Name: "ttl", Kind: DurationFlag, Value: "DURATION", Usage: "it works for DURATION, 1m to 24h (default: 10m)"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		in := api.HandOver{Session: a.Pos(0), Role: session.Role(a.String("role"))}
		if a.Given("ttl") {
			in.Seconds = max(1, int(a.Duration("ttl")/time.Second))
		}
		out, err := service.HandOver(e.operation(ctx), in)
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) {
			line(w, "%s", out.Token)
			e.Note("It lets one caller into %s as %s, until %s.", out.Session, out.Role, stamp(out.Expires))
		})
	},
}

var sessionClose = Command{
	Path: "session close", Short: "Close a remote session; what is stored of it stays readable", Op: "session.close", Args: "SESSION", Min: 1, Max: 1, Complete: sessionNames,
	Example: "mcpx session close rs_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.CloseSession(e.operation(ctx), api.RemoteSessionRef{Session: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) { line(w, "%s.", out.Text) })
	},
}

// sessionNames are the candidates for completion.
func sessionNames(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.RemoteSessions(ctx, api.RemoteSessionsQuery{})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(page.Sessions))
	for _, s := range page.Sessions {
		names = append(names, s.ID)
	}
	return names
}
