package work

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
)

// What of a repository can name something to run (runtime.md section 7). Of a name that several of them use the first one
// counts.
var (
	serverFiles = []string{".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".roo/mcp.json", ".kilocode/mcp.json", ".amazonq/mcp.json"}
	skillDirs   = []string{".claude/skills", ".agents/skills", ".codex/skills", "skills"}
	hookFiles   = []string{".claude/settings.json", ".claude/settings.local.json", ".cursor/hooks.json", ".pre-commit-config.yaml", "lefthook.yml", ".envrc"}
	hookDirs    = []string{".claude/hooks", ".codex/hooks", ".githooks", ".husky"}
)

// maxNamingFile bounds a file that names what to run, in bytes; those of people have a few KB.
const maxNamingFile = 1 << 20

// maxShownValue bounds a value of a variable or header, in bytes: a person who agrees to it has to see it.
const maxShownValue = 4 << 10

// Repository is what the repository of a project can name to run, as it is now. Nothing of it is started.
func (s *Service) Repository(ctx context.Context, p session.Project) (session.Repository, error) {
	x, err := s.open(session.Admission{Project: p})
	if err != nil {
		return session.Repository{}, err
	}
	defer x.close()
	repo, _ := s.survey(ctx, x)
	return repo, nil
}

// trustOf compares the repository of a project with what a person agreed to. What cannot be read is not trusted.
func (s *Service) trustOf(ctx context.Context, p session.Project) session.TrustState {
	var t session.Trust
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		t, err = r.TrustOf(ctx, session.TrustOf{Project: p.ID})
		return err
	})
	if err != nil || t.Digest == "" {
		return session.Untrusted
	}
	repo, err := s.Repository(ctx, p)
	if err != nil {
		return session.Changed
	}
	return t.State(repo)
}

// survey reads what of these kinds names something to run; without kinds all that does.
func (s *Service) survey(ctx context.Context, x *target, kinds ...session.EntryKind) (repo session.Repository, skills []skill) {
	wants := func(kind session.EntryKind) bool { return len(kinds) == 0 || slices.Contains(kinds, kind) }
	if wants(session.EntryServer) {
		for _, name := range serverFiles {
			addServers(ctx, &repo, x, name)
		}
	}
	if wants(session.EntrySkill) {
		skills = s.readSkills(ctx, x, skillDirs)
		for _, one := range skills {
			repo.Entries = append(repo.Entries, session.Entry{Kind: session.EntrySkill, Name: one.name, File: one.folder.path, Digest: one.revision(), Runs: one.entry, Problem: one.problem()})
		}
	}
	if wants(session.EntryHook) {
		addHooks(ctx, &repo, x)
	}
	if wants(session.EntryPolicy) {
		addFile(ctx, &repo, x, session.EntryPolicy, ProjectPolicy)
	}
	return repo, skills
}

func addHooks(ctx context.Context, repo *session.Repository, x *target) {
	for _, name := range hookFiles {
		addFile(ctx, repo, x, session.EntryHook, name)
	}
	for _, name := range hookDirs {
		f := readFolder(ctx, x.root, name)
		if len(f.files) > 0 || f.problem != "" && there(x, name) {
			repo.Entries = append(repo.Entries, session.Entry{Kind: session.EntryHook, Name: name, File: name, Digest: f.digest})
		}
	}
}

// there says whether something has this name.
func there(x *target, name string) bool {
	at, err := x.root.Resolve(name, tree.Look)
	if err != nil {
		return false
	}
	return at.Close() == nil
}

// naming reads a file that names something to run. False: it is not there. What keeps it from being read is a part of what is
// agreed to.
func naming(ctx context.Context, x *target, name string) (data []byte, f session.File, ok bool) {
	at, err := x.root.Resolve(name, tree.Read)
	if tree.CodeOf(err) == tree.NotFound && !there(x, name) {
		return nil, f, false
	}
	var c tree.Content
	if err == nil {
		c, err = at.Read(ctx, maxNamingFile)
		_ = at.Close() // it was only read from
	}
	if err != nil {
		return nil, session.File{Path: name, Digest: digest([]byte("unread: " + problemText(err)))}, true
	}
	return c.Data, session.File{Path: name, Digest: c.SHA256}, true
}

// addFile adds a file that counts as a whole.
func addFile(ctx context.Context, repo *session.Repository, x *target, kind session.EntryKind, name string) {
	if _, f, ok := naming(ctx, x, name); ok {
		repo.Files = append(repo.Files, f)
		repo.Entries = append(repo.Entries, session.Entry{Kind: kind, Name: name, File: name, Digest: f.Digest})
	}
}

// addServers adds the servers of one file.
func addServers(ctx context.Context, repo *session.Repository, x *target, name string) {
	data, f, ok := naming(ctx, x, name)
	if !ok {
		return
	}
	repo.Files = append(repo.Files, f)
	// The digest of an entry is over what a person is shown of it, so it comes last.
	add := func(e session.Entry) {
		if _, taken := repo.Entry(session.EntryServer, e.Name); taken {
			e.Server, e.Problem = nil, "another file names a server "+e.Name
		}
		raw, err := json.Marshal(e)
		if err != nil {
			panic("work: an entry does not encode: " + err.Error()) // texts and maps of them always do
		}
		e.Kind, e.File, e.Digest = session.EntryServer, name, digest(raw)
		repo.Entries = append(repo.Entries, e)
	}
	if data == nil {
		add(session.Entry{Name: name, Digest: f.Digest, Problem: "the file cannot be read"})
		return
	}
	all, err := catalog.ParseImport(data, true)
	if err != nil && fault.From(err).Code != "import-empty" {
		add(session.Entry{Name: name, Digest: f.Digest, Problem: fault.From(err).Message})
		return
	}
	for _, one := range all {
		e := session.Entry{Name: catalog.SafeName(one.Name)}
		if one.Err != nil {
			e.Problem = fault.From(one.Err).Message
		} else if e.Problem = unshown(one.Server); e.Problem == "" {
			e.Server = &one.Server
		}
		add(e)
	}
}

// unshown says what of a definition a person who is asked to agree would not see; "" nothing that decides what runs.
func unshown(s catalog.Server) string {
	shown := catalog.Server{
		Name: s.Name, Title: s.Title, Notes: s.Notes, Sharing: catalog.ShareSession, Lifecycle: s.Lifecycle, Review: s.Review, Source: s.Source, HTTP: s.HTTP,
	}
	var values map[string]catalog.Binding
	if s.Stdio != nil {
		shown.Stdio, values = &catalog.Stdio{Command: s.Stdio.Command, Args: s.Stdio.Args, Cwd: s.Stdio.Cwd, Env: s.Stdio.Env}, s.Stdio.Env
	} else if s.HTTP != nil {
		values = s.HTTP.Headers
	}
	if !reflect.DeepEqual(s, shown) {
		return "it has a field that no person would be shown; of those of an export a repository may use name, title, notes, lifecycle, sharing session, http, and stdio with command, args, cwd and env"
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name].Literal) > maxShownValue {
			return "the value of " + name + " is too long to be shown"
		}
	}
	return ""
}

// grounds are what a session may start of its own project.
type grounds struct {
	project session.Project
	repo    session.Repository
	skills  []skill
	trust   session.Trust
}

// groundsOf reads those of some kinds, since each call does. A project that cannot be read has none.
func (s *Service) groundsOf(ctx context.Context, a session.Admission, kinds ...session.EntryKind) (grounds, error) {
	g := grounds{project: a.Project}
	if x, err := s.open(a); err == nil {
		g.repo, g.skills = s.survey(ctx, x, kinds...)
		x.close()
	}
	return g, s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		g.trust, err = r.TrustOf(ctx, session.TrustOf{Project: a.Project.ID})
		return err
	})
}

// mistrusted is the refusal of what no person has agreed to as it is.
func (g grounds) mistrusted(e session.Entry) *operation.Refusal {
	how := "no person has agreed to the %s %s of this project"
	if g.trust.Knows(e) {
		how = "the %s %s of this project is not as a person agreed to it"
	}
	return operation.Refuse(trustRequired, how+"; a person looks at it with `mcpx project trust %s`", e.Kind, e.Name, g.project.Name).
		Retrying(fault.AfterWait).With("project", g.project.Name).With(string(e.Kind), e.Name)
}

// servers are the servers that the repository names, without those whose names the catalog has: no repository takes the place
// of what a person decided.
func (g grounds) servers(taken []catalog.Server) []session.Entry {
	return slices.DeleteFunc(slices.Clone(g.repo.Entries), func(e session.Entry) bool {
		return e.Kind != session.EntryServer || slices.ContainsFunc(taken, func(s catalog.Server) bool {
			return s.Name == e.Name || slices.Contains(s.Aliases, e.Name)
		})
	})
}
