package policy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// judged judges a text in the fixture shop.
func judged(t *testing.T, text string, w World, r Rules) Verdict {
	t.Helper()
	v, err := Judge(Command{Shell: text}, w, r)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// wants checks the decision and that a unit has it by the rule.
func wants(t *testing.T, text string, v Verdict, decision Decision, rule string) {
	t.Helper()
	if v.Decision != decision || !slices.ContainsFunc(v.Units, func(u Unit) bool { return u.Decision == decision && u.Rule == rule }) {
		t.Errorf("%s: %s, want %s by %s; units:\n%s", text, v.Decision, decision, rule, show(v))
	}
}

func rulesOf(t *testing.T, values map[string]any) Rules {
	t.Helper()
	p, err := ParseUser(values)
	if err != nil {
		t.Fatal(err)
	}
	return Combine(p, Policy{}, "")
}

func commandRules(rules ...map[string]any) map[string]any {
	return map[string]any{"commands": map[string]any{"rule": rules}}
}

func TestRT77Units(t *testing.T) {
	v := judged(t, "touch started; rm -rf /", newShop(), Rules{})
	if v.Decision != Deny || len(v.Units) != 2 {
		t.Fatalf("%s\n%s", v.Decision, show(v))
	}
	for i, want := range []Unit{
		{Text: "touch started", Decision: Confirm, Rule: "default", Line: 1, Column: 1},
		{Text: "rm -rf /", Decision: Deny, Rule: "rm.root", Line: 1, Column: 16},
	} {
		got := v.Units[i]
		if got.Reason == "" {
			t.Errorf("%s has no reason", got.Text)
		}
		if got.Reason = ""; got != want {
			t.Errorf("unit %d is %+v, want %+v", i, got, want)
		}
	}
}

func TestRT78Argv(t *testing.T) {
	for _, c := range []struct {
		argv     []string
		decision Decision
		rule     string
	}{
		{[]string{"rm", "-rf", "/"}, Deny, "rm.root"},
		{[]string{"echo", "$(rm -rf /)", ";", "|"}, Allow, "vetted.echo"},
		{[]string{"cat", "*"}, Allow, "vetted.cat"},
		{[]string{"cat", "~/x"}, Allow, "vetted.cat"},
		{[]string{"cd", "src"}, Confirm, "default"},
		{[]string{"eval", "ls"}, Confirm, "default"},
		{[]string{"bash", "-c", "rm -rf /"}, Deny, "rm.root"},
		{[]string{"bash", "-c", "ls"}, Allow, "vetted.ls"},
	} {
		v, err := Judge(Command{Argv: c.argv}, newShop(), Rules{})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, strings.Join(c.argv, " "), v, c.decision, c.rule)
	}
}

func TestRT79UserRule(t *testing.T) {
	rules := rulesOf(t, commandRules(map[string]any{"id": "go-test", "decision": "allow", "program": "go", "subcommand": "test"}))
	for _, c := range []struct {
		text     string
		decision Decision
		rule     string
	}{
		{"go test ./...", Allow, "go-test"},
		{"go test ./...; rm -rf /", Deny, "rm.root"},
		{"go test $X", Confirm, "default"},
		{"sudo go test", Confirm, "elevate"},
		{"go test > out.txt", Confirm, "write.redirect"},
		{"GOFLAGS=-x go test", Confirm, "env.sensitive"},
		{"go build", Confirm, "default"},
		{"go -C /etc test", Confirm, "default"},
		{"go test /etc/x", Confirm, "default"},
		{"./go test", Confirm, "program.untrusted"},
		{"timeout 5 go test ./...", Allow, "go-test"},
		{"cd src && go test ./...", Allow, "go-test"},
		{"cd .. && go test ./...", Confirm, "path.outside"},
	} {
		wants(t, c.text, judged(t, c.text, newShop(), rules), c.decision, c.rule)
	}
}

func TestRT80Project(t *testing.T) {
	project, warnings, err := ParseProject(map[string]any{
		"commands": map[string]any{
			"lift":      []any{"write.redirect"},
			"contained": "allow",
			"rule": []any{
				map[string]any{"id": "npm", "decision": "allow", "program": "npm"},
				map[string]any{"id": "no-push", "decision": "deny", "program": "git", "subcommand": "push"},
				map[string]any{"id": "ask-ls", "decision": "confirm", "program": "ls"},
			},
		},
		"files": map[string]any{"except": []any{".env"}, "deny": []any{"data/**"}},
	})
	if err != nil || len(warnings) != 4 {
		t.Fatalf("error %v, warnings %q", err, warnings)
	}
	rules := Combine(Policy{}, project, "")
	for _, c := range []struct {
		text     string
		decision Decision
		rule     string
	}{
		{"npm test", Confirm, "default"},
		{"cat README.md > out.txt", Confirm, "write.redirect"},
		{"git push", Deny, "no-push"},
		{"git -C src push origin", Deny, "no-push"},
		{"ls", Confirm, "ask-ls"},
		{"cat .env", Deny, "file.secret"},
		{"cat data/in.csv", Deny, "file.denied"},
		{"cat README.md", Allow, "vetted.cat"},
	} {
		wants(t, c.text, judged(t, c.text, newShop(), rules), c.decision, c.rule)
	}
	broken := Combine(Policy{}, Policy{}, "line 3: no value")
	wants(t, "ls", judged(t, "ls", newShop(), broken), Confirm, "policy.broken")
}

func TestRT81Repository(t *testing.T) {
	for _, key := range []string{
		"core.fsmonitor", "core.hooksPath", "diff.external", "diff.jpg.textconv", "diff.x.command", "alias.st", "filter.lfs.smudge",
		"include.path", "includeIf.gitdir:x.path", "core.sshCommand", "core.pager", "core.editor", "gpg.program",
	} {
		w := newShop()
		w.config = []string{key}
		wants(t, key, judged(t, "git status", w, Rules{}), Confirm, "git.repo-config")
		wants(t, key, judged(t, "cd src && git log", w, Rules{}), Confirm, "git.repo-config")
	}
	for _, key := range []string{"core.bare", "user.name", "remote.origin.url", "branch.main.merge", "core.ignorecase", "submodule.x.url"} {
		if RunsPrograms(key) {
			t.Errorf("%s runs no program", key)
		}
	}
}

// TestRT83Refused is about what is refused before it is judged; the costs are in TestRT83Cost and FuzzJudge.
func TestRT83Refused(t *testing.T) {
	for _, c := range []struct {
		name    string
		command Command
		code    string
		at      [2]uint
	}{
		{"NUL", Command{Shell: "ls\nl\x00s"}, CodeSyntax, [2]uint{2, 2}},
		{"not UTF-8", Command{Shell: "ls \xff"}, CodeSyntax, [2]uint{1, 4}},
		{"too long", Command{Shell: strings.Repeat("x", MaxShell+1)}, CodeLimit, [2]uint{}},
		{"argv with NUL", Command{Argv: []string{"ls", "a\x00"}}, CodeSyntax, [2]uint{}},
		{"argv too long", Command{Argv: []string{"ls", strings.Repeat("x", MaxArgv)}}, CodeLimit, [2]uint{}},
		{"nothing", Command{}, CodeSyntax, [2]uint{}},
		{"both", Command{Argv: []string{"ls"}, Shell: "ls"}, CodeSyntax, [2]uint{}},
		{"open quote", Command{Shell: "ls\n  'a"}, CodeSyntax, [2]uint{2, 3}},
		{"not of this shell", Command{Shell: "cat <(ls)", Dialect: POSIX}, CodeSyntax, [2]uint{1, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Judge(c.command, newShop(), Rules{})
			p, ok := errors.AsType[*Problem](err)
			if !ok || p.Code != c.code || p.Message == "" {
				t.Fatalf("got %v, want %s", err, c.code)
			}
			if c.at != [2]uint{} && (p.Details["line"] != c.at[0] || p.Details["column"] != c.at[1]) {
				t.Errorf("at %v, want %v", p.Details, c.at)
			}
		})
	}
	if _, err := Judge(Command{Shell: strings.Repeat("x", MaxShell)}, newShop(), Rules{}); err != nil {
		t.Error("a text of the greatest size:", err)
	}
}

func TestRT84Untrusted(t *testing.T) {
	w := newShop()
	w.programs["ls"] = Program{Path: "/srv/shop/node_modules/.bin/ls", Writable: true}
	w.programs["cat"] = Program{Path: "/opt/tools/cat", Writable: true}
	w.programs["head"] = Program{Path: "/opt/tools/head"}
	w.programs["timeout"] = Program{Path: "/srv/shop/timeout", Writable: true}
	for _, c := range []struct {
		text     string
		decision Decision
		rule     string
	}{
		{"ls", Confirm, "program.untrusted"},
		{"cat README.md", Confirm, "program.untrusted"},
		{"head README.md", Confirm, "default"},
		{"timeout 5 wc README.md", Confirm, "program.untrusted"},
		{"nice ls", Confirm, "program.untrusted"},
		{"bash -c 'ls'", Confirm, "program.untrusted"},
		{"echo", Allow, "vetted.echo"},
		{"/bin/wc README.md", Allow, "vetted.wc"},
		{"missing README.md", Confirm, "default"},
	} {
		wants(t, c.text, judged(t, c.text, w, Rules{}), c.decision, c.rule)
	}
	rules := rulesOf(t, map[string]any{"commands": map[string]any{"program_dirs": []any{"/opt/tools"}}})
	wants(t, "head, trusted", judged(t, "head README.md", w, rules), Allow, "vetted.head")
}

// TestRT82Environment: names of variables that reach the shell are judged, not only those of the text. That the shell is
// started without BASH_ENV, ENV and functions is for whoever starts it.
func TestRT82Environment(t *testing.T) {
	for name, decision := range map[string]Decision{"BASH_ENV": Confirm, "ENV": Confirm, "FOO": Confirm, "LANG": Allow, "LC_ALL": Allow} {
		v, err := Judge(Command{Shell: "ls", Env: []string{name}}, newShop(), Rules{})
		if err != nil || v.Decision != decision {
			t.Errorf("%s: %s %v, want %s", name, v.Decision, err, decision)
		}
	}
}

func TestRT86Frozen(t *testing.T) {
	stdin := "y\n"
	for _, text := range []string{"git config core.fsmonitor x", "git commit", "npm run build"} {
		w := newShop()
		w.place.Sandbox = Sandbox{Level: SandboxWorkspace, Network: true}
		c := Command{Argv: strings.Fields(text), Env: []string{"LANG", "CI"}, Secrets: []string{"TOKEN"}, Stdin: &stdin, Project: "shop"}
		v, err := Judge(c, w, Rules{})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, text, v, Confirm, "default")
		f := Freeze(c, v, w.place)
		if !slices.Equal(f.Argv, c.Argv) || f.Dir != "/srv/shop" || !slices.Equal(f.Env, []string{"CI", "LANG"}) || f.Project != "shop" ||
			f.Form != FormArgv || f.Sandbox != SandboxWorkspace || len(f.Stdin) != 64 || !slices.Equal(f.Secrets, []string{"TOKEN"}) {
			t.Errorf("%s: %+v", text, f)
		}
		program := c.Argv[0]
		if !slices.Equal(f.Programs, []FrozenProgram{{"/usr/bin/" + program, program + "-1"}}) {
			t.Errorf("%s: programs %v", text, f.Programs)
		}
	}
}

// TestFrozenDifferences changes each field of a record: the digest changes, and the field is named.
func TestFrozenDifferences(t *testing.T) {
	base := Frozen{Form: FormShell, Shell: "x", Dialect: Bash, Programs: []FrozenProgram{{"/bin/x", "1"}}, Dir: "/p", Env: []string{"A"}, Secrets: []string{"S"}, Sandbox: "none", Project: "p"}
	for name, change := range map[string]func(*Frozen){
		"form": func(f *Frozen) { f.Form = FormArgv }, "argv": func(f *Frozen) { f.Argv = []string{"x"} },
		"shell": func(f *Frozen) { f.Shell = "x " }, "dialect": func(f *Frozen) { f.Dialect = POSIX },
		"programs": func(f *Frozen) { f.Programs = []FrozenProgram{{"/bin/x", "2"}} }, "cwd": func(f *Frozen) { f.Dir = "/q" },
		"env": func(f *Frozen) { f.Env = []string{"B"} }, "secrets": func(f *Frozen) { f.Secrets = nil },
		"stdin_sha256": func(f *Frozen) { f.Stdin = "00" }, "sandbox": func(f *Frozen) { f.Sandbox = "strict" },
		"project": func(f *Frozen) { f.Project = "q" },
	} {
		changed := base
		change(&changed)
		if changed.Digest() == base.Digest() || !slices.Equal(base.Differences(changed), []string{name}) {
			t.Errorf("%s: %v", name, base.Differences(changed))
		}
	}
	if same := base; same.Digest() != base.Digest() || len(base.Differences(same)) > 0 {
		t.Error("a record differs from itself")
	}
}

func TestInput(t *testing.T) {
	for _, c := range []struct {
		command  Command
		text     string
		decision Decision
		rule     string
	}{
		{Command{Argv: []string{"cat"}}, "rm -rf /\n", Allow, "input.data"},
		{Command{Argv: []string{"bash"}}, "ls\n", Confirm, "interp"},
		{Command{Argv: []string{"bash"}}, "rm -rf /\n", Deny, "rm.root"},
		{Command{Argv: []string{"bash"}}, "echo 'open", Confirm, "interp"},
		{Command{Argv: []string{"python3"}}, "print(1)\n", Confirm, "interp"},
		{Command{Argv: []string{"python3", "x.py"}}, "1\n", Allow, "input.data"},
		{Command{Shell: "ls; sudo bash -s"}, "rm -rf /\n", Deny, "rm.root"},
		{Command{Shell: "ls | bash"}, "rm -rf /\n", Allow, "input.data"},
		{Command{Shell: "bash < list.txt"}, "rm -rf /\n", Allow, "input.data"},
		{Command{Shell: "rm -rf /; cat"}, "y\n", Allow, "input.data"},
	} {
		v, err := JudgeInput(c.command, c.text, newShop(), Rules{})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, c.command.Shell+strings.Join(c.command.Argv, " ")+" <- "+c.text, v, c.decision, c.rule)
	}
	program := "rm -rf /"
	v, err := Judge(Command{Argv: []string{"bash"}, Stdin: &program}, newShop(), Rules{})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, "bash with stdin_text", v, Deny, "rm.root")
}

func TestLifted(t *testing.T) {
	rules := rulesOf(t, map[string]any{"commands": map[string]any{"lift": []any{"write.redirect", "args.dynamic", "interp", "rm.root"}}})
	for _, c := range []struct {
		text     string
		decision Decision
		rule     string
	}{
		{"ls > out.txt", Allow, "write.redirect"},
		{`cat "$F"`, Allow, "args.dynamic"},
		{"bash scripts/deploy.sh", Confirm, "default"},
		{"python3 -c 'x'", Confirm, "default"},
		{"rm -rf /", Confirm, "default"},
		{"ls > .git/config", Deny, "file.denied"},
	} {
		wants(t, c.text, judged(t, c.text, newShop(), rules), c.decision, c.rule)
	}
}

func TestContained(t *testing.T) {
	rules := rulesOf(t, map[string]any{"commands": map[string]any{"contained": "allow"}})
	for _, c := range []struct {
		name     string
		sandbox  Sandbox
		decision Decision
	}{
		{"none", Sandbox{}, Confirm},
		{"workspace", Sandbox{Level: SandboxWorkspace}, Allow},
		{"strict", Sandbox{Level: SandboxStrict}, Allow},
		{"a gap", Sandbox{Level: SandboxWorkspace, Gaps: true}, Confirm},
		{"a network", Sandbox{Level: SandboxWorkspace, Network: true}, Confirm},
	} {
		w := newShop()
		w.place.Sandbox = c.sandbox
		wants(t, c.name, judged(t, "npm test", w, rules), c.decision, "default")
		wants(t, c.name, judged(t, "sudo ls", w, rules), Confirm, "elevate")
		wants(t, c.name, judged(t, "rm -rf /", w, rules), Deny, "rm.root")
	}
}

func TestRuleConditions(t *testing.T) {
	rule := func(more map[string]any) map[string]any {
		r := map[string]any{"id": "mine", "decision": "allow", "program": "npm"}
		maps.Copy(r, more)
		return commandRules(r)
	}
	for _, c := range []struct {
		name    string
		rule    map[string]any
		text    string
		allowed bool
	}{
		{"any", rule(nil), "npm test", true},
		{"all_of", rule(map[string]any{"args": map[string]any{"all_of": []any{"a", "b*"}}}), "npm b1 a", true},
		{"all_of, one missing", rule(map[string]any{"args": map[string]any{"all_of": []any{"a", "b*"}}}), "npm a", false},
		{"any_of", rule(map[string]any{"args": map[string]any{"any_of": []any{"a", "b"}}}), "npm x b", true},
		{"any_of, none", rule(map[string]any{"args": map[string]any{"any_of": []any{"a", "b"}}}), "npm x", false},
		{"none_of", rule(map[string]any{"args": map[string]any{"none_of": []any{"--x=*"}}}), "npm --x=1", false},
		{"prefix", rule(map[string]any{"args": map[string]any{"prefix": []any{"run", "build"}}}), "npm run build --x", true},
		{"prefix, later", rule(map[string]any{"args": map[string]any{"prefix": []any{"run", "build"}}}), "npm x run build", false},
		{"outside", rule(nil), "npm --prefix=/etc test", false},
		{"outside, any", rule(map[string]any{"operands": "any"}), "npm --prefix=/etc test", true},
		{"cwd", rule(map[string]any{"cwd": "src"}), "cd src && npm test", true},
		{"cwd, elsewhere", rule(map[string]any{"cwd": "src"}), "npm test", false},
		{"cwd, perhaps", rule(map[string]any{"cwd": "src"}), "cd src; npm test", false},
		{"sandbox", rule(map[string]any{"when": map[string]any{"sandbox": "workspace"}}), "npm test", false},
		{"network", rule(map[string]any{"when": map[string]any{"network": "off"}}), "npm test", true},
		{"network on", rule(map[string]any{"when": map[string]any{"network": "on"}}), "npm test", false},
		{"path", rule(map[string]any{"program": "/usr/bin/npm"}), "npm test", true},
		{"other path", rule(map[string]any{"program": "/opt/npm"}), "npm test", false},
	} {
		want := Confirm
		if c.allowed {
			want = Allow
		}
		if v := judged(t, c.text, newShop(), rulesOf(t, c.rule)); v.Decision != want {
			t.Errorf("%s: %s, want %s\n%s", c.name, v.Decision, want, show(v))
		}
	}
}

func TestSecretsNeedARule(t *testing.T) {
	rules := rulesOf(t, commandRules(map[string]any{
		"id": "token", "decision": "allow", "program": "npm", "subcommand": "publish", "secrets": []any{"NPM"}, "project": "shop",
	}))
	for _, c := range []struct {
		name    string
		command Command
		asks    bool
	}{
		{"named", Command{Argv: []string{"npm", "publish"}, Project: "shop"}, false},
		{"another program", Command{Argv: []string{"make"}, Project: "shop"}, true},
		{"another project", Command{Argv: []string{"npm", "publish"}, Project: "x"}, true},
		{"a program beside it", Command{Shell: "npm publish; make", Project: "shop"}, true},
		{"nothing but builtins", Command{Shell: "x=1", Project: "shop"}, true},
	} {
		c.command.Secrets = []string{"NPM"}
		v, err := Judge(c.command, newShop(), rules)
		if err != nil {
			t.Fatal(err)
		}
		asks := slices.ContainsFunc(v.Units, func(u Unit) bool { return u.Rule == "secret.use" })
		if asks != c.asks {
			t.Errorf("%s: asks %v, want %v\n%s", c.name, asks, c.asks, show(v))
		}
	}
}

// TestSecretsHaveReceivers: RT-122, a program that a secret is not for. No rule and no lift gives it to one.
func TestSecretsHaveReceivers(t *testing.T) {
	rules := rulesOf(t, map[string]any{"commands": map[string]any{
		"lift": []any{"secret.use"},
		"rule": []any{map[string]any{"id": "any", "decision": "allow", "program": "make", "secrets": []any{"NPM"}, "project": "shop"}},
	}})
	for _, c := range []struct {
		command   Command
		receivers []string
		denied    bool
	}{
		{Command{Argv: []string{"npm", "publish"}}, nil, false},
		{Command{Argv: []string{"npm", "publish"}}, []string{"npm"}, false},
		{Command{Argv: []string{"/usr/bin/npm", "publish"}}, []string{"gh", "/usr/bin/npm"}, false},
		{Command{Argv: []string{"./npm", "publish"}}, []string{"npm"}, true},
		{Command{Argv: []string{"make"}}, []string{"npm"}, true},
		{Command{Argv: []string{"env", "A=1", "npm", "publish"}}, []string{"npm"}, false},
		{Command{Argv: []string{"env", "make"}}, []string{"npm"}, true},
		{Command{Shell: "npm publish && npm view"}, []string{"npm"}, false},
		{Command{Shell: "npm publish; make"}, []string{"npm"}, true},
		{Command{Shell: "npm publish; $X"}, []string{"npm"}, true},
		{Command{Shell: "X=npm; $X publish"}, []string{"npm"}, true},
		{Command{Shell: "bash -c 'npm publish; make'"}, []string{"npm", "bash"}, true},
		{Command{Argv: []string{"python3", "x.py"}}, []string{"npm"}, true},
	} {
		c.command.Secrets, c.command.Receivers, c.command.Project = []string{"NPM"}, map[string][]string{"NPM": c.receivers}, "shop"
		v, err := Judge(c.command, newShop(), rules)
		if err != nil {
			t.Fatal(err)
		}
		denied := slices.ContainsFunc(v.Units, func(u Unit) bool { return u.Rule == "secret.program" && u.Decision == Deny })
		if denied != c.denied || denied != (v.Decision == Deny) {
			t.Errorf("%q %q for %q: denied %v, want %v\n%s", c.command.Argv, c.command.Shell, c.receivers, denied, c.denied, show(v))
		}
	}
}
