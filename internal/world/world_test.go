package world

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/policy"
)

// land is a home and a project on the disk.
type land struct {
	t    *testing.T
	root string
	cfg  Config
}

func newLand(t *testing.T) *land {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &land{t: t, root: root}
	l.put("shop/README.md", "text")
	l.put("shop/.env", "KEY=1")
	l.put("home/.ssh/id_ed25519", "key")
	l.put("home/.ssh/config", "Host *")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l.cfg = Config{
		Place: policy.Place{Target: l.at("shop"), Temp: l.at("tmp"), Home: l.at("home"), Own: []string{l.at("home/.mcpx")}},
		Dir:   l.at("shop"), Path: os.Getenv("PATH"), Exe: exe, Writable: []string{l.at("shop"), l.at("tmp")},
	}
	return l
}

func (l *land) at(name string) string { return filepath.Join(l.root, name) }

func (l *land) put(name, content string) string {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Dir(l.at(name)), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(l.at(name), []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
	return l.at(name)
}

func (l *land) program(name string) string {
	l.t.Helper()
	path := l.put(name, "#!/bin/sh\n")
	if err := os.Chmod(path, 0o755); err != nil {
		l.t.Fatal(err)
	}
	return path
}

func (l *land) judge(c policy.Command) policy.Verdict {
	l.t.Helper()
	v, err := policy.Judge(c, New(l.cfg), policy.Rules{})
	if err != nil {
		l.t.Fatal(err)
	}
	return v
}

func (l *land) shell(text string) policy.Verdict { return l.judge(policy.Command{Shell: text}) }

// rule is the id of the strictest unit.
func rule(v policy.Verdict) string {
	for _, u := range v.Units {
		if u.Decision == v.Decision {
			return u.Rule
		}
	}
	return ""
}

func TestFollow(t *testing.T) {
	l := newLand(t)
	l.put("elsewhere/deep/file", "x")
	for from, to := range map[string]string{"shop/link": "../elsewhere/deep", "shop/loop": "loop", "shop/abs": l.at("elsewhere")} {
		if err := os.Symlink(to, l.at(from)); err != nil {
			t.Fatal(err)
		}
	}
	w := New(l.cfg)
	for path, want := range map[string]string{
		l.at("shop/./README.md"):              l.at("shop/README.md"),
		l.at("shop") + "/link/../other":       l.at("elsewhere/other"), // ".." is of what the link leads to
		l.at("shop/link/file"):                l.at("elsewhere/deep/file"),
		l.at("shop/abs/deep"):                 l.at("elsewhere/deep"),
		l.at("shop/none/such"):                l.at("shop/none/such"),
		"/proc/self/root" + l.at("shop/.env"): l.at("shop/.env"),
		"/proc/self/cwd/.env":                 l.at("shop/.env"),
		"/proc/self/environ":                  "/proc/self/environ",
		"/../../..":                           "/",
	} {
		if got := w.follow(path); got != want {
			t.Errorf("%s leads to %s, want %s", path, got, want)
		}
	}
	if f := w.File(l.at("shop/loop")); f.Path == "" || f.Dir {
		t.Errorf("a loop is %+v", f)
	}
	if f := w.File("/dev/null"); !f.Device || !f.Exists {
		t.Errorf("/dev/null is %+v", f)
	}
}

// TestDenied reaches for what is denied under other names.
func TestDenied(t *testing.T) {
	l := newLand(t)
	for from, to := range map[string]string{"home/.ssh/config": "shop/notes.txt", "shop/.env": "shop/plain.txt", "shop/README.md": "shop/second.md"} {
		if err := os.Link(l.at(from), l.at(to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(l.at("home/.ssh"), l.at("shop/keys")); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"cat README.md":           "vetted.cat",
		"cat second.md":           "vetted.cat", // two names, and none of them is denied
		"cat .env":                "file.secret",
		"cat ./docs/../.env":      "file.secret",
		"cat notes.txt":           "file.secret", // a hard link to a key
		"cat plain.txt":           "file.secret",
		"cat keys/id_ed25519":     "file.secret",
		"cat /proc/self/cwd/.env": "file.secret",
		"cat /proc/self/root" + l.at("home/.ssh/x"):    "file.secret",
		"cat /proc/self/environ":                       "file.secret",
		"cat < ~/.ssh/config":                          "file.secret",
		"cat *.txt":                                    "file.secret",
		"rm -rf ~":                                     "rm.root",
		"rm -rf " + l.at("home/.mcpx"):                 "rm.root",
		"echo x > " + l.at("home/.mcpx/state/mcpx.db"): "file.denied",
		"grep -r TODO .":                               "read.recursive",
	} {
		if v := l.shell(text); rule(v) != want {
			t.Errorf("%s is %s by %s, want %s: %+v", text, v.Decision, rule(v), want, v.Units)
		}
	}
	l.cfg.Hidden = []string{l.at("shop/.env"), l.at("shop/plain.txt")}
	if v := l.shell("grep -r TODO ."); rule(v) != "vetted.grep" {
		t.Errorf("where the sandbox hides the secrets: %+v", v)
	}
}

// TestRT81 runs nothing of a repository's configuration, and finds it wherever git does.
func TestRT81RepositoryConfig(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("skipped by name: no git")
	}
	for name, config := range map[string]string{
		"fsmonitor": "[core]\n\tfsmonitor = touch MARK\n", "one line": "[core] fsmonitor = touch MARK\n",
		"textconv": "[diff \"x]y\"]\n\ttextconv = touch MARK\n", "alias": "[alias]\n\tstatus = !touch MARK\n", "include": "[include]\n\tpath = /nowhere\n",
		"case": "[CORE]\n\tFsMonitor = touch MARK\n", "old form": "[filter.x]\n\tclean = touch MARK\n",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLand(t)
			mark := l.at("mark")
			run := func(args ...string) {
				t.Helper()
				cmd := exec.Command(git, args...)
				cmd.Dir = l.at("shop")
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.at("home"), "GIT_CONFIG_NOSYSTEM=1"}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %q: %v: %s", args, err, out)
				}
			}
			run("init", "-q")
			if v := l.shell("git status"); rule(v) != "vetted.git" {
				t.Fatalf("before: %+v", v)
			}
			file, err := os.OpenFile(l.at("shop/.git/config"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteString(strings.ReplaceAll(config, "MARK", mark)); err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
			l.put("shop/deep/er/file", "x")
			for _, text := range []string{"git status", "git diff", "cd deep/er && git status", "git -C deep status"} {
				if v := l.shell(text); v.Decision != policy.Confirm || rule(v) != "git.repo-config" {
					t.Errorf("%s is %s: %+v", text, v.Decision, v.Units)
				}
			}
			if _, err := os.Stat(mark); err == nil {
				t.Error("the program of the configuration ran")
			}
		})
	}
}

// TestRepositories finds work trees, submodules, hooks and bare repositories.
func TestRepositories(t *testing.T) {
	l := newLand(t)
	l.put("bare/HEAD", "ref: refs/heads/main")
	l.put("bare/objects/x", "")
	l.put("bare/refs/x", "")
	l.put("bare/config", "[core]\n\tsshCommand = x\n")
	l.put("main/.git/config", "[core]\n\tbare = false\n")
	l.put("main/.git/modules/sub/config", "[core]\n\tpager = x\n")
	l.put("main/.git/worktrees/w/commondir", "../..\n")
	l.put("main/.git/worktrees/w/config.worktree", "[diff]\n\texternal = x\n")
	l.put("w/.git", "gitdir: "+l.at("main/.git/worktrees/w")+"\n")
	hook := l.program("hooked/.git/hooks/post-index-change")
	l.put("emb/.git/config", "")
	l.put("emb/.gitmodules", "[submodule \"s\"]\n\tpath = s\n")
	l.put("emb/s/.git/config", "[core]\n\tfsmonitor = x\n")
	w := New(l.cfg)
	for dir, want := range map[string]string{
		"bare": "core.sshcommand", "main": "core.pager", "w": "diff.external", "hooked": "core.hookspath", "emb": "core.fsmonitor",
	} {
		if r := w.Repository(l.at(dir)); !r.Found || !slices.Contains(r.Keys, want) {
			t.Errorf("%s: %+v, want %s", dir, r, want)
		}
	}
	if err := os.Chmod(hook, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := w.Repository(l.at("hooked")); len(r.Keys) != 0 {
		t.Errorf("a hook that cannot run: %+v", r)
	}
	if r := w.Repository(l.at("home")); r.Found {
		t.Errorf("no repository: %+v", r)
	}
}

// TestRT84 finds a program of the vetted list in the project, or where the job may write.
func TestRT84Untrusted(t *testing.T) {
	l := newLand(t)
	if v := l.shell("ls"); rule(v) != "vetted.ls" {
		t.Fatalf("the system's own: %+v", v)
	}
	usual := l.cfg.Path
	l.program("shop/bin/ls")
	l.cfg.Path = l.at("shop/bin") + ":" + usual
	if v := l.shell("ls"); v.Decision != policy.Confirm || rule(v) != "program.untrusted" {
		t.Errorf("in the project: %+v", v)
	}
	l.cfg.Path = "bin:" + usual
	if v := l.shell("ls"); rule(v) != "program.untrusted" {
		t.Errorf("by a relative PATH: %+v", v)
	}
	l.program("tmp/ls")
	l.cfg.Path = l.at("tmp") + ":" + usual
	if v := l.shell("ls"); rule(v) != "program.untrusted" {
		t.Errorf("in the temporary directory: %+v", v)
	}
	if err := os.MkdirAll(l.at("links"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(l.at("shop/bin/ls"), l.at("links/ls")); err != nil {
		t.Fatal(err)
	}
	l.cfg.Path = l.at("links") + ":" + usual
	if v := l.shell("ls"); rule(v) != "program.untrusted" {
		t.Errorf("a link to one of the project: %+v", v)
	}
	if v := l.shell("./bin/ls"); rule(v) != "program.untrusted" {
		t.Errorf("by its path: %+v", v)
	}
}

// TestIdentity changes a program, and puts another one in its place.
func TestIdentity(t *testing.T) {
	l := newLand(t)
	path := l.program("tools/tool")
	l.cfg.Path = l.at("tools")
	first := New(l.cfg).Program("tool")
	if first.Path != path || first.Identity == "" {
		t.Fatalf("found %+v", first)
	}
	if again := New(l.cfg).Program("tool"); again.Identity != first.Identity {
		t.Errorf("the same file is another one: %s, %s", first.Identity, again.Identity)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/zh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if changed := New(l.cfg).Program("tool"); changed.Identity == first.Identity {
		t.Error("other bytes of the same size, with the time put back, are the same file")
	}
	if self := New(l.cfg).Program(l.cfg.Exe); !self.Self {
		t.Errorf("this program is %+v", self)
	}
	if p := New(l.cfg).Program("no-such-tool"); p.Path != "" {
		t.Errorf("found %+v", p)
	}
}

// TestGlob compares with the shell itself.
func TestGlob(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skipped by name: no bash")
	}
	l := newLand(t)
	for _, name := range []string{"a.txt", "b.txt", ".hidden.txt", "sub/c.txt", "sub/.d.txt", "sp ace.txt", "x[1].txt", "x1.txt", "A.TXT"} {
		l.put("g/"+name, "")
	}
	for _, pattern := range []string{"*", "*.txt", ".*.txt", "*/*.txt", "?.txt", "[ab].txt", "[!a].txt", "sub/*", "*/", `x\[1\].*`, "none*", "*/none/*", "s*/c.txt"} {
		cmd := exec.Command(bash, "-c", `shopt -s nullglob; LC_ALL=C; for f in `+l.at("g")+"/"+pattern+`; do printf '%s\n' "$f"; done`)
		cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if len(out) == 0 {
			want = nil
		}
		got, complete := New(l.cfg).Glob(l.at("g") + "/" + pattern)
		for i := range want {
			want[i] = strings.TrimSuffix(want[i], "/")
		}
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], "/")
		}
		if !slices.Equal(got, want) || !complete {
			t.Errorf("%s: %q (complete: %v), the shell has %q", pattern, got, complete, want)
		}
	}
	if _, complete := New(l.cfg).Glob(l.at("g") + "/[[:alpha:]]*"); complete {
		t.Error("a class is told as complete")
	}
}

func TestHomeOf(t *testing.T) {
	w := New(Config{})
	if home := w.HomeOf("root"); home == "" {
		t.Skip("skipped by name: no user root")
	}
	if home := w.HomeOf("no-such-user-here"); home != "" {
		t.Errorf("a user that is not there has %s", home)
	}
}
