package work

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
)

// UseSkill are the arguments of use_skill.
type UseSkill struct {
	ID
	Claims
	Session   string         `json:"remote_session_id" jsonschema:"the session"`
	Name      string         `json:"name" jsonschema:"a skill, by its name or the id of find_tools"`
	Action    string         `json:"action,omitempty" jsonschema:"read or run; read without it"`
	File      string         `json:"file,omitempty" jsonschema:"read: one file of its folder"`
	Revision  string         `json:"revision,omitempty" jsonschema:"refuses when the skill has another revision"`
	Arguments map[string]any `json:"arguments,omitempty" jsonschema:"run: by the skill's arguments_schema"`
}

// The codes of skills.
const (
	skillUnknown operation.Code = "SKILL_UNKNOWN"
	skillChanged operation.Code = "SKILL_CHANGED"
	skillInvalid operation.Code = "SKILL_INVALID"
)

// skillReads says whether the call changes nothing.
func skillReads(t *turn) bool { return t.text("action") != "run" }

// globalSkills are the user's own skills.
func (s *Service) globalSkills(ctx context.Context) (all []skill) {
	for _, dir := range s.cfg.Skills {
		x, err := s.skillRoot(dir)
		if err != nil {
			continue // most of these directories are not there
		}
		for _, k := range s.readSkills(ctx, x, []string{"."}) {
			k.global = true
			all = append(all, k)
		}
		x.close()
	}
	return all
}

// skillRoot opens a directory in which skills are.
func (s *Service) skillRoot(dir string) (*target, error) {
	root, err := tree.Open(dir, tree.Options{ByPath: true})
	if err != nil {
		return nil, problem(err)
	}
	return &target{root: root, rules: s.cfg.Rules(root.Path())}, nil
}

// allSkills are the skills of a session, those of its project first: a name means the first one that has it.
func (s *Service) allSkills(ctx context.Context, g grounds) []skill {
	all := append(slices.Clone(g.skills), s.globalSkills(ctx)...)
	for i := range all {
		all[i].hidden = slices.ContainsFunc(all[:i], func(k skill) bool { return k.name == all[i].name })
	}
	return all
}

// standing says whether a skill can be used, and if not why.
func (g grounds) skillStanding(k skill) (state string, err error) {
	e := session.Entry{Kind: session.EntrySkill, Name: k.name, File: k.folder.path, Digest: k.revision()}
	switch {
	case k.problem() != "":
		return stateDisabled, operation.Refuse(skillInvalid, "the skill %s cannot be used: %s", k.name, k.problem()).With("skill", k.id())
	case !k.global && !g.trust.Covers(e):
		return stateTrust, g.mistrusted(e)
	}
	return stateReady, nil
}

// foundSkills are the skills as find_tools shows them.
func (s *Service) foundSkills(ctx context.Context, g grounds) (all []foundTool) {
	for _, k := range s.allSkills(ctx, g) {
		state, _ := g.skillStanding(k)
		summary, _, _ := strings.Cut(strings.TrimSpace(k.about), "\n")
		if state == stateDisabled {
			summary = k.problem()
		}
		f := foundTool{
			ID: k.id(), Kind: kindSkill, Title: k.name, Summary: head([]byte(summary), maxToolLine), Risk: RiskRead, State: state, Revision: k.revision(),
			Shadowed: k.hidden, Schema: k.schema, Files: k.folder.files, about: k.name + " " + k.about,
		}
		if len(k.entry) > 0 {
			f.Risk = RiskWrite
		}
		all = append(all, f)
	}
	return all
}

// skillOf finds the skill of a call, when it may be used.
func (s *Service) skillOf(ctx context.Context, t *turn, in UseSkill, act session.Act) (k skill, err error) {
	var at session.Admission
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		at, err = session.Admit(ctx, r, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: act})
		return err
	})
	if err != nil {
		return k, err
	}
	t.op.Session, t.op.Project = at.Session.ID, at.Project.ID
	g, err := s.groundsOf(ctx, at, session.EntrySkill)
	if err != nil {
		return k, err
	}
	all := s.allSkills(ctx, g)
	i := slices.IndexFunc(all, func(k skill) bool { return k.id() == in.Name })
	if i < 0 { // an id comes first: the folder of a broken skill may be named like one
		i = slices.IndexFunc(all, func(k skill) bool { return k.name == in.Name })
	}
	if i < 0 {
		names := make([]string, 0, len(all))
		for _, k := range all {
			names = append(names, k.name)
		}
		return k, nearest(operation.Refuse(skillUnknown, "neither this project nor the user has a skill %.64q", in.Name), in.Name, names)
	}
	k = all[i]
	if _, err := g.skillStanding(k); err != nil {
		return k, err
	}
	return k, k.is(in.Revision)
}

// is refuses a skill that has another revision than it should.
func (k skill) is(revision string) error {
	if revision == "" || revision == k.revision() {
		return nil
	}
	return operation.Refuse(skillChanged, "the skill %s is not as it was shown", k.name).With("revision", k.revision())
}

// unchanged refuses a skill that is not, or may not be used, as it was when a person was asked about its run.
func (s *Service) unchanged(ctx context.Context, project string, k skill) error {
	x, err := s.ofProject(ctx, project)
	if err != nil {
		return err
	}
	defer x.close()
	g, err := s.groundsOf(ctx, session.Admission{Project: x.Project}, session.EntrySkill)
	if err != nil {
		return err
	}
	all := s.allSkills(ctx, g)
	i := slices.IndexFunc(all, func(now skill) bool { return now.id() == k.id() && now.dir() == k.dir() })
	if i < 0 {
		return operation.Refuse(skillUnknown, "the skill %s is not there any more", k.name)
	}
	if _, err := g.skillStanding(all[i]); err != nil {
		return err
	}
	return all[i].is(k.revision())
}

// skillShown is the answer of a read.
type skillShown struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	About        string          `json:"description"`
	Revision     string          `json:"revision"`
	Instructions string          `json:"instructions"`
	Files        []folderFile    `json:"files"`
	Entry        []string        `json:"entry,omitempty"`
	Schema       json.RawMessage `json:"arguments_schema,omitempty"`
	Permissions  json.RawMessage `json:"permissions,omitempty"`
}

// readUsed reads a skill, or one file of it.
func readUsed(ctx context.Context, s *Service, t *turn) (any, error) {
	var in UseSkill
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if in.Action != "" && in.Action != "read" {
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no action; read and run are", in.Action)
	}
	k, err := s.skillOf(ctx, t, in, session.ActRead)
	if err != nil {
		return nil, err
	}
	if in.File != "" {
		return s.skillFile(ctx, k, in.File)
	}
	return skillShown{
		ID: k.id(), Name: k.name, About: s.cfg.Redact(k.about), Revision: k.revision(), Instructions: s.cfg.Redact(k.instructions), Files: k.folder.files,
		Entry: k.entry, Schema: k.schema, Permissions: k.permissions,
	}, nil
}

// skillFile reads one file of a skill.
func (s *Service) skillFile(ctx context.Context, k skill, file string) (any, error) {
	file = path.Clean(file)
	i := slices.IndexFunc(k.folder.files, func(f folderFile) bool { return f.Path == file })
	if i < 0 {
		names := make([]string, 0, len(k.folder.files))
		for _, f := range k.folder.files {
			names = append(names, f.Path)
		}
		return nil, nearest(operation.Refuse(operation.NotFound, "the skill %s has no file %.128q", k.name, file), file, names)
	}
	x, err := s.skillRoot(k.root)
	if err != nil {
		return nil, err
	}
	defer x.close()
	p, err := s.resolve(ctx, x, path.Join(k.folder.path, file), tree.Read)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	c, err := p.Read(ctx, maxFolderBytes)
	if err != nil {
		return nil, problem(err)
	}
	out := struct {
		folderFile
		Revision string  `json:"revision"`
		Text     *string `json:"text,omitempty"`
		Base64   []byte  `json:"base64,omitempty"`
	}{folderFile: k.folder.files[i], Revision: k.revision()}
	if c.SHA256 != out.SHA256 {
		return nil, operation.Refuse(skillChanged, "the skill %s changes while it is read", k.name).Retrying(fault.AfterWait)
	}
	if text := s.cfg.Redact(string(c.Data)); utf8.Valid(c.Data) {
		out.Text = &text
	} else {
		out.Base64 = c.Data
	}
	return out, nil
}

// usedSkill is a run of a skill on its way through the ledger: a command with what makes it.
type usedSkill struct {
	command *run
	skill   skill
}

var _ asking = usedSkill{}

// beginSkill starts the program of a skill. Its arguments are what it reads: no text of a shell is made of them.
func beginSkill(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in UseSkill
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if err := s.ableToRun("running a skill"); err != nil {
		return nil, err
	}
	k, err := s.skillOf(ctx, t, in, session.ActChange)
	if err != nil {
		return nil, err
	}
	if len(k.entry) == 0 {
		return nil, operation.Refuse(skillInvalid, "the skill %s has nothing to run: it tells what to do", k.name).With("skill", k.id()).Then(operation.Next{
			Tool: "use_skill", Args: map[string]any{"remote_session_id": in.Session, "name": k.id()}, Why: "its instructions",
		})
	}
	arguments := t.args["arguments"]
	if len(arguments) == 0 {
		arguments = json.RawMessage(`{}`)
	}
	unchecked, err := checkArguments(k.schema, arguments)
	switch {
	case err != nil:
		return nil, operation.Refuse(operation.ArgumentInvalid, "the skill %s does not take these arguments: %s", k.name, err)
	case unchecked != "":
		return nil, operation.Refuse(skillInvalid, "%s", unchecked).With("skill", k.id())
	case len(arguments) > maxStdinText:
		return nil, operation.Refuse(operation.LimitExceeded, "arguments have at most 256 KB").With("limit", maxStdinText).With("value", len(arguments))
	}
	text := string(arguments) + "\n"
	c, err := s.command(ctx, t, Run{Argv: k.argv(), Text: &text, Label: "skill " + k.name})
	if err != nil {
		return nil, err
	}
	c.Readable, c.skill = []string{k.dir()}, &k
	return usedSkill{&run{s: s, t: t, command: c}, k}, nil
}

func (u usedSkill) stage(ctx context.Context) (any, error) { return u.command.stage(ctx) }
func (u usedSkill) drop()                                  { u.command.drop() }
func (u usedSkill) settle(ctx context.Context)             { u.command.settle(ctx) }
func (u usedSkill) close()                                 { u.command.close() }

// question asks a person about every run, whatever the rules say of its program. What is frozen is the command and every file
// of the skill.
func (u usedSkill) question() *Question {
	ruling := u.command.command.ruling
	ruling.Decision = policy.Confirm
	q := ruling.question(approval.KindSkillRun, u.command.command.Command)
	q.Subject = digest([]byte("mcpx skill 1\n" + u.skill.id() + "\n" + u.skill.dir() + "\n" + u.skill.revision() + "\n" + q.Subject))
	q.Display = "run the skill " + u.skill.id() + " in " + u.skill.dir() + ", revision " + u.skill.revision()[:12] + "\n" + q.Display
	if len(u.skill.permissions) > 0 {
		q.Display += "\nit says that it needs " + string(u.skill.permissions) + "\n"
	}
	q.Reasons = append([]string{"skill.run: a skill is run after the yes of a person"}, q.Reasons...)
	return q
}

// run writes down which skill it is, and starts it.
func (u usedSkill) run(ctx context.Context) (any, error) {
	if err := u.tell(ctx); err != nil {
		return nil, err
	}
	return u.command.run(ctx)
}

func (u usedSkill) tell(ctx context.Context) error {
	raw, err := json.Marshal(struct {
		Skill    string `json:"skill"`
		Dir      string `json:"directory"`
		Revision string `json:"revision"`
	}{u.skill.id(), u.skill.dir(), u.skill.revision()})
	if err != nil {
		return err
	}
	refs := operationRefs(u.command.t.op)
	refs[event.RefJob] = u.command.command.job.ID
	return u.command.s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		_, err := tx.AppendEvent(ctx, event.Draft{At: u.command.s.cfg.Now(), Kind: event.SkillStarted, Actor: u.command.t.actor(), Refs: refs, Summary: "the skill " + u.skill.name + " is run", Body: raw})
		return err
	})
}
