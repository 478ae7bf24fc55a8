package control

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
)

// DaemonStatus describes this daemon.
func (c *Control) DaemonStatus(ctx context.Context, _ api.None) (api.Daemon, error) {
	if err := c.allow(ctx, "daemon.status"); err != nil {
		return api.Daemon{}, err
	}
	out := c.cfg.Daemon
	if why := c.cfg.DB.Stopped(); why != nil {
		f := fault.From(why)
		out.ReadOnly = f.Message + "; " + f.Hint
	}
	return out, nil
}

// DaemonStop begins the end of this daemon.
func (c *Control) DaemonStop(ctx context.Context, in api.StopDaemon) (api.Stopping, error) {
	if err := c.allow(ctx, "daemon.stop"); err != nil {
		return api.Stopping{}, err
	}
	c.cfg.Stop(in.Children)
	return api.Stopping{Pid: c.cfg.Daemon.Pid}, nil
}

// DaemonRestart lets another process take the place of this daemon.
func (c *Control) DaemonRestart(ctx context.Context, in api.RestartDaemon) (api.Restarted, error) {
	if err := c.allow(ctx, "daemon.restart"); err != nil {
		return api.Restarted{}, err
	}
	if in.Binary != "" && !path.IsAbs(in.Binary) {
		return api.Restarted{}, fault.New(fault.Invalid, "request-invalid").Saying("binary is %q, want an absolute path", in.Binary)
	}
	return c.cfg.Restart(ctx, in)
}

// DaemonReload reads settings and catalog again.
func (c *Control) DaemonReload(ctx context.Context, _ api.None) (api.Reloaded, error) {
	if err := c.allow(ctx, "daemon.reload"); err != nil {
		return api.Reloaded{}, err
	}
	return c.cfg.Reload(ctx)
}

// Status gives the overview.
func (c *Control) Status(ctx context.Context, _ api.None) (api.Status, error) {
	if err := c.allow(ctx, "status.show"); err != nil {
		return api.Status{}, err
	}
	servers, err := c.views(ctx)
	if err != nil {
		return api.Status{}, err
	}
	health, err := c.withGoverned(ctx, c.healthOf(servers), false)
	if err != nil {
		return api.Status{}, err
	}
	out := api.Status{
		Daemon: c.cfg.Daemon, Health: health, Counters: c.cfg.Gateway.Counters(),
		Resident: c.cfg.Resident(c.cfg.Daemon.Pid), Goroutines: runtime.NumGoroutine(),
	}
	for _, s := range servers {
		out.Servers.Total++
		switch {
		case !s.Routable:
			out.Servers.Disabled++
		case failing(s.Status):
			out.Servers.Failing++
		case s.Status.State == gateway.Ready || s.Status.State == gateway.Starting || s.Status.State == gateway.Adopting:
			out.Servers.Running++
		default:
			out.Servers.Idle++
		}
	}
	return out, nil
}

// Health gives the findings.
func (c *Control) Health(ctx context.Context, in api.HealthQuery) (api.Health, error) {
	if err := c.allow(ctx, "health.show"); err != nil {
		return api.Health{}, err
	}
	servers, err := c.views(ctx)
	if err != nil {
		return api.Health{}, err
	}
	return c.withGoverned(ctx, c.healthOf(servers), in.Look)
}

// Live is the health for the loopback listener, which shows one word of it. A catalog that cannot be read is not ok.
func (c *Control) Live(ctx context.Context) api.HealthState {
	servers, err := c.views(ctx)
	if err != nil {
		return api.HealthDegraded
	}
	return c.healthOf(servers).State
}

// failing says whether a server cannot do its work now. A server that fell over once and runs again does not count.
func failing(st gateway.ServerStatus) bool {
	return st.State == gateway.Waiting || st.State == gateway.CrashLoop || st.State == gateway.Wedged || (st.State == gateway.Idle && st.Attempts > 0)
}

func (c *Control) healthOf(servers []api.Server) api.Health {
	health := api.Health{State: api.HealthOK, Findings: []api.Finding{}}
	if err := c.cfg.DB.Stopped(); err != nil {
		f := fault.From(err)
		health.State = api.HealthDegraded
		health.Findings = append(health.Findings, api.Finding{Code: f.Code, Severity: converge.WeightBlocker, Subject: "store", Text: f.Message, Hint: f.Hint})
	}
	for _, s := range servers {
		if finding, wrong := signInFinding(s); wrong {
			health.Findings = append(health.Findings, finding)
		}
		if !s.Routable || !failing(s.Status) {
			continue
		}
		code := "server-failing"
		if s.Status.State == gateway.CrashLoop {
			code = "server-crash-loop"
		}
		finding := api.Finding{
			Code: code, Severity: converge.WeightBlocker, Subject: s.Name, Since: s.Status.ErrorAt, Text: s.Status.LastError,
			Hint: fmt.Sprintf("see `mcpx server logs %s`; try again at once with `mcpx server restart %s`", s.Name, s.Name),
		}
		if s.Status.State == gateway.Wedged {
			finding.Code = "server-wedged"
			finding.Hint = "its process was left by an earlier daemon and may still run: see `mcpx ps`; `mcpx daemon stop --children` ends what is left"
			for _, lane := range s.Status.Lanes {
				if lane.Note != "" {
					finding.Text = lane.Note
				}
			}
		}
		health.State = api.HealthDegraded
		health.Findings = append(health.Findings, finding)
	}
	return health
}

// Processes gives one row for each lane, and one for each server without lanes.
func (c *Control) Processes(ctx context.Context, _ api.ProcessQuery) (api.ProcessPage, error) {
	if err := c.allow(ctx, "process.list"); err != nil {
		return api.ProcessPage{}, err
	}
	servers, err := c.views(ctx)
	if err != nil {
		return api.ProcessPage{}, err
	}
	trusted, err := c.trusted(ctx)
	if err != nil {
		return api.ProcessPage{}, err
	}
	page := api.ProcessPage{Processes: []api.Process{}}
	for _, s := range append(servers, c.described(ctx, trusted)...) {
		page.Processes = append(page.Processes, c.rows(s)...)
		if len(s.Status.Lanes) < 2 {
			continue // one process is no waste, whatever its sharing
		}
		for _, text := range s.Advice {
			page.Advice = append(page.Advice, s.Name+": "+text)
		}
	}
	return page, nil
}

func (c *Control) rows(s api.Server) []api.Process {
	base := api.Process{
		Server: s.Name, Kind: kindOf(s.Server), State: string(s.Status.State), Sharing: string(s.Sharing),
		Restarts: s.Status.Restarts, LastError: s.Status.LastError, ErrorAt: s.Status.ErrorAt, NextTry: s.Status.NextTry, SignIn: s.SignIn,
	}
	if len(s.Status.Lanes) == 0 {
		base.Sessions, base.InFlight = s.Status.Sessions, s.Status.InFlight
		return []api.Process{base}
	}
	rows := make([]api.Process, 0, len(s.Status.Lanes))
	for _, lane := range s.Status.Lanes {
		row := base
		row.State, row.Era, row.Protocol = string(lane.State), lane.Era, lane.Version
		row.Sessions, row.InFlight = lane.Sessions, lane.InFlight
		row.Pid, row.Supervisor, row.URL, row.Started = lane.Link.Pid, lane.Link.Supervisor, lane.Link.URL, lane.Link.Started
		row.Version, row.Adopted = lane.Link.Version, lane.Adopted
		if lane.Note != "" {
			row.LastError = lane.Note
		}
		if row.Pid > 0 {
			row.Resident = c.cfg.Resident(row.Pid)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b api.Process) int { return a.Started.Compare(b.Started) })
	return rows
}

func kindOf(s catalog.Server) string {
	if s.HTTP != nil {
		return "http"
	}
	return "stdio"
}

// ServerLogs streams the output of a server.
func (c *Control) ServerLogs(ctx context.Context, in api.LogsQuery, emit func(api.LogLine) error) error {
	if err := c.allow(ctx, "server.logs"); err != nil {
		return err
	}
	s, err := c.view(ctx, in.Name)
	if err != nil {
		return err
	}
	lines := in.Lines
	if lines == 0 {
		lines = api.DefaultLogLines
	}
	return c.cfg.Logs.Read(ctx, s.Name, lines, in.Follow, emit)
}
