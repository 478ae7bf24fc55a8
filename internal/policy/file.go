package policy

import (
	"path"
	"slices"
	"strings"
)

// Access is what is done with a file.
type Access string

// The accesses. Removing and renaming are writing.
const (
	AccessRead  Access = "read"
	AccessWrite Access = "write"
)

// FileVerdict is the decision on an access.
type FileVerdict struct {
	Decision Decision `json:"decision"`
	Rule     string   `json:"rule,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	// Setting is what lifts the rule, "" when nothing does.
	Setting string `json:"setting,omitempty"`
}

// The settings that lift a decision.
const (
	settingExcept    = "files.except"
	settingDeny      = "files.deny"
	settingReadOnly  = "files.read_only"
	settingConfirm   = "files.confirm_write"
	projectsSettings = " of the project's policy"
)

// JudgeFile decides about an access to a file by its canonical path and its other known names: the strictest counts.
// Rules with globs see the path below the target; what is read and written outside of the target is not its business.
func JudgeFile(f File, access Access, p Place, rules FileRules) FileVerdict {
	verdict := FileVerdict{Decision: Allow}
	for _, name := range append([]string{f.Path}, f.Names...) {
		verdict = strictestFile(verdict, judgeName(name, f.Folds, access, p, rules))
	}
	return verdict
}

func strictestFile(a, b FileVerdict) FileVerdict {
	if b.Decision.rank() > a.Decision.rank() {
		return b
	}
	return a
}

func judgeName(name string, folds bool, access Access, p Place, rules FileRules) FileVerdict {
	name = path.Clean(name)
	plain := fold(name)
	place := p.folded()
	verdict := FileVerdict{Decision: Allow}
	if own := ownFile(plain, place); own && access == AccessWrite {
		return FileVerdict{Deny, "file.denied", quote(name) + " is a file of mcpx", ""}
	}
	if !rules.excepts(name, folds, p) {
		verdict = builtinVerdict(name, plain, access, place)
	}
	for _, set := range []globSet{rules.user, rules.project} {
		verdict = strictestFile(verdict, set.judge(name, folds, access, p))
	}
	return verdict
}

func builtinVerdict(name, plain string, access Access, p Place) FileVerdict {
	if secretFile(plain, p) {
		return FileVerdict{Deny, "file.secret", quote(name) + " is in the list of secrets", settingExcept}
	}
	if access != AccessWrite {
		return FileVerdict{Decision: Allow}
	}
	if why := unwritable(plain, p); why != "" {
		return FileVerdict{Deny, "file.denied", quote(name) + " is " + why, settingExcept}
	}
	if makesToolsAct(plain, p) {
		return FileVerdict{Confirm, "file.confirm", quote(name) + " makes other tools act", settingExcept}
	}
	return FileVerdict{Decision: Allow}
}

// folded is a place whose paths compare with folded names.
func (p Place) folded() Place {
	return Place{
		Target: fold(p.Target), Temp: fold(p.Temp), Home: fold(p.Home), Homes: foldAll(p.Homes), Own: foldAll(p.Own),
	}
}

func foldAll(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = fold(name)
	}
	return out
}

// ownFile tells that a path is one of the product. A workspace lies in the product's own area: what is in the target is
// not, unless the area lies in the target.
func ownFile(name string, p Place) bool {
	return slices.ContainsFunc(p.Own, func(own string) bool {
		return within(name, own) && (p.Target == "" || !within(p.Target, own) || !within(name, p.Target)) &&
			(p.Temp == "" || !within(p.Temp, own) || !within(name, p.Temp))
	})
}

// SecretName tells that a file of this name, without directories, is on the built-in list of secrets wherever it lies.
func SecretName(base string) bool {
	base = fold(base)
	switch base {
	case ".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials":
		return true
	case ".env.example", ".env.sample", ".env.template":
		return false
	}
	if strings.HasPrefix(base, ".env.") {
		return true
	}
	switch path.Ext(base) {
	case ".pem", ".key", ".p12", ".pfx", ".jks", ".kdbx":
		return true
	}
	for _, key := range []string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"} {
		if strings.HasPrefix(base, key) && !strings.HasSuffix(base, ".pub") {
			return true
		}
	}
	return false
}

// The files and directories of the built-in list that have a place.
var (
	systemSecrets = []string{"/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-"}
	homeSecrets   = []string{".ssh", ".gnupg", ".aws", ".kube", ".config/gcloud", ".docker/config.json"}
)

// SecretPlaces are the files and directories of the built-in list that have a place: those of the system, and those of home
// directories.
func SecretPlaces(homes ...string) []string {
	places := slices.Clone(systemSecrets)
	for _, home := range homes {
		for _, name := range homeSecrets {
			places = append(places, path.Join(home, name))
		}
	}
	return places
}

// secretFile is the built-in list of what is neither read nor written.
func secretFile(name string, p Place) bool {
	base := path.Base(name)
	if SecretName(base) || slices.ContainsFunc(systemSecrets, func(place string) bool { return within(name, place) }) {
		return true
	}
	for _, home := range p.homes() {
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(path.Clean(home), "/")+"/")
		if ok && slices.ContainsFunc(homeSecrets, func(place string) bool { return within(rest, place) }) {
			return true
		}
	}
	return strings.HasPrefix(name, "/proc/") && (base == "environ" || base == "mem")
}

// systemDirs may not be written. Those of macOS are named beside those of Linux: a path of the other one does not exist.
var systemDirs = []string{
	"/etc", "/usr", "/bin", "/sbin", "/boot", "/proc", "/sys", "/root", "/var/lib", "/var/spool",
	"/system", "/library", "/applications", "/private/etc", "/private/var/db", "/private/var/root",
}

// unwritable says what a path is that may not be written, "" when it may.
func unwritable(name string, p Place) string {
	if slices.Contains(strings.Split(name, "/"), ".git") {
		return "part of a git repository's own files"
	}
	for _, home := range p.homes() {
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(home, "/")+"/"); ok {
			if why := startsInHome(rest); why != "" {
				return why
			}
		}
	}
	if p.Target != "" && within(name, p.Target) || p.Temp != "" && within(name, p.Temp) {
		return "" // a project may lie in a directory of the system, or be the home of root
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if strings.HasPrefix(first, "lib") || slices.ContainsFunc(systemDirs, func(dir string) bool { return within(name, dir) }) {
		return "in a directory of the system"
	}
	return ""
}

// startsInHome says what a path in a home directory starts or configures.
func startsInHome(name string) string {
	switch name {
	case ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
		".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".xprofile", ".xsession", ".xsessionrc", ".xinitrc",
		".xserverrc", ".pam_environment", ".selected_editor":
		return "read when a shell or session starts"
	case ".gitconfig", ".gitattributes":
		return "the configuration of git"
	}
	for dir, why := range map[string]string{
		".config/git": "the configuration of git", ".config/fish": "read when a shell or session starts",
		".config/environment.d": "read when a shell or session starts", ".config/autostart": "started with the session",
		".config/autostart-scripts": "started with the session", ".config/systemd": "started with the session", ".local/share/systemd": "started with the session",
		"library/launchagents": "started with the session", ".local/bin": "a directory of programs", "bin": "a directory of programs",
		".cargo/bin": "a directory of programs", "go/bin": "a directory of programs", ".local/share/applications": "started with the session",
	} {
		if within(name, dir) {
			return why
		}
	}
	return ""
}

// makesToolsAct is the built-in list of files that are only written after a person has said yes.
func makesToolsAct(name string, p Place) bool {
	base := path.Base(name)
	switch base {
	case ".envrc", "mcp.json", ".mcp.json", "skill.md", "skill.yaml", "jenkinsfile", ".travis.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml",
		".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", "lefthook.yaml", ".drone.yml", ".woodpecker.yml", "appveyor.yml",
		".appveyor.yml", ".cirrus.yml", "opencode.json", "opencode.jsonc", ".claude.json", ".aider.conf.yml", ".mise.toml", "mise.toml":
		return true
	}
	if strings.HasPrefix(base, ".mcp.") || strings.HasPrefix(base, ".gitlab-ci") {
		return true
	}
	parts := strings.Split(name, "/")
	for i, part := range parts[:len(parts)-1] {
		switch part {
		case ".claude", ".codex", ".cursor", ".gemini", ".qwen", ".windsurf", ".continue", ".roo", ".kiro", ".amazonq", ".agents", ".opencode",
			".cline", ".clinerules", ".crush", ".goose", ".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".circleci", ".buildkite",
			".husky", ".githooks", ".git-hooks", "git-hooks", ".woodpecker", ".mcp", "skills":
			return true
		case ".github", ".gitea", ".forgejo", ".gitlab":
			if next := parts[i+1]; next == "workflows" || next == "actions" || next == "hooks" || strings.HasPrefix(next, "copilot") || strings.HasPrefix(next, "ci") {
				return true
			}
		case "hooks":
			if i+2 == len(parts) { // a file in a directory of hooks
				return true
			}
		}
	}
	return false
}
