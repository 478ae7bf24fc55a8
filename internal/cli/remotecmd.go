package cli

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/fault"
)

var remoteOn = Command{
	Path: "remote on", Short: "Let clients on other machines ask for access", Op: "remote.on",
	Long: "Web chats and other machines reach the tools of /mcp, and nothing else, at the address that you name: that of a tunnel\n" +
		"or a reverse proxy, which leads to the listener on this machine. Nobody is let in by it: each client asks, and you say\n" +
		"yes with `mcpx remote approve`. What you name stays for the next time. You need a terminal.",
	Example: "mcpx remote on --url https://mcp.example.org\nmcpx remote on --url https://mcp.example.org:9090 --address 0.0.0.0:9090 --certificate cert.pem --key key.pem\n" +
		"mcpx remote on --url https://mcp.example.org --issuer https://login.example.org --subject auth0|5f7c8ec7c33c6c004bbafe82",
	Flags: []Flag{
		{Name: "url", Kind: StringFlag, Value: "URL", Usage: "the address for clients: https and a host, without a path"},
		{Name: "address", Kind: StringFlag, Value: "HOST:PORT", Usage: "where mcpx listens (default: " + auth.DefaultRemoteAddress + ")"},
		{Name: "certificate", Kind: StringFlag, Value: "FILE", Usage: "certificate chain (PEM); without it something in front has it"},
		{Name: "key", Kind: StringFlag, Value: "FILE", Usage: "key of the certificate (PEM)"},
		{Name: "issuer", Kind: StringFlag, Value: "URL", Usage: "an OpenID provider that gives the tokens in place of mcpx; none: mcpx again"},
		{Name: "subject", Kind: StringFlag, Value: "SUB", Usage: "who you are at the issuer (the sub of its tokens); nobody else is let in"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		in := api.RemoteOn{URL: a.String("url"), Address: a.String("address"), Issuer: a.String("issuer"), Subject: a.String("subject")}
		for name, to := range map[string]*string{"certificate": &in.Certificate, "key": &in.Key} {
			if file := a.String(name); file != "" {
				if *to, err = filepath.Abs(file); err != nil {
					return fault.New(fault.Invalid, "path-invalid").Saying("%s has no absolute path", file).Because(err)
				}
			}
		}
		now, err := service.Remote(ctx, api.None{})
		if err != nil {
			return err
		}
		url, issuer, subject := cmp.Or(in.URL, now.URL), cmp.Or(in.Issuer, now.Issuer), cmp.Or(in.Subject, now.Subject)
		if url == "" {
			return fault.New(fault.Invalid, "usage").Saying("--url URL is missing").Hinting("it is the address at which clients reach this machine: mcpx remote on --url https://mcp.example.org")
		}
		p, err := e.person("mcpx remote on --url " + url)
		if err != nil {
			return err
		}
		defer p.leave()
		if issuer == "" || issuer == api.NoIssuer {
			line(p, "Everybody who reaches %s can then ask for access to the tools at /mcp.", plain(url))
		} else {
			line(p, "Every client with a token of %s for %s can then use the tools at /mcp.", plain(issuer), plain(subject))
		}
		yes, err := p.confirm(ctx, "allow this")
		if err != nil {
			return err
		}
		if !yes {
			return notConfirmed("mcpx remote on")
		}
		out, err := service.TurnRemoteOn(e.operation(ctx), in)
		if err != nil {
			return err
		}
		return e.showRemote(out)
	},
}

var remoteShow = Command{
	Path: "remote status", Short: "Whether clients on other machines reach this one", Op: "remote.show",
	Example: "mcpx remote status",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.Remote(ctx, api.None{})
		if err != nil {
			return err
		}
		return e.showRemote(out)
	},
}

func (e *Env) showRemote(out api.Remote) error {
	return e.Show(out, func(w io.Writer) {
		if !out.On {
			line(w, "Remote access is off: no client on another machine is let in.")
			e.next(w, out.Next)
			return
		}
		line(w, "Remote access is on. Give clients this address: %s", plain(out.Connector))
		switch {
		case out.Listening && out.Certificate == "":
			line(w, "mcpx listens on %s; what is in front of it leads %s there.", plain(out.Address), plain(out.URL))
		case out.Listening:
			line(w, "mcpx listens on %s with the certificate %s.", plain(out.Address), plain(out.Certificate))
		default:
			line(w, "%s", looks{e.color}.paint(red, "mcpx does not listen: "+plain(out.Problem)))
		}
		if out.Issuer != "" {
			line(w, "Tokens are given by %s, and count for %s alone.", plain(out.Issuer), plain(out.Subject))
		}
		line(w, "Clients that wait for you: %d. Clients with access: %d.", out.Requests, out.Clients)
		e.next(w, out.Next)
	})
}

var remoteOff = Command{
	Path: "remote off", Short: "End the access of every client on other machines", Op: "remote.off",
	Long:    "The listener closes, and no token of such a client counts any more, now or later.",
	Example: "mcpx remote off",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.TurnRemoteOff(e.operation(ctx), api.None{})
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) {
			if out.State == "already_off" && out.Revoked == 0 {
				line(w, "Remote access is off already.")
				return
			}
			line(w, "Remote access is off. Clients that have no access any more: %d.", out.Revoked)
		})
	},
}

var remoteRequests = Command{
	Path: "remote requests", Short: "List clients on other machines that ask for access", Op: "remote.requests",
	Example: "mcpx remote requests",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.RemoteRequests(ctx, api.None{})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Requests) == 0 {
				line(w, "No client asks for access.")
				return
			}
			rows := make([][]cell, 0, len(page.Requests))
			for _, r := range page.Requests {
				rows = append(rows, []cell{{r.ID, bold}, {plain(r.Client), ""}, {joinScopes(r.Scopes), ""}, {plain(r.Redirect), ""}, {stamp(r.Until), ""}})
			}
			e.table(w, []string{"REQUEST", "CALLS ITSELF", "SCOPES", "ANSWER GOES TO", "OPEN UNTIL"}, rows)
			e.next(w, page.Next)
		})
	},
}

var remoteApprove = Command{
	Path: "remote approve", Short: "Say yes to a client that asks for access", Op: "remote.approve", Args: "REQUEST", Min: 1, Max: 1, Complete: requestNames,
	Long: "It shows on your terminal who asks, and after your yes a code that works once, for five minutes, in the browser that\n" +
		"asks. Say yes only to a request that you began, and type the code only into the page at your own address.",
	Example: "mcpx remote approve 7K2M9Q\nmcpx remote approve 7K2M9Q --read-only\nmcpx remote approve 7K2M9Q --as ann",
	Flags: []Flag{
		{Name: "read-only", Kind: BoolFlag, Usage: "it may read, and change nothing, whatever it asked for"},
		{Name: "as", Kind: StringFlag, Value: "PRINCIPAL", Usage: "it acts on behalf of PRINCIPAL, in what mcpx project grant and mcpx session grant give to that one (default: on yours)"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		p, err := e.person("mcpx remote approve " + a.Pos(0))
		if err != nil {
			return err
		}
		defer p.leave()
		page, err := service.RemoteRequests(ctx, api.None{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(page.Requests, func(r api.RemoteRequest) bool { return strings.EqualFold(r.ID, a.Pos(0)) })
		if i < 0 {
			return auth.NoConsent(a.Pos(0))
		}
		r := page.Requests[i]
		line(p, "%s asks for access (nobody has checked that name).", plain(r.Client))
		line(p, "It asks for %s, and the answer goes to %s.", joinScopes(r.Scopes), plain(r.Redirect))
		if as := a.String("as"); as != "" {
			line(p, "It will act as %s: where `mcpx project grant` and `mcpx session grant` let %s in, and nowhere else.", plain(as), plain(as))
		} else {
			projects, err := service.Projects(ctx, api.ProjectsQuery{})
			if err != nil {
				return err
			}
			var names []string
			for _, one := range projects.Projects {
				names = append(names, one.Name)
			}
			line(p, "It will act as you, in your sessions and in every project: %s.", dash(plain(strings.Join(names, ", "))))
		}
		yes, err := p.confirm(ctx, "let it in")
		if err != nil {
			return err
		}
		if !yes {
			return notConfirmed("mcpx remote approve " + a.Pos(0))
		}
		out, err := service.ApproveRemote(e.operation(ctx), api.ApproveRemote{Request: r.ID, ReadOnly: a.Bool("read-only"), As: a.String("as")})
		if err != nil {
			return err
		}
		line(p, "Type this code in the browser: %s", looks{e.ttyColor}.paint(bold, out.Code))
		out.Code = "" // it is for the person at the terminal, not for what keeps the answer
		return e.Show(out, func(w io.Writer) {
			line(w, "%s may have %s once the code is typed.", plain(out.Request.Client), joinScopes(out.Request.Scopes))
		})
	},
}

var remoteDeny = Command{
	Path: "remote deny", Short: "Say no to a client that asks for access", Op: "remote.deny", Args: "REQUEST", Min: 1, Max: 1, Complete: requestNames,
	Example: "mcpx remote deny 7K2M9Q",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.DenyRemote(e.operation(ctx), api.RemoteRequestRef{Request: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) { line(w, "%s is not let in.", plain(out.Request.Client)) })
	},
}

var remoteList = Command{
	Path: "remote list", Short: "List clients on other machines that have access", Op: "remote.list",
	Example: "mcpx remote list\nmcpx remote list --all",
	Flags:   []Flag{{Name: "all", Kind: BoolFlag, Usage: "also those whose access has ended"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.RemoteClients(ctx, api.RemoteClientsQuery{All: a.Bool("all")})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Clients) == 0 {
				line(w, "No client on another machine has access.")
				return
			}
			rows := make([][]cell, 0, len(page.Clients))
			for _, c := range page.Clients {
				state := cell{string(c.State), dim}
				if c.State == auth.Live {
					state.color = green
				}
				rows = append(rows, []cell{{c.ID, bold}, {plain(c.Client), ""}, state, {plain(c.As), ""}, {joinScopes(c.Scopes), ""}, {stamp(c.Made), ""}, {dash(stamp(c.Refreshed)), ""}, {stamp(c.Expires), ""}})
			}
			e.table(w, []string{"ACCESS", "CALLS ITSELF", "STATE", "ACTS AS", "SCOPES", "SINCE", "REFRESHED", "EXPIRES"}, rows)
			e.next(w, page.Next)
		})
	},
}

var remoteRevoke = Command{
	Path: "remote revoke", Short: "End the access of one client at once", Op: "remote.revoke", Args: "ACCESS", Min: 1, Max: 1, Complete: accessNames,
	Long:    "ACCESS is the id that `mcpx remote list` shows, or a beginning of it.",
	Example: "mcpx remote revoke dg_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.RevokeRemote(e.operation(ctx), api.RemoteClientRef{Access: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) { line(w, "%s: %s has no access.", out.State, plain(out.Client.Client)) })
	},
}

// requestNames completes with the clients that ask.
func requestNames(ctx context.Context, e *Env) (names []string) {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.RemoteRequests(ctx, api.None{})
	if err != nil {
		return nil
	}
	for _, r := range page.Requests {
		names = append(names, r.ID)
	}
	return names
}

// accessNames completes with the clients that have access.
func accessNames(ctx context.Context, e *Env) (names []string) {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.RemoteClients(ctx, api.RemoteClientsQuery{})
	if err != nil {
		return nil
	}
	for _, c := range page.Clients {
		names = append(names, c.ID)
	}
	return names
}
