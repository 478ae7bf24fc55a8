package certify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// Options say what is certified and with what.
type Options struct {
	Agent string
	Mcpx  string // absolute path of the program that is certified beside the agent
	// Version is that of Mcpx.
	Version string
	Path    string // where programs are looked for
	Home    string // of the person; never used, and never named in a certificate
	// Demo serves the server that is reached over HTTP: with the tools of `mcpx demo-server`, and echo also as SecondEcho.
	Demo http.Handler
	// Terminal is where the person is asked.
	Terminal *os.File
	Progress io.Writer
	Now      func() time.Time
}

// SecondEcho is the name under which the server over HTTP offers echo once more, for agents that show bare names.
const SecondEcho = "echo_http"

// trial is one run.
type trial struct {
	Options
	scratch string
	agent   agent
	cert    Certificate
	config  string   // absolute path of the agent's file
	environ []string // of mcpx
	addr    string   // of the daemon
	servers []Server
	stage   stage
	tap     tap

	digests  map[string]string // of the entries as the agent wrote them
	direct   string            // client that was seen without mcpx
	receipts []string
	rewrote  bool // the agent changed its file after the apply
}

// step is one thing to try. It gives what was seen.
type step struct {
	name, what string
	try        func(ctx context.Context) (note string, err error)
}

// absent says that there is nothing to try; its text says why.
type absent string

func (a absent) Error() string { return string(a) }

// Certify tries one agent. The certificate holds a failed step when something did not work; the error is for what
// prevents a run at all. The scratch directory stays when the run failed, and is the second result.
func Certify(ctx context.Context, o Options) (c Certificate, left string, err error) {
	r, known := recipeOf(o.Agent)
	if !known {
		return Certificate{}, "", fault.New(fault.Invalid, "certify-agent-unknown").Saying("%q is not an agent that can be certified", o.Agent).
			Hinting("one of %s", strings.Join(Agents(), ", "))
	}
	scratch, err := os.MkdirTemp("", "mcpx-certify-")
	if err != nil {
		return Certificate{}, "", fault.New(fault.Unavailable, "certify-no-scratch").Saying("no scratch directory can be made").Because(err)
	}
	if real, err := filepath.EvalSymlinks(scratch); err == nil {
		scratch = real // agents name places by where they really are
	}
	t := &trial{Options: o, scratch: scratch}
	defer func() {
		if err == nil && c.Outcome == Failed {
			left = scratch
			return
		}
		_ = os.RemoveAll(scratch) // it lies where temporary things lie
	}()
	if err := t.open(ctx, r); err != nil {
		return Certificate{}, "", err
	}
	defer func() {
		_ = os.WriteFile(filepath.Join(scratch, "transcript.txt"), []byte(t.agent.record.text.String()), 0o600)
	}() // for whoever looks
	model, err := open(&t.stage)
	if err != nil {
		return Certificate{}, "", err
	}
	defer model.close()
	two, err := open(&t.tap)
	if err != nil {
		return Certificate{}, "", err
	}
	defer two.close()
	t.agent.model = model.url
	t.agent.environ = r.environ(t.agent.place, o.Path)
	t.servers = []Server{{Name: "one", Command: []string{o.Mcpx, "demo-server"}}, {Name: "two", URL: two.url + "/mcp"}}
	if t.addr, err = freePort(); err != nil {
		return Certificate{}, "", err
	}
	defer t.stop()
	if err := t.identify(ctx); err != nil {
		return Certificate{}, "", err
	}
	t.run(ctx)
	if ctx.Err() != nil {
		return Certificate{}, "", fault.New(fault.Canceled, "certify-interrupted").Saying("interrupted")
	}
	return t.cert, "", nil
}

// open makes the scratch home and a project in it.
func (t *trial) open(ctx context.Context, r recipe) error {
	home, project, state := filepath.Join(t.scratch, "home"), filepath.Join(t.scratch, "home", "src", "app"), filepath.Join(t.scratch, "mcpx")
	if err := errors.Join(os.MkdirAll(project, 0o700), os.Mkdir(state, 0o700)); err != nil {
		return fault.New(fault.Unavailable, "certify-no-scratch").Saying("no scratch home can be made").Because(err)
	}
	t.tap.to = t.Demo
	t.config = filepath.Join(home, filepath.FromSlash(r.config))
	t.environ = []string{"HOME=" + home, "MCPX_HOME=" + state, "PATH=" + t.Path, "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1"}
	t.agent = agent{recipe: r, place: place{home: home}, project: project, record: &transcript{}}
	out, err := run(ctx, project, t.environ, []string{"git", "init", "-q"})
	if err == nil && out.code != 0 {
		err = fault.New(fault.Unavailable, "certify-git").Saying("`git init` ended with %d: %s", out.code, tail(out.text))
	}
	return err
}

// identify says which program it is.
func (t *trial) identify(ctx context.Context) error {
	t.cert = Certificate{
		Agent: t.Agent, Program: t.agent.program, Mcpx: t.Version, System: runtime.GOOS + "/" + runtime.GOARCH, Scenarios: Scenarios,
		Level: LevelNone, Outcome: Passed, Date: t.Now().UTC().Truncate(time.Second), Config: Hashes{Path: "~/" + t.agent.config},
	}
	file, err := process.Resolve(t.agent.program, t.agent.project, t.agent.environ)
	if err != nil {
		return fault.New(fault.NotFound, "certify-no-program").Saying("%s is not installed: no program %q in PATH", t.Agent, t.agent.program).
			Hinting("install it, or put its directory into PATH").Because(err)
	}
	if file, err = filepath.EvalSymlinks(file); err != nil {
		return err
	}
	if t.cert.Digest, err = digest(file); err != nil {
		return err
	}
	t.cert.Version, err = t.agent.version(ctx)
	return err
}

// run tries all steps; the first that fails ends it.
func (t *trial) run(ctx context.Context) {
	t.say("%s %s (%s)", t.Agent, t.cert.Version, t.agent.program)
	for _, s := range t.steps() {
		done := Step{Name: s.name, What: s.what, Outcome: NotRun}
		if t.cert.Outcome == Passed {
			began := t.Now()
			note, err := s.try(ctx)
			done.Outcome, done.Note = Passed, t.clean(note)
			var none absent
			switch {
			case errors.As(err, &none):
				done.Outcome, done.Note = Absent, string(none)
			case err != nil:
				done.Outcome, done.Note = Failed, t.clean(err.Error())
				t.cert.Outcome = Failed
			}
			t.say("%-8s %-18s %5.1fs  %s", done.Outcome, s.name, t.Now().Sub(began).Seconds(), done.Note)
		}
		t.cert.Steps = append(t.cert.Steps, done)
	}
	t.cert.Transcript = t.agent.record.digest()
}

func (t *trial) say(format string, args ...any) { _, _ = fmt.Fprintf(t.Progress, format+"\n", args...) } // nobody may be left to read

// clean takes the places of this machine out of a text.
func (t *trial) clean(text string) string {
	for _, place := range [][2]string{{t.agent.home, "~"}, {t.scratch, "SCRATCH"}, {t.Home, "HOME"}, {filepath.Dir(t.Mcpx), "BIN"}} {
		if len(place[0]) > 1 {
			text = strings.ReplaceAll(text, place[0], place[1])
		}
	}
	return text
}

func (t *trial) steps() []step {
	return []step{
		{"written", "the agent writes its own file: a server on stdio, one over HTTP", t.write},
		{"direct-status", "its status command says that both are connected", func(ctx context.Context) (string, error) { return t.status(ctx, LevelNone) }},
		{"direct-call", "a tool of each is called", t.callDirect},
		{"observed", "mcpx reads both entries in its file", t.observe},
		{"planned", "the audit makes a plan for each", t.plan},
		{"applied", "a person agrees, and the plans are applied", t.apply},
		{"routed-status", "its status command says that both are connected, through mcpx", func(ctx context.Context) (string, error) { return t.status(ctx, LevelConnected) }},
		{"routed-call", "a tool of each is called through mcpx, which tells servers who calls", t.callRouted},
		{"restarts", "between calls of one run the daemon is killed, and later restarted: every call is answered", t.callOverRestarts},
		{"rolled-back", "a person agrees, and the file is what it was before", t.rollBack},
		{"again-status", "its status command says that both are connected, without mcpx", func(ctx context.Context) (string, error) { return t.status(ctx, LevelNone) }},
		{"again-call", "a tool of each is called, without mcpx", t.callAgain},
		{"exact", "when the agent wrote its file anew meanwhile: applied and rolled back once more, byte for byte", t.exact},
	}
}

func (t *trial) write(ctx context.Context) (string, error) {
	if err := t.agent.prepare(ctx, t.servers); err != nil {
		return "", err
	}
	if _, err := os.Stat(t.config); err != nil {
		return "", fault.New(fault.Unavailable, "certify-not-written").Saying("%s wrote no %s", t.agent.program, t.cert.Config.Path).Because(err)
	}
	return t.cert.Config.Path, nil
}

func (t *trial) status(ctx context.Context, proves Level) (string, error) {
	asked, err := t.agent.connects(ctx, t.servers)
	if err != nil {
		return "", err
	}
	if !asked {
		return "", absent("it has no command that connects and tells")
	}
	if proves != LevelNone {
		t.cert.Level = proves
	}
	return fmt.Sprintf("`%s %s`", t.agent.program, strings.Join(t.agent.status, " ")), nil
}

// play gives the agent its task, with a model that calls every server so many times.
func (t *trial) play(ctx context.Context, rounds int, between func(done int)) error {
	m := &Model{Plan: t.agent.plan(t.servers, rounds), Between: between}
	t.stage.now.Store(m)
	defer t.stage.now.Store(nil)
	t.tap.taken()
	return t.agent.calls(ctx, m)
}

func (t *trial) callDirect(ctx context.Context) (string, error) {
	if err := t.play(ctx, 1, nil); err != nil {
		return "", err
	}
	client, err := t.caller()
	t.direct = client
	return "called by " + client, err
}

// caller is who called the server over HTTP in the last run.
func (t *trial) caller() (string, error) {
	client, calls := t.tap.taken()
	if calls == 0 {
		return "", fault.New(fault.Unavailable, "certify-not-called").Saying("no call came to the server over HTTP")
	}
	return client, nil
}

func (t *trial) callAgain(ctx context.Context) (string, error) {
	if err := t.play(ctx, 1, nil); err != nil {
		return "", err
	}
	client, err := t.caller()
	return "called by " + client, err
}

func (t *trial) callRouted(ctx context.Context) (string, error) {
	before, err := t.requests(ctx)
	if err != nil {
		return "", err
	}
	if err := t.play(ctx, 1, nil); err != nil {
		return "", err
	}
	after, err := t.requests(ctx)
	if err != nil {
		return "", err
	}
	client, err := t.caller()
	if err != nil {
		return "", err
	}
	t.cert.Client, t.cert.Level = client, LevelCalled
	if after-before < uint64(len(t.servers)) {
		return "", fault.New(fault.Unavailable, "certify-not-through").Saying("the daemon counted %d requests", after-before)
	}
	if client != t.direct {
		return "", fault.New(fault.Unavailable, "certify-other-client").Saying("servers are told that %q calls; without mcpx it is %q", client, t.direct)
	}
	return fmt.Sprintf("%d requests through mcpx; called by %s", after-before, client), nil
}

// callOverRestarts kills the daemon after the first round and restarts it after the second, while the agent waits for
// its model: its sessions have to outlive both.
func (t *trial) callOverRestarts(ctx context.Context) (string, error) {
	var trouble error
	first := len(t.agent.plan(t.servers, 1))
	err := t.play(ctx, 3, func(done int) {
		switch done {
		case first:
			trouble = errors.Join(trouble, t.kill(ctx), t.start(ctx))
		case first + len(t.servers):
			_, err := t.mcpx(ctx, nil, "daemon", "restart")
			trouble = errors.Join(trouble, err)
		}
	})
	return fmt.Sprintf("%d calls over a kill and a restart", 3*len(t.servers)), errors.Join(trouble, err)
}

// unchanged compares the entries with those that the agent wrote.
func (t *trial) unchanged(ctx context.Context) error {
	now, err := t.entries(ctx)
	if err != nil {
		return err
	}
	for _, e := range now {
		if e.Digest != t.digests[e.Name] {
			return fault.New(fault.Conflict, "certify-entry-differs").Saying("%s is not what %s wrote", e.Name, t.agent.program)
		}
	}
	return nil
}

func (t *trial) rollBack(ctx context.Context) (string, error) {
	var err error
	if t.cert.Config.Used, err = digest(t.config); err != nil {
		return "", err
	}
	t.rewrote = t.cert.Config.Used != t.cert.Config.Applied
	if err := t.revert(ctx); err != nil {
		return "", err
	}
	if t.cert.Config.Restored, err = digest(t.config); err != nil {
		return "", err
	}
	if err := t.unchanged(ctx); err != nil {
		return "", err
	}
	if t.rewrote {
		return "both entries are what they were; the agent wrote its file anew meanwhile", nil
	}
	return "byte for byte", same(t.cert.Config.Before, t.cert.Config.Restored)
}

func (t *trial) exact(ctx context.Context) (string, error) {
	if !t.rewrote {
		return "", absent("it left its file alone: shown before")
	}
	if _, err := t.plan(ctx); err != nil {
		return "", err
	}
	kept := t.cert.Config
	t.cert.Config = Hashes{}
	_, err := t.apply(ctx)
	now := t.cert.Config
	t.cert.Config = kept
	if err != nil {
		return "", err
	}
	if err := t.revert(ctx); err != nil {
		return "", err
	}
	restored, err := digest(t.config)
	t.cert.Config.Exact = &Exact{Before: now.Before, Applied: now.Applied, Restored: restored}
	return "byte for byte", errors.Join(err, same(now.Before, restored))
}

func same(before, restored string) error {
	if before != restored {
		return fault.New(fault.Conflict, "certify-file-differs").Saying("the file is %s, and was %s", restored, before)
	}
	return nil
}

// stop ends the daemon and its servers, and what the agent left behind in a session of its own.
func (t *trial) stop() {
	defer process.KillStrays("HOME=" + t.agent.home)
	ctx, stop := context.WithTimeout(context.Background(), agentWithin)
	defer stop()
	if _, err := t.mcpx(ctx, nil, "daemon", "stop", "--children"); err != nil {
		t.say("the scratch daemon did not stop: %v", err)
	}
}

// names are those of the servers.
func (t *trial) names() []string {
	var all []string
	for _, s := range t.servers {
		all = append(all, s.Name)
	}
	slices.Sort(all)
	return all
}
