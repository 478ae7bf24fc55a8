package converge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/catalog"
)

// Bounds of health, governance.md section 11.
const (
	auditFresh  = 24 * time.Hour
	tokenUnused = 90 * 24 * time.Hour
	// longestTool is what agents accept for server and tool together, less the prefix that they add.
	longestTool = 57
)

// Vitals are the facts about health that are not in the files of agents. What nobody looked at is left out by whoever
// fills it in, except for an audit: no audit is a finding.
type Vitals struct {
	DaemonDown  bool      // nothing else is known then
	Audited     time.Time // end of the last audit of everything; zero never
	PortTaken   string    // who answers on our port, "" we do
	ChainBroken uint64    // first number of the log that does not fit; 0 all do
	Keyring     string    // why the keyring cannot be used; "" it can, or nobody needs it
	Watching    Watching

	Credentials []CredentialFact
	Tokens      []TokenFact
	Clients     []ClientFact
	Held        map[string][]catalog.Held // tools that are not as they were agreed to, by name of server
	Tools       map[string][]string       // names of tools, by name of server
	Plans       []Plan                    // that are ready
	Asked       map[string]approval.State // of the latest approvals of these plans, by the id of the plan
}

// Watching says how soon a change of a file is noticed.
type Watching struct {
	Dirs   int    // directories in which files of agents are or would appear
	Polled int    // of them those that the system does not notify of
	Why    string // of one of them
	Left   int    // projects that are known and not looked at, since there are too many
	Most   int    // projects that are looked at
}

// CredentialFact is what is known of one credential, which is never its value.
type CredentialFact struct {
	Name    string
	Ready   string   // ready, missing, locked, denied, unavailable, expired or unchecked
	Servers []string // that bind it
	Active  bool     // one of them runs, or an agent has it
	Since   time.Time
}

// TokenFact is what is known of the token of one agent.
type TokenFact struct {
	Agent string
	Open  bool      // mcp_hub answered this agent without a token
	Unset bool      // the agent takes it from a variable, which is not set
	Used  time.Time // last; zero never
	Made  time.Time
}

// ClientFact is what is known of the program of one agent.
type ClientFact struct {
	Agent     string
	Certified bool
	Changed   string // the version of the certificate, when another program is installed, or none
}

// Findings tells all that is wrong, the worst first: drift, and what the vitals say. It is what `mcpx doctor` shows.
func Findings(w World, v Vitals) []Trouble {
	h := health{view: look(w)}
	if v.DaemonDown {
		h.tell("daemon-down", WeightBlocker, "daemon", "mcpx daemon start", "start it", "no daemon runs: agents that go through mcpx reach nothing")
		return h.sorted()
	}
	h.out = Drift(w)
	h.audit(v)
	h.watching(v.Watching)
	h.files()
	h.servers(v)
	h.credentials(v)
	h.clients(v)
	h.plans(v)
	return h.sorted()
}

type health struct {
	*view
	out []Trouble
}

func (h *health) tell(code string, severity Weight, subject, command, hint, format string, args ...any) *Trouble {
	h.out = append(h.out, Trouble{Code: code, Severity: severity, Subject: subject, Text: fmt.Sprintf(format, args...), Hint: hint, Command: command})
	return &h.out[len(h.out)-1]
}

func (h *health) sorted() []Trouble {
	slices.SortFunc(h.out, compareTroubles)
	if h.out == nil {
		return []Trouble{}
	}
	return h.out
}

func (h *health) audit(v Vitals) {
	switch {
	case v.Audited.IsZero():
		h.tell("never-audited", WeightBlocker, "audit", "mcpx audit run", "look at the files of the agents", "the files of the agents were never looked at")
	case h.Now.Sub(v.Audited) > auditFresh:
		h.tell("audit-stale", WeightBlocker, "audit", "mcpx audit run", "look at the files of the agents again", "the files of the agents were looked at longer ago than %s", auditFresh).Since = v.Audited.Add(auditFresh)
	}
	if v.PortTaken != "" {
		h.tell("port-not-ours", WeightBlocker, "listener", "mcpx daemon status", "stop the other program, or give mcpx another port", "the port of mcpx is answered by %s", v.PortTaken)
	}
	if v.ChainBroken != 0 {
		h.tell("chain-broken", WeightBlocker, "log", "mcpx audit verify", "find out who changed the database; a copy of it is evidence", "event %d of the log does not fit the one before", v.ChainBroken)
	}
	if v.Keyring != "" {
		h.tell("keyring-unavailable", WeightWarning, "keyring", "mcpx credential list", "unlock it, or keep the value in another place", "the keyring cannot be used: %s", v.Keyring)
	}
}

// watching tells where changes are noticed late, or not at all.
func (h *health) watching(w Watching) {
	if w.Polled > 0 {
		h.tell("watch-polled", WeightNotice, "watching", "", "nothing has to be done; where the system has a limit, an administrator can raise it",
			"changes in %d of %d directories are not notified, so their files are compared every two seconds: %s", w.Polled, w.Dirs, w.Why)
	}
	if w.Left > 0 {
		h.tell("projects-left-out", WeightNotice, "watching", "mcpx audit run --project DIR", "look at one of them by name when it matters",
			"%d projects that agents list are not looked at: mcpx looks at %d at most", w.Left, w.Most)
	}
}

// files tells of whole files. One that is absent matters only where a person wants plans.
func (h *health) files() {
	since := h.since()
	present := map[string]bool{}
	absent := map[string]File{}
	for _, f := range h.Files {
		present[f.Agent] = present[f.Agent] || f.State != FileAbsent
		if _, known := absent[f.Agent]; f.State == FileAbsent && f.Scope == scopeUser && !known {
			absent[f.Agent] = f
		}
		for _, p := range f.Problems {
			if p.Code != "config-broken" && p.Code != "config-busy" && p.Code != "config-unreadable" {
				continue
			}
			t := h.tell(p.Code, WeightWarning, f.Agent+":"+f.Path, "mcpx config discover --agent "+f.Agent, "correct the file", "the file cannot be used")
			t.Agent, t.Path = f.Agent, f.Path
			t.Since = h.Now
			if at, ok := since[told{f.Agent, f.Path, p.Code, ""}]; ok {
				t.Since = at
			}
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(absent)) {
		if !present[agent] && h.level(agent) != LevelObserved {
			t := h.tell("config-absent", WeightNotice, agent, "mcpx config discover --agent "+agent, "nothing has to be done if the agent is not installed", "the agent has no file")
			t.Agent, t.Path = agent, absent[agent].Path
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(h.byAgent)) {
		if h.level(agent) == LevelObserved {
			h.tell("unmanaged-agent", WeightNotice, agent, "mcpx agents discover --manage "+agent, "let mcpx make plans for it", "mcpx looks at this agent and makes no plans for it unless asked").Agent = agent
		}
	}
}

// servers tells of entries of the catalog that an agent has.
func (h *health) servers(v Vitals) {
	mounted := map[string]bool{}
	for _, f := range h.Findings {
		if f.Enabled && f.Routed != nil {
			mounted[f.Match.Server] = true
		}
	}
	for _, s := range h.Servers {
		if p, ok := catalog.Identify(s); ok && mounted[s.Name] && floats(p) {
			h.tell("unpinned", WeightWarning, s.Name, "mcpx server show "+s.Name, "name a version in its arguments, with `mcpx server edit`", "what runs is decided by a registry at each start")
		}
		var changed, hidden []string
		for _, held := range v.Held[s.Name] {
			if held.Why == catalog.ToolHidden {
				hidden = append(hidden, held.Name)
			} else if held.Masked {
				changed = append(changed, held.Name)
			}
		}
		review := "mcpx catalog review " + s.Name + " --tools"
		if len(changed) > 0 && mounted[s.Name] {
			h.tell(catalog.ToolsChanged, WeightBlocker, s.Name, review, "look at what has changed and accept it, or not", "%d tools are not as they were agreed to: %s", len(changed), some(changed))
		}
		if len(hidden) > 0 {
			h.tell("hidden-characters", WeightBlocker, s.Name, review, "look at the descriptions with these characters made visible", "%d tools are described with characters that nobody sees: %s", len(hidden), some(hidden))
		}
		var long []string
		for _, tool := range v.Tools[s.Name] {
			if len(s.Name)+len(tool) > longestTool {
				long = append(long, tool)
			}
		}
		if len(long) > 0 {
			h.tell("name-too-long", WeightWarning, s.Name, editCommand(&s, "mcpx server edit "+s.Name+" --rename NAME"), "give it a shorter name", "with the name of the server, agents may refuse %d of its tools: %s", len(long), some(long))
		}
	}
}

// floats says whether a registry decides what runs.
func floats(p catalog.Package) bool {
	switch p.Kind {
	case catalog.PackageNPM, catalog.PackagePyPI, catalog.PackageOCI, catalog.PackageGo, catalog.PackageJSR:
		return !p.Pinned()
	case catalog.PackageGit, catalog.PackagePath, catalog.PackageBinary, catalog.PackageURL:
	}
	return false
}

// maxNamed bounds the names in one text.
const maxNamed = 5

func some(names []string) string {
	if over := len(names) - maxNamed; over > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), over)
	}
	return strings.Join(names, ", ")
}

func (h *health) credentials(v Vitals) {
	for _, c := range v.Credentials {
		if c.Ready == "ready" || c.Ready == "unchecked" {
			continue
		}
		code, severity := "credential-missing-active", WeightBlocker
		if !c.Active {
			code, severity = "credential-missing", WeightNotice
		}
		h.tell(code, severity, c.Name, "mcpx credential check "+c.Name, "put the value where it is looked for", "is %s; it is bound by %s", c.Ready, some(c.Servers)).Since = c.Since
	}
}

func (h *health) clients(v Vitals) {
	for _, t := range v.Tokens {
		if t.Open {
			h.tell("control-plane-unauthenticated", WeightBlocker, t.Agent, "mcpx agents install-control-plane --agent "+t.Agent, "install the control plane again", "mcp_hub answers this agent without a token").Agent = t.Agent
		}
		if t.Unset {
			h.tell("token-env-unset", WeightWarning, t.Agent, "mcpx token env --agent "+t.Agent, "set the variable where the agent is started", "the agent takes its token from %s, which is not set", tokenVariable(t.Agent)).Agent = t.Agent
		}
		if last := later(t.Used, t.Made); !last.IsZero() && h.Now.Sub(last) > tokenUnused {
			h.tell("token-unused-90d", WeightWarning, t.Agent, "mcpx token revoke "+t.Agent, "revoke it if the agent is gone", "the token was not used for 90 days").Since = last.Add(tokenUnused)
		}
	}
	for _, c := range v.Clients {
		if h.level(c.Agent) == LevelObserved {
			continue
		}
		certify := "mcpx certify " + c.Agent + " --keep"
		switch {
		case c.Changed != "":
			h.tell("client-version-changed", WeightWarning, c.Agent, certify, "try it with the real program", "another program is installed than version %s, which was tried", c.Changed).Agent = c.Agent
		case !c.Certified:
			h.tell("client-uncertified", WeightWarning, c.Agent, certify, "try it with the real program", "what mcpx writes was not tried with the installed version").Agent = c.Agent
		}
		if at, seen := h.written(c.Agent), v.seen(c.Agent); !seen.IsZero() && seen.Before(at) {
			t := h.tell("reload-needed", WeightNotice, c.Agent, "mcpx ps", habits[c.Agent].reload, "its file was changed and it has not come back since")
			t.Agent, t.Since = c.Agent, at
		}
	}
}

// seen is when the agent last came with its token; zero: it has none, and nobody knows.
func (v Vitals) seen(agent string) time.Time {
	var last time.Time
	for _, t := range v.Tokens {
		if t.Agent == agent {
			last = later(last, later(t.Used, t.Made))
		}
	}
	return last
}

// written is when a file of the agent was last changed by mcpx.
func (h *health) written(agent string) time.Time {
	var last time.Time
	for _, r := range h.Receipts {
		if r.Agent == agent && (r.State == ReceiptApplied || r.State == ReceiptRolledBack) {
			last = later(last, r.Ended)
		}
	}
	return last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (h *health) plans(v Vitals) {
	approved := 0
	for _, p := range v.Plans {
		if p.Waits(v.Asked[p.ID], h.Policy) == WaitApply {
			approved++
		}
	}
	for _, p := range v.Plans {
		about := func(t *Trouble) { t.Agent, t.Entry, t.Since = p.Agent, p.Entry, p.Made }
		wait := p.Waits(v.Asked[p.ID], h.Policy)
		command := p.Command(wait)
		switch wait {
		case WaitNeed:
			if !slices.ContainsFunc(h.out, func(t Trouble) bool { return t.Command == command }) { // it is told already
				about(h.tell("plan-needs", WeightNotice, p.ID, command, "then it can be approved, or another plan takes its place", "waits for something that comes first: %s", p.Summary))
			}
		case WaitApproval:
			about(h.tell("plan-waiting", WeightNotice, p.ID, command, "look at it, and say yes or no", "waits for the yes of a person: %s", p.Summary))
		case WaitApply:
			if v.Asked[p.ID] == approval.Approved && approved > 1 { // those of one file have to be applied together
				command = "mcpx apply --all"
			}
			about(h.tell("plan-approved", WeightNotice, p.ID, command, "apply it; a yes counts for 15 minutes", "may be applied and is not yet: %s", p.Summary))
		case WaitAsk:
			about(h.tell("plan-unasked", WeightNotice, p.ID, command, "you are asked again then", "nobody decided in time, or the yes was not used in time: %s", p.Summary))
		case WaitDenied, "":
		}
		if slices.Contains(p.Auto, autoFight) {
			about(h.tell(autoFight, WeightWarning, p.Agent+":"+p.Entry, "mcpx plan show "+p.ID, "find out what writes the file", "was changed by mcpx twice within a day, and something changed it back"))
		}
		for _, c := range p.Changes {
			if slices.ContainsFunc(c.Notes, func(n Note) bool { return n.Code == "lossy-comment" }) {
				about(h.tell("lossy-comment", WeightNotice, p.ID, "mcpx plan show "+p.ID, "see what goes before it is applied", "a comment in %s would go", c.Path))
			}
		}
	}
	for _, r := range h.Receipts {
		if slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Code == "third-party-edit" }) {
			t := h.tell("third-party-edit", WeightWarning, r.ID, "mcpx plan show "+r.Plan, "look at the file; it was left as it is", "a file was changed by something else while mcpx changed it")
			t.Agent, t.Entry, t.Since = r.Agent, r.Entry, r.Started
		}
	}
}
