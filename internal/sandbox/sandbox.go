package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/fault"
	"mcpx/internal/policy"
)

// Mechanism is what keeps a command in.
type Mechanism string

// The mechanisms.
const (
	Auto       Mechanism = "auto"     // the first of the others that works here
	Bubblewrap Mechanism = "bwrap"    // namespaces, made by the program bwrap
	Landlock   Mechanism = "landlock" // Landlock, a seccomp filter and no_new_privs
	None       Mechanism = "none"     // commands are not kept in: level none
)

// The gaps a mechanism may have: what a level promises and a command can do all the same.
const (
	GapMetadata = "metadata_writes" // modes, owners, times and attributes of files outside can be changed
	GapTruncate = "truncate"        // files outside can be emptied
	GapSignals  = "signals"         // processes outside can be signalled
	GapDevices  = "device_control"  // devices that can be read can be controlled
)

// Gaps lists every gap that can be accepted by name.
func Gaps() []string { return []string{GapMetadata, GapTruncate, GapSignals, GapDevices} }

// Runner runs a program to its end and gives what it printed.
type Runner interface {
	Output(ctx context.Context, argv []string, limit int) ([]byte, error)
}

// Config is what a Sandbox needs. Everything is required but Accept.
type Config struct {
	Exe       string // path of this program: the stub is one of its modes
	Mechanism Mechanism
	Accept    []string // gaps that the operator accepts
	Run       Runner
	Find      func(program string) (string, error) // finds bwrap
	Scratch   string                               // a directory of ours in which mechanisms are tried
}

// Sandbox wraps commands with the mechanism that works on this machine.
type Sandbox struct {
	cfg    Config
	report Report
	bwrap  string // path of the program
}

// New tries the mechanisms that are asked for. That none of them works is no error: Report says so, and Plan refuses.
func New(ctx context.Context, c Config) (*Sandbox, error) {
	switch {
	case c.Exe == "" || c.Run == nil || c.Find == nil || c.Scratch == "":
		return nil, errors.New("sandbox: Config.Exe, Config.Run, Config.Find and Config.Scratch are required")
	case !slices.Contains([]Mechanism{Auto, Bubblewrap, Landlock, None}, c.Mechanism):
		return nil, errors.New("sandbox: Config.Mechanism is " + string(c.Mechanism))
	}
	s := &Sandbox{cfg: c}
	s.report = s.probe(ctx)
	return s, nil
}

// Report is what works on this machine.
type Report struct {
	Wanted  Mechanism `json:"wanted"`
	Applied Mechanism `json:"applied"` // "" when commands are refused
	Gaps    []string  `json:"gaps"`    // of the mechanism that is applied
	Trials  []Trial   `json:"trials"`
}

// Trial is one mechanism that was tried.
type Trial struct {
	Mechanism Mechanism `json:"mechanism"`
	Works     bool      `json:"works"`
	Gaps      []string  `json:"gaps"`
	Why       string    `json:"why,omitempty"` // it does not work
	Fix       string    `json:"fix,omitempty"` // what makes it work
}

// Report tells what was found out.
func (s *Sandbox) Report() Report { return s.report }

// Request is a command and what it may reach. Paths are absolute.
type Request struct {
	Level    string   // policy.SandboxNone, SandboxWorkspace or SandboxStrict
	Writable []string // directories that may be changed
	Readable []string // files and directories that can be read at any level
	Hidden   []string // files and directories that cannot be read
	Network  bool
	Dir      string // where the command starts
	File     string // the program
	Argv     []string
	Env      []string
}

// Wrapped is what is started instead of the command.
type Wrapped struct {
	File    string
	Argv    []string
	Env     []string // of the stub, which gives the command its own
	Applied Applied
}

// Applied tells of the sandbox of one command.
type Applied struct {
	Wanted    string    `json:"wanted"`  // level
	Applied   string    `json:"applied"` // level; the same, because nothing is run with less
	Mechanism Mechanism `json:"mechanism"`
	Network   bool      `json:"network"`
	Gaps      []string  `json:"gaps"`
}

// Default is the level of a command that asks for none.
func (s *Sandbox) Default() string {
	if s.cfg.Mechanism == None {
		return policy.SandboxNone
	}
	return policy.SandboxWorkspace
}

// Applies tells what a level would come to, and refuses one that cannot be kept.
func (s *Sandbox) Applies(level string, network bool) (Applied, error) {
	a := Applied{Wanted: level, Applied: level, Mechanism: None, Network: network, Gaps: []string{}}
	switch level {
	case policy.SandboxNone:
		if s.cfg.Mechanism != None {
			return Applied{}, refused("the level none is not allowed here: commands run in a sandbox",
				"set sandbox.mechanism to none when commands may reach everything that you reach")
		}
		a.Network = true
		return a, nil
	case policy.SandboxWorkspace, policy.SandboxStrict:
	default:
		return Applied{}, refused("there is no level "+level, "the levels are none, workspace and strict")
	}
	if s.cfg.Mechanism == None {
		return Applied{}, refused("the level "+level+" was asked for and sandbox.mechanism is none", "set sandbox.mechanism to auto")
	}
	if s.report.Applied == "" {
		why, fix := s.report.refusal()
		return Applied{}, refused(why, fix)
	}
	a.Mechanism, a.Gaps = s.report.Applied, s.report.Gaps
	return a, nil
}

func refused(why, fix string) error {
	return fault.New(fault.Unavailable, "sandbox-unavailable").Saying("%s", why).Hinting("%s", fix).Retrying(fault.AfterFix)
}

// refusal says why no mechanism is applied, and what makes one work.
func (r Report) refusal() (why, fix string) {
	var whys, fixes []string
	for _, t := range r.Trials {
		switch {
		case t.Works:
			whys = append(whys, string(t.Mechanism)+" works here but has the gap "+strings.Join(t.Gaps, ", "))
			fixes = append(fixes, "accept the gap with sandbox.accept_gaps")
		default:
			whys = append(whys, string(t.Mechanism)+": "+t.Why)
			fixes = append(fixes, t.Fix)
		}
	}
	fixes = slices.DeleteFunc(fixes, func(f string) bool { return f == "" })
	return "no sandbox can be applied: " + strings.Join(whys, "; "), strings.Join(fixes, "; or ")
}

// Plan wraps a command. The error is a *fault.Error with the code sandbox-unavailable.
func (s *Sandbox) Plan(r Request) (Wrapped, error) {
	a, err := s.Applies(r.Level, r.Network)
	if err != nil {
		return Wrapped{}, err
	}
	if a.Mechanism == None {
		return Wrapped{File: r.File, Argv: r.Argv, Env: r.Env, Applied: a}, nil
	}
	return s.wrap(a.Mechanism, r, a)
}

func (s *Sandbox) wrap(m Mechanism, r Request, a Applied) (Wrapped, error) {
	r.Writable, r.Readable, r.Hidden = physical(r.Writable), physical(r.Readable), physical(r.Hidden)
	w := Wrapped{File: s.cfg.Exe, Env: carried(r.Env), Applied: a}
	var err error
	if m == Bubblewrap {
		w.Argv, err = s.bubblewrapped(r)
	} else {
		w.Argv, err = s.landlocked(r)
	}
	return w, err
}

// physical leads paths through links, and leaves out what does not exist: a rule is about what a path leads to.
func physical(paths []string) []string {
	var out []string
	for _, p := range paths {
		if p == "" {
			continue
		}
		if real, err := filepath.EvalSymlinks(p); err == nil && !slices.Contains(out, real) {
			out = append(out, real)
		}
	}
	slices.Sort(out) // what holds another comes before it
	return out
}

// within says whether a path is a directory or lies in it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// systemDirs are what a command at the level strict can read beside its own directories.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix"}

// carry marks the variables of the command on their way through the stub. The loader of a program that stands before the
// sandbox, bwrap for one, must not act on LD_PRELOAD of a command.
const carry = "+"

func carried(env []string) []string {
	out := make([]string, len(env))
	for i, v := range env {
		out[i] = carry + v
	}
	return out
}
