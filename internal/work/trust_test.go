//go:build unix

package work

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// file writes a file of a project, with the directories above it.
func file(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o600)
	if strings.HasPrefix(content, "#!") {
		mode = 0o700
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// agree is the yes of a person to all that the repository of a project names now, as control records it.
func (d *desk) agree(t *testing.T, name string) session.Repository {
	t.Helper()
	p, repo := d.projectNamed(t, name), d.repository(t, name)
	if err := d.db.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutTrust(t.Context(), session.PutTrust{Trust: session.Trust{Project: p.ID, Digest: repo.Digest(), Entries: repo.Entries}})
	}); err != nil {
		t.Fatal(err)
	}
	return repo
}

// repository is what the repository of a project names now.
func (d *desk) repository(t *testing.T, name string) session.Repository {
	t.Helper()
	repo, err := d.Repository(t.Context(), d.projectNamed(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func (d *desk) projectNamed(t *testing.T, name string) (p session.Project) {
	t.Helper()
	if err := d.db.View(t.Context(), func(r store.Reader) (err error) {
		p, err = r.ProjectByID(t.Context(), session.ByID{ID: "proj_" + name})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (d *desk) trust(t *testing.T) session.TrustState {
	t.Helper()
	return read[sessionsListed](t, d.call(t, "session", `{"action":"list"}`)).Projects[0].Trust
}

const twoServers = `{"mcpServers": {"words": {"command": "/bin/words", "args": ["%s"]}, "docs": {"type": "http", "url": "https://docs.example/mcp"}}}`

// TestRT126ServersOfAProject: what a repository names is started after a person agreed to it, as it was then.
func TestRT126ServersOfAProject(t *testing.T) {
	d, u, rs := library(t)
	root := d.projectNamed(t, "shop").Path
	file(t, root, ".mcp.json", fmt.Sprintf(twoServers, "--plain"))
	for _, routed := range []string{"shop/words", "shop/docs"} {
		u.tools[routed] = []string{writes, readsOnly}
	}
	call := func(id, operation string) operation.Answer {
		return d.call(t, "call_tool", `{"remote_session_id":%q,"id":%q,"arguments":{"word":"a"},"operation_id":%q}`, rs, id, operation)
	}
	found := func() foundPage {
		return read[foundPage](t, d.call(t, "find_tools", `{"remote_session_id":%q,"kinds":["tool"]}`, rs))
	}
	if got := found(); len(got.Items) != 2 || got.Items[0].ID != "docs/*" && got.Items[0].ID != "words/*" || got.Items[0].State != stateTrust || len(got.Unlisted) != 0 {
		t.Errorf("before: %+v", got)
	}
	a := call("words/look", "call-00001")
	refused(t, a, trustRequired, fault.AfterWait)
	if !strings.Contains(a.Refusal.Message, "mcpx project trust shop") || d.trust(t) != session.Untrusted {
		t.Errorf("%v, %s", a.Refusal, d.trust(t))
	}
	if len(u.lists)+len(u.calls) != 0 {
		t.Fatalf("a server was asked: %v %v", u.lists, u.calls)
	}
	d.agree(t, "shop")
	if got := found(); len(got.Items) != 0 || len(got.Unlisted) != 2 || d.trust(t) != session.Trusted {
		t.Errorf("after a yes: %+v, %s", got, d.trust(t))
	}
	if a := call("words/look", "call-00001"); !a.OK || u.calls[0].Server != "shop/words" || u.calls[0].As.Workspace != d.projectNamed(t, "shop").Physical.Real {
		t.Fatalf("after a yes: %v, %+v", a.Refusal, u.calls)
	}
	if got := found(); len(got.Items) != 2 || got.Items[0].ID != "words/look" && got.Items[1].ID != "words/look" || got.Items[0].State != stateReady {
		t.Errorf("its tools: %+v", got)
	}
	if asked := d.waits(t, "call_tool", fmt.Sprintf(`{"remote_session_id":%q,"id":"words/store","operation_id":"call-00009"}`, rs)); !strings.Contains(asked.Display, "store of the server words") {
		t.Errorf("a person is asked %q", asked.Display)
	}
	file(t, root, ".mcp.json", fmt.Sprintf(twoServers, "--other"))
	if d.trust(t) != session.Changed {
		t.Errorf("after a change it is %s", d.trust(t))
	}
	refused(t, call("words/look", "call-00002"), trustRequired, fault.AfterWait)
	if a := call("docs/look", "call-00003"); !a.OK {
		t.Errorf("what did not change: %v", a.Refusal)
	}
	if a := call("words/look", "call-00001"); !a.Operation.Replayed {
		t.Errorf("a replay looks at the trust: %+v", a)
	}
	file(t, root, ".mcp.json", "  "+fmt.Sprintf(twoServers, "--plain"))
	if a := call("words/look", "call-00004"); !a.OK || d.trust(t) != session.Changed {
		t.Errorf("as it was, in a file of other bytes: %v, %s", a.Refusal, d.trust(t))
	}
	// A session of another project does not reach it, and the catalog has the name first.
	d.project(t, "other", t.TempDir())
	there := read[openedSession](t, d.call(t, "session", `{"action":"open","project":"other","operation_id":"open-00002"}`)).Session.ID
	refused(t, d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","operation_id":"call-00005"}`, there), "SERVER_UNKNOWN", fault.AfterFix)
	refused(t, d.call(t, "call_tool", `{"remote_session_id":%q,"id":"shop/words/look","operation_id":"call-00006"}`, there), "SERVER_UNKNOWN", fault.AfterFix)
	before := len(u.calls)
	u.tools["docs"] = []string{readsOnly}
	d.server(t, "docs", func(*catalog.Server) {})
	if a := call("docs/look", "call-00007"); !a.OK || u.calls[before].Server != "docs" {
		t.Errorf("%v, %+v", a.Refusal, u.calls[before:])
	}
}

// TestRepository: what counts for the digest, and what is wrong with what cannot be started.
func TestRepository(t *testing.T) {
	d := newDesk(t)
	root := t.TempDir()
	d.project(t, "shop", root)
	outside := t.TempDir()
	file(t, outside, "secret", "outside")
	look := func() session.Repository { return d.repository(t, "shop") }
	digests := map[string]string{look().Digest(): "empty"}
	fresh := func(what string) session.Repository {
		t.Helper()
		repo := look()
		if was, there := digests[repo.Digest()]; there {
			t.Errorf("%s has the digest of %s", what, was)
		}
		digests[repo.Digest()] = what
		return repo
	}
	file(t, root, "src/main.go", "package main")
	if digests[look().Digest()] == "" {
		t.Error("a file that names nothing counts")
	}
	for name, content := range map[string]string{
		".mcp.json": fmt.Sprintf(twoServers, "a"), ".cursor/mcp.json": `{"mcpServers":{"words":{"command":"/bin/evil"}}}`, ".claude/settings.json": `{"hooks":{}}`,
		".githooks/pre-commit": "#!/bin/sh", ".mcpx.toml": "[commands]\n", ".claude/skills/deploy/SKILL.md": "---\nname: deploy\ndescription: d\n---\n", ".envrc": "x",
		".vscode/mcp.json": `{`,
	} {
		file(t, root, name, content)
		fresh(name)
	}
	repo := look()
	for name, problem := range map[string]string{".vscode/mcp.json": "cannot be read as JSON"} {
		if e, ok := repo.Entry(session.EntryServer, name); !ok || !strings.Contains(e.Problem, problem) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e, _ := repo.Entry(session.EntryServer, "words"); e.File != ".mcp.json" || e.Server == nil || e.Server.Stdio.Command != "/bin/words" {
		t.Errorf("of two files the first counts: %+v", e)
	}
	file(t, root, ".claude/skills/deploy/helper.sh", "#!/bin/sh")
	fresh("a file of a skill")
	if err := os.Chmod(filepath.Join(root, ".claude/skills/deploy/helper.sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh("a skill whose file is no program any more")
	if err := os.Remove(filepath.Join(root, ".mcp.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(root, ".mcp.json")); err != nil {
		t.Fatal(err)
	}
	if e, ok := fresh("a link out of the project").Entry(session.EntryServer, ".mcp.json"); !ok || e.Problem == "" || e.Server != nil {
		t.Errorf("a link out of the project: %+v", e)
	}
}

// TestUnshownServers: a definition is not started when a person who is asked to agree would not see all of it.
func TestUnshownServers(t *testing.T) {
	d := newDesk(t)
	root := t.TempDir()
	d.project(t, "shop", root)
	exported := `{"format":"mcpx-catalog","version":1,"servers":[{"name":"words","sharing":"session","review":"approved","lifecycle":"enabled","stdio":{"command":"/bin/words"%s}%s}]}`
	for _, tc := range []struct{ what, document, problem string }{
		{"an export", fmt.Sprintf(exported, "", ""), ""},
		{"a child of the daemon", fmt.Sprintf(exported, "", `,"direct":true`), "no person would be shown"},
		{"a risk", fmt.Sprintf(exported, "", `,"risk":"low"`), "no person would be shown"},
		{"variables of the caller", fmt.Sprintf(exported, `,"env_pass":["AWS_PROFILE"]`, ""), "no person would be shown"},
		{"another directory", fmt.Sprintf(exported, `,"cwd_policy":"home"`, ""), "no person would be shown"},
		{"a variable", `{"mcpServers":{"words":{"command":"/bin/words","env":{"PATH":"/repo/.bin"}}}}`, ""},
		{"a long one", `{"mcpServers":{"words":{"command":"/bin/words","env":{"PATH":"` + strings.Repeat("/a", maxShownValue) + `"}}}}`, "the value of PATH is too long"},
	} {
		file(t, root, ".mcp.json", tc.document)
		e, ok := d.repository(t, "shop").Entry(session.EntryServer, "words")
		if !ok || (e.Server == nil) != (tc.problem != "") || !strings.Contains(e.Problem, tc.problem) || tc.problem == "" && e.Problem != "" {
			t.Errorf("%s: %+v", tc.what, e)
		}
	}
}

// TestSecondServerOfAName: a yes to an entry that was shown without its command is no yes to that command.
func TestSecondServerOfAName(t *testing.T) {
	d, u, rs := library(t)
	root := d.projectNamed(t, "shop").Path
	file(t, root, ".mcp.json", fmt.Sprintf(twoServers, "--plain"))
	file(t, root, "mcp.json", `{"mcpServers":{"words":{"command":"/bin/evil"}}}`)
	shown := d.agree(t, "shop").Entries
	file(t, root, ".mcp.json", "{}")
	e, ok := d.repository(t, "shop").Entry(session.EntryServer, "words")
	trusted := session.Trust{Entries: shown}
	if !ok || e.Server == nil || e.File != "mcp.json" || trusted.Covers(e) || !trusted.Knows(e) {
		t.Errorf("%+v, of %+v", e, shown)
	}
	u.tools["shop/words"] = []string{readsOnly}
	refused(t, d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","operation_id":"call-00001"}`, rs), trustRequired, fault.AfterWait)
}

const deploySkill = "---\nname: deploy\ndescription: How the shop is deployed.\n---\nFirst look, then leap.\n"

type shownSkills struct {
	Items []foundTool
}

// TestRT134Skills: a folder is listed and read with its files and revision; what leads out of it is refused at the list and at
// the run; the skill of a project comes before one of the user.
func TestRT134Skills(t *testing.T) {
	b := newBench(t)
	home, outside := t.TempDir(), t.TempDir()
	b.cfg.Skills = []string{home, filepath.Join(home, "none")}
	file(t, b.root, ".claude/skills/deploy/SKILL.md", deploySkill)
	file(t, b.root, ".claude/skills/deploy/notes/a.txt", "note")
	file(t, b.root, ".claude/skills/deploy/.env", "SECRET=1")
	file(t, home, "deploy/SKILL.md", strings.Replace(deploySkill, "leap", "sleep", 1))
	file(t, home, "greet/skill.yaml", "name: greet\ndescription: Greets.\nentry: [./greet.sh]\n")
	file(t, home, "greet/greet.sh", "#!/bin/sh\necho hello")
	file(t, outside, "evil.sh", "#!/bin/sh\necho evil")
	for name, target := range map[string]string{"byfile/run.sh": filepath.Join(outside, "evil.sh"), "bydir/more": outside, "bylink": outside, "up/run.sh": "../../../../main.sh"} {
		dir := filepath.Join(b.root, ".claude/skills", filepath.Dir(name))
		if strings.Contains(name, "/") {
			file(t, dir, "skill.yaml", "name: "+filepath.Base(dir)+"\ndescription: x\nentry: [./run.sh]\n")
		}
		if err := os.Symlink(target, filepath.Join(b.root, ".claude/skills", name)); err != nil {
			t.Fatal(err)
		}
	}
	file(t, b.root, "main.sh", "#!/bin/sh")
	file(t, b.root, ".claude/skills/above/skill.yaml", "name: above\ndescription: x\nentry: [../../../main.sh]\n")
	file(t, b.root, ".claude/skills/far/skill.yaml", "name: far\ndescription: x\nentry: [/bin/sh, -c, id]\n")
	list := func() map[string]foundTool {
		all := map[string]foundTool{}
		for _, f := range read[shownSkills](t, b.call(t, "find_tools", `{"remote_session_id":%q,"kinds":["skill"],"detail":"full"}`, b.session)).Items {
			all[f.ID] = f
		}
		return all
	}
	use := func(more string) operation.Answer {
		return b.call(t, "use_skill", `{"remote_session_id":%q,%s}`, b.session, more)
	}
	if got := list(); got["project:deploy"].State != stateTrust || got["global:deploy"].State != stateReady || !got["global:deploy"].Shadowed {
		t.Errorf("before a yes: %+v", got)
	}
	refused(t, use(`"name":"deploy"`), trustRequired, fault.AfterWait)
	b.agree(t, "app")
	got := list()
	if f := got["project:deploy"]; f.State != stateReady || f.Shadowed || len(f.Files) != 3 || f.Summary != "How the shop is deployed." || f.Revision == "" {
		t.Errorf("a skill of the project: %+v", f)
	}
	for _, name := range []string{"byfile", "bydir", "bylink", "up", "above", "far"} {
		if f := got["project:"+name]; f.State != stateDisabled || f.Summary == "" {
			t.Errorf("%s leads out of its folder, and is listed as %+v", name, f)
		}
		refused(t, use(fmt.Sprintf(`"name":%q`, name)), skillInvalid, fault.AfterFix)
		refused(t, use(fmt.Sprintf(`"name":%q,"action":"run","operation_id":"run-%s-1"`, name, name)), skillInvalid, fault.AfterFix)
	}
	shown := read[skillShown](t, use(`"name":"deploy"`))
	if shown.ID != "project:deploy" || shown.Instructions != "First look, then leap.\n" || len(shown.Files) != 3 || shown.Revision != got["project:deploy"].Revision {
		t.Errorf("read: %+v", shown)
	}
	if s := read[skillShown](t, use(`"name":"global:deploy"`)); !strings.Contains(s.Instructions, "sleep") {
		t.Errorf("the one of the user: %+v", s)
	}
	if f := read[struct{ Text, Path string }](t, use(`"name":"deploy","file":"notes/a.txt"`)); f.Text != "note" {
		t.Errorf("a file: %+v", f)
	}
	refused(t, use(`"name":"deploy","file":".env"`), "FILE_DENIED", fault.Never)
	refused(t, use(`"name":"deploy","file":"../deploy2"`), operation.NotFound, fault.AfterFix)
	refused(t, use(`"name":"deploi"`), skillUnknown, fault.AfterFix)
	a := use(`"name":"deploy","revision":"00"`)
	refused(t, a, skillChanged, fault.AfterFix)
	if a.Refusal.Details["revision"] != shown.Revision {
		t.Errorf("%v", a.Refusal.Details)
	}
	refused(t, use(`"name":"deploy","action":"run","operation_id":"run-deploy-1"`), skillInvalid, fault.AfterFix)
	file(t, b.root, ".claude/skills/deploy/notes/a.txt", "another note")
	refused(t, use(`"name":"deploy"`), trustRequired, fault.AfterWait)
	refused(t, b.as(t, "eve", "use_skill", `{"remote_session_id":%q,"name":"global:deploy"}`, b.session), operation.SessionNotFound, fault.AfterFix)
}

// TestSkillBounds: what is larger than a skill may be is listed, and used by nobody.
func TestSkillBounds(t *testing.T) {
	b := newBench(t)
	home := t.TempDir()
	b.cfg.Skills = []string{home}
	for name, write := range map[string]func(dir string){
		"many": func(dir string) {
			for i := range maxFolderFiles {
				file(t, dir, fmt.Sprintf("f%03d", i), "x")
			}
		},
		"large": func(dir string) { file(t, dir, "large", strings.Repeat("x", maxFolderBytes)) },
		"first": func(dir string) { file(t, dir, "SKILL.md", "no front matter") },
		"other": func(dir string) { file(t, dir, "SKILL.md", "---\nname: [a\n---\n") },
		"named": func(dir string) { file(t, dir, "SKILL.md", "---\nname: a/b\ndescription: x\n---\n") },
		"mute":  func(dir string) { file(t, dir, "SKILL.md", "---\nname: mute\n---\n") },
		"typed": func(dir string) { file(t, dir, "skill.yaml", "name: typed\ndescription: x\nentry: run\n") },
	} {
		dir := filepath.Join(home, name)
		file(t, dir, "SKILL.md", strings.Replace(deploySkill, "deploy", name, 1))
		write(dir)
	}
	for _, f := range read[shownSkills](t, b.call(t, "find_tools", `{"remote_session_id":%q,"kinds":["skill"]}`, b.session)).Items {
		if f.State != stateDisabled || f.Summary == "" {
			t.Errorf("%+v", f)
		}
		refused(t, b.call(t, "use_skill", `{"remote_session_id":%q,"name":%q}`, b.session, f.ID), skillInvalid, fault.AfterFix)
	}
}

// TestSkillNamedAsAnID: a broken skill of a repository does not take the place of one of the user.
func TestSkillNamedAsAnID(t *testing.T) {
	b := newBench(t)
	home := t.TempDir()
	b.cfg.Skills = []string{home}
	file(t, home, "deploy/SKILL.md", deploySkill)
	file(t, b.root, "skills/a/SKILL.md", "---\nname: global:deploy\ndescription: x\n---\n")
	file(t, b.root, "skills/a/skill.yaml", "entry: run\n")
	file(t, b.root, "skills/global:deploy/SKILL.md", "no front matter")
	for _, k := range b.repository(t, "app").Entries {
		if k.Name == "global:deploy" && k.File == "skills/a" {
			t.Errorf("it may call itself so: %+v", k)
		}
	}
	shown := read[skillShown](t, b.call(t, "use_skill", `{"remote_session_id":%q,"name":"global:deploy"}`, b.session))
	if shown.ID != "global:deploy" || shown.Instructions != "First look, then leap.\n" {
		t.Errorf("%+v", shown)
	}
}

// TestRT136RunsASkill: a person is asked about every run; the program is started by its words and reads its arguments.
func TestRT136RunsASkill(t *testing.T) {
	b := newBench(t)
	file(t, b.root, "skills/greet/skill.yaml", `name: greet
description: Greets somebody.
entry: [./run.sh, data.txt, "$(id)", "a b"]
arguments_schema: {type: object, properties: {who: {type: string}}, required: [who], additionalProperties: false}
permissions: {network: false}
`)
	file(t, b.root, "skills/greet/run.sh", "#!/bin/sh\ncat; printf '%s|' \"$@\"; pwd; cat \"$1\"")
	file(t, b.root, "skills/greet/data.txt", "data")
	b.agree(t, "app")
	run := func(id, arguments string) string {
		return fmt.Sprintf(`{"remote_session_id":%q,"name":"greet","action":"run","arguments":%s,"operation_id":%q}`, b.session, arguments, id)
	}
	refused(t, b.call(t, "use_skill", "%s", run("greet-0001", `{"who":1}`)), operation.ArgumentInvalid, fault.AfterFix)
	refused(t, b.call(t, "use_skill", "%s", run("greet-0001", `{"who":"a","more":1}`)), operation.ArgumentInvalid, fault.AfterFix)
	b.cfg.Disabled = []Toolset{SetCommands}
	a := b.call(t, "use_skill", "%s", run("greet-0001", `{"who":"Ada"}`))
	refused(t, a, operation.ToolDisabled, fault.Never)
	if a.Refusal.Details["setting"] != "runtime.commands" {
		t.Errorf("%v", a.Refusal.Details)
	}
	b.cfg.Disabled = nil
	asked := b.waits(t, "use_skill", run("greet-0001", `{"who":"Ada"}`))
	for _, want := range []string{"project:greet", filepath.Join(b.root, "skills/greet/run.sh"), `{"who":"Ada"}`, `"network":false`} {
		if !strings.Contains(asked.Display, want) {
			t.Errorf("a person is not shown %s: %s", want, asked.Display)
		}
	}
	if len(b.list(t, operation.ListJobs{})) != 0 {
		t.Fatal("it runs before the yes of a person")
	}
	b.decide(t, asked, true)
	started := read[startedJob](t, b.call(t, "use_skill", "%s", run("greet-0001", `{"who":"Ada"}`)))
	b.until(t, started.Job, "its end", gone)
	root, err := filepath.EvalSymlinks(b.root)
	if err != nil {
		t.Fatal(err)
	}
	want := "{\"who\":\"Ada\"}\n" + filepath.Join(root, "skills/greet/data.txt") + "|$(id)|a b|" + root + "\ndata"
	if got := b.all(t, started.Job, operation.Stdout); got != want {
		t.Errorf("it wrote %q, want %q", got, want)
	}
	if again := b.call(t, "use_skill", "%s", run("greet-0001", `{"who":"Ada"}`)); !again.Operation.Replayed || len(b.list(t, operation.ListJobs{})) != 1 {
		t.Errorf("again: %+v", again)
	}
	told := 0
	if err := b.db.View(context.Background(), func(r store.Reader) error {
		all, err := r.Events(context.Background(), event.ListEvents{})
		for _, e := range all {
			if e.Kind == event.SkillStarted && e.Refs[event.RefJob] == started.Job {
				told++
			}
		}
		return err
	}); err != nil || told != 1 {
		t.Errorf("%d events tell of the run, %v", told, err)
	}
	// A file of the skill that changes after the question takes the yes back.
	asked = b.waits(t, "use_skill", run("greet-0002", `{"who":"Bob"}`))
	b.decide(t, asked, true)
	file(t, b.root, "skills/greet/data.txt", "other data")
	b.agree(t, "app")
	refused(t, b.call(t, "use_skill", "%s", run("greet-0002", `{"who":"Bob"}`)), "APPROVAL_REVOKED", fault.NewID)
}

// TestQueuedSkill: a run that waits after the yes of a person is not started when its skill is another one by then, or when
// nobody trusts it any more.
func TestQueuedSkill(t *testing.T) {
	b := newBench(t)
	b.jobs = 1
	b.restart(t)
	for _, name := range []string{"same", "changed", "mistrusted"} {
		file(t, b.root, "skills/"+name+"/skill.yaml", "name: "+name+"\ndescription: x\nentry: [./run.sh]\n")
		file(t, b.root, "skills/"+name+"/run.sh", "#!/bin/sh\ntouch ran-"+name)
	}
	b.agree(t, "app")
	first := read[startedJob](t, b.run(t, "start_command", `"shell":"until [ -e go ]; do sleep 0.01; done"`)).Job
	queued := map[string]string{}
	for _, name := range []string{"same", "changed", "mistrusted"} {
		run := fmt.Sprintf(`{"remote_session_id":%q,"name":%q,"action":"run","operation_id":"run-%s"}`, b.session, name, name)
		b.decide(t, b.waits(t, "use_skill", run), true)
		queued[name] = read[startedJob](t, b.call(t, "use_skill", "%s", run)).Job
	}
	file(t, b.root, "skills/changed/run.sh", "#!/bin/sh\ntouch ran-changed; touch ran-more")
	b.agree(t, "app")
	file(t, b.root, "skills/mistrusted/more", "x")
	file(t, b.root, "go", "")
	b.until(t, first, "the first", gone)
	for name, job := range queued {
		b.until(t, job, "the run of "+name, gone)
		_, err := os.Stat(filepath.Join(b.root, "ran-"+name))
		j := b.list(t, operation.ListJobs{})
		one := j[slices.IndexFunc(j, func(j operation.Job) bool { return j.ID == job })]
		if failed := one.State == operation.JobFailed && one.Reason == operation.NotAllowed; failed != (name != "same") || (err == nil) != (name == "same") {
			t.Errorf("%s: %+v, %v", name, one, err)
		}
	}
}
