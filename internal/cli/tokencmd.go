package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/fault"
)

var agentFlag = Flag{Name: "agent", Kind: StringFlag, Value: "KIND", Usage: "the agent KIND, such as claude_code or codex"}

var tokenIssue = Command{
	Path: "token issue", Also: "create", Short: "Make the token of an agent", Op: "token.issue",
	Long: "An agent proves with its token who it is: to mcp_hub always, to servers with listener.loopback_auth = \"token\". An\n" +
		"agent that has a token keeps it. The value goes into a file that only you can read, and is not shown: helpers and\n" +
		"`mcpx connect` read it from there. No scope lets a token approve or apply anything. `mcpx token create` is the same.",
	Example: "mcpx token issue --agent claude_code\nmcpx token issue --agent codex --scope hub:read --scope servers:use:github --expires 720h",
	Flags: []Flag{
		agentFlag,
		{Name: "scope", Kind: StringsFlag, Value: "SCOPE", Usage: "what it allows: hub:read, hub:propose, servers:use, servers:use:NAME; may be repeated (default: hub:read and servers:use)"},
		{Name: "expires", Kind: DurationFlag, Value: "DURATION", Usage: "end it after DURATION (default: never)"},
		{Name: "any-name", Kind: BoolFlag, Usage: "the agent is a program that mcpx does not know"},
		{Name: "emit-token", Kind: BoolFlag, Usage: "also print the value, once, on a terminal"},
		{Name: "out", Kind: StringFlag, Value: "FILE", Usage: "also write the value into the new file FILE, for you only"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		agent, err := neededAgent(a)
		if err != nil {
			return err
		}
		if a.Bool("emit-token") && !e.shows {
			return fault.New(fault.Denied, "token-hidden").Saying("a token is printed on a terminal only").
				Hinting("add --out FILE to write it into a file for you only")
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		in := api.IssueToken{Agent: agent, AnyName: a.Bool("any-name"), Scopes: a.Strings("scope")}
		if life := a.Duration("expires"); life > 0 {
			in.Seconds = max(1, int(life/time.Second))
		}
		out, err := service.IssueToken(e.operation(ctx), in)
		if err != nil {
			return err
		}
		if err := e.emit(a, out); err != nil {
			return err
		}
		return e.showToken(out)
	},
}

// emit gives the value to who asked for it in words.
func (e *Env) emit(a Args, out api.TokenChange) error {
	file := a.String("out")
	if file == "" && !a.Bool("emit-token") {
		return nil
	}
	v, err := api.ReadToken(out.File)
	if err != nil {
		return err
	}
	if file != "" {
		if err := writeNew(file, v.Reveal()+"\n"); err != nil {
			return err
		}
	}
	if a.Bool("emit-token") {
		line(e.Err, "%s", v.Reveal()) // not in the answer: that may be kept
	}
	return nil
}

// writeNew writes a file that must not be there: what it replaced could be more open than it should be.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = io.WriteString(f, text)
		err = errors.Join(err, f.Close())
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return fault.New(fault.Conflict, "file-exists").Saying("%s is there already", path).Hinting("name a new file")
	case err != nil:
		return fault.New(fault.Unavailable, "file-unwritable").Saying("%s cannot be written", path).Because(err)
	}
	return nil
}

func (e *Env) showToken(out api.TokenChange) error {
	return e.Show(out, func(w io.Writer) {
		line(w, "%s: %s (%s).", out.Token.ID, plain(out.Text), joinScopes(out.Token.Scopes))
		if out.File != "" {
			line(w, "Its value is in %s, for you only.", plain(out.File))
		}
		e.next(w, out.Next)
	})
}

func joinScopes(scopes []auth.Scope) string {
	var all []string
	for _, s := range scopes {
		all = append(all, string(s))
	}
	return strings.Join(all, ", ")
}

func neededAgent(a Args) (string, error) {
	if a.String("agent") == "" {
		return "", fault.New(fault.Invalid, "usage").Saying("--agent KIND is missing").Hinting("`mcpx agents discover` shows the agents")
	}
	return a.String("agent"), nil
}

var tokenList = Command{
	Path: "token list", Short: "List the tokens of agents, without their values", Op: "token.list",
	Example: "mcpx token list\nmcpx token list --all --agent codex",
	Flags:   []Flag{agentFlag, {Name: "all", Kind: BoolFlag, Usage: "also those that count no more"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Tokens(ctx, api.TokensQuery{Agent: a.String("agent"), All: a.Bool("all")})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Tokens) == 0 {
				line(w, "No tokens.")
				e.next(w, page.Next)
				return
			}
			rows := make([][]cell, 0, len(page.Tokens))
			for _, t := range page.Tokens {
				state := cell{string(t.State), dim}
				if t.State == auth.Live {
					state.color = green
				}
				rows = append(rows, []cell{
					{t.ID, bold}, {t.Agent, ""}, state, {joinScopes(t.Scopes), ""}, {e.ago(t.Created), ""}, {e.ago(t.Used), ""}, {dash(stamp(t.Expires)), ""},
				})
			}
			e.table(w, []string{"TOKEN", "AGENT", "STATE", "SCOPES", "MADE", "USED", "EXPIRES"}, rows)
		})
	},
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (e *Env) ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

var tokenRotate = Command{
	Path: "token rotate", Short: "Put another token in the place of one", Op: "token.rotate", Args: "TOKEN", Min: 1, Max: 1, Complete: tokenNames,
	Long: "The old one counts for ten minutes more, so that what runs goes on until it asks again. TOKEN is an id, a beginning of\n" +
		"it, or the name of an agent. What takes the token from a variable has to be started anew.",
	Example: "mcpx token rotate claude_code",
	Flags: []Flag{
		{Name: "emit-token", Kind: BoolFlag, Usage: "also print the value, once, on a terminal"},
		{Name: "out", Kind: StringFlag, Value: "FILE", Usage: "also write the value into the new file FILE, for you only"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.Bool("emit-token") && !e.shows {
			return fault.New(fault.Denied, "token-hidden").Saying("a token is printed on a terminal only").
				Hinting("add --out FILE to write it into a file for you only")
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.RotateToken(e.operation(ctx), api.TokenRef{Token: a.Pos(0)})
		if err != nil {
			return err
		}
		if err := e.emit(a, out); err != nil {
			return err
		}
		return e.showToken(out)
	},
}

var tokenRevoke = Command{
	Path: "token revoke", Short: "End a token at once", Op: "token.revoke", Args: "TOKEN", Min: 1, Max: 1, Complete: tokenNames,
	Long:    "TOKEN is an id, a beginning of it, or the name of an agent.",
	Example: "mcpx token revoke codex",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.RevokeToken(e.operation(ctx), api.TokenRef{Token: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.showToken(out)
	},
}

// tokenNames completes with the agents that have a token.
func tokenNames(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Tokens(ctx, api.TokensQuery{})
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range page.Tokens {
		names = append(names, t.Agent)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Forms of tokenPrint.
const (
	asHeaders = "headers"
	asValue   = "value"
)

var tokenPrint = Command{
	Path: "token print", Short: "Give the token of an agent to a helper",
	Long: "For programs: `headersHelper` of Claude Code and `http_headers_helper` of Codex call it. It reads the file of the\n" +
		"token, asks no daemon, and refuses a file of another user. On a terminal it prints nothing without --show.",
	Example: "mcpx token print --agent claude_code --as headers",
	Flags: []Flag{
		agentFlag,
		{Name: "as", Kind: StringFlag, Value: "FORM", Default: asHeaders, Usage: "FORM: headers is a JSON object with the header, value is the token alone", Choices: []string{asHeaders, asValue}},
		{Name: "show", Kind: BoolFlag, Usage: "print it on a terminal, too"},
	},
	Run: func(_ context.Context, e *Env, a Args) error {
		agent, err := neededAgent(a)
		if err != nil {
			return err
		}
		if e.shows && !a.Bool("show") {
			return fault.New(fault.Denied, "token-hidden").Saying("a token is not printed on a terminal, where others may see it").
				Hinting("add --show if nobody looks on")
		}
		v, err := e.agentToken(agent)
		if err != nil {
			return err
		}
		headers := map[string]string{"Authorization": "Bearer " + v.Reveal()}
		if a.String("as") == asHeaders {
			data, err := json.Marshal(headers)
			if err != nil {
				return fault.New(fault.Internal, "answer-unwritable").Saying("the header cannot be written as JSON").Because(err)
			}
			line(e.Out, "%s", data)
			return nil
		}
		return e.Show(struct {
			Token string `json:"token"`
		}{v.Reveal()}, func(w io.Writer) { line(w, "%s", v.Reveal()) })
	},
}

// agentToken reads the token of an agent from its file.
func (e *Env) agentToken(agent string) (auth.Value, error) {
	name := strings.ReplaceAll(strings.ToLower(agent), "-", "_")
	if strings.ContainsAny(name, "/\\.\x00") {
		return auth.Value{}, fault.New(fault.Invalid, "agent-name-invalid").Saying("%q is no name of an agent", agent).Hinting("`mcpx token list` shows who has a token")
	}
	paths, err := e.Paths()
	if err != nil {
		return auth.Value{}, err
	}
	v, err := api.ReadToken(paths.AgentToken(name))
	if fault.KindOf(err) == fault.NotFound && name != agent { // a name that was given with --any-name
		return api.ReadToken(paths.AgentToken(strings.ToLower(agent)))
	}
	return v, err
}

// tokenVariables is the answer of token env.
type tokenVariables struct {
	Variables []tokenVariable `json:"variables"`
}

type tokenVariable struct {
	Agent    string `json:"agent"`
	Variable string `json:"variable"`
	Command  string `json:"command"` // sets it in a shell, without the value in any file
}

var tokenEnv = Command{
	Path: "token env", Short: "Print what sets the variables of the tokens in a shell",
	Long: "For agents that take their token from a variable. The lines are for your shell profile: they hold a command that reads\n" +
		"the token when the shell starts, not the token. Each agent has a variable of its own, so that two in one shell stay two.",
	Example: "mcpx token env --agent codex\neval \"$(mcpx token env)\"",
	Flags:   []Flag{agentFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		var agents []string
		if agent := a.String("agent"); agent != "" {
			agents = []string{agent}
		} else {
			service, err := e.API(ctx)
			if err != nil {
				return err
			}
			page, err := service.Tokens(ctx, api.TokensQuery{})
			if err != nil {
				return err
			}
			for _, t := range page.Tokens {
				agents = append(agents, t.Agent)
			}
			slices.Sort(agents)
			agents = slices.Compact(agents)
		}
		out := tokenVariables{Variables: []tokenVariable{}}
		for _, agent := range agents {
			if _, err := e.agentToken(agent); err != nil {
				return err
			}
			agent = strings.ReplaceAll(strings.ToLower(agent), "-", "_")
			name := auth.Variable(agent)
			out.Variables = append(out.Variables, tokenVariable{agent, name, fmt.Sprintf(`export %s="$(mcpx token print --agent %s --as value)"`, name, agent)})
		}
		return e.Show(out, func(w io.Writer) {
			for _, v := range out.Variables {
				line(w, "%s", v.Command)
			}
			if len(out.Variables) == 0 {
				e.Note("No agent has a token: `mcpx token issue --agent KIND` makes one.")
			}
		})
	},
}
