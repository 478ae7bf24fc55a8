package cli

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

var serverEdit = Command{
	Path: "server edit", Short: "Change a server", Op: "server.edit", Args: "NAME", Min: 1, Max: 1, Dash: true, Complete: serverNames,
	Long: "Only what you give is changed; --unset-env also takes back what --env-pass allowed. A command after -- replaces\n" +
		"the whole command line. Limits, titles and --on-change count at once and disturb nothing. When the command, its\n" +
		"directory or variables, the URL, --supervised or the sharing change, the processes of the server end, and so do\n" +
		"its sessions and calls: clients begin a new session, and the next call starts a new process.",
	Example: "mcpx server edit memory --sharing global\nmcpx server edit memory --idle-timeout never\n" +
		"mcpx server edit github --unset-env DEBUG -- uvx mcp-server-github@1.2.0",
	Flags: append([]Flag{
		{Name: "name", Kind: StringFlag, Value: "NEW", Usage: "give it the name NEW; its URL changes with it"},
		{Name: "alias", Kind: StringsFlag, Value: "NAME", Usage: "reach it by NAME, too; may be repeated"},
		{Name: "unset-alias", Kind: StringsFlag, Value: "NAME", Usage: "remove the alias NAME; may be repeated"},
		{Name: "unset-env", Kind: StringsFlag, Value: "K", Usage: "remove the variable K; may be repeated"},
		{Name: "unset-header", Kind: StringsFlag, Value: "K", Usage: "remove the header K; may be repeated"},
		{Name: "notes", Kind: StringFlag, Usage: "notes for people"},
	}, definitionFlags...),
	Run: func(ctx context.Context, e *Env, a Args) error {
		in, err := changes(a)
		if err != nil {
			return err
		}
		if in.Sharing != nil {
			if in.Confirmed, err = e.agree(ctx, a, in.Name, *in.Sharing); err != nil {
				return err
			}
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		arg, err := moveHere(ctx, service, a, &in)
		if err != nil {
			return err
		}
		changed, err := service.EditServer(e.operation(ctx), in)
		if err != nil {
			return e.foundHere(err, a.Argv())
		}
		e.warn(changed.Server)
		return e.Show(changed, func(w io.Writer) {
			if in.Rename == nil {
				line(w, "Changed %s.", changed.Name)
			} else {
				line(w, "Changed %s: it is %s now. Agents reach it at %s", in.Name, changed.Name, changed.Route)
			}
			printEffect(w, changed)
			printStart(w, changed, arg)
			printAdvice(w, changed)
		})
	},
}

// printEffect says what the edit did to clients. A daemon of an earlier version does not tell.
func printEffect(w io.Writer, s api.Server) {
	e := s.Effect
	if e == nil {
		return
	}
	switch e.Applied {
	case api.AppliedLive:
		line(w, "It counts at once; nothing was interrupted.")
	case api.AppliedNextStart:
		line(w, "Nothing of it was running; it counts from the next start on.")
	case api.AppliedRestart:
		what := "processes"
		if s.Stdio == nil {
			what = "connections"
		}
		line(w, "It ended %s: %d, sessions: %d, calls in flight: %d. Clients begin a new session, the next call starts anew.",
			what, e.Processes, e.Sessions, e.Calls)
	}
}

// changes reads the request of server edit from its arguments.
func changes(a Args) (api.EditServer, error) {
	in := api.EditServer{Name: a.Pos(0), Unchecked: a.Bool("no-check")}
	if len(a.Argv()) > 0 {
		in.Command = absolute(a.Argv())
	}
	in.Rename, in.Title, in.Notes = given(a, "name"), given(a, "title"), given(a, "notes")
	in.Alias, in.Unalias = a.Strings("alias"), a.Strings("unset-alias")
	in.URL = given(a, "url")
	if a.Given("cwd") {
		cwd, err := directory(a.String("cwd"))
		if err != nil {
			return in, err
		}
		in.Cwd = &cwd
	}
	if a.Given("cwd-policy") {
		v := catalog.CwdPolicy(a.String("cwd-policy"))
		in.CwdPolicy = &v
	}
	env, err := variables(a)
	if err != nil {
		return in, err
	}
	headers, err := bindings(a.Strings("header"), "header", true)
	if err != nil {
		return in, err
	}
	in.EnvPass = a.Strings("env-pass")
	in.Env, in.Headers = patch(env, a.Strings("unset-env")), patch(headers, a.Strings("unset-header"))
	if a.Given("transport") {
		v := catalog.Transport(a.String("transport"))
		in.Transport = &v
	}
	if a.Given("protocol") {
		v := catalog.Protocol(a.String("protocol"))
		in.Protocol = &v
	}
	if a.Given("on-change") {
		v := catalog.OnChange(a.String("on-change"))
		in.OnChange = &v
	}
	if a.Given("supervised") {
		v := !a.Bool("supervised")
		in.Direct = &v
	}
	if a.Given("sharing") {
		v := catalog.Sharing(a.String("sharing"))
		in.Sharing = &v
	}
	in.Idle, in.Call = givenDuration(a, "idle-timeout"), givenDuration(a, "call-timeout")
	if in.Call != nil && *in.Call < 0 {
		return in, fault.New(fault.Invalid, "usage").Saying("--call-timeout cannot be never").Hinting("give a long time, such as 30m")
	}
	if empty, err := json.Marshal(in); err == nil && string(empty) == "{}" {
		return in, fault.New(fault.Invalid, "usage").Saying("nothing to change was given").Hinting("`mcpx server edit -h` lists what can be changed")
	}
	return in, nil
}

func given(a Args, flag string) *string {
	if !a.Given(flag) {
		return nil
	}
	v := a.String(flag)
	return &v
}

func givenDuration(a Args, flag string) *time.Duration {
	if !a.Given(flag) {
		return nil
	}
	v := a.Duration(flag)
	return &v
}

func patch(set map[string]catalog.Binding, unset []string) map[string]*catalog.Binding {
	out := map[string]*catalog.Binding{}
	for name, b := range set {
		out[name] = &b
	}
	for _, name := range unset {
		out[name] = nil
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
