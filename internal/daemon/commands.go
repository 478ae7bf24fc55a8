package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/process"
	"mcpx/internal/sandbox"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/work"
	"mcpx/internal/world"
)

// commandGate decides about commands by the rules in force, and wraps them in the sandbox of this machine.
type commandGate struct {
	paths     api.Paths
	exe       string
	home      string
	open      func(ctx context.Context) (*sandbox.Sandbox, error)
	network   bool // commands reach the network
	writes    bool // commands change the project itself
	tokenOnly func() bool
	accepted  []string // gaps
	rules     func(root string) policy.Rules
	roots     func(ctx context.Context) ([]string, error)
	daemon    policy.Daemon

	mu  sync.Mutex // guards box; held while it is made, so that it is made once
	box *sandbox.Sandbox
}

var _ work.Gate = (*commandGate)(nil)

// gapControlPlane is a gap of the sandbox that only we can know of: with the network a command reaches the servers of the
// gateway, which ask our own user for nothing.
const gapControlPlane = "control_plane"

// newSandbox tries what the settings ask for, in a directory of its own that is gone afterwards.
func newSandbox(ctx context.Context, s Settings, exe, home string, environ []string) (*sandbox.Sandbox, error) {
	scratch, err := os.MkdirTemp("", "mcpx-sandbox-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // it is empty, or in nobody's way
	return sandbox.New(ctx, sandbox.Config{
		Exe: exe, Mechanism: sandbox.Mechanism(s.Sandbox), Accept: s.AcceptGaps, Run: runner{home: home, environ: environ, tells: true}, Scratch: scratch,
		Find: func(program string) (string, error) { return process.Resolve(program, "/", environ) },
	})
}

// newGate makes the gate of this daemon. A mechanism is tried when the first command comes.
func (d *Daemon) newGate() *commandGate {
	settings := d.settings // what they say of the sandbox holds until the next start
	return &commandGate{
		paths: d.cfg.Paths, exe: d.cfg.Exe, home: d.home(), network: settings.SandboxNetwork, writes: settings.ProjectWrites,
		tokenOnly: d.tokenOnly, accepted: settings.AcceptGaps, rules: d.rules.of, roots: d.projectRoots,
		daemon: policy.Daemon{Addresses: []string{d.about.Listener}, Sockets: []string{d.cfg.Paths.Socket()}, PID: d.about.Pid},
		open: func(ctx context.Context) (*sandbox.Sandbox, error) {
			box, err := newSandbox(ctx, settings, d.cfg.Exe, d.home(), d.cfg.Environ)
			if err == nil {
				r := box.Report()
				d.log.LogAttrs(ctx, slog.LevelInfo, "sandbox tried", slog.String(key.Mechanism, string(r.Applied)), slog.Any(key.Gaps, r.Gaps))
			}
			return box, err
		},
	}
}

// sandbox is what contains commands.
func (g *commandGate) sandbox(ctx context.Context) (*sandbox.Sandbox, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.box != nil {
		return g.box, nil
	}
	box, err := g.open(context.WithoutCancel(ctx)) // what it finds out is for every caller
	if err == nil {
		g.box = box
	}
	return box, err
}

// Judge decides about a command as it would be started now.
func (g *commandGate) Judge(ctx context.Context, c work.Command) (work.Ruling, error) {
	return g.judge(ctx, c, policy.Judge)
}

// JudgeInput decides about text for the standard input of a command that runs.
func (g *commandGate) JudgeInput(ctx context.Context, c work.Command, text string) (work.Ruling, error) {
	c.Stdin = &text
	return g.judge(ctx, c, func(c policy.Command, w policy.World, rules policy.Rules) (policy.Verdict, error) {
		return policy.JudgeInput(c, text, w, rules)
	})
}

// judge lets the policy decide, and freezes what a person would be asked about.
func (g *commandGate) judge(ctx context.Context, c work.Command, decide func(policy.Command, policy.World, policy.Rules) (policy.Verdict, error)) (work.Ruling, error) {
	applied, err := g.applies(ctx, c.Level)
	if err != nil {
		return work.Ruling{}, unavailable(err)
	}
	w, err := g.world(ctx, c, applied)
	if err != nil {
		return work.Ruling{}, err
	}
	v, err := decide(c.Command, w, g.rules(c.Root))
	if err != nil {
		return work.Ruling{}, judged(err)
	}
	return work.Ruling{Verdict: v, Frozen: policy.Freeze(c.Command, v, w.Place()), Sandbox: containment(applied)}, nil
}

// Contain wraps a command as its ruling says.
func (g *commandGate) Contain(ctx context.Context, c work.Command, r work.Ruling) (work.Launch, error) {
	now, err := g.applies(ctx, c.Level)
	if err == nil && !sameContainment(containment(now), r.Sandbox) {
		err = errors.New("the sandbox has changed since the command was judged")
	}
	if err != nil {
		return work.Launch{}, unavailable(err)
	}
	box, err := g.sandbox(ctx)
	if err != nil {
		return work.Launch{}, unavailable(err)
	}
	wrapped, err := box.Plan(sandbox.Request{
		Level: r.Sandbox.Applied, Writable: g.writable(c), Readable: append([]string{c.Target, c.Program}, c.Readable...), Hidden: g.hidden(), Network: r.Sandbox.Network,
		Dir: g.dir(c), File: c.Program, Argv: c.Args, Env: c.Environ,
	})
	if err != nil {
		return work.Launch{}, unavailable(err)
	}
	return work.Launch{File: wrapped.File, Argv: wrapped.Argv, Env: wrapped.Env}, nil
}

// Usual is the sandbox of a command that asks for none.
func (g *commandGate) Usual(ctx context.Context) (work.Containment, error) {
	a, err := g.applies(ctx, "")
	if err != nil {
		return work.Containment{}, unavailable(err)
	}
	return containment(a), nil
}

// applies is what becomes of a level that a call asks for. It may only tighten.
func (g *commandGate) applies(ctx context.Context, level string) (sandbox.Applied, error) {
	box, err := g.sandbox(ctx)
	if err != nil {
		return sandbox.Applied{}, err
	}
	if level == "" {
		level = box.Default()
	}
	a, err := box.Applies(level, g.network)
	if err != nil || a.Mechanism == sandbox.None || !a.Network || g.tokenOnly() {
		return a, err
	}
	if !slices.Contains(g.accepted, gapControlPlane) {
		return a, fault.New(fault.Unavailable, "sandbox-unavailable").
			Saying("with sandbox.network a command reaches the servers of mcpx without a token").
			Hinting("set listener.loopback_auth to %q, or accept the gap %s with sandbox.accept_gaps", AuthToken, gapControlPlane).Retrying(fault.AfterFix)
	}
	a.Gaps = append(slices.Clone(a.Gaps), gapControlPlane)
	return a, nil
}

func containment(a sandbox.Applied) work.Containment {
	c := work.Containment{Wanted: a.Wanted, Applied: a.Applied, Network: a.Network, Gaps: a.Gaps}
	if a.Mechanism != sandbox.None {
		c.By = string(a.Mechanism)
	}
	return c
}

func sameContainment(a, b work.Containment) bool {
	return a.Wanted == b.Wanted && a.Applied == b.Applied && a.By == b.By && a.Network == b.Network && slices.Equal(a.Gaps, b.Gaps)
}

// world is what a judgement sees of the machine.
func (g *commandGate) world(ctx context.Context, c work.Command, applied sandbox.Applied) (*world.World, error) {
	roots, err := g.roots(ctx)
	if err != nil {
		return nil, err
	}
	cfg := world.Config{
		Dir: g.dir(c), Path: pathOf(c.Environ), Exe: g.exe,
		Place: policy.Place{
			Target: c.Target, Temp: c.Temp, Home: g.home, Roots: roots, Own: g.own(c.Target), Daemon: g.daemon, Environment: inherited(c),
			Sandbox: policy.Sandbox{Level: applied.Applied, Gaps: len(applied.Gaps) > 0, Network: applied.Network},
		},
	}
	if applied.Mechanism != sandbox.None {
		cfg.Writable, cfg.Hidden = g.writable(c), g.hidden()
	}
	return world.New(cfg), nil
}

func (g *commandGate) dir(c work.Command) string {
	if c.Dir != "" {
		return c.Dir
	}
	return c.Target
}

// own are the files and directories of the product, for a project.
func (g *commandGate) own(root string) []string {
	return append(g.private(), filepath.Join(root, work.ProjectPolicy), filepath.Join(root, ".mcpx"))
}

func (g *commandGate) private() []string {
	return []string{withoutLinks(g.paths.State), withoutLinks(g.paths.Config), withoutLinks(g.paths.Run), withoutLinks(g.paths.Cache)}
}

// hidden is what no command reads: what is ours, and the places of keys.
func (g *commandGate) hidden() []string {
	return append(g.private(), policy.SecretPlaces(g.home)...)
}

// writable are the directories that a command may change: its temporary one, a workspace, and the project where the operator
// lets it.
func (g *commandGate) writable(c work.Command) []string {
	var dirs []string
	if c.Temp != "" {
		dirs = append(dirs, c.Temp)
	}
	if !c.ReadOnly && (g.writes || strings.HasPrefix(c.Target, withoutLinks(g.paths.State)+"/")) {
		dirs = append(dirs, c.Target)
	}
	return dirs
}

// pathOf is the PATH of a command.
func pathOf(environ []string) string {
	for _, v := range slices.Backward(environ) {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			return path
		}
	}
	return ""
}

// inherited are the names of the variables that the call does not set itself.
func inherited(c work.Command) []string {
	var names []string
	for _, v := range c.Environ {
		if name, _, ok := strings.Cut(v, "="); ok && !slices.Contains(c.Env, name) {
			names = append(names, name)
		}
	}
	return names
}

// judged makes the refusal of a command that cannot be judged.
func judged(err error) error {
	p, ok := errors.AsType[*policy.Problem](err)
	if !ok {
		return err
	}
	r := operation.Refuse(operation.Code(p.Code), "%s", p.Message)
	r.Details = p.Details
	return r
}

// unavailable makes the refusal of a command that cannot be contained.
func unavailable(err error) error {
	r := operation.Refuse("SANDBOX_UNAVAILABLE", "%s", err.Error())
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Hint != "" {
		r = r.With("fix", f.Hint)
	}
	return r
}

// projectRoots are the directories of all projects.
func (d *Daemon) projectRoots(ctx context.Context) (roots []string, err error) {
	err = d.db.View(ctx, func(r store.Reader) error {
		all, err := session.AllProjects(ctx, r, false)
		for _, p := range all {
			roots = append(roots, p.Path)
			if p.Physical.Real != "" && p.Physical.Real != p.Path {
				roots = append(roots, p.Physical.Real)
			}
		}
		return err
	})
	return roots, err
}

// Explained is what would become of a command.
type Explained struct {
	Decision policy.Decision  `json:"decision"`
	Units    []policy.Unit    `json:"units"`
	More     int              `json:"more_units,omitempty"` // that are too many to be told
	Sandbox  work.Containment `json:"sandbox"`
	Frozen   *policy.Frozen   `json:"asks,omitempty"`   // what a person would say yes to
	Digest   string           `json:"digest,omitempty"` // of it
	Warnings []string         `json:"warnings"`
}

// ExplainCommand is a command that nobody runs.
type ExplainCommand struct {
	Paths   api.Paths
	Getenv  func(string) string
	Environ []string
	Exe     string
	Root    string // of the project
	Dir     string // where the command would start
	Argv    []string
	Shell   string
	Level   string
}

// Explain judges a command by the files that are there now. It asks no daemon and runs nothing of the command.
func Explain(ctx context.Context, in ExplainCommand) (Explained, error) {
	settings, err := LoadSettings(in.Paths.Settings(), in.Getenv)
	if err != nil {
		return Explained{}, err
	}
	policies, err := LoadPolicy(in.Paths.Policy())
	if err != nil {
		return Explained{}, err
	}
	home := withoutLinks(in.Getenv("HOME"))
	root, dir := withoutLinks(in.Root), withoutLinks(in.Dir)
	rules, warnings, _ := rulesOf(policies.Work, root)
	g := &commandGate{
		paths: in.Paths, exe: in.Exe, home: home, network: settings.SandboxNetwork, writes: settings.ProjectWrites, accepted: settings.AcceptGaps,
		tokenOnly: func() bool { return settings.LoopbackAuth == AuthToken },
		rules:     func(string) policy.Rules { return rules },
		roots:     func(context.Context) ([]string, error) { return []string{root}, nil },
		daemon:    policy.Daemon{Addresses: []string{settings.ListenerAddress}, Sockets: []string{in.Paths.Socket()}},
		open: func(ctx context.Context) (*sandbox.Sandbox, error) {
			return newSandbox(ctx, settings, in.Exe, home, in.Environ)
		},
	}
	c := work.Command{
		Command: policy.Command{Argv: in.Argv, Shell: in.Shell, Dir: dir, Project: filepath.Base(root)}, Target: root, Root: root, Level: in.Level,
		Temp: filepath.Join(os.TempDir(), "mcpx-explain"), Environ: process.Environ(in.Environ, nil),
	}
	ruling, err := g.Judge(ctx, c)
	if r, ok := errors.AsType[*operation.Refusal](err); ok {
		return Explained{}, refusedCommand(r)
	}
	if err != nil {
		return Explained{}, err
	}
	out := Explained{Decision: ruling.Decision, Units: ruling.Units, More: ruling.More, Sandbox: ruling.Sandbox, Warnings: append([]string{}, warnings...)}
	if ruling.Decision == policy.Confirm {
		out.Frozen, out.Digest = &ruling.Frozen, ruling.Frozen.Digest()
	}
	return out, nil
}

// refusedCommand is a refusal of the tools as a person at a command line reads it.
func refusedCommand(r *operation.Refusal) error {
	f := fault.New(fault.Invalid, "command-refused").Saying("%s: %s", r.Code, r.Message).Retrying(fault.AfterFix)
	if fix, ok := r.Details["fix"].(string); ok {
		return f.Hinting("%s", fix)
	}
	if line, ok := r.Details["line"]; ok {
		return f.Hinting("look at line %v, column %v of the text", line, fmt.Sprint(r.Details["column"]))
	}
	return f.Hinting("give one command after --, or a text with --shell")
}
