// Package clientfile decides how the configuration files of other people's agents are read: where they lie, which
// dialect each agent speaks, and what an entry means to that agent. It refuses to know the catalog's content beyond the
// names it is told, and it keeps no state between two reads.
//
// Invariant: what is unreadable or unknown becomes a finding; one bad entry never hides another, and no value of a
// variable, header or argument that looks like a secret is part of an observation.
package clientfile

import (
	"slices"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// Agent names a program that reads MCP servers from its own configuration.
type Agent string

// The agents whose files are read.
const (
	Claude   Agent = "claude_code"
	Codex    Agent = "codex"
	Gemini   Agent = "gemini"
	Cline    Agent = "cline"
	OpenCode Agent = "opencode"
	Kilo     Agent = "kilo"
	Qwen     Agent = "qwen"
	Copilot  Agent = "copilot"
	Droid    Agent = "droid"
	Continue Agent = "continue"
	Amp      Agent = "amp"
	Auggie   Agent = "auggie"
	Cursor   Agent = "cursor"
	VSCode   Agent = "vscode"
	Crush    Agent = "crush"
)

// Evidence says how well the dialect of an agent is known.
type Evidence string

// The kinds of evidence. What was only read about is good enough to look at, never to write by itself.
const (
	Run        Evidence = ""    // files and behaviour were seen with the real client
	Documented Evidence = "doc" // from the client's documentation or schema
)

// agents says what is particular about each agent: its dialect, and where it keeps its files. The order is the one in
// which servers are shown, and the first to use a name keeps it.
var agents = []struct {
	agent    Agent
	title    string
	evidence Evidence
	dialect  func() dialect
	files    func(System) []Location // the weaker ones first
}{
	{Claude, "Claude Code", Run, claude, System.claudeFiles},
	{Codex, "Codex", Run, codex, System.codexFiles},
	{Gemini, "Gemini CLI", Run, gemini, System.geminiFiles},
	{Cline, "Cline", Run, cline, System.clineFiles},
	{OpenCode, "OpenCode", Run, openCode, System.openCodeFiles},
	{Kilo, "Kilo", Run, openCode, System.kiloFiles},
	{Qwen, "Qwen Code", Run, qwen, System.qwenFiles},
	{Copilot, "Copilot CLI", Run, copilot, System.copilotFiles},
	{Droid, "Droid", Run, droid, System.droidFiles},
	{Continue, "Continue", Run, continueDev, System.continueFiles},
	{Amp, "Amp", Run, amp, System.ampFiles},
	{Auggie, "Auggie", Run, auggie, System.auggieFiles},
	{Cursor, "Cursor", Documented, cursor, System.cursorFiles},
	{VSCode, "VS Code", Documented, vsCode, System.vsCodeFiles},
	{Crush, "Crush", Documented, crush, System.crushFiles},
}

// Title is the name of an agent as people spell it.
func (a Agent) Title() string {
	for _, row := range agents {
		if row.agent == a {
			return row.title
		}
	}
	return string(a)
}

// Agents lists all agents, in the order in which their servers are shown.
func Agents() []Agent {
	all := make([]Agent, 0, len(agents))
	for _, row := range agents {
		all = append(all, row.agent)
	}
	return all
}

// ParseAgent reads the name of an agent; hyphens are as good as underscores.
func ParseAgent(s string) (Agent, error) {
	a := Agent(strings.ReplaceAll(strings.ToLower(s), "-", "_"))
	if slices.Contains(Agents(), a) {
		return a, nil
	}
	var words []string
	for _, a := range Agents() {
		words = append(words, string(a))
	}
	e := fault.New(fault.Invalid, "agent-unknown").Saying("%q is not one of %s", s, strings.Join(words, ", "))
	if near := catalog.Nearest(string(a), words); near != "" {
		return "", e.Hinting("did you mean %q?", near)
	}
	return "", e.Hinting("name one of them")
}

// Scope says for whom a file or an entry counts.
type Scope string

// The scopes, the weaker first: an entry of a later one hides or changes the entry of the same name in an earlier one.
const (
	ScopeSystem  Scope = "system"
	ScopeUser    Scope = "user"
	ScopeProject Scope = "project"
	ScopeLocal   Scope = "local" // one person in one project
	ScopeManaged Scope = "managed"
)

// rank orders the scopes.
func (s Scope) rank() int {
	return slices.Index([]Scope{ScopeSystem, ScopeUser, ScopeProject, ScopeLocal, ScopeManaged}, s)
}

// Format is the syntax of a file.
type Format string

// The formats.
const (
	JSON  Format = "json"  // strict: a comment breaks the file for its agent
	JSONC Format = "jsonc" // with comments
	TOML  Format = "toml"
	YAML  Format = "yaml"
)

// dialect is what is particular about one agent. The tables are governance.md sections 3.1 and 3.2.
type dialect struct {
	evidence Evidence
	format   Format
	lenient  lenience
	// list finds the entries of a document, in file order, and what the document says about being off.
	list func(root node) listing
	// read takes the fields of one entry.
	read func(r *reader)
	// kept are fields of an entry that the agent knows and that do not concern us.
	kept []string
	// expand replaces the agent's references to variables in a value; nil: the agent has none.
	expand expander
	// headersOnly says that references elsewhere stay as they are.
	headersOnly bool
	// unseen says that the agent asks before it uses a project's file, and keeps the answer where it cannot be read.
	unseen bool
	// merges says that a later file changes single fields of an entry, instead of replacing the entry whole.
	merges bool
}

// lenience is what an agent accepts beyond strict JSON.
type lenience struct{ comments, trailingCommas, mark, empty bool }

func dialectOf(a Agent) dialect {
	for _, row := range agents {
		if row.agent == a {
			d := row.dialect()
			d.evidence = row.evidence
			return d
		}
	}
	panic("clientfile: unknown agent " + string(a))
}

// listing is what a document says as a whole.
type listing struct {
	entries []found
	off     []rule
	faults  []Problem // of the document
}

// found is one entry of a document before it is read.
type found struct {
	name    string
	at      []string
	value   node
	scope   Scope  // "" that of the file
	project string // "" every project
}

// rule switches an entry off from outside of it.
type rule struct {
	name    string
	project string // "" everywhere
	not     bool   // the name is the only one of several that is on: everything else is off
}
