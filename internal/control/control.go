// Package control decides what every operation of the local API means: who may do it, what is checked, what is written
// in one transaction, and what the gateway is told afterwards. It refuses to know sockets, HTTP, SQL and processes:
// those are ports that daemon joins.
//
// Invariant: every change of state passes here, and what the gateway routes is what the last committed change says.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// Gateway is the data path as control needs it.
type Gateway interface {
	Apply(entries []catalog.Server)
	Restart(name string) error
	Status() []gateway.ServerStatus
	Counters() gateway.Counters
	Call(ctx context.Context, r gateway.Request) ([]byte, error)
}

// Logs is the output of servers.
type Logs interface {
	Read(ctx context.Context, server string, lines int, follow bool, emit func(api.LogLine) error) error
	Forget(server string)
}

// Config is what a Control needs. Everything is required except Overlay.
type Config struct {
	DB      store.DB
	Gateway Gateway
	Logs    Logs
	// Reach looks quickly whether a server could be started or connected to. It starts nothing.
	Reach func(ctx context.Context, s catalog.Server) error
	// Observe reads the configuration files of agents. It writes nothing.
	Observe func(ctx context.Context, look converge.Look) (converge.Observation, error)
	// Tools is the guard that the gateway was given.
	Tools *ToolGuard
	// CatalogFiles reads config/catalog.
	CatalogFiles func() []catalog.File
	// Spell writes entries as a file of an agent. Dropped leads from the name of a server to what the agent cannot be told.
	Spell func(agent string, forms []converge.Form) (document []byte, format string, dropped map[string]string, err error)
	// Target reads and writes them, inside of a plan only.
	Target converge.Target
	// Look is where the daemon itself looks for the files of agents.
	Look func() converge.Look
	// Agents are the coding agents that are known, with their programs on this machine; ParseAgent reads a name of one.
	Agents     func() []api.Agent
	ParseAgent func(name string) (string, error)
	// Person says where the process is, and why its word does not count as that of a person if it does not.
	Person func(pid int) (Asker, error)
	// CheckBackup compares a backup with what its receipt says of it.
	CheckBackup func(receipt string, f converge.Written) error
	// NotedHead is the last event of the log as it was noted beside the database; zero nothing was.
	NotedHead func() (event.Head, error)
	// Policy is what config/policy.toml says now; TokenOnly whether the loopback listener asks everybody for a token.
	Policy    func() converge.Policy
	TokenOnly func() bool
	// Certificates are those of the agents that have one, by agent. KeepCertificate puts one in the place of another; it fails
	// with Invalid certificate-invalid when it is of another agent, or none.
	Certificates    func(ctx context.Context) map[string]converge.Certificate
	KeepCertificate func(agent string, data []byte) error
	// Watching says how soon a change of a file is noticed.
	Watching func() converge.Watching
	// Adapter is the version of the code that reads and writes the files; Program the path of mcpx.
	Adapter, Program string
	// Secrets keeps and finds the values of credentials.
	Secrets Secrets
	// Resident is the memory of a process in bytes, 0 when the system does not tell.
	Resident func(pid int) int64
	Daemon   api.Daemon
	// Stop begins the end of the daemon and returns at once.
	Stop func(children bool)
	// Restart lets another process take the place of the daemon and returns when that one serves, or nothing changed.
	Restart func(ctx context.Context, in api.RestartDaemon) (api.Restarted, error)
	// Reload reads the settings again and calls Reapply.
	Reload func(ctx context.Context) (api.Reloaded, error)
	// TokenFiles holds the values of the agents' tokens; Random are the bytes that they are made of.
	TokenFiles TokenFiles
	Random     io.Reader
	// ProbeHub asks mcp_hub with a token, "" without one, and says whether it was let in.
	ProbeHub func(ctx context.Context, token string) (in bool, err error)
	// Directories says what is where projects are; HandoffKey makes the tokens of hand-overs, the same as for the tools.
	Directories Directories
	HandoffKey  []byte
	// Remote is the listener for clients of other machines; RemoteKey seals the ids of such clients.
	Remote    RemoteListener
	RemoteKey []byte
	// SignIns is mcpx as client of servers that ask for a sign-in.
	SignIns SignIns
	// Documents loads what a client says of itself at the URL that is its id.
	Documents func(ctx context.Context, id string) (auth.Client, error)
	// Issued verifies an access token that an issuer which is not ours gave for a resource.
	Issued func(ctx context.Context, issuer, resource, token string) (auth.External, error)
	// Holds are the operations at /mcp that wait for a person.
	Holds Holds
	// Work carries out the tools of /mcp.
	Work Work
	// Repositories says what the repository of a project can start now.
	Repositories Repositories
	Retention    Retention
	// Output reads what a job wrote; nil where no commands are run.
	Output func(ctx context.Context, at operation.OutputAt) (operation.JobOutput, error)
	IDs    *id.Source
	Now    func() time.Time
	Log    *slog.Logger
	// Overlay is routed beside the catalog for the life of this daemon and never written. Its entries have ids.
	Overlay []catalog.Server
}

// Asker is where a process that asks for what only a person decides is found.
type Asker struct {
	Terminal string
	// Server or Job is what started it: then it is no person, whatever terminal it has.
	Server, Job string
}

// refs are what an event about a refusal is about, too.
func (a Asker) refs(of event.Refs) event.Refs {
	refs := maps.Clone(of)
	for name, value := range map[event.Ref]string{event.RefServer: a.Server, event.RefJob: a.Job} {
		if value != "" {
			refs[name] = value
		}
	}
	return refs
}

// Holds are the operations that wait for a person.
type Holds interface {
	// Ended ends the operation that waits for an approval, in the transaction in which that was denied, expired or revoked.
	Ended(ctx context.Context, tx store.Tx, by event.Actor, a approval.Approval) error
	// Withdraw revokes what is asked for a session that is closed, and ends what waits for it.
	Withdraw(ctx context.Context, tx store.Tx, by event.Actor, session string) error
	// Resolve writes down what somebody says who has looked how an operation ended, or gives up one that waits. The error
	// may be a *operation.Refusal.
	Resolve(ctx context.Context, tx store.Tx, by event.Actor, name operation.Name, v operation.Verdict) (operation.Operation, error)
}

// Work carries out the tools of /mcp for people: what it does goes through the same ledger as what agents do.
type Work interface {
	// ForPerson carries out a call of the person who owns the daemon.
	ForPerson(ctx context.Context, by event.Actor, tool string, args json.RawMessage) operation.Answer
	// Verify reads a whole build for that person. read is told of bytes as they are read, by several at once.
	Verify(ctx context.Context, by event.Actor, build string, read func(bytes int)) operation.Answer
	// Look says how a workspace stands, as far as it can be told before ctx ends.
	Look(ctx context.Context, w workspace.Workspace) workspace.Sight
	// Bundles is what the last integration that was tried has left about conflicts on these paths, in their order.
	Bundles(ctx context.Context, w workspace.Workspace, paths []string) ([]workspace.Bundle, error)
}

// Control is the api.Service of the daemon.
type Control struct {
	cfg     Config
	overlay map[string]catalog.Server // what is left of Config.Overlay, by name; set by Load

	// files is held while files of agents are looked at for plans and while they are written: one audit, apply or rollback
	// at a time. It ranks above change.
	files sync.Mutex

	tokens tokens
	remote remote

	stirred chan struct{} // has a value when plans may have to be made anew

	seeing   sync.Mutex      // guards these
	seen     *converge.World // files and findings of the last audit; nil: this daemon has made none
	audited  time.Time       // when everything was looked at
	projects []string        // at which the last audit looked
	left     int             // known projects at which it did not
	wrote    []string        // programs that receipts wrote as mcpx

	// change is held over commit and Apply, so that the gateway sees the changes in the order of their commits. It
	// ranks above every lock of the gateway.
	change sync.Mutex

	filing sync.Mutex // guards filed; a leaf
	filed  filed

	// keeping is held over a change of the store of values and that of its record. It ranks below change.
	keeping sync.Mutex
}

var _ api.Service = (*Control)(nil)

// New makes a Control. Load must be called before the first operation.
func New(c Config) (*Control, error) {
	for _, need := range []struct {
		name string
		nil  bool
	}{
		{"DB", c.DB == nil},
		{"Gateway", c.Gateway == nil},
		{"Logs", c.Logs == nil},
		{"Reach", c.Reach == nil},
		{"Observe", c.Observe == nil},
		{"Tools", c.Tools == nil},
		{"CatalogFiles", c.CatalogFiles == nil},
		{"Spell", c.Spell == nil},
		{"Target", c.Target == nil},
		{"Look", c.Look == nil},
		{"Agents", c.Agents == nil},
		{"ParseAgent", c.ParseAgent == nil},
		{"Person", c.Person == nil},
		{"CheckBackup", c.CheckBackup == nil},
		{"Policy", c.Policy == nil},
		{"TokenOnly", c.TokenOnly == nil},
		{"Certificates", c.Certificates == nil},
		{"KeepCertificate", c.KeepCertificate == nil},
		{"Watching", c.Watching == nil},
		{"Adapter", c.Adapter == ""},
		{"Program", c.Program == ""},
		{"Secrets", c.Secrets == nil},
		{"SignIns", c.SignIns == nil},
		{"Resident", c.Resident == nil},
		{"Stop", c.Stop == nil},
		{"Restart", c.Restart == nil},
		{"Reload", c.Reload == nil},
		{"TokenFiles", c.TokenFiles == nil},
		{"Remote", c.Remote == nil},
		{"RemoteKey", len(c.RemoteKey) < 32},
		{"Documents", c.Documents == nil},
		{"Issued", c.Issued == nil},
		{"Random", c.Random == nil},
		{"ProbeHub", c.ProbeHub == nil},
		{"Directories", c.Directories == nil},
		{"HandoffKey", len(c.HandoffKey) == 0},
		{"Holds", c.Holds == nil},
		{"Work", c.Work == nil},
		{"Repositories", c.Repositories == nil},
		{"Retention", c.Retention == nil},
		{"IDs", c.IDs == nil},
		{"Now", c.Now == nil},
		{"Log", c.Log == nil},
	} {
		if need.nil {
			return nil, fmt.Errorf("control: Config.%s is required", need.name)
		}
	}
	for _, s := range c.Overlay {
		if s.ID == "" {
			return nil, errors.New("control: Config.Overlay has an entry without an id")
		}
	}
	control := &Control{cfg: c, stirred: make(chan struct{}, 1)}
	c.Tools.control = control
	control.tokens.used, control.tokens.refused, control.tokens.flushed = map[string]time.Time{}, map[string]*refusals{}, c.Now()
	control.tokens.book.Store(auth.NewBook(nil))
	control.remote.consents, control.remote.registrar = auth.NewConsents(), auth.NewRegistrar(c.RemoteKey)
	return control, nil
}

// Load gives the gateway what the catalog says. The daemon calls it once, before it listens.
func (c *Control) Load(ctx context.Context) error {
	c.change.Lock()
	defer c.change.Unlock()
	if err := c.loadTokens(ctx); err != nil {
		return err
	}
	if err := c.loadRemote(ctx); err != nil {
		return err
	}
	if _, err := c.takeFilesLocked(ctx); err != nil {
		return err
	}
	if err := c.placeOverlay(ctx); err != nil {
		return err
	}
	return c.applyLocked(ctx)
}

// Reapply reads config/catalog again, and gives the gateway what the catalog says now. It gives the names of the servers
// of the files that came, changed or went, and what cannot be taken.
func (c *Control) Reapply(ctx context.Context) (changed []string, problems []catalog.FileProblem, err error) {
	c.change.Lock()
	defer c.change.Unlock()
	defer c.stir()
	if changed, err = c.takeFilesLocked(ctx); err != nil {
		return nil, nil, err
	}
	return changed, c.filedNow().problems, c.applyLocked(context.WithoutCancel(ctx))
}

// placeOverlay gives an overlay entry another name when the catalog has its name for another definition, and drops it
// when the catalog has the same definition.
func (c *Control) placeOverlay(ctx context.Context) error {
	var all []catalog.Server
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		all, err = catalog.All(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	taken := map[string]catalog.Server{}
	for _, s := range all {
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			taken[name] = s
		}
	}
	var placed []catalog.Server
	for _, s := range c.cfg.Overlay {
		if old, ok := taken[s.Name]; ok && sameDefinition(old, s) {
			continue
		}
		name := s.Name
		for n := 2; ; n++ {
			if _, ok := taken[s.Name]; !ok {
				break
			}
			s.Name = fmt.Sprintf("%s-%d", name, n)
		}
		taken[s.Name] = s
		placed = append(placed, s)
	}
	c.cfg.Overlay = placed
	c.overlay = make(map[string]catalog.Server, len(placed))
	for _, s := range placed {
		c.overlay[s.Name] = s
	}
	return nil
}

// applyLocked gives the gateway the committed catalog with the overlay. An entry of the catalog wins over an overlay
// entry of the same name: a person decided it.
func (c *Control) applyLocked(ctx context.Context) error {
	all, err := c.entries(ctx)
	if err != nil {
		return err
	}
	trusted, err := c.trusted(ctx)
	if err != nil {
		return err
	}
	if err := c.loadGuard(ctx); err != nil { // before a server is routed
		return err
	}
	c.cfg.Gateway.Apply(append(all, trusted...))
	return nil
}

func (c *Control) entries(ctx context.Context) ([]catalog.Server, error) {
	var all []catalog.Server
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		all, err = catalog.All(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, s := range all {
		taken[s.Name] = true
		for _, alias := range s.Aliases {
			taken[alias] = true
		}
	}
	for _, s := range c.cfg.Overlay {
		if !taken[s.Name] {
			s.Aliases = slices.DeleteFunc(slices.Clone(s.Aliases), func(alias string) bool { return taken[alias] })
			all = append(all, s)
		}
	}
	return all, nil
}

// trusted are the servers of repositories that a person has agreed to, as the gateway has them.
func (c *Control) trusted(ctx context.Context) (all []catalog.Server, err error) {
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		projects, err := session.AllProjects(ctx, r, false)
		if err != nil {
			return err
		}
		trusts, err := r.AllTrusts(ctx)
		for _, t := range trusts {
			if i := slices.IndexFunc(projects, func(p session.Project) bool { return p.ID == t.Project }); i >= 0 {
				all = append(all, t.Servers(projects[i])...)
			}
		}
		return err
	})
	return all, err
}

// mutate runs one change of the catalog and then gives the gateway the result. The commit point is inside Change:
// after it, nothing is undone because the caller left.
func (c *Control) mutate(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	c.change.Lock()
	defer c.change.Unlock()
	if err := c.cfg.DB.Change(ctx, func(tx store.Tx) error { return fn(ctx, tx) }); err != nil {
		return err
	}
	c.stir()
	// The change is durable: the caller may leave, the routes must follow.
	return c.applyLocked(context.WithoutCancel(ctx))
}

// allow checks the permission of an operation before anything else happens. The owner has all of them; an agent may read
// about itself, and nothing else.
func (c *Control) allow(ctx context.Context, name string) error {
	op, ok := api.Find(name)
	if !ok {
		panic("control: no row " + name)
	}
	p, proved := api.PrincipalOf(ctx)
	if proved && p.Agent != "" && p.Name == api.Owner.Name && agentMay[name] {
		return nil
	}
	if !proved || p != api.Owner {
		return fault.New(fault.Denied, "not-allowed").Saying("%s (%s) needs the permission %q, which only the owner of the daemon has", name, op.Short, op.Need)
	}
	return nil
}
