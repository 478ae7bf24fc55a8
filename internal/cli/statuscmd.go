package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"mcpx/internal/api"
)

// running is a client of a daemon that runs; without one the commands that only look say so and do not start one.
func (e *Env) running(ctx context.Context) (api.Service, error) {
	client, err := e.Daemon()
	if err != nil {
		return nil, err
	}
	_, err = client.DaemonStatus(ctx, api.None{})
	return client, err
}

var status = Command{
	Path: "status", Short: "Overview: daemon, health and servers", Op: "status.show",
	Long:    "Exit code 0 when everything is ok, 1 when something is wrong, 75 when no daemon runs. It never starts one.",
	Example: "mcpx status",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.running(ctx)
		if err != nil {
			return err
		}
		s, err := service.Status(ctx, api.None{})
		if err != nil {
			return err
		}
		if err := e.Show(s, func(w io.Writer) {
			pairs(w, append(e.aboutDaemon(s.Daemon), [][2]string{
				{"memory", size(s.Resident)},
				{"servers", fmt.Sprintf("%d: %d running, %d idle, %d failing, %d not in use", s.Servers.Total, s.Servers.Running, s.Servers.Idle, s.Servers.Failing, s.Servers.Disabled)},
				{"traffic", fmt.Sprintf("requests %d, sessions %d", s.Counters.Requests, s.Counters.Sessions)},
			}...))
			e.printHealth(w, s.Health)
		}); err != nil {
			return err
		}
		return verdict(s.Health)
	},
}

var health = Command{
	Path: "health", Short: "Say whether everything works, and what does not", Op: "health.show",
	Long:    "Exit code 0 when everything is ok, 1 when something is wrong, 75 when no daemon runs. It never starts one.",
	Example: "mcpx health --json",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.running(ctx)
		if err != nil {
			return err
		}
		h, err := service.Health(ctx, api.HealthQuery{})
		if err != nil {
			return err
		}
		if err := e.Show(h, func(w io.Writer) { e.printHealth(w, h) }); err != nil {
			return err
		}
		return verdict(h)
	},
}

func verdict(h api.Health) error {
	if h.State != api.HealthOK {
		return errAnswerNo
	}
	return nil
}

func (e *Env) printHealth(w io.Writer, h api.Health) {
	color := green
	if h.State != api.HealthOK {
		color = red
	}
	line(w, "health      %s", e.paint(color, string(h.State)))
	for _, f := range h.Findings {
		since := ""
		if !f.Since.IsZero() {
			since = fmt.Sprintf(" (since %s)", age(e.Now().Sub(f.Since)))
		}
		line(w, "  %s %s %s%s: %s", e.paint(weightColor(f.Severity), string(f.Severity)), e.paint(bold, plain(f.Subject)), f.Code, since, below(plain(f.Text), 4))
		switch {
		case f.Hint != "" && f.Command != "":
			line(w, "    %s: %s", plain(f.Hint), e.typed(f.Command))
		case f.Hint != "":
			line(w, "    %s", plain(f.Hint))
		}
	}
}

var ps = Command{
	Path: "ps", Short: "List the processes of the servers", Op: "process.list",
	Long: "One row for each process, or each connection of a remote server; a server without one has a row with its\n" +
		"state: idle (the next call starts it), backoff (it failed, the next start waits), crash_loop, disabled.\n" +
		"SUPERVISOR is the process that keeps the server alive while the daemon restarts; after an upgrade its VERSION is\n" +
		"shown when it is another one than that of this command. A process that is being taken up by a new daemon is\n" +
		"adopting, one that does not answer it is wedged. SIGN-IN is how mcpx stands with servers that ask for one: needed,\n" +
		"yes, or expired; `mcpx server login` signs in. It never starts a daemon.",
	Example: "mcpx ps\nmcpx ps --json",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.running(ctx)
		if err != nil {
			return err
		}
		page, err := service.Processes(ctx, api.ProcessQuery{})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) { e.printProcesses(w, page) })
	},
}

// versionColumn and signInColumn are the places of what is not always in the table of ps.
const (
	versionColumn = 4
	signInColumn  = 12
)

func (e *Env) printProcesses(w io.Writer, page api.ProcessPage) {
	if len(page.Processes) == 0 {
		line(w, "No servers yet. Add one: %s server add NAME -- COMMAND ARGS...", e.self())
		return
	}
	now := e.Now()
	mixed := slices.ContainsFunc(page.Processes, func(p api.Process) bool { return p.Version != "" && p.Version != e.Version })
	asked := slices.ContainsFunc(page.Processes, func(p api.Process) bool { return p.SignIn != nil })
	rows := make([][]cell, 0, len(page.Processes))
	for _, p := range page.Processes {
		era := p.Era
		if p.Protocol != "" {
			era = p.Protocol
		}
		up, lastError := "-", "-"
		if !p.Started.IsZero() {
			up = age(now.Sub(p.Started))
		}
		if p.LastError != "" {
			lastError = short(p.LastError, 60)
			if !p.ErrorAt.IsZero() {
				lastError = fmt.Sprintf("%s ago: %s", age(now.Sub(p.ErrorAt)), lastError)
			}
		}
		if p.NextTry.After(now) {
			lastError += fmt.Sprintf(" (next try in %s)", age(p.NextTry.Sub(now).Round(time.Second)))
		}
		row := []cell{
			{p.Server, bold},
			e.stateCell(p.State),
			{number(p.Pid), ""},
			{number(p.Supervisor), ""},
			{dash(p.Version), ""},
			{dash(era), ""},
			{p.Sharing, ""},
			{number(p.Sessions), ""},
			{number(p.InFlight), ""},
			{number(p.Restarts), ""},
			{size(p.Resident), ""},
			{up, ""},
			e.signInCell(p.SignIn, now),
			{lastError, ""},
		}
		if !asked {
			row = slices.Delete(row, signInColumn, signInColumn+1)
		}
		if !mixed {
			row = slices.Delete(row, versionColumn, versionColumn+1)
		}
		rows = append(rows, row)
	}
	head := []string{"SERVER", "STATE", "PID", "SUPERVISOR", "VERSION", "ERA", "SHARING", "SESSIONS", "CALLS", "RESTARTS", "MEMORY", "AGE", "SIGN-IN", "LAST ERROR"}
	if !asked {
		head = slices.Delete(head, signInColumn, signInColumn+1)
	}
	if !mixed {
		head = slices.Delete(head, versionColumn, versionColumn+1)
	}
	e.table(w, head, rows)
	slices.Sort(page.Advice)
	for _, text := range slices.Compact(page.Advice) {
		line(w, "note: %s", text)
	}
}
