package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"mcpx/internal/approval"
	"mcpx/internal/atomicfile"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/retention"
	"mcpx/internal/sandbox"
	"mcpx/internal/work"
)

// Settings are the values of one moment, with where each came from.
type Settings struct {
	ListenerAddress string        // host:port of the loopback listener; port 0 lets the system choose
	LoopbackAuth    string        // AuthSameUser or AuthToken
	AllowedHosts    []string      // more values of Host and of the host of Origin that the listener answers to
	OrphanTTL       time.Duration // how long a supervised server lives on without a daemon; negative: for ever
	Watch           bool          // the files of agents are watched
	BaseDir         string        // a directory to register at the start; "" none
	Workspaces      bool          // agents at /mcp can work in copies of projects
	Verified        bool          // they can make builds of what commands in these copies produce
	Extensions      bool          // the tools of other servers can be called at /mcp
	Environment     bool          // agents may ask for facts of the machine, and register artifacts
	Compat          bool          // names of tools of earlier systems
	Elicitation     []string      // kinds of questions that clients may put to their users
	Sandbox         string        // mechanism that keeps commands in
	SandboxNetwork  bool          // commands in the sandbox reach the network
	ProjectWrites   bool          // commands in the sandbox change the project itself
	AcceptGaps      []string      // of the sandbox
	Commands        bool          // agents may run commands, as far as the policy lets them
	Periods         retention.Periods

	origin map[string]Origin // by key
}

// The values of listener.loopback_auth.
const (
	AuthSameUser = "same-user"
	AuthToken    = "token"
)

// Origin says where the value of a setting came from; a later one in this list wins.
type Origin string

// The origins.
const (
	FromDefault     Origin = "default"
	FromFile        Origin = "file"
	FromEnvironment Origin = "environment"
	FromFlag        Origin = "flag"
)

// Setting is one row of the registry.
type Setting struct {
	Key     string // section.name in mcpx.toml
	Type    string // for people
	Default string
	Hot     bool   // a reload is enough; else the next start
	Effect  string // name of the test that runs the program with two values and sees two behaviours
	Text    string
	set     func(s *Settings, values []string) error
	list    bool
	get     func(s *Settings) []string
	older   string // a variable of an earlier system; its 1 and 0 are true and false
}

// Env is the name of the environment variable of the setting.
func (s Setting) Env() string { return "MCPX_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_")) }

// Registry lists every setting. A new one needs a decision record and an effect test.
var Registry = []Setting{
	{
		Key: "listener.address", Type: "host:port on loopback", Default: "127.0.0.1:30000", Effect: "internal/test/story/testdata/setting-address.txtar",
		Text: "Where agents reach the servers. Their configuration contains this address, so the daemon never moves by itself.",
		set: func(s *Settings, v []string) error {
			s.ListenerAddress = v[0]
			return loopbackOnly(v[0])
		},
		get: func(s *Settings) []string { return []string{s.ListenerAddress} },
	},
	{
		Key: "listener.loopback_auth", Type: "same-user or token", Default: AuthSameUser, Hot: true, Effect: "internal/test/story/testdata/setting-auth.txtar",
		Text: "Who may use the servers over the loopback listener: processes of your own user, as the kernel says, or only bearers of a token. Where the kernel cannot tell, same-user means token. `mcpx connect` works with both.",
		set: func(s *Settings, v []string) error {
			s.LoopbackAuth = v[0]
			if v[0] != AuthSameUser && v[0] != AuthToken {
				return fmt.Errorf("%q is neither %s nor %s", v[0], AuthSameUser, AuthToken)
			}
			return nil
		},
		get: func(s *Settings) []string { return []string{s.LoopbackAuth} },
	},
	{
		Key: "listener.allowed_hosts", Type: "list of host names", Default: "", list: true, Hot: true, Effect: "internal/test/story/testdata/setting-hosts.txtar",
		Text: "More host names that requests may be addressed to, beside localhost and loopback addresses, for example the name of a tunnel. Web pages of these hosts may send requests too.",
		set: func(s *Settings, v []string) error {
			s.AllowedHosts = v
			for _, host := range v {
				if host == "" || strings.ContainsAny(host, "/:*@ ") {
					return fmt.Errorf("%q is no host name (no scheme, no port, no wildcard)", host)
				}
			}
			return nil
		},
		get: func(s *Settings) []string { return s.AllowedHosts },
	},
	{
		Key: "supervisor.orphan_ttl", Type: "time such as 90s, 10m or 12h, or never", Default: "10m", Hot: true, Effect: "internal/test/story/testdata/setting-orphan.txtar",
		Text: "How long a server lives on while no daemon runs, so that the next daemon finds it as it was; then it is ended in order. A server with a call in flight gets up to 30 minutes. Servers keep the value that was set when they were started.",
		set: func(s *Settings, v []string) (err error) {
			s.OrphanTTL, err = orphanTTL(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{s.OrphanTTL.String()} },
	},
	{
		Key: "governance.watch", Type: "true or false", Default: "true", Effect: "internal/test/story/testdata/setting-watch.txtar",
		Text: "Whether the daemon looks at the configuration files of agents by itself: at its start, when one of them or the catalog changes, and every 6 hours. With false `mcpx audit run` looks.",
		set: func(s *Settings, v []string) (err error) {
			s.Watch, err = trueOrFalse(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{strconv.FormatBool(s.Watch)} },
	},
	{
		Key: "runtime.commands", Type: "true or false", Default: "false", older: "MCPX_ENABLE_COMMAND_EXECUTION", Effect: "internal/test/story/testdata/setting-commands.txtar",
		Text: "Whether agents at `/mcp` have the tools that run commands. Each command is judged by the policy and runs in a sandbox. `MCPX_ENABLE_COMMAND_EXECUTION=1` of an earlier system means the same. Jobs that were started go on when it is turned off.",
		set: func(s *Settings, v []string) (err error) {
			s.Commands, err = trueOrFalse(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{strconv.FormatBool(s.Commands)} },
	},
	{
		Key: "runtime.work", Type: "true or false", Default: "true", Effect: "internal/test/story/testdata/setting-work.txtar",
		Text: "Whether agents at `/mcp` can work in workspaces: copies of a project of their own, whose changes come back all at once. Workspaces that exist are kept when it is turned off, and `mcpx workspace` shows and moves them.",
		set: func(s *Settings, v []string) (err error) {
			s.Workspaces, err = trueOrFalse(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{strconv.FormatBool(s.Workspaces)} },
	},
	{
		Key: "runtime.verified", Type: "true or false", Default: "false", Effect: "internal/test/story/testdata/setting-verified.txtar",
		Text: "Whether agents at `/mcp` can make builds: outputs of a command in a workspace that are sealed, hashed, validated and audited (docs/generations.md). It needs `runtime.commands` and `runtime.work`. Builds that exist are kept when it is turned off, and `mcpx generation` shows them and makes others.",
		set: func(s *Settings, v []string) (err error) {
			s.Verified, err = trueOrFalse(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{strconv.FormatBool(s.Verified)} },
	},
	{
		Key: "runtime.extensions", Type: "true or false", Default: "false", Effect: "internal/test/story/testdata/setting-extensions.txtar",
		Text: "Whether agents at `/mcp` can search and call the tools of every server of the catalog, and of the repository of their project when you trust it (`find_tools`, `call_tool`), and use skills (`use_skill`). What can do more than read needs a person or a rule of the policy.",
		set: func(s *Settings, v []string) (err error) {
			s.Extensions, err = trueOrFalse(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{strconv.FormatBool(s.Extensions)} },
	},
	{
		Key: "runtime.environment", Type: "true or false", Default: "false", Effect: "internal/test/story/testdata/setting-environment.txtar",
		Text: "Whether agents at `/mcp` can ask what this machine has (`environment_info`) and keep files as they are (`artifact`).",
		set: func(s *Settings, v []string) (err error) {
			s.Environment, err = trueOrFalse(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{strconv.FormatBool(s.Environment)} },
	},
	{
		Key: "runtime.compat", Type: "true or false", Default: "false", Effect: "internal/test/story/testdata/setting-compat.txtar",
		Text: "Whether agents at `/mcp` find tools under the names of earlier systems, too (`edit`, `execute`, `operation_batch` and others; docs/tools.md).",
		set: func(s *Settings, v []string) (err error) {
			s.Compat, err = trueOrFalse(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{strconv.FormatBool(s.Compat)} },
	},
	{
		Key: "approvals.elicitation", Type: "list of kinds", Default: "", list: true, Effect: "internal/test/story/testdata/setting-elicitation.txtar",
		Text: "Questions that a client at `/mcp` may put to its own user, if it can show forms (MCP revision 2026-07-28): command, input, file_write, call_tool. Without it they are decided at a terminal only. The word of the client is all there is for a person having answered, so a program that may call `/mcp` can also say yes. Removals, trust and what is run with other rights are never decided so.",
		set: func(s *Settings, v []string) error {
			s.Elicitation = v
			for _, kind := range v {
				if !slices.Contains(work.Elicitable(), approval.Kind(kind)) {
					return fmt.Errorf("%q cannot be decided by a form; %v can", kind, work.Elicitable())
				}
			}
			return nil
		},
		get: func(s *Settings) []string { return s.Elicitation },
	},
	{
		Key: "sandbox.mechanism", Type: "auto, bwrap, landlock or none", Default: string(sandbox.Auto), older: "MCPX_WORKSPACE_SANDBOX", Effect: "internal/test/story/testdata/setting-sandbox.txtar",
		Text: "What keeps commands of agents inside of the directories that they may change. auto is bubblewrap where a trial of it succeeds, else Landlock with a filter of system calls, else commands are refused; a mechanism that is named is that one or a refusal. With none commands reach everything that you reach. `MCPX_WORKSPACE_SANDBOX` of an earlier system means the same. `mcpx doctor` tells what works here; docs/policy.md tells what each one holds.",
		set: func(s *Settings, v []string) error {
			s.Sandbox = v[0]
			if v[0] == "codex" {
				return errors.New("mcpx does not use the sandbox of Codex, whatever MCPX_CODEX_BIN says: use auto, bwrap or landlock")
			}
			if !slices.Contains([]sandbox.Mechanism{sandbox.Auto, sandbox.Bubblewrap, sandbox.Landlock, sandbox.None}, sandbox.Mechanism(v[0])) {
				return fmt.Errorf("%q is no mechanism", v[0])
			}
			return nil
		},
		get: func(s *Settings) []string { return []string{s.Sandbox} },
	},
	{
		Key: "sandbox.network", Type: "true or false", Default: "false", Effect: "internal/test/story/testdata/setting-sandbox.txtar",
		Text: "Whether commands in the sandbox reach the network. With true `listener.loopback_auth` has to be token, because the servers behind mcpx are reached, too.",
		set: func(s *Settings, v []string) (err error) {
			s.SandboxNetwork, err = trueOrFalse(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{strconv.FormatBool(s.SandboxNetwork)} },
	},
	{
		Key: "sandbox.project_writes", Type: "true or false", Default: "false", Effect: "internal/test/story/testdata/setting-sandbox.txtar",
		Text: "Whether commands in the sandbox change the project itself. With false only their private temporary directory can be written; workspaces can in any case.",
		set: func(s *Settings, v []string) (err error) {
			s.ProjectWrites, err = trueOrFalse(v[0])
			return err
		},
		get: func(s *Settings) []string { return []string{strconv.FormatBool(s.ProjectWrites)} },
	},
	{
		Key: "sandbox.accept_gaps", Type: "list of gaps", Default: "", list: true, Effect: "internal/test/story/testdata/setting-sandbox.txtar",
		Text: "Gaps of the sandbox that you accept by name: metadata_writes, truncate, signals, device_control, control_plane. A command is refused where the sandbox has another one. With metadata_writes Landlock lets commands change modes and times, inside and outside: builds often need that.",
		set: func(s *Settings, v []string) error {
			s.AcceptGaps = v
			known := append(sandbox.Gaps(), gapControlPlane)
			for _, gap := range v {
				if !slices.Contains(known, gap) {
					return fmt.Errorf("%q is no gap; there are %s", gap, strings.Join(known, ", "))
				}
			}
			return nil
		},
		get: func(s *Settings) []string { return s.AcceptGaps },
	},
	period("decisions", retention.Usual.Decisions, 0, "How long the log keeps what events about decisions tell: approvals, plans that were applied, the catalog, credentials, tokens, trust, projects. That something happened, when and by whom is kept always, and the chain of hashes holds.", func(p *retention.Periods) *time.Duration { return &p.Decisions }),
	period("changes", retention.Usual.Changes, 0, "How long the log keeps what events about work tell: differences of files, plans, workspaces, sessions, what models say.", func(p *retention.Periods) *time.Duration { return &p.Changes }),
	period("effects", retention.Usual.Effects, 0, "How long the log keeps what events about calls and commands tell.", func(p *retention.Periods) *time.Duration { return &p.Effects }),
	period("results", retention.Usual.Results, 0, "How long answers of calls at `/mcp` and what commands wrote are kept after their end. What an open plan, a question that waits, a workspace that is not closed or an artifact refers to stays. How an operation ended is kept always.", func(p *retention.Periods) *time.Duration { return &p.Results }),
	period("removals", retention.Usual.Removals, 0, "How long what restores removed files is kept at least; as long as they lie in the trash, it stays.", func(p *retention.Periods) *time.Duration { return &p.Removals }),
	period("displaced", retention.Usual.Displaced, retention.MinDisplaced, "How long bytes are kept that an edit has taken out of a project or a workspace. Bytes that were written to since stay.", func(p *retention.Periods) *time.Duration { return &p.Displaced }),
}

// period is the row of a period of retention.
func period(name string, usual, least time.Duration, text string, of func(*retention.Periods) *time.Duration) Setting {
	return Setting{
		Key: "retention." + name, Type: "time such as 30d or 12h, or never", Default: days(usual), Hot: true, Effect: "internal/test/story/testdata/setting-retention.txtar",
		Text: text,
		set: func(s *Settings, v []string) error {
			d, err := parseDays(v[0])
			if err == nil && d < least {
				err = fmt.Errorf("%s is too short: want at least %s", v[0], days(least))
			}
			*of(&s.Periods) = d
			return err
		},
		get: func(s *Settings) []string { return []string{days(*of(&s.Periods))} },
	}
}

// days is a period as people write it.
func days(d time.Duration) string {
	switch {
	case d == retention.Forever:
		return "never"
	case d%retention.Day == 0:
		return strconv.FormatInt(int64(d/retention.Day), 10) + "d"
	}
	return d.String()
}

// maxDays bounds a period: what is longer is written as never.
const maxDays = 36500

func parseDays(text string) (time.Duration, error) {
	if text == "never" {
		return retention.Forever, nil
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxDays {
			return 0, fmt.Errorf("%q is no number of days from 1 to %d", text, maxDays)
		}
		return time.Duration(n) * retention.Day, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no time", text)
	}
	return d, nil
}

func trueOrFalse(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
	return text == "true", nil
}

// older are the values of variables of earlier systems that we write differently.
var older = map[string]string{"1": "true", "0": "false"}

// CheckHome refuses an environment without the home of the person: agents keep their files there, servers start there, and
// what commands may not read is found by it.
func CheckHome(getenv func(string) string) error {
	if filepath.IsAbs(getenv("HOME")) {
		return nil
	}
	return fault.New(fault.Invalid, "home-missing").Saying("HOME is not set to an absolute path").
		Hinting("set it to your home directory; MCPX_HOME says only where mcpx keeps its own files")
}

// LoadSettings reads the settings: environment over file over default. A file that does not load is an error; a file
// that does not exist is not.
func LoadSettings(path string, getenv func(string) string) (Settings, error) {
	s := Settings{origin: map[string]Origin{}}
	file, err := readFile(path)
	if err != nil {
		return Settings{}, err
	}
	for _, row := range Registry {
		values, origin, where := split(row, row.Default), FromDefault, "the default"
		if v, ok := file[row.Key]; ok {
			values, origin, where = v, FromFile, path
		}
		if v := getenv(row.older); row.older != "" && v != "" {
			values, origin, where = split(row, cmp.Or(older[v], v)), FromEnvironment, row.older
		}
		if v := getenv(row.Env()); v != "" {
			values, origin, where = split(row, v), FromEnvironment, row.Env()
		}
		if err := row.set(&s, values); err != nil {
			return Settings{}, invalid(row, where, err)
		}
		s.origin[row.Key] = origin
	}
	if s.BaseDir = getenv(baseDirVariable); s.BaseDir != "" && !filepath.IsAbs(s.BaseDir) {
		return Settings{}, fault.New(fault.Invalid, "base-dir-invalid").Saying("%s is %q, which is no absolute path", baseDirVariable, s.BaseDir).
			Hinting("give the whole path of the directory, or leave the variable away and use `mcpx project add`")
	}
	return s, nil
}

// baseDirVariable names a directory that becomes a project when the daemon starts, as in an earlier system. It is no setting:
// the project stays when the variable goes.
const baseDirVariable = "MCPX_BASE_DIR"

// Override sets one value from a flag.
func (s *Settings) Override(key, flag, value string) error {
	for _, row := range Registry {
		if row.Key == key {
			s.origin[key] = FromFlag
			if err := row.set(s, split(row, value)); err != nil {
				return invalid(row, flag, err)
			}
			return nil
		}
	}
	panic("daemon: no setting " + key)
}

// Changed lists the keys that differ from next, those that a reload applies and those that wait for a restart. A value
// from a flag stays.
func (s *Settings) Changed(next Settings) (hot, restart []string) {
	for _, row := range Registry {
		switch {
		case s.origin[row.Key] == FromFlag || slices.Equal(row.get(s), row.get(&next)):
		case row.Hot:
			hot = append(hot, row.Key)
		default:
			restart = append(restart, row.Key)
		}
	}
	return hot, restart
}

// take makes the values of some keys those of next.
func (s *Settings) take(next Settings, keys []string) {
	for _, row := range Registry {
		if slices.Contains(keys, row.Key) {
			s.origin[row.Key] = next.origin[row.Key]
			_ = row.set(s, row.get(&next)) // it was valid in next
		}
	}
}

func invalid(row Setting, where string, err error) error {
	return fault.New(fault.Invalid, "setting-invalid").Saying("%s (from %s): %v", row.Key, where, err).
		Hinting("want %s; see docs/settings.md", row.Type)
}

func split(row Setting, text string) []string {
	if !row.list {
		return []string{text}
	}
	var values []string
	for v := range strings.SplitSeq(text, ",") {
		if v = strings.TrimSpace(v); v != "" {
			values = append(values, v)
		}
	}
	return values
}

// maxSettings bounds the settings file, in bytes; all settings together need less than 1 KiB.
const maxSettings = 1 << 20

// readPlain reads a file that says what mcpx does. It waits for no pipe and reads not much more than the bound.
func readPlain(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: atomicfile.ErrIrregular}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSettings+1))
}

// readFile gives the values of the file by key.
func readFile(path string) (map[string][]string, error) {
	data, err := readPlain(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.Invalid, "settings-unreadable").Saying("the settings file cannot be read").Because(err).
			Hinting("check its owner and mode")
	case len(data) > maxSettings:
		return nil, fault.New(fault.Invalid, "settings-unreadable").Saying("%s is larger than %d bytes", path, maxSettings)
	}
	var sections map[string]any
	if err := toml.Unmarshal(data, &sections); err != nil {
		f := fault.New(fault.Invalid, "settings-broken").Saying("%s is no TOML: %v", path, err)
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := at.Position()
			f = f.Saying("%s, line %d, column %d: %v", path, line, column, err)
		}
		return nil, f.Hinting("correct the file; docs/settings.md lists the settings")
	}
	values := map[string][]string{}
	for section, content := range sections {
		if section == sectionCutover {
			if _, err := hubsOf(path, content); err != nil {
				return nil, err
			}
			continue
		}
		table, ok := content.(map[string]any)
		if !ok {
			return nil, unknownKey(path, section)
		}
		for name, value := range table {
			key := section + "." + name
			if values[key], err = textOf(path, key, value); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

func textOf(path, key string, value any) ([]string, error) {
	i := slices.IndexFunc(Registry, func(row Setting) bool { return row.Key == key })
	if i < 0 {
		return nil, unknownKey(path, key)
	}
	wrong := invalid(Registry[i], path, fmt.Errorf("%v is not the right type", value))
	if !Registry[i].list {
		switch v := value.(type) {
		case string:
			return []string{v}, nil
		case bool:
			return []string{strconv.FormatBool(v)}, nil
		}
		return nil, wrong
	}
	list, ok := value.([]any)
	if !ok {
		return nil, wrong
	}
	var values []string
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, wrong
		}
		values = append(values, text)
	}
	return values, nil
}

func unknownKey(path, key string) error {
	var keys []string
	for _, row := range Registry {
		keys = append(keys, row.Key)
	}
	f := fault.New(fault.Invalid, "setting-unknown").Saying("%s: there is no setting %s", path, key)
	if near := catalog.Nearest(key, keys); near != "" {
		return f.Hinting("did you mean %s?", near)
	}
	return f.Hinting("the settings are %s", strings.Join(keys, ", "))
}

// minOrphanTTL is the shortest life of a server without a daemon. A restart of the daemon must fit in.
const minOrphanTTL = time.Second

func orphanTTL(text string) (time.Duration, error) {
	if text == "never" {
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no time", text)
	}
	if d < minOrphanTTL {
		return 0, fmt.Errorf("%s is too short: a restart of the daemon takes about that long", text)
	}
	return d, nil
}

// loopbackOnly refuses an address that other machines could reach.
func loopbackOnly(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q is no port", port)
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not a loopback address: this listener serves only this machine (use 127.0.0.1 or [::1])", host)
	}
	return nil
}
