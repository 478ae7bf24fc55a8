package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/daemon"
	"mcpx/internal/fault"
	"mcpx/internal/process"
	"mcpx/internal/telemetry"
)

// stopWithin bounds an orderly stop: the terminate ladder of all children, side by side, takes 7 s.
const stopWithin = 30 * time.Second

var listenFlag = Flag{Name: "listen", Kind: StringFlag, Value: "ADDR", Usage: "loopback address ADDR for the servers (setting listener.address, default 127.0.0.1:30000; port 0: any free one)"}

var serve = Command{
	Path: "serve", Short: "Run the daemon in the foreground",
	Long: "The daemon runs until SIGINT, SIGTERM or `mcpx daemon stop`. SIGHUP makes it read its settings again (on a\n" +
		"terminal it ends it). After `mcpx daemon restart` this process stays, leads signals to the process that took\n" +
		"over, and ends with it; a service manager with NOTIFY_SOCKET is told the new main process instead.\n" +
		"One daemon runs for each MCPX_HOME; a second one exits with code 75 and names the first.",
	Example: "mcpx serve\nmcpx serve --listen 127.0.0.1:31000",
	Flags: []Flag{
		listenFlag,
		{Name: "detached", Kind: BoolFlag, Hidden: true, Usage: "started by another mcpx: log to a file, tell on descriptor 3 when ready"},
		{Name: "take-over", Kind: BoolFlag, Hidden: true, Usage: "started by a daemon whose place it takes: its listeners are descriptors 5 and 6"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		detached := a.Bool("detached")
		if a.Bool("take-over") {
			return e.takeOver(ctx, a, detached)
		}
		d, err := e.serve(ctx, a, detached, nil)
		if detached {
			_ = signalReady(err) // the command that started us may have left: the daemon runs on
		}
		if err != nil {
			return err
		}
		e.notify("READY=1")
		return e.untilStopped(ctx, d, process.IsInit()) // nothing outlives the first process of a container
	},
}

var daemonStart = Command{
	Path: "daemon start", Short: "Start the daemon in the background",
	Long:    "Most commands start it by themselves; this one also says where it listens.",
	Example: "mcpx daemon start\nmcpx daemon start --listen 127.0.0.1:31000",
	Flags:   []Flag{listenFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		var flags []string
		if a.Given("listen") {
			flags = []string{"--listen", a.String("listen")}
			if err := daemon.CheckListen(a.String("listen")); err != nil {
				return err
			}
		}
		started, err := e.startDaemon(ctx, flags)
		if err != nil {
			return err
		}
		if started {
			return e.showDaemon(ctx, "started")
		}
		if a.Given("listen") {
			if err := e.listensAt(ctx, a.String("listen")); err != nil {
				return err
			}
		}
		return e.showDaemon(ctx, "already_running")
	},
}

// listensAt fails when the running daemon has another address than the one that was asked for.
func (e *Env) listensAt(ctx context.Context, address string) error {
	service, err := e.running(ctx)
	if err != nil {
		return err
	}
	d, err := service.DaemonStatus(ctx, api.None{})
	if err != nil || daemon.Serves(d.Listener, address) {
		return err
	}
	f := fault.New(fault.Conflict, "daemon-elsewhere").Saying("the daemon runs already, at %s (pid %d)", d.Listener, d.Pid)
	if d.Up {
		return f.Hinting("it is `mcpx up` in a terminal: end it there with Ctrl-C, then start one")
	}
	return f.Hinting("to move it: `mcpx daemon restart --listen %s`", address)
}

// outcome is what daemon start, stop and restart print with --json.
type outcome struct {
	State  string      `json:"state"` // started, already_running, stopped, already_stopped, restarted
	Daemon *api.Daemon `json:"daemon,omitempty"`
	Ended  int         `json:"ended,omitempty"` // servers of an earlier daemon that daemon stop --children ended
	Left   int         `json:"left,omitempty"`  // processes of servers that go on after daemon stop
}

func (e *Env) showDaemon(ctx context.Context, state string) error {
	client, err := e.Daemon()
	if err != nil {
		return err
	}
	d, err := client.DaemonStatus(ctx, api.None{})
	if err != nil {
		return err
	}
	return e.Show(outcome{State: state, Daemon: &d}, func(w io.Writer) {
		word := map[string]string{"started": "started", "already_running": "was running already", "restarted": "restarted"}[state]
		line(w, "The daemon %s: pid %d, servers at %s/servers/NAME/mcp", word, d.Pid, d.Base)
	})
}

var daemonStop = Command{
	Path: "daemon stop", Short: "Stop the daemon", Op: "daemon.stop",
	Long: "It returns when the process has ended. Supervised servers go on with their state, and the next daemon takes them\n" +
		"up again with the sessions of their clients and the calls in flight; without one they end after ten minutes\n" +
		"(setting supervisor.orphan_ttl). --children ends them now, also when no daemon runs. To put a new daemon into\n" +
		"the place of this one, use `mcpx daemon restart`.",
	Example: "mcpx daemon stop\nmcpx daemon stop --children",
	Flags:   []Flag{{Name: "children", Kind: BoolFlag, Usage: "end the processes of all servers too"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		left := 0
		if !a.Bool("children") {
			left = e.supervised(ctx)
		}
		state, ended, err := e.stopDaemon(ctx, a.Bool("children"))
		if err != nil {
			return err
		}
		if state == "already_stopped" && !a.Bool("children") {
			if err := e.hanging(ctx); err != nil {
				return err
			}
		}
		return e.Show(outcome{State: state, Ended: ended, Left: left}, func(w io.Writer) {
			switch {
			case state == "stopped" && left == 1:
				line(w, "The daemon stopped. One server goes on and waits for the next daemon; `mcpx daemon stop --children` ends it.")
			case state == "stopped" && left > 1:
				line(w, "The daemon stopped. %d servers go on and wait for the next daemon; `mcpx daemon stop --children` ends them.", left)
			case state == "stopped":
				line(w, "The daemon stopped.")
			case ended == 1:
				line(w, "No daemon was running. One server that an earlier one had left was ended.")
			case ended > 0:
				line(w, "No daemon was running. %d servers that an earlier one had left were ended.", ended)
			case a.Bool("children"):
				line(w, "No daemon was running, and no server was left.")
			default:
				line(w, "No daemon was running.")
			}
		})
	},
}

// supervised counts the processes that outlive the daemon, 0 when no daemon says so.
func (e *Env) supervised(ctx context.Context) int {
	client, err := e.Daemon()
	if err != nil {
		return 0
	}
	d, err := client.DaemonStatus(ctx, api.None{})
	if err != nil || d.Up {
		return 0 // a daemon that does not answer is told by the stop itself; `mcpx up` ends what it started
	}
	page, err := client.Processes(ctx, api.ProcessQuery{})
	if err != nil {
		return 0
	}
	n := 0
	for _, p := range page.Processes {
		if p.Supervisor > 0 {
			n++
		}
	}
	return n
}

// hanging tells of a daemon that does not answer. Whoever starts one next waits for that instead.
func (e *Env) hanging(ctx context.Context) error {
	paths, err := e.Paths()
	if err != nil {
		return err
	}
	return daemon.Silent(ctx, paths)
}

func (e *Env) stopDaemon(ctx context.Context, children bool) (state string, ended int, err error) {
	client, err := e.Daemon()
	if err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(e.operation(ctx), stopWithin)
	defer cancel()
	state = "already_stopped"
	if _, err := client.DaemonStop(ctx, api.StopDaemon{Children: children}); !down(err) {
		state = "stopped"
		if err != nil {
			return state, 0, err
		}
	}
	if !children {
		return state, 0, nil
	}
	paths, err := e.Paths()
	if err != nil {
		return "", 0, err
	}
	if state == "stopped" {
		if _, err := os.Stat(paths.Owner()); err != nil {
			return state, 0, nil // the usual case: it ended in order
		}
	}
	ended, err = daemon.EndChildren(ctx, paths, e.Version, e.Now())
	return state, ended, err
}

var daemonRestart = Command{
	Path: "daemon restart", Short: "Let a new process take the place of the daemon; no call fails", Op: "daemon.restart",
	Long: "Use it after an upgrade of mcpx or a change of a setting that waits for a restart. The new process gets the\n" +
		"listening sockets and the servers: they go on, with their state, and so do the sessions and the calls in flight,\n" +
		"however long they take. When it cannot start, the old one goes on; when none runs, one is started. An address\n" +
		"that was given with --listen is kept, also after the daemon was killed, and so is the environment of the daemon,\n" +
		"unless --env replaces it. Servers that were added with --supervised=false end; calls that run there get 10s.",
	Example: "mcpx daemon restart\nGITHUB_TOKEN=... mcpx daemon restart --env",
	Flags: []Flag{
		listenFlag,
		{Name: "env", Kind: BoolFlag, Usage: "give the new daemon the environment of this shell; servers for which it differs start anew"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		in := api.RestartDaemon{Listen: a.String("listen")}
		if a.Bool("env") {
			in.Environ = os.Environ()
		}
		return e.restart(ctx, in)
	},
}

var daemonUpgrade = Command{
	Path: "daemon upgrade", Short: "Let another mcpx take the place of the daemon; no call fails",
	Long: "It is `mcpx daemon restart` with another binary, which is tried first. Later restarts use that binary, too;\n" +
		"after a stop or a crash the mcpx that you call starts the daemon. Supervisors of running servers keep their\n" +
		"version until their server starts again; `mcpx ps` shows it when versions differ.",
	Example: "mcpx daemon upgrade --binary ~/Downloads/mcpx",
	Flags:   []Flag{{Name: "binary", Kind: StringFlag, Value: "PATH", Usage: "path PATH of the mcpx that takes over; it must stay there"}, listenFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.String("binary") == "" {
			return fault.New(fault.Invalid, "usage").Saying("--binary is required").
				Hinting("for another file in the place of the old one, `mcpx daemon restart` is enough")
		}
		path, err := filepath.Abs(a.String("binary"))
		if err != nil {
			return fault.New(fault.Invalid, "usage").Saying("--binary %s is no path", a.String("binary")).Because(err)
		}
		return e.restart(ctx, api.RestartDaemon{Binary: path, Listen: a.String("listen")})
	},
}

var daemonReload = Command{
	Path: "daemon reload", Short: "Make the daemon read its settings and the files of the catalog again", Op: "daemon.reload",
	Long: "The same as SIGHUP. Servers restart only when their command, environment or address changed. Exit code 1 when\n" +
		"something in config/catalog cannot be taken; the rest is.",
	Example: "mcpx daemon reload",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		client, err := e.Daemon()
		if err != nil {
			return err
		}
		out, err := client.DaemonReload(e.operation(ctx), api.None{})
		if err != nil {
			return err
		}
		err = e.Show(out, func(w io.Writer) {
			switch {
			case len(out.Applied)+len(out.NeedsRestart) == 0:
				line(w, "No setting changed.")
			case len(out.Applied) > 0:
				line(w, "In force now: %s", strings.Join(out.Applied, ", "))
			}
			if len(out.NeedsRestart) > 0 {
				line(w, "Waits for `mcpx daemon restart`: %s", strings.Join(out.NeedsRestart, ", "))
			}
			if len(out.Servers) > 0 {
				line(w, "Taken from the files of the catalog: %s", strings.Join(out.Servers, ", "))
			}
			for _, p := range out.Problems {
				line(w, "%s", plain(p.Where()+": "+p.Text))
				if p.Hint != "" {
					line(w, "    %s", plain(p.Hint))
				}
			}
		})
		if err == nil && len(out.Problems) > 0 {
			return errAnswerNo
		}
		return err
	},
}

// restartWithin bounds a hand-over: the next daemon proves that it can start, then it starts.
const restartWithin = time.Minute

// restart lets another process take the place of the daemon. A daemon of an older mcpx, which cannot hand over, is
// stopped and started again.
func (e *Env) restart(ctx context.Context, in api.RestartDaemon) error {
	if in.Listen != "" {
		if err := daemon.CheckListen(in.Listen); err != nil {
			return err
		}
	}
	client, err := e.Daemon()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(e.operation(ctx), restartWithin)
	defer cancel()
	out, err := client.DaemonRestart(ctx, in)
	switch {
	case err == nil:
		return e.Show(outcome{State: "restarted", Daemon: &out.Daemon}, func(w io.Writer) {
			line(w, "The daemon restarted: pid %d, version %s, servers at %s/servers/NAME/mcp", out.Daemon.Pid, out.Daemon.Version, out.Daemon.Base)
			if out.OldVersion != out.Daemon.Version {
				line(w, "It was pid %d, version %s.", out.OldPid, out.OldVersion)
			}
		})
	case in.Binary == "" && (away(err) || fault.From(err).Code == "op-unknown"):
		return e.startAgain(ctx, client, in.Listen)
	case down(err):
		return fault.From(err).Hinting("start the new one: `%s daemon start`", in.Binary)
	}
	return err
}

// startAgain stops the daemon if one runs, and starts one.
func (e *Env) startAgain(ctx context.Context, client api.Service, listen string) error {
	old, err := client.DaemonStatus(ctx, api.None{})
	if err != nil && !away(err) {
		return err
	}
	if listen == "" && old.ListenFlag {
		listen = old.Listener
	}
	if err := e.mayRestart(old, listen); err != nil {
		return err
	}
	var flags []string
	if listen != "" {
		flags = []string{"--listen", listen}
	}
	if _, _, err := e.stopDaemon(ctx, false); err != nil {
		return err
	}
	if _, err := e.startDaemon(ctx, flags); err != nil {
		return err
	}
	if old.Pid == 0 {
		return e.showDaemon(ctx, "started")
	}
	return e.showDaemon(ctx, "restarted")
}

// mayRestart fails when the daemon old (zero: none runs) cannot be replaced by one in the background.
func (e *Env) mayRestart(old api.Daemon, listen string) error {
	f := fault.New(fault.Conflict, "daemon-foreground")
	switch {
	case old.Up:
		return f.Saying("the daemon is `mcpx up` (pid %d), which runs in a terminal", old.Pid).Hinting("end it there with Ctrl-C, then run it again")
	case old.Pid != 0 && !old.Detached:
		return f.Saying("the daemon is `mcpx serve` (pid %d), which was not started in the background", old.Pid).
			Hinting("end it with `mcpx daemon stop`; whoever started it starts it again")
	}
	if _, err := telemetry.ParseLevels(e.Getenv("MCPX_LOG")); err != nil {
		return err
	}
	paths, err := e.Paths()
	if err != nil {
		return err
	}
	return daemon.Rehearse(paths, e.Getenv, listen, old.Listener)
}

var daemonStatus = Command{
	Path: "daemon status", Short: "Say whether the daemon runs", Op: "daemon.status",
	Long:    "Exit code 0 when it runs, 1 when it does not. It never starts one.",
	Example: "mcpx daemon status\nmcpx daemon status --json",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		client, err := e.Daemon()
		if err != nil {
			return err
		}
		d, err := client.DaemonStatus(ctx, api.None{})
		if down(err) {
			if err := e.Show(outcome{State: "stopped"}, func(w io.Writer) { line(w, "No daemon is running. Start it with `mcpx daemon start`.") }); err != nil {
				return err
			}
			return errAnswerNo
		}
		if err != nil {
			return err
		}
		return e.Show(outcome{State: "running", Daemon: &d}, func(w io.Writer) { pairs(w, e.aboutDaemon(d)) })
	},
}

// aboutDaemon is the daemon in names and values.
func (e *Env) aboutDaemon(d api.Daemon) [][2]string {
	rows := [][2]string{
		{"daemon", fmt.Sprintf("running, pid %d, version %s, up %s", d.Pid, d.Version, age(e.Now().Sub(d.Started)))},
		{"servers at", d.Base + "/servers/NAME/mcp"},
		{"socket", d.Socket},
	}
	if paths, err := e.Paths(); err == nil {
		rows = append(rows, [2]string{"state", paths.State}, [2]string{"settings", paths.Settings()})
	}
	if d.LogFile != "" {
		rows = append(rows, [2]string{"log", d.LogFile})
	}
	if d.ReadOnly != "" {
		rows = append(rows, [2]string{"read-only", d.ReadOnly})
	}
	return rows
}
