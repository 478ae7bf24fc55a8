package work

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/catalog"
	"mcpx/internal/operation"
	"mcpx/internal/process"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
)

// EnvironmentInfo are the arguments of environment_info.
type EnvironmentInfo struct {
	Claims
	Session  string   `json:"remote_session_id,omitempty" jsonschema:"the session, for its project"`
	Sections []string `json:"sections,omitempty" jsonschema:"only these: os, hardware, shells, toolchains, sandbox, limits, secrets, git"`
	Compare  string   `json:"compare_to,omitempty" jsonschema:"snapshot_id of an earlier answer"`
}

// survey measures facts, each by trying.
type survey struct {
	s  *Service
	at *target // of a call that names a session

	mu    sync.Mutex // guards facts and why
	facts environmentFacts
	why   map[string]string
}

// environmentFacts are facts by section and name.
type environmentFacts map[string]map[string]any

// environment is the answer of environment_info.
type environment struct {
	Snapshot string              `json:"snapshot_id"`
	Facts    environmentFacts    `json:"facts"`
	Why      map[string]string   `json:"why"` // a fact is null, or false, by its path
	Changes  []environmentChange `json:"changes,omitempty"`
}

// environmentChange is a fact that another snapshot tells otherwise.
type environmentChange struct {
	Path     string `json:"path"`
	Before   any    `json:"before"`
	After    any    `json:"after"`
	Severity string `json:"severity"`
}

// environmentMedia tells a snapshot from other results.
const environmentMedia = "application/vnd.mcpx.environment+json"

// environmentSections are the sections in the order of their measuring.
var environmentSections = []struct {
	name    string
	measure func(*survey, context.Context)
}{
	{"os", (*survey).os},
	{"hardware", (*survey).hardware},
	{"shells", (*survey).shells},
	{"toolchains", (*survey).toolchains},
	{"git", (*survey).git},
	{"sandbox", (*survey).sandbox},
	{"limits", (*survey).limits},
	{"secrets", (*survey).secrets},
}

func environmentInfo(ctx context.Context, s *Service, t *turn) (any, error) {
	var in EnvironmentInfo
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	v := &survey{s: s, facts: environmentFacts{}, why: map[string]string{}}
	var names []string
	for _, one := range environmentSections {
		names = append(names, one.name)
	}
	for _, name := range in.Sections {
		if !slices.Contains(names, name) {
			return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no section; %s are", name, strings.Join(names, ", "))
		}
	}
	var before environmentFacts
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		if in.Session == "" {
			mine, err := session.Projects(ctx, r, t.Principal)
			if err == nil && len(mine) == 0 {
				return projectRequired(mine)
			}
			if err != nil {
				return err
			}
		}
		if in.Compare == "" {
			return nil
		}
		kept, err := r.KeptResult(ctx, operation.KeptByRef{Principal: t.Principal, Ref: in.Compare})
		if err == nil && kept.Media != environmentMedia {
			return operation.Refuse(operation.ArgumentInvalid, "%.64q is no snapshot_id", in.Compare)
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(kept.Bytes, &before)
	})
	if err != nil {
		return nil, err
	}
	if in.Session != "" {
		if v.at, err = s.at(ctx, t, "", session.ActRead); err != nil {
			return nil, err
		}
		defer v.at.close()
	}
	for _, one := range environmentSections {
		if len(in.Sections) == 0 || slices.Contains(in.Sections, one.name) {
			v.facts[one.name] = map[string]any{}
			one.measure(v, ctx)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return v.answer(ctx, t, before)
}

// answer keeps the snapshot, so that a later call can compare with it.
func (v *survey) answer(ctx context.Context, t *turn, before environmentFacts) (any, error) {
	raw, err := json.Marshal(v.facts)
	if err != nil {
		return nil, err
	}
	out := environment{Facts: v.facts, Why: v.why}
	err = v.s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		kept, err := v.s.keep(ctx, tx, t, environmentMedia, raw)
		out.Snapshot = kept.Ref
		return err
	})
	if err != nil || before == nil {
		return out, err
	}
	var now environmentFacts // as it is written down, to be compared with what was
	if err := json.Unmarshal(raw, &now); err != nil {
		return nil, err
	}
	out.Changes = compareFacts(before, now)
	return out, nil
}

// compareFacts compares the sections that both snapshots have.
func compareFacts(before, now environmentFacts) []environmentChange {
	changes := []environmentChange{}
	for _, section := range slices.Sorted(maps.Keys(now)) {
		if before[section] == nil {
			continue
		}
		was, is := map[string]any{}, map[string]any{}
		flatten(section, before[section], was)
		flatten(section, now[section], is)
		both := maps.Clone(was)
		maps.Copy(both, is)
		for _, path := range slices.Sorted(maps.Keys(both)) {
			a, b := was[path], is[path]
			if reflect.DeepEqual(a, b) {
				continue
			}
			changes = append(changes, environmentChange{Path: path, Before: a, After: b, Severity: severity(a, b)})
		}
	}
	return changes
}

// severity says what a change means for who relies on a fact: there is more, it is another one, or it is gone.
func severity(before, after any) string {
	switch {
	case before == nil || before == false && after == true:
		return "notice"
	case after == nil || after == false:
		return "blocker"
	}
	return "warning"
}

// flatten gives every fact its path. A list is one fact.
func flatten(path string, v any, into map[string]any) {
	members, ok := v.(map[string]any)
	if !ok {
		into[path] = v
		return
	}
	for name, member := range members {
		flatten(path+"."+name, member, into)
	}
}

func (v *survey) tell(section, name string, fact any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.facts[section][name] = fact
}

// because tells why a fact is null, or false.
func (v *survey) because(path, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.why[path] = head([]byte(v.s.cfg.Redact(why)), maxSummary)
}

func (v *survey) os(context.Context) {
	v.tell("os", "system", runtime.GOOS)
	v.tell("os", "arch", runtime.GOARCH)
	release, err := process.HostRelease()
	v.found("os", "release", release, err)
	dirs := map[string]string{"home": v.s.cfg.Home, "temp": os.TempDir()}
	if v.at != nil {
		dirs["project"] = v.at.root.Path()
	}
	shown := map[string]any{}
	for name, dir := range dirs {
		err := tree.Writable(dir)
		shown[name] = map[string]any{"path": dir, "writable": err == nil}
		if err != nil {
			v.because("os.directories."+name, "nothing can be made in it: "+err.Error())
		}
	}
	v.tell("os", "directories", shown)
}

func (v *survey) hardware(context.Context) {
	v.tell("hardware", "cpus", runtime.NumCPU())
	memory, err := process.HostMemory()
	v.found("hardware", "memory_bytes", memory, err)
}

// found tells a fact, or null when it could not be had.
func (v *survey) found(section, name string, fact any, err error) {
	if err != nil {
		v.because(section+"."+name, err.Error())
		fact = nil
	}
	v.tell(section, name, fact)
}

// program is a program that may be there, and how it tells its version; nil: it does not.
type program struct {
	name    string
	version []string
}

var (
	shells     = []program{{"bash", []string{"--version"}}, {"sh", nil}, {"zsh", []string{"--version"}}, {"fish", []string{"--version"}}, {"dash", nil}}
	toolchains = []program{
		{"go", []string{"version"}},
		{"node", []string{"--version"}},
		{"npm", []string{"--version"}},
		{"bun", []string{"--version"}},
		{"deno", []string{"--version"}},
		{"python3", []string{"--version"}},
		{"uv", []string{"--version"}},
		{"ruby", []string{"--version"}},
		{"php", []string{"--version"}},
		{"rustc", []string{"--version"}},
		{"cargo", []string{"--version"}},
		{"java", []string{"--version"}},
		{"gcc", []string{"--version"}},
		{"clang", []string{"--version"}},
		{"make", []string{"--version"}},
		{"cmake", []string{"--version"}},
		{"docker", []string{"--version"}},
	}
)

func (v *survey) shells(ctx context.Context) { v.programs(ctx, "shells", shells) }

func (v *survey) toolchains(ctx context.Context) { v.programs(ctx, "toolchains", toolchains) }

func (v *survey) git(ctx context.Context) {
	v.programs(ctx, "git", []program{{"git", []string{"--version"}}})
	if v.at != nil {
		v.tell("git", "repository", v.s.gitHead(ctx, v.at) != nil)
	}
}

const (
	// trying is how long a program may take to tell its version, and tries how many do at the same time.
	trying = 3 * time.Second
	tries  = 4
)

// programs looks for programs where commands would find them. One that is not there is left out.
func (v *survey) programs(ctx context.Context, section string, all []program) {
	free := make(chan struct{}, tries)
	environ := process.Environ(v.s.cfg.Environ, nil)
	var group sync.WaitGroup
	for _, p := range all {
		file, err := process.Resolve(p.name, "/", environ)
		if err != nil {
			continue
		}
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			v.program(ctx, section, p, file)
		})
	}
	group.Wait()
}

// program asks a program for its version. What lies in a project is never run to find something out.
func (v *survey) program(ctx context.Context, section string, p program, file string) {
	fact := map[string]any{"path": file}
	v.tell(section, p.name, fact)
	if p.version == nil {
		return
	}
	fact["version"] = nil
	why := ""
	switch {
	case v.inProject(ctx, file):
		why = "it lies in a project, so it is not run"
	case v.s.cfg.Try == nil:
		why = "this daemon runs nothing to find it out"
	default:
		ctx, stop := context.WithTimeout(ctx, trying)
		defer stop()
		out, err := v.s.cfg.Try(ctx, append([]string{file}, p.version...))
		if line := firstLine(strings.TrimSpace(string(out))); err == nil && line != "" {
			fact["version"] = head([]byte(v.s.cfg.Redact(line)), maxSummary)
			return
		}
		if why = "it said nothing"; err != nil {
			why = err.Error()
		}
	}
	v.because(section+"."+p.name+".version", why)
}

// inProject says whether a file lies in a project, by any of its names. When that cannot be said, it does.
func (v *survey) inProject(ctx context.Context, file string) bool {
	files := []string{file}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		files = append(files, real)
	}
	var all []session.Project
	err := v.s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		all, err = session.AllProjects(ctx, r, false)
		return err
	})
	return err != nil || slices.ContainsFunc(all, func(p session.Project) bool {
		return slices.ContainsFunc(files, func(f string) bool { return inside(f, p.Path) || p.Physical.Real != "" && inside(f, p.Physical.Real) })
	})
}

// sandbox tells what a command gets that asks for nothing.
func (v *survey) sandbox(ctx context.Context) {
	v.tell("sandbox", "commands", !slices.Contains(v.s.cfg.Disabled, SetCommands))
	if v.s.cfg.Gate == nil {
		v.found("sandbox", "usual", nil, uncontained())
		return
	}
	c, err := v.s.cfg.Gate.Usual(ctx)
	v.found("sandbox", "usual", c, err)
}

func (v *survey) limits(context.Context) {
	for name, value := range map[string]any{
		"result_bytes": inlineLimit, "window_bytes": windowMost, "read_items": maxItems, "read_lines": mostLines,
		"edits": maxEdits, "edit_bytes": maxEditBytes, "edit_file_bytes": tree.MaxEdit, "remove_targets": maxTargets, "remove_entries": maxRemoved, "remove_bytes": maxRemBytes,
		"command_seconds": maxTimeout, "command_input_bytes": maxStdinText, "commands_at_once": v.s.jobs.limit, "commands_waiting": operation.MaxQueue,
		"artifact_bytes": session.MaxArtifact, "approvals_pending": approval.MaxPending, "call_seconds": mostCallTime,
	} {
		v.tell("limits", name, value)
	}
}

// secrets tells which names commands may ask for, and whether there is a value.
func (v *survey) secrets(ctx context.Context) {
	project := ""
	if v.at != nil {
		project = v.at.Project.ID
	}
	all, err := v.s.secretsOf(ctx, project)
	if err != nil {
		v.found("secrets", "names", nil, err)
		return
	}
	for _, one := range all {
		ready := one.Readiness == catalog.ReadinessReady
		v.tell("secrets", one.Name, map[string]any{"ready": ready, "variable": one.Variable})
		if !ready {
			v.because("secrets."+one.Name+".ready", "it is "+string(one.Readiness))
		}
	}
}
