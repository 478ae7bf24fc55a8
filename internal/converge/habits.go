package converge

import (
	"fmt"
	"slices"
	"strings"

	"mcpx/internal/catalog"
)

// habit is what an agent does after its file was changed, and how it spells a reference: governance.md section 3.4.
type habit struct {
	reload   string // what makes it read its file again
	verify   string // its own command, and what that says of a server; "" nothing without a login
	expected string
	// value and header spell a reference to a variable; "" the agent has none there.
	value, header string
	// inherits says that a child of the agent gets its whole environment.
	inherits bool
	bearer   bool   // it takes the name of a variable for a bearer token
	main     string // end of the path of the file that is made when there is none
	again    string // what it asks a person again after a change of an entry of a project
	merges   bool   // entries of one name in several files become one entry
	unsure   bool   // known from documentation, or never seen connected
}

const (
	onSession = "a new session reads the file"
	onRestart = "restart the agent: it reads the file when it starts"
)

var habits = map[string]habit{
	"claude_code": {reload: onSession, verify: "claude mcp list", expected: "%[1]s: %[2]s (HTTP) - ✔ Connected", value: "${%s}", header: "${%s}", inherits: true},
	"codex":       {reload: onSession, verify: "codex mcp list", expected: "%[1]s with the new address; it says nothing about the connection", bearer: true, merges: true},
	"gemini":      {reload: onRestart, verify: "gemini mcp list", expected: "✓ %[1]s: %[2]s (http) - Connected", value: "${%s}", header: "${%s}"},
	"cline":       {reload: onRestart, verify: "cline config mcp --json", expected: "%[1]s with the new address; it says nothing about the connection", inherits: true, main: ".cline/data/settings/cline_mcp_settings.json"},
	"opencode":    {reload: onRestart, verify: "opencode mcp list", expected: "✓ %[1]s connected", value: "{env:%s}", header: "{env:%s}", inherits: true, main: "opencode.json", merges: true},
	"kilo":        {reload: onRestart, verify: "kilo mcp list", expected: "✓ %[1]s connected", value: "{env:%s}", header: "{env:%s}", inherits: true, main: "kilo.json", merges: true},
	"qwen":        {reload: onRestart, verify: "qwen mcp list", expected: "✓ %[1]s: %[2]s (http) - Connected", value: "${%s}", header: "${%s}", inherits: true, again: "an entry of a project waits for approval again when it was changed"},
	"copilot":     {reload: onSession, header: "${%s}", inherits: true},
	"droid":       {reload: onSession, verify: "droid mcp list", expected: "%[1]s  http  connected", header: "${%s}", inherits: true},
	"continue":    {reload: onRestart, value: "${{ secrets.%s }}", header: "${{ secrets.%s }}", inherits: true},
	"amp":         {reload: onRestart, unsure: true},
	"auggie":      {reload: onRestart, unsure: true},
	"cursor":      {reload: onRestart, value: "${env:%s}", header: "${env:%s}", unsure: true},
	"vscode":      {reload: onRestart, value: "${env:%s}", header: "${env:%s}", unsure: true},
	"crush":       {reload: onRestart, value: "$%s", header: "$%s", unsure: true},
}

// effects tells what a person has to do or will see after the change. The agent shows the entry under its own name.
func effects(agent, name string, f *Form, project, shared bool) []string {
	h := habits[agent]
	var out []string
	if h.reload != "" {
		out = append(out, h.reload)
	}
	if h.again != "" && project {
		out = append(out, h.again)
	}
	if shared {
		out = append(out, "the file may be in version control: others who use it get the new entry, too")
	}
	switch {
	case f == nil:
	case h.verify == "":
		out = append(out, "the agent has no command that shows the connection: `mcpx ps` shows its session")
	case f.Kind == FormHTTP:
		out = append(out, fmt.Sprintf("verify with `%s`: %s", h.verify, fmt.Sprintf(h.expected, name, f.URL)))
	default:
		out = append(out, fmt.Sprintf("verify with `%s`", h.verify))
	}
	return out
}

// tokenVariable is the one variable of an agent that holds its token.
func tokenVariable(agent string) string { return "MCPX_TOKEN_" + strings.ToUpper(agent) }

// bridge is the form of an entry that starts mcpx itself.
func (x *view) bridge(agent, server string, pass []string) *Form {
	args := []string{"connect", "--agent", agent}
	for _, name := range pass {
		args = append(args, "--pass", name)
	}
	return &Form{Kind: FormBridge, Server: server, Command: x.Program, Args: append(args, server), Keep: pass}
}

// http is the form of an entry that names the URL of the gateway.
func (x *view) http(server string) *Form {
	return &Form{Kind: FormHTTP, Server: server, URL: "http://127.0.0.1:" + x.Port + "/servers/" + server + "/mcp"}
}

// hub is the form of the control plane for one strategy, which every request has to authenticate.
func (x *view) hub(agent, strategy string) (*Form, bool) {
	h, form := habits[agent], x.http(HubName)
	switch {
	case strategy == "bridge":
		return x.bridge(agent, HubName, nil), true
	case strategy == "helper" && (agent == "claude_code" || agent == "codex"):
		form.Helper = quoted(x.Program) + " token print --agent " + agent + " --as headers"
	case strategy == "env" && h.bearer:
		form.Bearer = tokenVariable(agent)
	case strategy == "env" && h.header != "":
		form.Headers = map[string]string{"Authorization": "Bearer " + fmt.Sprintf(h.header, tokenVariable(agent))}
	default:
		return nil, false
	}
	return form, true
}

// quoted keeps a path with spaces one word in a command line that the agent gives to a shell.
func quoted(path string) string {
	if path == "" || strings.ContainsAny(path, " \t'\"\\$`(){}[]*?;&|<>#~!") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// roots are packages that work on the directory in which they are started, whatever their arguments are.
var roots = []string{
	"@modelcontextprotocol/server-filesystem", "mcp-server-filesystem", "filesystem-mcp-server", "mcp-server-git", "@cyanheads/git-mcp-server",
	"git-mcp-server", "@mseep/git-mcp-server", "serena-agent", "serena", "codebase-mcp", "@modelcontextprotocol/server-git",
}

// workspaceBound says whether what the server does depends on the project: governance.md section 2.3. here says that it
// runs wrongly in another directory than the agent's, not only that it might.
func workspaceBound(e Entry, s *catalog.Server) (bound, here bool) {
	if s.Stdio == nil {
		return false, false
	}
	switch s.Stdio.CwdPolicy {
	case catalog.CwdNone, catalog.CwdHome, catalog.CwdFixed:
		return false, false // a person said where it runs
	case catalog.CwdWorkspace:
		return true, false
	}
	if s.Stdio.Cwd != "" {
		return false, false
	}
	if e.Cwd != "" || relativeArgument(s.Stdio.Args) {
		return true, true
	}
	p, ok := catalog.IdentifyCommand(s.Stdio.Command, s.Stdio.Args)
	if !ok {
		return false, false
	}
	if slices.Contains(roots, p.Name) {
		return true, !absoluteArgument(p.Rest)
	}
	return false, false
}

func relativeArgument(args []string) bool {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			_, value, ok := strings.Cut(arg, "=")
			if !ok {
				continue
			}
			arg = value
		}
		if arg == "." || arg == ".." || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../") {
			return true
		}
		// A scope of npm, a URL, a reference and the name of a repository with a version have slashes, too.
		first, rest, slash := strings.Cut(arg, "/")
		if slash && first != "" && rest != "" && !strings.ContainsAny(arg, ":@${}~=,") && strings.Contains(rest, ".") {
			return true
		}
	}
	return false
}

func absoluteArgument(args []string) bool {
	for _, arg := range args {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value
		}
		if strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, "~") {
			return true
		}
	}
	return false
}
