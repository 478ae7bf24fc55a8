package policy

import (
	"strings"
	"testing"
)

func TestJudgeFile(t *testing.T) {
	place := newShop().place
	for _, c := range []struct {
		path  string
		read  string // rule, "" allowed
		write string
	}{
		{"/srv/shop/README.md", "", ""},
		{"/srv/shop/.env", "file.secret", "file.secret"},
		{"/srv/shop/sub/.env.local", "file.secret", "file.secret"},
		{"/srv/shop/.env.example", "", ""},
		{"/srv/shop/.ENV", "file.secret", "file.secret"},
		{"/srv/shop/.e\u200bnv", "file.secret", "file.secret"},
		{"/srv/shop/.environment", "", ""},
		{"/srv/shop/certs/site.pem", "file.secret", "file.secret"},
		{"/srv/shop/certs/site.PEM", "file.secret", "file.secret"},
		{"/srv/shop/certs/site.pub", "", ""},
		{"/srv/shop/id_rsa", "file.secret", "file.secret"},
		{"/srv/shop/id_rsa.pub", "", ""},
		{"/srv/shop/id_ed25519_work", "file.secret", "file.secret"},
		{"/srv/shop/.npmrc", "file.secret", "file.secret"},
		{"/home/dev/.ssh/config", "file.secret", "file.secret"},
		{"/home/dev/.\u017fsh/config", "file.secret", "file.secret"},
		{"/home/dev/.\u00dfh/config", "file.secret", "file.secret"},
		{"/home/dev/.aws/credentials", "file.secret", "file.secret"},
		{"/home/dev/.docker/config.json", "file.secret", "file.secret"},
		{"/home/other/.ssh/config", "", ""},
		{"/srv/shop/.ssh/config", "", ""},
		{"/etc/shadow", "file.secret", "file.secret"},
		{"/etc/hosts", "", "file.denied"},
		{"/proc/1/environ", "file.secret", "file.secret"},
		{"/proc/1/status", "", "file.denied"},
		{"/lib64/x", "", "file.denied"},
		{"/var/lib/x", "", "file.denied"},
		{"/var/tmp/x", "", ""},
		{"/srv/shop/.git/config", "", "file.denied"},
		{"/srv/shop/.git", "", "file.denied"},
		{"/srv/shop/sub/.GIT/hooks/x", "", "file.denied"},
		{"/srv/shop/.g\u200dit/x", "", "file.denied"},
		{"/srv/shop/.gitignore", "", ""},
		{"/srv/shop/x.git/config", "", ""},
		{"/home/dev/.bashrc", "", "file.denied"},
		{"/home/dev/.gitconfig", "", "file.denied"},
		{"/home/dev/.config/autostart/x.desktop", "", "file.denied"},
		{"/home/dev/.local/bin/ls", "", "file.denied"},
		{"/home/dev/.config/mcpx/policy.toml", "", "file.denied"},
		{"/srv/shop/.mcpx/x", "", "file.denied"},
		{"/srv/shop/.mcp.json", "", "file.confirm"},
		{"/srv/shop/sub/.mcp.json", "", "file.confirm"},
		{"/srv/shop/.github/workflows/ci.yml", "", "file.confirm"},
		{"/srv/shop/.github/ISSUE_TEMPLATE.md", "", ""},
		{"/srv/shop/.vscode/tasks.json", "", "file.confirm"},
		{"/srv/shop/.claude/settings.json", "", "file.confirm"},
		{"/srv/shop/.envrc", "", "file.confirm"},
		{"/srv/shop/.husky/pre-commit", "", "file.confirm"},
		{"/srv/shop/docs/skills.md", "", ""},
		{"/srv/shop/Jenkinsfile", "", "file.confirm"},
	} {
		for access, want := range map[Access]string{AccessRead: c.read, AccessWrite: c.write} {
			v := JudgeFile(File{Path: c.path}, access, place, FileRules{})
			if v.Rule != want || (want == "") != (v.Decision == Allow) {
				t.Errorf("%s %s: %+v, want %q", access, c.path, v, want)
			}
			if v.Decision != Allow && v.Reason == "" {
				t.Errorf("%s %s: no reason", access, c.path)
			}
			if own := strings.Contains(c.path, "mcpx/"); v.Decision != Allow && (v.Setting == "") != own {
				t.Errorf("%s %s: setting %q", access, c.path, v.Setting)
			}
		}
	}
}

// TestFileNames judges a file by every name that is known of it.
func TestFileNames(t *testing.T) {
	f := File{Path: "/srv/shop/notes.txt", Names: []string{"/srv/shop/.env"}}
	if v := JudgeFile(f, AccessRead, newShop().place, FileRules{}); v.Rule != "file.secret" {
		t.Errorf("%+v", v)
	}
}

// TestTargetElsewhere: a workspace lies in the product's own area, and a project may lie in a home directory of root.
func TestTargetElsewhere(t *testing.T) {
	place := Place{Target: "/root/state/workspaces/w1", Home: "/root", Own: []string{"/root/state", "/root/state/workspaces/w1/.mcpx"}}
	for name, want := range map[string]string{
		"/root/state/workspaces/w1/a": "", "/root/state/workspaces/w2/a": "file.denied", "/root/state/workspaces/w1/.mcpx/a": "file.denied",
		"/root/state/mcpx.db": "file.denied", "/root/other": "file.denied",
	} {
		if v := JudgeFile(File{Path: name}, AccessWrite, place, FileRules{}); v.Rule != want {
			t.Errorf("%s: %+v, want %q", name, v, want)
		}
	}
}

func TestRT46FileRules(t *testing.T) {
	user, err := ParseUser(map[string]any{"files": map[string]any{
		"deny": []any{"private", "db/**/*.sql", "~/notes/**"}, "read_only": []any{"vendor/**", "both.txt", ".mcp.json"}, "confirm_write": []any{"*.lock", "both.txt"},
		"except": []any{".env.test", "certs/*.pem"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	project, warnings, err := ParseProject(map[string]any{"files": map[string]any{"confirm_write": []any{"vendor/**"}, "read_only": []any{"go.mod"}}})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	rules := Combine(user, project, "").Files
	for _, c := range []struct {
		path        string
		folds       bool
		read, write Decision
		rule        string // of the write
	}{
		{"/srv/shop/README.md", false, Allow, Allow, ""},
		{"/srv/shop/private/a", false, Deny, Deny, "file.denied"},
		{"/srv/shop/sub/private", false, Deny, Deny, "file.denied"},
		{"/srv/shop/PRIVATE", false, Allow, Allow, ""},
		{"/srv/shop/PRIVATE", true, Deny, Deny, "file.denied"},
		{"/srv/shop/db/x.sql", false, Deny, Deny, "file.denied"},
		{"/srv/shop/db/a/b/x.sql", false, Deny, Deny, "file.denied"},
		{"/srv/shop/other/db/x.sql", false, Allow, Allow, ""},
		{"/home/dev/notes/a", false, Deny, Deny, "file.denied"},
		{"/srv/shop/vendor/a/b", false, Allow, Deny, "file.read_only"}, // the project wants only a yes: it cannot loosen
		{"/srv/shop/go.mod", false, Allow, Deny, "file.read_only"},
		{"/srv/shop/both.txt", false, Allow, Confirm, "file.confirm_write"}, // of one source: confirm before read-only
		{"/srv/shop/.mcp.json", false, Allow, Deny, "file.read_only"},
		{"/srv/shop/a/yarn.lock", false, Allow, Confirm, "file.confirm_write"},
		{"/srv/shop/.env.test", false, Allow, Allow, ""},
		{"/srv/shop/.env", false, Deny, Deny, "file.secret"},
		{"/srv/shop/certs/a.pem", false, Allow, Allow, ""},
		{"/srv/shop/a.pem", false, Deny, Deny, "file.secret"},
	} {
		f := File{Path: c.path, Folds: c.folds}
		if v := JudgeFile(f, AccessRead, newShop().place, rules); v.Decision != c.read {
			t.Errorf("read %s: %+v, want %s", c.path, v, c.read)
		}
		if v := JudgeFile(f, AccessWrite, newShop().place, rules); v.Decision != c.write || v.Rule != c.rule {
			t.Errorf("write %s: %+v, want %s by %s", c.path, v, c.write, c.rule)
		} else if v.Decision != Allow && v.Setting == "" {
			t.Errorf("write %s: no setting", c.path)
		}
	}
}
