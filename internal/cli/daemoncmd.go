package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
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
		"terminal it ends it).\n" +
		"One daemon runs for each MCPX_HOME; a second one exits with code 75 and names the first.",
	Example: "mcpx serve\nmcpx serve --listen 127.0.0.1:31000",
	Flags: []Flag{
		listenFlag,
		{Name: "detached", Kind: BoolFlag, Hidden: true, Usage: "started by another mcpx: log to a file, tell on descriptor 3 when ready"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		detached := a.Bool("detached")
		d, err := e.serve(ctx, a, detached, nil)
		if detached {
			_ = signalReady(err) // the command that started us may have left: the daemon runs on
		}
		if err != nil {
			return err
		}
		return e.untilStopped(ctx, d, process.IsInit()) // nothing outlives the first process of a container
	},
}

// serve starts a daemon in this process.
func (e *Env) serve(ctx context.Context, a Args, detached bool, change func(*daemon.Config)) (*daemon.Daemon, error) {
	paths, err := e.Paths()
	if err != nil {
		return nil, err
	}
	levels, err := telemetry.ParseLevels(e.Getenv("MCPX_LOG"))
	if err != nil {
		return nil, err
	}
	c := daemon.Config{
		Paths: paths, Version: e.Version, Listen: a.String("listen"), Getenv: e.Getenv, Environ: os.Environ(),
		Now: e.Now, Log: telemetry.NewLogger(e.Err, e.logs, levels),
	}
	if c.Exe, err = os.Executable(); err != nil {
		return nil, fault.New(fault.Internal, "self-unknown").Saying("the path of this program is not known").Because(err)
	}
	if detached {
		if err := api.MakePrivate(paths.Logs()); err != nil {
			return nil, err
		}
		c.LogFile = filepath.Join(paths.Logs(), "mcpx.log")
		file, err := telemetry.OpenFile(c.LogFile, telemetry.LogFileBytes, telemetry.LogFiles)
		if err != nil {
			return nil, fault.New(fault.Unavailable, "state-unwritable").Saying("the log %s cannot be opened", c.LogFile).Because(err)
		}
		c.Log = telemetry.NewLogger(file, false, levels)
		if err := os.Chdir(paths.State); err != nil { // the directory of the command may be removed or unmounted
			return nil, fault.New(fault.Unavailable, "state-unwritable").Saying("cannot enter %s", paths.State).Because(err)
		}
	}
	if change != nil {
		change(&c)
	}
	process.ReapAsInit() // until the process ends
	return daemon.Start(ctx, c)
}

// untilStopped lets the daemon run until a signal or a caller of the API ends it. With children the servers end too, also
// when a caller did not ask for it.
func (e *Env) untilStopped(ctx context.Context, d *daemon.Daemon, children bool) error {
	asked := false
	defer func() {
		if asked && d.About().Up {
			e.Note("mcpx up ended: somebody ran `mcpx daemon stop`")
		}
	}()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer cancel()
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case more := <-d.StopAsked():
			children = children || more
			running, asked = false, true
		case <-hangup:
			if e.logs { // the terminal was closed
				running = false
			} else {
				d.Reload(ctx)
			}
		}
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // a second signal ends the process at once
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer done()
	return d.Stop(stop, children)
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
	Long: "It returns when the process has ended. Supervised servers are left to their supervisors; the next daemon ends\n" +
		"what it finds, and without one they end after ten minutes. --children ends them now, also when no daemon runs.",
	Example: "mcpx daemon stop\nmcpx daemon stop --children",
	Flags:   []Flag{{Name: "children", Kind: BoolFlag, Usage: "end the processes of all servers too"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		state, ended, err := e.stopDaemon(ctx, a.Bool("children"))
		if err != nil {
			return err
		}
		return e.Show(outcome{State: state, Ended: ended}, func(w io.Writer) {
			switch {
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

func (e *Env) stopDaemon(ctx context.Context, children bool) (state string, ended int, err error) {
	client, err := e.Daemon()
	if err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(e.operation(ctx), stopWithin)
	defer cancel()
	if _, err := client.DaemonStop(ctx, api.StopDaemon{Children: children}); !down(err) {
		return "stopped", 0, err
	}
	if children {
		paths, err := e.Paths()
		if err != nil {
			return "", 0, err
		}
		if ended, err = daemon.EndChildren(ctx, paths, e.Version, e.Now()); err != nil {
			return "", 0, err
		}
	}
	return "already_stopped", ended, nil
}

var daemonRestart = Command{
	Path: "daemon restart", Short: "Stop the daemon and start it again",
	Long: "Use it after an upgrade of mcpx or a change of a setting that waits for a restart. Settings and address are\n" +
		"checked first: when the new daemon could not start, the old one goes on. An address that was\n" +
		"given with --listen is kept. Clients of `mcpx connect` do not notice; HTTP clients connect again.\n" +
		"This version ends the servers and starts them again with the next call; their in-memory state is lost.",
	Example: "mcpx daemon restart",
	Flags:   []Flag{listenFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		client, err := e.Daemon()
		if err != nil {
			return err
		}
		old, err := client.DaemonStatus(ctx, api.None{})
		if err != nil && !away(err) {
			return err
		}
		listen := a.String("listen")
		if !a.Given("listen") && old.ListenFlag {
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
		return e.showDaemon(ctx, "restarted")
	},
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
		{"home", d.Home},
	}
	if d.LogFile != "" {
		rows = append(rows, [2]string{"log", d.LogFile})
	}
	return rows
}
