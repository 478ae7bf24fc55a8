// Package daemon decides how the parts become one program: the graph of stores, gateway, adapters and listeners, the
// order in which they start and stop, who owns a home, and the settings. It refuses to know what the parts do.
//
// Invariant: between Start and Stop exactly one process holds the lock of the home, and only it opens the database and
// the sockets.
package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/auth"
	"mcpx/internal/clientfile"
	"mcpx/internal/control"
	"mcpx/internal/converge"
	"mcpx/internal/crash"
	"mcpx/internal/event"
	"mcpx/internal/gateway"
	"mcpx/internal/httpedge"
	"mcpx/internal/id"
	"mcpx/internal/key"
	"mcpx/internal/localapi"
	"mcpx/internal/operation"
	"mcpx/internal/process"
	"mcpx/internal/secret"
	"mcpx/internal/sqlite"
	"mcpx/internal/store"
	"mcpx/internal/telemetry"
	"mcpx/internal/tools"
	"mcpx/internal/watch"
	"mcpx/internal/work"
)

// Config is what a daemon needs. Everything is required except Listen, LogFile and Overlay.
type Config struct {
	Paths   api.Paths
	Version string
	Exe     string   // path of this program; supervisors are started from it
	Environ []string // environment of this process; children get the allow-listed part of it
	Getenv  func(string) string
	Now     func() time.Time
	Log     *slog.Logger
	LogFile string // where Log goes, when it goes to a file
	Listen  string // address of the loopback listener from a flag; "" takes the setting
	// Overlay is offered beside the catalog for the life of this daemon. It is never written.
	Overlay Offered
	// Take are the listeners of the daemon whose place this one takes; nil: it opens its own.
	Take *Taken
}

// Daemon is a running daemon.
type Daemon struct {
	cfg      Config
	log      *slog.Logger
	reloads  sync.Mutex // guards settings and policies after the start
	settings Settings
	policies Policies
	rules    *projectRules
	orphans  func(time.Duration) // tells new supervisors how long to wait for a daemon
	about    api.Daemon

	lock      *atomicfile.Lock
	db        store.DB
	worker    *work.Service
	jobOutput func(context.Context, operation.OutputAt) (operation.JobOutput, error) // nil: no commands are run here
	jobAbove  func(line []int) (job string, err error)                               // of a process and its ancestors; nil: no commands are run here
	redact    secret.Redactor
	secrets   *secret.Resolver
	signIns   *httpedge.SignIns
	gateway   *gateway.Gateway
	control   *control.Control
	local     *localapi.Server
	loopback  *localapi.Loopback
	gate      *httpedge.Gate
	front     *httpedge.Front
	public    *public
	tcp       net.Listener
	unix      net.Listener
	serving   bool // start succeeded: the socket in the file system is ours
	loop      *loop
	catalog   *loop // of config/catalog
	heads     *loop // of the end of the log
	keeper    *keeper
	pruning   *loop                         // of keeper
	watcher   atomic.Pointer[watch.Watcher] // nil: nothing is watched

	hand      sync.Mutex      // held while a hand-over runs, and for good when this daemon let go
	letgo     bool            // guarded by hand
	ending    context.Context // done when Stop was called: a hand-over that only prepares is given up
	end       context.CancelFunc
	succeeded chan Succession

	asked chan bool // a caller of the API wants the end; the value says whether children end too
	stop  sync.Once
	err   error // of the one stop
}

// Start starts a daemon, or leaves nothing behind: a step that fails undoes the steps before it.
func Start(ctx context.Context, c Config) (*Daemon, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	ending, end := context.WithCancel(context.WithoutCancel(ctx))
	d := &Daemon{ending: ending, end: end, cfg: c, log: telemetry.For(c.Log, "daemon"), asked: make(chan bool, 1), succeeded: make(chan Succession, 1)}
	if err := d.start(ctx); err != nil {
		// The start failed, whatever ended ctx: what was opened is closed in any case. Servers that an earlier daemon left
		// wait for one that can start.
		return nil, errors.Join(err, d.release(context.WithoutCancel(ctx), false))
	}
	crash.Point("daemon.started")
	d.log.LogAttrs(ctx, slog.LevelInfo, "daemon started", slog.Int(key.Pid, d.about.Pid), slog.String(key.Addr, d.about.Listener),
		slog.String(key.Version, c.Version), slog.Uint64(key.Epoch, d.about.Epoch))
	return d, nil
}

func (c Config) check() error {
	switch {
	case c.Paths.State == "":
		return errors.New("daemon: Config.Paths is required")
	case c.Exe == "" || c.Version == "":
		return errors.New("daemon: Config.Exe and Config.Version are required")
	case c.Getenv == nil || c.Now == nil || c.Log == nil:
		return errors.New("daemon: Config.Getenv, Config.Now and Config.Log are required")
	}
	return CheckHome(c.Getenv)
}

func (d *Daemon) start(ctx context.Context) error {
	c := d.cfg
	if err := api.MakePrivate(c.Paths.State); err != nil {
		return err
	}
	crash.Point("daemon.state-made")
	me := owner{Pid: os.Getpid(), Started: c.Now().UTC(), Version: c.Version, Listener: c.Listen, Given: c.Listen != ""}
	var err error
	grace := lockGrace
	if c.Take != nil {
		grace = takeGrace
	}
	if d.lock, err = own(ctx, c.Paths, grace); err != nil {
		return err
	}
	if c.Take == nil { // else clients wait: the name is written when they are served
		if err := me.write(c.Paths); err != nil {
			return err
		}
	}
	crash.Point("daemon.locked")
	if d.settings, err = LoadSettings(c.Paths.Settings(), c.Getenv); err != nil {
		return err
	}
	if c.Listen != "" {
		if err := d.settings.Override("listener.address", "--listen", c.Listen); err != nil {
			return err
		}
	}
	if d.policies, err = LoadPolicy(c.Paths.Policy()); err != nil {
		return err
	}
	if c.Take != nil {
		d.tcp, d.unix = c.Take.TCP, c.Take.Unix
	} else if d.tcp, err = listenLoopback(d.settings.ListenerAddress); err != nil {
		return err
	}
	crash.Point("daemon.port-bound")
	if err := d.build(ctx, d.tcp.Addr().String(), me); err != nil {
		return err
	}
	crash.Point("daemon.built")
	if d.unix == nil {
		if d.unix, err = listenSocket(c.Paths); err != nil {
			return err
		}
	}
	crash.Point("daemon.socket-bound")
	// The routes are loaded: from here on whoever connects gets an answer.
	d.loopback.Serve(d.tcp)
	d.local.Serve(d.unix)
	d.control.OpenRemote()
	d.serving = true
	crash.Point("daemon.listening")
	me.Listener = d.about.Listener
	if err := me.write(c.Paths); err != nil {
		return err
	}
	d.heads = d.noteHeads()
	d.catalog = d.watchCatalog()
	d.pruning = d.startKeeper()
	if d.settings.Watch {
		d.loop = d.startLoop()
	}
	return nil
}

// build makes the graph, from the database up.
func (d *Daemon) build(ctx context.Context, address string, me owner) error {
	c := d.cfg
	readOnly, err := d.inspect(ctx)
	if err != nil {
		return err
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Path: c.Paths.Database(), Backups: backups(c.Paths), Now: c.Now, ReadOnly: readOnly})
	if err != nil {
		return err
	}
	crash.Point("daemon.db-open")
	d.db = db
	var last event.Event // of an earlier daemon
	if err := db.View(ctx, func(r store.Reader) error {
		last, err = r.EventHead(ctx)
		return err
	}); err != nil {
		return err
	}
	epoch, err := nextEpoch(ctx, db)
	if err != nil {
		return err
	}
	crash.Point("daemon.epoch-raised")
	d.about = api.Daemon{
		Pid: me.Pid, Started: me.Started, Version: c.Version, Level: api.Level, Epoch: uint64(epoch),
		Listener: address, ListenFlag: c.Listen != "", Base: "http://" + address, Socket: c.Paths.Socket(), Home: filepath.Dir(c.Paths.State),
		Detached: c.LogFile != "", LogFile: c.LogFile, Up: len(c.Overlay.Servers) > 0,
	}
	tails := telemetry.NewTails(c.Now, d.redact.Text)
	guard := &control.ToolGuard{}
	if d.gateway, err = d.newGateway(epoch, tails, guard); err != nil {
		return err
	}
	files, err := d.newFiles()
	if err != nil {
		return err
	}
	seal, err := stateKey(c.Paths)
	if err != nil {
		return err
	}
	if err := d.newWorker(seal); err != nil {
		return err
	}
	if d.keeper, err = d.newKeeper(ctx, last.At); err != nil {
		return err
	}
	certificates := newCertificates(d)
	d.public = &public{log: telemetry.For(c.Log, "httpedge")}
	d.control, err = control.New(control.Config{
		DB: db, Gateway: d.gateway, Logs: logs{tails}, Reach: d.reach, Observe: d.observe, Tools: guard, CatalogFiles: d.catalogFiles, Spell: spell, Target: files, Look: d.look, Agents: d.agents, ParseAgent: parseAgent,
		Person: d.person, CheckBackup: d.checkBackup, NotedHead: d.notedHead, Policy: d.policyNow, TokenOnly: d.tokenOnly, Certificates: certificates.all, KeepCertificate: certificates.keep, Watching: d.watching, Adapter: clientfile.AdapterVersion, Program: c.Exe,
		Secrets: d.secrets, Resident: resident, Daemon: d.about, Stop: d.askStop, Restart: d.Restart, Reload: d.reload,
		Directories: directories{d}, HandoffKey: workKey(seal), Holds: d.worker, Work: d.worker, Repositories: d.worker, Retention: d.keeper, Output: d.jobOutput,
		Remote: d.public, RemoteKey: derivedKey(seal, "ids of clients over OAuth"), Documents: httpedge.NewDocuments(c.Now, auth.Outside).Client,
		SignIns: d.signIns, Issued: httpedge.NewProvider(c.Now).Verify,
		TokenFiles: tokenFiles{c.Paths}, Random: rand.Reader, ProbeHub: d.probeHub,
		IDs: id.NewSource(c.Now, rand.Reader), Now: c.Now, Log: telemetry.For(c.Log, "control"), Overlay: c.Overlay.Servers,
	})
	if err != nil {
		return err
	}
	crash.Point("daemon.graph-made")
	if err := d.control.Load(ctx); err != nil {
		return err
	}
	crash.Point("daemon.catalog-loaded")
	d.registerBase(ctx)
	d.lookAtProjects(ctx)
	// Before anybody can ask for the next change: an apply that was cut off is finished or undone.
	if err := d.control.RecoverApplies(ctx); err != nil {
		return err
	}
	crash.Point("daemon.applies-recovered")
	d.recoverOperations(ctx)
	crash.Point("daemon.operations-recovered")
	if err := d.gateway.Restore(ctx); err != nil {
		d.log.LogAttrs(ctx, slog.LevelError, "not everything of an earlier daemon goes on", slog.Any(key.Cause, err))
	}
	crash.Point("daemon.restored")
	return d.buildEdges()
}

// buildEdges makes what listens.
func (d *Daemon) buildEdges() error {
	d.gate = httpedge.NewGate(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.cfg.Paths.Socket())
	}, telemetry.For(d.cfg.Log, "httpedge"))
	front, err := httpedge.NewFront(httpedge.FrontConfig{
		Gateway: d.gateway, Log: telemetry.For(d.cfg.Log, "httpedge"), Gate: d.gate,
		Admission: d.admission(), Token: d.control.Bearer, Foreign: d.control.OriginDenied, Stranger: d.control.UserDenied,
	})
	if err != nil {
		return err
	}
	d.front = front
	routes, err := d.routes(front)
	if err != nil {
		return err
	}
	log := telemetry.For(d.cfg.Log, "localapi")
	d.loopback, err = localapi.NewLoopback(localapi.LoopbackConfig{
		Routes: routes, ConnContext: httpedge.ConnContext, Guard: front.Guard, Health: d.live, Log: log,
		Gate: front.Loopback, ConnState: d.gate.ConnState,
	})
	if err != nil {
		return err
	}
	d.local, err = localapi.New(localapi.Config{
		Service: d.control, SameUser: sameUser, Stranger: d.control.UserDenied, Routes: routes, ConnContext: identifyCaller, Log: log,
		Gate: d.gate.Local, ConnState: d.gate.ConnState, Relayed: httpedge.WasRelayed, Token: d.control.NoToken,
	})
	return err
}

// routes are the servers of the catalog, and mcp_hub and the runtime, which are none of them.
func (d *Daemon) routes(servers tools.Handler) (tools.Handler, error) {
	key, err := stateKey(d.cfg.Paths)
	if err != nil {
		return nil, err
	}
	hub, err := tools.NewHub(tools.HubConfig{
		Service: d.control, Authenticate: d.control.Authenticate, Key: derivedKey(key, "sessions of mcp_hub"), Version: d.cfg.Version, Now: d.cfg.Now, Log: telemetry.For(d.cfg.Log, "tools"),
	})
	if err != nil {
		return nil, err
	}
	runtime, err := d.runtime()
	if err != nil {
		return nil, err
	}
	d.public.server = d.publicServer(runtime)
	return tools.Beside(servers, hub, runtime), nil
}

// admission is whom the loopback listener lets in, by the settings.
func (d *Daemon) admission() httpedge.Admission {
	return httpedge.Admission{Hosts: d.settings.AllowedHosts, TokenOnly: d.settings.LoopbackAuth == AuthToken}
}

// policyNow is the policy about plans that is in force, policiesNow all of them; tokenOnly says whether the loopback listener
// asks everybody for a token.
func (d *Daemon) policyNow() converge.Policy { return d.policiesNow().Plans }

func (d *Daemon) policiesNow() Policies {
	d.reloads.Lock()
	defer d.reloads.Unlock()
	return d.policies
}

func (d *Daemon) tokenOnly() bool {
	d.reloads.Lock()
	defer d.reloads.Unlock()
	return d.settings.LoopbackAuth == AuthToken
}

// live is the health of the daemon that serves now.
func (d *Daemon) live(ctx context.Context) api.HealthState {
	if !d.gate.HasMoved() {
		return d.control.Live(ctx)
	}
	health, err := api.NewClient(d.cfg.Paths.Socket()).Health(ctx, api.HealthQuery{})
	if err != nil {
		return api.HealthDegraded
	}
	return health.State
}

// backups is the directory for copies of the database.
func backups(paths api.Paths) string { return filepath.Join(paths.State, "backups") }

// EndChildren ends the servers that an earlier daemon left with their supervisors. It fails while a daemon runs.
func EndChildren(ctx context.Context, paths api.Paths, version string, now time.Time) (ended int, err error) {
	if _, err := os.Stat(paths.State); os.IsNotExist(err) {
		return 0, nil
	}
	lock, err := own(ctx, paths, lockGrace)
	if err != nil {
		return 0, err
	}
	if err := (owner{Pid: os.Getpid(), Started: now.UTC(), Version: version}).write(paths); err != nil {
		return 0, errors.Join(err, lock.Release())
	}
	ended, err = sweep(ctx, paths)
	_ = os.Remove(paths.Socket()) // of a daemon that was killed; usually there is none
	if removeErr := os.Remove(paths.Owner()); err == nil {
		err = removeErr
	}
	return ended, errors.Join(err, lock.Release())
}

// StopAsked gives a value when a caller of the API wants the daemon to end; it says whether children end too.
func (d *Daemon) StopAsked() <-chan bool { return d.asked }

func (d *Daemon) askStop(children bool) {
	select {
	case d.asked <- children:
	default: // the end has been asked for already
	}
}

// About describes the daemon.
func (d *Daemon) About() api.Daemon { return d.about }

// Reload reads settings and catalog again. What needs a restart is told and left; a file that does not load changes
// nothing.
func (d *Daemon) Reload(ctx context.Context) {
	if _, err := d.reload(ctx); err != nil {
		d.log.LogAttrs(ctx, slog.LevelError, "settings not reloaded", slog.Any(key.Cause, err))
	}
}

func (d *Daemon) reload(ctx context.Context) (api.Reloaded, error) {
	next, err := LoadSettings(d.cfg.Paths.Settings(), d.cfg.Getenv)
	if err != nil {
		return api.Reloaded{}, err
	}
	policies, err := LoadPolicy(d.cfg.Paths.Policy())
	if err != nil {
		return api.Reloaded{}, err
	}
	out := d.take(next, policies)
	if out.Servers, out.Problems, err = d.control.Reapply(ctx); err != nil {
		return api.Reloaded{}, err
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "settings reloaded", slog.Any(key.Applied, out.Applied), slog.Any(key.NeedsRestart, out.NeedsRestart))
	return out, nil
}

// take puts what can change without a restart in force.
func (d *Daemon) take(next Settings, policies Policies) api.Reloaded {
	d.reloads.Lock()
	defer d.reloads.Unlock()
	var out api.Reloaded
	out.Applied, out.NeedsRestart = d.settings.Changed(next)
	d.settings.take(next, out.Applied)
	if !reflect.DeepEqual(policies, d.policies) {
		out.Applied = append(out.Applied, "policy")
	}
	d.policies = policies
	d.front.Admit(d.admission())
	if d.orphans != nil {
		d.orphans(d.settings.OrphanTTL)
	}
	return out
}

// Stop ends the daemon in order: nothing new gets in, calls get their answers, children are left to their supervisors
// or, with children, ended; then the database closes and the lock is free. Safe to call twice. A daemon that lets go at
// this moment is not stopped: HandedOver has a value then.
func (d *Daemon) Stop(ctx context.Context, children bool) error {
	d.end()
	d.hand.Lock()
	defer d.hand.Unlock()
	if d.letgo {
		return nil // nothing is left of it; HandedOver says who serves
	}
	d.stop.Do(func() {
		d.err = d.release(ctx, children)
		d.log.LogAttrs(ctx, slog.LevelInfo, "daemon stopped", slog.Int(key.Pid, d.about.Pid))
	})
	return d.err
}

// Close lets go the callers that wait for the end of the process. A daemon process does not need it: it exits.
func (d *Daemon) Close() {
	if d.local != nil {
		d.local.Close()
	}
}

// sweepWithin bounds the end of children that are no lane's: the ladder has 7 s.
const sweepWithin = 10 * time.Second

// linger is how long the edges may take to write answers after the gateway gave every call its own.
const linger = 2 * time.Second

// release undoes what start did, as far as it came.
func (d *Daemon) release(ctx context.Context, children bool) error {
	crash.Point("daemon.stopping")
	d.catalog.stop(ctx)
	d.loop.stop(ctx)
	d.pruning.stop(ctx)
	// The edges refuse what is new from now on, and wait for what is in work; the gateway ends that.
	edges, cut := context.WithCancel(ctx)
	defer cut()
	var closing sync.WaitGroup
	if d.public != nil {
		closing.Go(d.public.Shut)
	}
	if d.loopback != nil {
		closing.Go(func() { d.loopback.Stop(edges) })
	}
	if d.local != nil {
		closing.Go(func() {
			if err := d.local.Stop(edges); err != nil {
				d.log.LogAttrs(ctx, slog.LevelWarn, "requests cut at the end", slog.Any(key.Cause, err))
			}
		})
	}
	var errs []error
	if d.gateway != nil {
		errs = append(errs, d.gateway.Stop(ctx, children))
	}
	if children && d.lock != nil {
		// What was not adopted ends, too: supervisors that did not answer, or that just began.
		rest, swept := context.WithTimeout(ctx, sweepWithin)
		_, err := sweep(rest, d.cfg.Paths)
		swept()
		errs = append(errs, err)
	}
	if d.worker != nil {
		d.worker.Stop() // what has begun is recorded before the database closes
	}
	crash.Point("daemon.gateway-stopped")
	late := time.AfterFunc(linger, cut)
	closing.Wait()
	late.Stop()
	if d.control != nil {
		d.control.FlushRefusals()
		errs = append(errs, d.control.FlushTokens(ctx))
	}
	d.heads.stop(ctx)
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	if !d.serving {
		for _, l := range []net.Listener{d.tcp, d.unix} {
			if l != nil {
				errs = append(errs, l.Close())
			}
		}
	}
	crash.Point("daemon.db-closed")
	if d.lock != nil {
		// The files go before the lock: the next owner makes its own.
		files := []string{d.cfg.Paths.Owner(), d.cfg.Paths.Socket()}
		if !d.serving && d.cfg.Take != nil {
			files = files[:1] // the one that let go takes its socket back
		}
		for _, path := range files {
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				errs = append(errs, err)
			}
		}
		crash.Point("daemon.socket-removed")
		errs = append(errs, d.lock.Release())
	}
	crash.Point("daemon.unlocked")
	return errors.Join(errs...)
}

func sameUser(conn net.Conn) (bool, error) {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return false, fmt.Errorf("daemon: %T is no unix socket", conn)
	}
	peer, err := process.PeerOf(unix)
	return err == nil && peer.UID == os.Geteuid(), err
}

func resident(pid int) int64 {
	m, err := process.MemoryOf(pid)
	if err != nil {
		return 0 // the process ended, or the system does not tell
	}
	return m.RSS
}

// logs shows the output of servers to control.
type logs struct{ *telemetry.Tails }

func (l logs) Read(ctx context.Context, server string, lines int, follow bool, emit func(api.LogLine) error) error {
	return l.Tails.Read(ctx, server, lines, follow, func(one telemetry.Line) error {
		return emit(api.LogLine{Time: one.Time, Text: one.Text})
	})
}
