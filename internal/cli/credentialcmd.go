package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// maxStdin bounds a value that is read; the daemon says what is too long.
const maxStdin = 1 << 20

// valueFlags describe a credential; add, set and rotate share them.
var valueFlags = []Flag{
	{Name: "ref", Kind: StringFlag, Value: "REF", Usage: "where the value is: env:NAME, file:/PATH#KEY, keyring:SERVICE/ACCOUNT or command:PROGRAM ARGS"},
	{Name: "stdin", Kind: BoolFlag, Usage: "read the value from stdin into the encrypted store, without one newline at its end; the default when stdin is no terminal"},
	{Name: "account", Kind: StringFlag, Usage: "whose value it is, in words for people"},
	{Name: "expires", Kind: StringFlag, Value: "DATE", Usage: "it ends at the beginning of DATE, such as 2027-01-31, or never"},
}

var credentialAdd = Command{
	Path: "credential add", Short: "Add a credential", Op: "credential.set", Args: "NAME", Min: 1, Max: -1,
	Long: "A credential is a name for a value that is kept elsewhere: with --ref where you say, else in an encrypted file of\n" +
		"mcpx. That value comes from stdin, or is asked for on a terminal that does not show it; it is never an argument,\n" +
		"because other programs can read those. `mcpx credential set` does the same and also replaces.",
	Example: "mcpx credential add github-token --ref env:GITHUB_TOKEN\npass show github | mcpx credential add github-token --stdin",
	Flags:   valueFlags,
	Run:     func(ctx context.Context, e *Env, a Args) error { return e.setCredential(ctx, a, api.SetNew) },
}

var credentialSet = Command{
	Path: "credential set", Short: "Add a credential or replace its value", Op: "credential.set", Args: "NAME", Min: 1, Max: -1, Complete: credentialNames,
	Long: "As `mcpx credential add`, for a name that is new or not. Servers that run keep the value that they started with.",
	Example: "mcpx credential set github-token\npass show github | mcpx credential set github-token --stdin\n" +
		"mcpx credential set github-token --ref keyring:github/ada",
	Flags: valueFlags,
	Run:   func(ctx context.Context, e *Env, a Args) error { return e.setCredential(ctx, a, api.SetAny) },
}

var credentialRotate = Command{
	Path: "credential rotate", Short: "Give a credential another value", Op: "credential.set", Args: "NAME", Min: 1, Max: -1, Complete: credentialNames,
	Long:    "As `mcpx credential set`, for a name that is there. Servers that run keep the value that they started with.",
	Example: "mcpx credential rotate github-token\npass show github | mcpx credential rotate github-token --stdin",
	Flags:   valueFlags,
	Run:     func(ctx context.Context, e *Env, a Args) error { return e.setCredential(ctx, a, api.SetExisting) },
}

func (e *Env) setCredential(ctx context.Context, a Args, mode api.SetMode) error {
	if a.Len() > 1 { // it may be the value: it is not repeated
		return fault.New(fault.Invalid, "usage").Saying("a value is never an argument: other programs can read those").
			Hinting("type it when asked, or give it on stdin: `mcpx credential set NAME --stdin < FILE`")
	}
	in := api.SetCredential{Name: a.Pos(0), Ref: a.String("ref"), Mode: mode}
	if err := catalog.ValidCredentialName(in.Name); err != nil {
		return err
	}
	if a.Given("ref") && a.Bool("stdin") {
		return misused("--ref and --stdin exclude each other", "credential set")
	}
	if a.Given("account") {
		account := a.String("account")
		in.Account = &account
	}
	if a.Given("expires") {
		at, err := expiry(a.String("expires"))
		if err != nil {
			return err
		}
		in.Expires = &at
	}
	if !a.Given("ref") {
		value, err := e.value(ctx, in.Name, a.Bool("stdin"))
		if err != nil {
			return err
		}
		in.Value = api.SecretText(value)
	}
	service, err := e.API(ctx)
	if err != nil {
		return err
	}
	c, err := service.SetCredential(e.operation(ctx), in)
	if err != nil {
		return err
	}
	return e.Show(c, func(w io.Writer) {
		what := "is"
		if c.Rotated {
			what = "has another value; it is"
		}
		line(w, "The credential %s %s %s (%s).", c.Name, what, e.paint(readinessColor(c.Readiness), string(c.Readiness)), plain(c.Ref))
		switch {
		case c.Readiness != catalog.ReadinessReady:
			line(w, "See why: %s credential check %s", e.self(), c.Name)
		case c.Hint != "":
			line(w, "Note: %s", c.Hint)
		case len(c.Servers) == 0:
			line(w, "Give it to a server: %s credential bind SERVER VARIABLE=%s", e.self(), c.Name)
		}
	})
}

// expiry reads a date, or never.
func expiry(text string) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	at, err := time.ParseInLocation(time.DateOnly, text, time.Local)
	if err != nil {
		return at, fault.New(fault.Invalid, "usage").Saying("--expires %q is no date", text).Hinting("for example --expires 2027-01-31, or never")
	}
	return at, nil
}

// value reads a value from stdin, or asks for it on a terminal that does not show it.
func (e *Env) value(ctx context.Context, name string, stdin bool) (string, error) {
	if e.asks && !stdin {
		value, err := process.ReadHidden(ctx, os.Stdin, func() { _, _ = fmt.Fprintf(e.Err, "Value of %s (it is not shown): ", name) })
		_, _ = fmt.Fprintln(e.Err)
		if err != nil {
			return "", fault.New(fault.Canceled, "canceled").Saying("no value was given").Because(err)
		}
		return cutNewline(value), nil
	}
	data, err := io.ReadAll(io.LimitReader(e.In, maxStdin))
	if err != nil {
		return "", fault.New(fault.Unavailable, "input-unreadable").Saying("stdin cannot be read").Because(err)
	}
	value := cutNewline(string(data))
	if value == "" {
		return "", fault.New(fault.Invalid, "credential-empty").Saying("there is no value on stdin").
			Hinting("for example `mcpx credential set %s --stdin < FILE`; on a terminal it is asked for", name)
	}
	return value, nil
}

// cutNewline removes the one line end that programs and editors add.
func cutNewline(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }

var credentialList = Command{
	Path: "credential list", Short: "List the credentials, never a value", Op: "credential.list",
	Long: "READINESS is what the last check found: ready, missing, locked (the keyring), denied, unavailable, expired, or\n" +
		"unchecked. `mcpx credential check` looks again.",
	Example: "mcpx credential list",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Credentials(ctx, api.CredentialQuery{})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) { e.printCredentials(w, page) })
	},
}

func readinessColor(r catalog.Readiness) string {
	switch r {
	case catalog.ReadinessReady:
		return green
	case catalog.ReadinessUnchecked:
		return dim
	case catalog.ReadinessMissing, catalog.ReadinessLocked, catalog.ReadinessDenied, catalog.ReadinessUnavailable, catalog.ReadinessExpired:
		return red
	}
	return ""
}

func (e *Env) printCredentials(w io.Writer, page api.CredentialPage) {
	if len(page.Credentials) == 0 {
		line(w, "No credentials. Add one with %s credential add NAME --ref env:VARIABLE, or %s credential set NAME", e.self(), e.self())
		return
	}
	rows := make([][]cell, 0, len(page.Credentials))
	for _, c := range page.Credentials {
		checked := "-"
		if !c.CheckedAt.IsZero() {
			checked = age(e.Now().Sub(c.CheckedAt)) + " ago"
		}
		rows = append(rows, []cell{
			{text: c.Name},
			{string(c.Readiness), readinessColor(c.Readiness)},
			{text: plain(c.Ref)},
			{text: orElse(strings.Join(c.Servers, ","), "-")},
			{text: orElse(strings.Join(c.Projects, ","), "-")},
			{text: checked},
		})
	}
	e.table(w, []string{"NAME", "READINESS", "REFERENCE", "SERVERS", "PROJECTS", "CHECKED"}, rows)
	for _, c := range page.Credentials {
		if c.Text != "" {
			line(w, "%s: %s", c.Name, below(plain(strings.TrimPrefix(c.Text, "the credential "+c.Name+": ")), 2))
			if c.Hint != "" {
				line(w, "  %s", c.Hint)
			}
		}
	}
	e.printStore(w, page.Store)
}

// printStore says where the key of the encrypted store is.
func (e *Env) printStore(w io.Writer, s api.CredentialStore) {
	switch s.Key {
	case "file":
		line(w, "The encrypted store has its key in a file that only you can read.")
	case "keyring":
		line(w, "The encrypted store has its key in the keyring.")
	case "":
		line(w, "The encrypted store: %s", plain(s.Text))
	}
}

var credentialShow = Command{
	Path: "credential show", Short: "Show a credential, never its value", Op: "credential.show", Args: "NAME", Min: 1, Max: 1, Complete: credentialNames,
	Example: "mcpx credential show github-token",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		c, err := service.Credential(ctx, api.CredentialRef{Name: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(c, func(w io.Writer) {
			rows := [][2]string{{"name", c.Name}, {"reference", plain(c.Ref)}, {"readiness", e.paint(readinessColor(c.Readiness), string(c.Readiness))}}
			if !c.CheckedAt.IsZero() {
				rows = append(rows, [2]string{"checked", age(e.Now().Sub(c.CheckedAt)) + " ago"})
			}
			if c.Account != "" {
				rows = append(rows, [2]string{"account", plain(c.Account)})
			}
			if !c.Expires.IsZero() {
				rows = append(rows, [2]string{"expires", c.Expires.In(time.Local).Format(time.DateOnly)})
			}
			pairs(w, append(rows, [][2]string{
				{"set", age(e.Now().Sub(c.Updated)) + " ago"}, {"servers", orElse(strings.Join(c.Servers, ", "), "none takes it")},
			}...))
			if !c.Commands.IsZero() {
				line(w, "%s.", plain(commandsText(c)))
			}
		})
	},
}

var credentialCheck = Command{
	Path: "credential check", Short: "Look whether credentials are ready", Op: "credential.check", Args: "[NAME]", Max: 1, Complete: credentialNames,
	Long: "The value is looked for as at the start of a server, and dropped. Nobody is asked: a locked keyring is `locked`.\n" +
		"A reference that runs a program is only run for a NAME, because such a program may ask. Exit code 1 when one is not\n" +
		"ready.",
	Example: "mcpx credential check\nmcpx credential check github-token",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.CheckCredentials(e.operation(ctx), api.CheckCredentials{Name: a.Pos(0)})
		if err != nil {
			return err
		}
		if err := e.Show(page, func(w io.Writer) { e.printCredentials(w, page) }); err != nil {
			return err
		}
		for _, c := range page.Credentials {
			if c.Readiness != catalog.ReadinessReady && c.Readiness != catalog.ReadinessUnchecked {
				return errAnswerNo
			}
		}
		return nil
	},
}

var credentialBind = Command{
	Path: "credential bind", Short: "Let a server take a variable or header from a credential", Op: "credential.bind", Args: "SERVER [VAR=NAME...]", Min: 1, Max: -1, Complete: serverNames,
	Long:    "The value is looked for at each start of the server and is only in its environment, or in the headers sent to it.",
	Example: "mcpx credential bind github GITHUB_TOKEN=github-token\nmcpx credential bind docs --header 'Authorization=Bearer {docs-token}'",
	Flags:   []Flag{{Name: "header", Kind: StringsFlag, Value: "H=TEXT", Usage: "bind a header, H=TEXT; TEXT is the name of a credential, or has {NAME} in it; may be repeated"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		in := api.BindCredentials{Server: a.Pos(0), Variables: map[string]string{}, Headers: map[string]string{}}
		for i := 1; i < a.Len(); i++ {
			name, credential, ok := strings.Cut(a.Pos(i), "=")
			if !ok || name == "" || credential == "" {
				return fault.New(fault.Invalid, "usage").Saying("argument %d is not VAR=NAME", i+1).Hinting("for example GITHUB_TOKEN=github-token")
			}
			in.Variables[name] = credential
		}
		for _, text := range a.Strings("header") {
			i := strings.IndexAny(text, "=:")
			if i < 1 || strings.TrimSpace(text[i+1:]) == "" {
				return fault.New(fault.Invalid, "usage").Saying("a --header is not H=TEXT").Hinting("for example --header 'Authorization=Bearer {docs-token}'")
			}
			in.Headers[text[:i]] = strings.TrimSpace(text[i+1:])
		}
		if len(in.Variables)+len(in.Headers) == 0 {
			return misused("nothing to bind was given", "credential bind")
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		s, err := service.BindCredentials(e.operation(ctx), in)
		if err != nil {
			return err
		}
		return e.Show(s, func(w io.Writer) {
			line(w, "%s takes values from %s.", s.Name, strings.Join(s.Credentials(), ", "))
			printEffect(w, s)
			line(w, "Try it: %s server tools %s", e.self(), s.Name)
		})
	},
}

var credentialGrant = Command{
	Path: "credential grant", Short: "Say which commands of agents may be given a credential", Op: "credential.grant", Args: "NAME", Min: 1, Max: 1, Complete: credentialNames,
	Long: "Agents at /mcp name the credential in `secrets` of a command; the value comes in a variable and is replaced in what the\n" +
		"command prints. A person is asked each time, unless a rule in policy.toml names the credential, the program and the\n" +
		"project. What was granted before is replaced; --revoke takes it back. See docs/secrets.md.",
	Example: "mcpx credential grant github-token --project shop --program gh\nmcpx credential grant deploy-key --project shop --variable DEPLOY_KEY\n" +
		"mcpx credential grant github-token --revoke",
	Flags: []Flag{
		{Name: "project", Kind: StringsFlag, Value: "PROJECT", Usage: "commands in PROJECT may be given it; may be repeated"},
		{Name: "program", Kind: StringsFlag, Value: "PROGRAM", Usage: "and only PROGRAM, a name or an absolute path; may be repeated (default: what a person or a rule allows)"},
		{Name: "variable", Kind: StringFlag, Value: "VAR", Usage: "the value comes in VAR (default: made from NAME, GITHUB_TOKEN of github-token)"},
		{Name: "revoke", Kind: BoolFlag, Usage: "no command may be given it"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		in := api.GrantCredential{Name: a.Pos(0), Projects: a.Strings("project"), Programs: a.Strings("program"), Variable: a.String("variable")}
		switch revoke := a.Bool("revoke"); {
		case revoke == (len(in.Projects) > 0):
			return misused("give one of --project PROJECT and --revoke", "credential grant")
		case revoke && (len(in.Programs) > 0 || in.Variable != ""):
			return misused("--revoke goes with no other flag", "credential grant")
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		c, err := service.GrantCredential(e.operation(ctx), in)
		if err != nil {
			return err
		}
		return e.Show(c, func(w io.Writer) { line(w, "%s.", plain(commandsText(c))) })
	},
}

// commandsText says which commands may be given a credential.
func commandsText(c api.Credential) string {
	if c.Commands.IsZero() {
		return "No command may be given the credential " + c.Name
	}
	return fmt.Sprintf("Commands in %s may be given %s as the variable %s: %s", strings.Join(c.Projects, ", "), c.Name, c.Commands.Variable,
		orElse(strings.Join(c.Commands.Programs, ", "), "each program that a person or a rule allows"))
}

var credentialMove = Command{
	Path: "credential move", Short: "Plan to move secrets out of the file of an agent", Op: "audit.run",
	Long: "Makes the plans that take the secrets of FILE into the encrypted store, lead their entries through mcpx, and bind\n" +
		"their servers to the credentials. It writes nothing but plans: `mcpx plan show` shows each, a person approves it.\n" +
		"For what is no server of the catalog yet the commands are shown that make it one. A secret in an argument is never stored:\n" +
		"they give it to a credential, and the server takes it as a variable or header. Exit code 1 when there is nothing to move.",
	Example: "mcpx credential move --from-file ~/.codex/config.toml",
	Flags: []Flag{
		{Name: "from-file", Kind: StringFlag, Value: "FILE", Usage: "the configuration FILE of an agent"},
		projectFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.String("from-file") == "" {
			return misused("--from-file says which file", "credential move")
		}
		path, err := wholePath(a.String("from-file"))
		if err != nil {
			return err
		}
		service, query, err := e.configQuery(ctx, a)
		if err != nil {
			return err
		}
		files, err := service.ConfigFiles(ctx, query)
		if err != nil {
			return err
		}
		out := api.Audit{Files: []converge.File{}, Entries: []converge.Finding{}, Counts: map[converge.Class]int{}, Plans: []api.PlanRow{}}
		found := false
		for _, f := range files.Files {
			if f.Path != path && f.Real != path || f.State == converge.FileAbsent {
				continue
			}
			found = true
			one, err := service.RunAudit(e.operation(ctx), api.RunAudit{
				Agent: f.Agent, Path: path, Home: query.Home, Project: query.Project, Moved: query.Moved,
			})
			if err != nil {
				return err
			}
			for _, p := range one.Plans {
				if slices.Contains(p.Risk.Reasons, "secret-involved") || p.Kind == converge.PlanMoveSecret {
					out.Plans = append(out.Plans, p)
				}
			}
			out.Next = append(out.Next, one.Next...)
		}
		if !found {
			return fault.New(fault.NotFound, "config-unknown").Saying("no agent reads %s", path).
				Hinting("`mcpx config discover` lists the files of agents; --project DIR looks at those of a project")
		}
		again := "mcpx credential move --from-file " + api.ShellWord(path)
		first := slices.IndexFunc(out.Plans, waiting)
		allWait := first >= 0 && !slices.ContainsFunc(out.Plans, func(p api.PlanRow) bool { return !waiting(p) })
		if allWait { // there is nothing to look at before
			out.Next = append(slices.Clone(out.Plans[first].Needs), again)
		}
		if i := slices.IndexFunc(out.Plans, func(p api.PlanRow) bool { return !waiting(p) }); i >= 0 {
			out.Next = []string{"mcpx plan show " + out.Plans[i].ID} // the audit may name a plan that is not about secrets
		}
		if err := e.Show(out, func(w io.Writer) {
			if len(out.Plans) == 0 {
				line(w, "Nothing of %s can be moved now.", path)
			} else {
				e.planTable(w, out.Plans)
			}
			for _, p := range out.Plans {
				if waiting(p) {
					line(w, "\n%s waits for these commands:", plain(p.Entry))
					for _, command := range append(slices.Clone(p.Needs), again) {
						line(w, "  %s", e.typed(plain(command)))
					}
				}
			}
			if !allWait {
				e.next(w, out.Next)
			}
		}); err != nil {
			return err
		}
		if len(out.Plans) == 0 {
			return errAnswerNo
		}
		return nil
	},
}

// waiting says whether something has to be done before the plan can be approved.
func waiting(p api.PlanRow) bool { return p.State == converge.PlanReady && len(p.Needs) > 0 }

var credentialRemove = Command{
	Path: "credential remove", Short: "Remove a credential that no server takes", Op: "credential.remove", Args: "NAME", Min: 1, Max: 1, Complete: credentialNames,
	Long:    "A value in the encrypted store is gone then; what a reference points to is not touched.",
	Example: "mcpx credential remove github-token",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		gone, err := service.RemoveCredential(e.operation(ctx), api.CredentialRef{Name: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(gone, func(w io.Writer) { line(w, "Removed the credential %s.", gone.Name) })
	},
}

// credentialNames are the candidates for completion.
func credentialNames(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Credentials(ctx, api.CredentialQuery{})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(page.Credentials))
	for _, c := range page.Credentials {
		names = append(names, c.Name)
	}
	return names
}
