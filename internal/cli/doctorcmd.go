package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/converge"
	"mcpx/internal/daemon"
	"mcpx/internal/fault"
)

var doctor = Command{
	Path: "doctor", Short: "Tell everything that is wrong, and the command that fixes it",
	Long: "What `mcpx health` says, and beside it what only a look at this machine tells: database, log and backups, modes of the\n" +
		"files of mcpx, port, service. Blockers come first; exit code 1 with one. Then what this machine can do is tried: the\n" +
		"sandbox for commands of agents, and what edits and jobs rely on. It leaves nothing behind and starts no daemon: without\n" +
		"one it says so, and what can be seen without one. docs/findings.md explains the words, docs/policy.md the sandbox.",
	Example: "mcpx doctor\nmcpx doctor --json",
	Flags:   []Flag{{Name: "rehome", Kind: BoolFlag, Usage: "this machine is the one that the state directory belongs to: it was copied, and is used elsewhere no more"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.Bool("rehome") {
			paths, err := e.Paths()
			if err != nil {
				return err
			}
			if err := daemon.Rehome(paths); err != nil {
				return err
			}
			e.Note("the state directory belongs to this machine; a daemon that runs takes that with `mcpx daemon restart`")
		}
		out, err := e.examine(ctx)
		if err != nil {
			return err
		}
		paths, err := e.Paths()
		if err != nil {
			return err
		}
		out.Machine = e.prove(ctx, paths)
		if err := e.Show(out, func(w io.Writer) {
			e.printHealth(w, out.Health)
			e.printCounts(w, out.Counts)
			e.printMachine(w, out.Machine)
		}); err != nil {
			return err
		}
		return verdict(out.Health)
	},
}

// diagnosis is the answer of doctor.
type diagnosis struct {
	api.Health
	Counts  map[converge.Weight]int `json:"counts"`
	Machine []daemon.Ability        `json:"machine"`
}

func (e *Env) printMachine(w io.Writer, all []daemon.Ability) {
	line(w, "\nThis machine, as it was tried just now:")
	for _, a := range all {
		state := e.paint(green, "yes")
		if !a.Works {
			state = e.paint(yellow, "no ")
		}
		line(w, "%s %s: %s", state, a.Name, plain(a.Detail))
		if a.Fix != "" {
			line(w, "    %s", plain(a.Fix))
		}
	}
}

func (e *Env) printCounts(w io.Writer, counts map[converge.Weight]int) {
	line(w, "\n%d blockers, %d warnings, %d notices", counts[converge.WeightBlocker], counts[converge.WeightWarning], counts[converge.WeightNotice])
}

// examine collects everything that is wrong, the worst first.
func (e *Env) examine(ctx context.Context) (diagnosis, error) {
	client, err := e.Daemon()
	if err != nil {
		return diagnosis{}, err
	}
	paths, err := e.Paths()
	if err != nil {
		return diagnosis{}, err
	}
	var all []api.Finding
	health, err := client.Health(ctx, api.HealthQuery{Look: true})
	switch {
	case away(err):
		all = append(all, e.withoutDaemon(err)...)
	case err != nil:
		return diagnosis{}, err
	default:
		all = append(all, health.Findings...)
		more, err := logFindings(ctx, client)
		if err != nil {
			return diagnosis{}, err
		}
		all = append(all, more...)
	}
	all = append(all, e.hostFindings(ctx, paths)...)
	out := diagnose(all)
	out.Audited = health.Audited
	return out, nil
}

func diagnose(all []api.Finding) diagnosis {
	out := diagnosis{Health: api.Health{State: api.HealthOK, Findings: []api.Finding{}}, Counts: map[converge.Weight]int{}}
	weights := []converge.Weight{converge.WeightBlocker, converge.WeightWarning, converge.WeightNotice}
	slices.SortStableFunc(all, func(a, b api.Finding) int {
		return slices.Index(weights, a.Severity) - slices.Index(weights, b.Severity)
	})
	for _, f := range all {
		if slices.ContainsFunc(out.Findings, func(g api.Finding) bool { return g.Code == f.Code && g.Subject == f.Subject && g.Path == f.Path }) {
			continue // seen from both sides
		}
		out.Findings = append(out.Findings, f)
		out.Counts[f.Severity]++
		if f.Severity == converge.WeightBlocker {
			out.State = api.HealthDegraded
		}
	}
	return out
}

// tried tells what this machine can do.
func (e *Env) tried(ctx context.Context, paths api.Paths) []daemon.Ability {
	exe, err := os.Executable()
	if err != nil {
		return []daemon.Ability{{Name: "sandbox", Detail: err.Error()}}
	}
	return daemon.Prove(ctx, daemon.ProveConfig{Paths: paths, Getenv: e.Getenv, Environ: os.Environ(), Exe: exe})
}

// withoutDaemon tells what is wrong when no daemon answers.
func (e *Env) withoutDaemon(err error) []api.Finding {
	var all []api.Finding
	for _, t := range converge.Findings(converge.World{}, converge.Vitals{DaemonDown: true}) {
		all = append(all, api.Finding{Code: t.Code, Severity: t.Severity, Subject: t.Subject, Text: t.Text, Hint: t.Hint, Command: t.Command})
	}
	if !down(err) {
		all[0].Text = fault.From(err).Message // it is there and does not answer
	}
	return all
}

// logFindings tells what is wrong with the log and with the backups.
func logFindings(ctx context.Context, service api.Service) ([]api.Finding, error) {
	verdict, err := service.VerifyEvents(ctx, api.VerifyEvents{})
	if err != nil {
		return nil, err
	}
	var all []api.Finding
	if verdict.Bad != nil {
		all = append(all, api.Finding{
			Code: "chain-broken", Severity: converge.WeightBlocker, Subject: "log",
			Text: fmt.Sprintf("event %d of the log does not fit: %s", verdict.Bad.Seq, verdict.Bad.Why),
			Hint: "find out who changed the database; a copy of it is evidence. After head-differs, when you have put back an older copy yourself, stop the daemon and remove state/events.head", Command: "mcpx audit verify",
		})
	}
	for _, b := range verdict.Backups {
		all = append(all, api.Finding{
			Code: "backup-differs", Severity: converge.WeightBlocker, Subject: b.Receipt, Path: b.Path,
			Text: "cannot be taken back: " + strings.TrimPrefix(b.Text, "backup-differs: "), Hint: "look at what it was for", Command: "mcpx audit verify",
		})
	}
	return all, nil
}
