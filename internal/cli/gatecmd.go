package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gate"
	"mcpx/internal/lazyregexp"
	"mcpx/internal/process"
)

var releaseGate = Command{
	Path: "doctor release-gate", Short: "Say whether everything is ready to rely on mcpx alone",
	Long: "Each check names what it looked at and what it found. One that could not run is unknown, which closes the gate like one\n" +
		"that failed. Exit code 1 when the gate is closed. It changes nothing and starts no daemon.",
	Example: "mcpx doctor release-gate\nmcpx doctor release-gate --json",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		facts, err := e.releaseFacts(ctx)
		if err != nil {
			return err
		}
		return e.showGate(gate.OfRelease(facts))
	},
}

func (e *Env) showGate(v gate.Verdict) error {
	if err := e.Show(v, func(w io.Writer) { e.gateText(w, v) }); err != nil {
		return err
	}
	if !v.Open {
		return errAnswerNo
	}
	return nil
}

func (e *Env) gateText(w io.Writer, v gate.Verdict) {
	e.checksText(w, v.Checks)
	word := e.paint(green, "open")
	if !v.Open {
		word = e.paint(red, "closed")
	}
	line(w, "\nThe %s gate is %s.", v.Gate, word)
}

func (e *Env) checksText(w io.Writer, checks []gate.Check) {
	rows := make([][]cell, 0, len(checks))
	for _, c := range checks {
		color := green
		if c.State != gate.Passed {
			color = red
		}
		next := ""
		if c.Command != "" {
			next = e.typed(c.Command)
		}
		rows = append(rows, []cell{{c.Name, bold}, {string(c.State), color}, {plain(c.Evidence), ""}, {next, ""}})
	}
	e.table(w, []string{"CHECK", "STATE", "FOUND", "NEXT"}, rows)
}

// told makes a fact of an answer of the daemon: without an answer it is not known.
func told[A, T any](answer A, err error, value func(A) T) gate.Fact[T] {
	if err != nil {
		return gate.Missing[T](fault.From(err).Message)
	}
	return gate.Known(value(answer))
}

// releaseFacts finds out what the release gate asks for.
func (e *Env) releaseFacts(ctx context.Context) (gate.Release, error) {
	client, err := e.Daemon()
	if err != nil {
		return gate.Release{}, err
	}
	paths, err := e.Paths()
	if err != nil {
		return gate.Release{}, err
	}
	f := gate.Release{Now: e.Now()}
	health, err := client.Health(ctx, api.HealthQuery{})
	f.Audited = told(health, err, func(h api.Health) time.Time { return h.Audited })
	f.Blockers = told(health, err, func(api.Health) []string { return nil })
	if err == nil {
		diagnosis, err := e.examine(ctx)
		f.Blockers = told(diagnosis, err, blockersOf)
	}
	receipts, err := client.Receipts(ctx, api.ReceiptsQuery{})
	f.Changed = told(receipts, err, lastChange)
	f.Restore = told(receipts, err, func(page api.ReceiptPage) gate.Restore {
		return newestRestore(filepath.Join(paths.State, "backups"), page.Receipts)
	})
	checks, err := client.CheckAgents(ctx, api.ChecksQuery{})
	f.Agents = told(checks, err, managedAgents)
	f.Secrets = secretEvents(ctx, client)
	processes, err := client.Processes(ctx, api.ProcessQuery{})
	f.Lanes = told(processes, err, func(api.ProcessPage) []string { return nil })
	if err == nil {
		servers, err := client.Servers(ctx, api.ServersQuery{})
		f.Lanes = told(servers, err, func(s api.ServerPage) []string { return wideLanes(processes.Processes, s.Servers) })
	}
	verified, err := client.VerifyEvents(ctx, api.VerifyEvents{})
	f.Chain = told(verified, err, func(v api.Verified) string {
		if v.OK {
			return ""
		}
		return v.Text
	})
	f.Service = e.serviceFact(ctx, client)
	return f, nil
}

func blockersOf(d diagnosis) []string {
	var all []string
	for _, f := range d.Findings {
		if f.Severity == converge.WeightBlocker {
			all = append(all, f.Code+" "+f.Subject)
		}
	}
	return all
}

func lastChange(page api.ReceiptPage) time.Time {
	var last time.Time
	for _, r := range page.Receipts {
		if r.Ended.After(last) && r.State != converge.ReceiptUndone {
			last = r.Ended
		}
	}
	return last
}

// newestRestore reads the backups of the newest receipt that has some, and compares them with what the receipt says of
// the files before. Nothing is written.
func newestRestore(dir string, receipts []converge.Receipt) gate.Restore {
	for _, r := range receipts {
		var out gate.Restore
		for _, f := range r.Files {
			if f.Backup == "" {
				continue
			}
			out.Receipt = r.ID
			data, err := os.ReadFile(filepath.Join(dir, filepath.Base(r.ID), filepath.Base(f.Backup)))
			if err != nil {
				out.Wrong = "the backup of " + f.Path + " cannot be read"
			} else if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.Before.SHA256 {
				out.Wrong = "the backup of " + f.Path + " is not what was there"
			}
		}
		if out.Receipt != "" {
			return out
		}
	}
	return gate.Restore{}
}

func managedAgents(c api.Checks) []gate.Agent {
	all := []gate.Agent{}
	for _, a := range c.Agents {
		if a.Level != converge.LevelObserved && a.Level != "" {
			all = append(all, gate.Agent{Name: a.Agent, Hub: a.Control.Answers, Certified: a.Client.Certified})
		}
	}
	return all
}

// ours are hashes and ids of mcpx, which look like secrets and are none.
var ours = lazyregexp.New(`\b(plan|apr|rcp|op|obs|cand|srv|cred|tok|evt)_[0-9A-Za-z]+|\b[0-9a-f]{32,64}\b`)

// secretEvents names the events that hold what looks like a secret.
func secretEvents(ctx context.Context, service api.Service) gate.Fact[[]string] {
	found := []string{}
	err := service.Events(ctx, api.EventsQuery{}, func(ev event.Event) error {
		if holdsSecret(ours().ReplaceAll([]byte(ev.Summary+"\n"+string(ev.Body)), nil)) {
			found = append(found, fmt.Sprintf("event %d", ev.Seq))
		}
		return nil
	})
	return told(found, err, func(all []string) []string { return all })
}

// wideLanes names the lanes that more share than their server allows.
func wideLanes(lanes []api.Process, servers []api.Server) []string {
	allowed := map[string]string{}
	for _, s := range servers {
		allowed[s.Name] = string(s.Sharing)
	}
	var wide []string
	for _, l := range lanes {
		narrow := l.Sharing == string(catalog.ShareSession)
		switch {
		case narrow && l.Sessions > 1:
			wide = append(wide, fmt.Sprintf("%s: %d sessions in a lane for one", l.Server, l.Sessions))
		case !narrow && allowed[l.Server] != "" && l.Sharing != allowed[l.Server]:
			wide = append(wide, l.Server+": "+l.Sharing+", allowed is "+allowed[l.Server])
		}
	}
	return wide
}

// serviceFact asks the service manager. What it answers with another code than those of its manual is not known.
func (e *Env) serviceFact(ctx context.Context, client api.Service) gate.Fact[gate.Service] {
	in, err := e.userService()
	if err != nil || in.Home == "" || runtime.GOOS == "windows" {
		return gate.Missing[gate.Service]("there is no service manager here")
	}
	out := gate.Service{Wanted: e.Version}
	if about, err := client.DaemonStatus(ctx, api.None{}); err == nil {
		out.Version = about.Version
	}
	path := converge.Service{Manager: in.Manager, Home: in.Home, Config: in.Config}.Path()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return gate.Known(out)
	}
	out.Installed = true
	enabled, running := []string{"systemctl", "--user", "is-enabled", "mcpx.service"}, []string{"systemctl", "--user", "is-active", "mcpx.service"}
	if in.Manager == converge.Launchd {
		enabled = []string{"launchctl", "list", converge.Label}
		running = enabled
	}
	for _, ask := range []struct {
		argv []string
		yes  *bool
		no   []int // codes that mean no
	}{{enabled, &out.Enabled, []int{1}}, {running, &out.Running, []int{1, 3}}} {
		code, err := quietly(ctx, ask.argv)
		switch {
		case err != nil:
			return gate.Missing[gate.Service](fault.From(err).Message)
		case code != 0 && !slices.Contains(ask.no, code):
			return gate.Missing[gate.Service](fmt.Sprintf("`%s` ended with %d", strings.Join(ask.argv, " "), code))
		}
		*ask.yes = code == 0
	}
	return gate.Known(out)
}

// quietly runs a command for its exit code alone.
func quietly(ctx context.Context, argv []string) (int, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, fault.New(fault.Unavailable, "service-manager").Saying("%s cannot be opened", os.DevNull).Because(err)
	}
	defer null.Close()
	file, err := process.Resolve(argv[0], "/", os.Environ())
	if err != nil {
		return 0, err
	}
	status, err := process.Foreground(ctx, process.Command{File: file, Argv: argv, Dir: "/", Env: os.Environ()}, null, null)
	return status.Code, err
}
