package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

var serverLogin = Command{
	Path: "server login", Short: "Sign in at a server behind a URL", Op: "server.login", Args: "NAME", Min: 1, Max: 1, Complete: serverNames,
	Long: "For servers that ask for a sign-in (OAuth): it opens their page in your browser, waits until you said yes there, and\n" +
		"keeps the tokens in the encrypted store. From then on every agent can use the server, none has to sign in, and mcpx\n" +
		"renews the tokens. Without a terminal, or with --no-browser, it prints the address on a line of its own. The browser\n" +
		"has to run on this machine: it is sent back to 127.0.0.1. From another one lead a port here (ssh -L 8123:127.0.0.1:8123)\n" +
		"and say --port 8123.\n" +
		"With --json each line is one JSON document: {\"state\": \"waiting\", \"url\": ...}, then {\"state\": \"signed_in\", ...}.\n" +
		"Exit code 7 when the server or its authorization server was refused, or said no; 75 when nobody signed in in time.",
	Example: "mcpx server login linear\nmcpx server login linear --no-browser\n" +
		"mcpx server login crm --client-id 4711 --client-secret-from cred:crm-client --port 8123\n" +
		"mcpx server login ci --machine --client-id ci --client-key-from file:~/ci.pem",
	Flags: []Flag{
		{Name: "no-browser", Kind: BoolFlag, Usage: "print the address and open nothing"},
		{Name: "timeout", Kind: DurationFlag, Default: auth.SignInWithin, Usage: "how long to wait for you, at most 1h"},
		{Name: "scope", Kind: StringsFlag, Value: "SCOPE", Usage: "ask for SCOPE in place of what the server names; may be repeated"},
		{Name: "client-id", Kind: StringFlag, Value: "ID", Usage: "mcpx is known there as ID; a URL is that of its metadata document (default: it registers itself)"},
		{Name: "client-secret-from", Kind: StringFlag, Value: "REF", Usage: "where the secret of that client is: cred:NAME, env:NAME or file:/PATH"},
		{Name: "client-key-from", Kind: StringFlag, Value: "REF", Usage: "where its private key is (PEM), in place of a secret"},
		{Name: "machine", Kind: BoolFlag, Usage: "the client signs in for itself (client credentials), no person does"},
		{Name: "port", Kind: IntFlag, Value: "PORT", Usage: "the browser comes back to 127.0.0.1:PORT (default: any)"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		within := a.Duration("timeout")
		if within <= 0 {
			return fault.New(fault.Invalid, "usage").Saying("--timeout %s leaves no time", within).Hinting("for example --timeout 10m")
		}
		in := api.LogIn{
			Name: a.Pos(0), Client: a.String("client-id"), Secret: a.String("client-secret-from"), Key: a.String("client-key-from"),
			Machine: a.Bool("machine"), Scopes: a.Strings("scope"), Port: a.Int("port"), Within: within,
		}
		stream := json.NewEncoder(e.Out)
		stream.SetEscapeHTML(false)
		return service.LogIn(e.operation(ctx), in, func(step api.LogInStep) error {
			if e.json {
				return stream.Encode(step)
			}
			e.printLogIn(step, a.Bool("no-browser"))
			return nil
		})
	},
}

// printLogIn says what comes next in a sign-in, and opens the browser when somebody sits there.
func (e *Env) printLogIn(step api.LogInStep, quiet bool) {
	switch step.State {
	case api.LogInWaiting:
		if e.asks && !quiet {
			err := process.OpenBrowser(step.URL, e.Getenv)
			if err == nil {
				e.Note("Say yes in your browser. If no page opens, open this address:")
			} else {
				e.Note("No browser can be opened (%s). Open this address:", plain(err.Error()))
			}
		} else {
			e.Note("Open this address in a browser on this machine:")
		}
		line(e.Out, "%s", plain(step.URL))
		e.Note("Waiting until %s ...", stamp(step.Until))
	case api.LogInDone:
		line(e.Out, "Signed in at %s: %s.", step.Server, plain(signInText(step.SignIn, e.Now())))
		if step.Before != "" {
			line(e.Out, "note: it names another authorization server than before: %s, not %s", plain(step.SignIn.Issuer), plain(step.Before))
		}
		line(e.Out, "Try it: %s server tools %s", e.self(), step.Server)
	case api.LogInNotNeeded:
		line(e.Out, "%s asks for no sign-in.", step.Server)
	}
}

var serverLogout = Command{
	Path: "server logout", Short: "Forget the sign-in at a server", Op: "server.logout", Args: "NAME", Min: 1, Max: 1, Complete: serverNames,
	Long:    "The tokens are removed from the store, and the authorization server is told, if it takes that.",
	Example: "mcpx server logout linear",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		done, err := service.LogOut(e.operation(ctx), api.ServerRef{Name: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(done, func(w io.Writer) {
			if done.Already {
				line(w, "Nobody was signed in at %s.", done.Server)
				return
			}
			line(w, "Signed out at %s.", done.Server)
		})
	},
}

// signInText is one line about a sign-in; "" for a server that has not asked.
func signInText(s *auth.SignIn, now time.Time) string {
	if s == nil {
		return ""
	}
	var text string
	switch s.State {
	case auth.SignInNeeded:
		text = "sign-in needed"
	case auth.SignInEnded:
		text = "sign-in expired"
	case auth.SignedIn:
		text = "signed in"
		switch {
		case s.Renews:
			text += ", renewed by itself"
		case !s.Until.IsZero():
			text += " until " + stamp(s.Until) + " (" + age(s.Until.Sub(now)) + ")"
		}
	}
	if s.Text != "" {
		text += ": " + s.Text
	}
	if len(s.Lacks) > 0 {
		text += "; the server asks for more: " + strings.Join(s.Lacks, ", ")
	}
	return text
}

// signInCell is the shortest word about a sign-in.
func (e *Env) signInCell(s *auth.SignIn, now time.Time) cell {
	switch {
	case s == nil:
		return cell{"-", ""}
	case s.State == auth.SignInNeeded:
		return cell{"needed", red}
	case s.State == auth.SignInEnded:
		return cell{"expired", red}
	case len(s.Lacks) > 0:
		return cell{"lacks " + plain(strings.Join(s.Lacks, ", ")), yellow}
	case !s.Renews && !s.Until.IsZero():
		return cell{"for " + age(s.Until.Sub(now)), green}
	}
	return cell{"yes", green}
}

// signInRows are the facts about a sign-in for `mcpx server show`.
func signInRows(add func(name, value string), s *auth.SignIn, now time.Time) {
	if s == nil {
		return
	}
	add("sign-in", signInText(s, now))
	add("issuer", s.Issuer)
	client := s.Client
	if s.Kind != "" {
		client = fmt.Sprintf("%s (%s)", s.Client, map[auth.ClientKind]string{
			auth.ClientDocument: "its document", auth.ClientGiven: "given", auth.ClientRegistered: "registered itself",
		}[s.Kind])
	}
	add("client", client)
	add("scopes", strings.Join(s.Scopes, ", "))
	if !s.Since.IsZero() {
		add("signed in", stamp(s.Since))
	}
}
