package policy

import (
	"path"
	"strings"
)

// FileRules are the rules about files that the user and a project add. The zero value adds nothing.
type FileRules struct {
	user    globSet
	project globSet
	except  []string // globs of files that the built-in lists are not about; the user's only
}

// globSet holds the globs of one source. Of one source the order is deny, confirm, read-only, allow.
type globSet struct {
	deny     []string
	readOnly []string
	confirm  []string
	project  bool
}

func (g globSet) setting(name string) string {
	if g.project {
		return name + projectsSettings
	}
	return name
}

func (g globSet) judge(name string, folds bool, access Access, p Place) FileVerdict {
	if glob := matching(g.deny, name, folds, p); glob != "" {
		return FileVerdict{Deny, "file.denied", quote(name) + " is denied by the glob " + quote(glob), g.setting(settingDeny)}
	}
	if access != AccessWrite {
		return FileVerdict{Decision: Allow}
	}
	if glob := matching(g.confirm, name, folds, p); glob != "" {
		return FileVerdict{Confirm, "file.confirm_write", quote(name) + " is written only after a yes, by the glob " + quote(glob), g.setting(settingConfirm)}
	}
	if glob := matching(g.readOnly, name, folds, p); glob != "" {
		return FileVerdict{Deny, "file.read_only", quote(name) + " is read-only by the glob " + quote(glob), g.setting(settingReadOnly)}
	}
	return FileVerdict{Decision: Allow}
}

// excepts tells that the user has taken a file out of the built-in lists.
func (r FileRules) excepts(name string, folds bool, p Place) bool {
	return matching(r.except, name, folds, p) != ""
}

// matching is the first glob that matches a canonical path, "" when none does.
func matching(globs []string, name string, folds bool, p Place) string {
	for _, glob := range globs {
		if matchesFile(glob, name, folds, p) {
			return glob
		}
	}
	return ""
}

// matchesFile matches a glob with a path or a directory that holds it. A glob that begins with "/" or "~/" is about that
// place; another one is about the target, and without a slash about a name anywhere in it.
func matchesFile(glob, name string, folds bool, p Place) bool {
	switch {
	case strings.HasPrefix(glob, "~/"):
		glob = escapeGlob(p.Home) + glob[1:]
	case strings.HasPrefix(glob, "/"):
	default:
		if p.Target == "" || !within(name, p.Target) {
			return false
		}
		name = strings.TrimPrefix(strings.TrimPrefix(name, p.Target), "/")
		if !strings.Contains(strings.TrimSuffix(glob, "/"), "/") {
			glob = "**/" + glob
		}
	}
	glob = strings.TrimSuffix(glob, "/")
	if folds {
		glob, name = fold(glob), fold(name)
	}
	pattern, parts := strings.Split(glob, "/"), strings.Split(name, "/")
	for i := range parts {
		if matchParts(pattern, parts[:i+1]) {
			return true
		}
	}
	return false
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(s)
}

// matchParts matches the parts of a path; "**" is any number of parts. It takes time in proportion to the product of the
// lengths: only the last "**" is tried again.
func matchParts(pattern, parts []string) bool {
	star, resume := -1, 0
	i, k := 0, 0
	for k < len(parts) {
		switch {
		case i < len(pattern) && pattern[i] == "**":
			star, resume = i, k
			i++
		case i < len(pattern) && matchPart(pattern[i], parts[k]):
			i, k = i+1, k+1
		case star >= 0:
			resume++
			i, k = star+1, resume
		default:
			return false
		}
	}
	for i < len(pattern) && pattern[i] == "**" {
		i++
	}
	return i == len(pattern)
}

// matchPart matches one name; the globs were checked when they were read.
func matchPart(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
