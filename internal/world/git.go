package world

import (
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/policy"
)

const (
	// maxConfig bounds a configuration of git, in bytes. A larger one is taken for one that runs programs.
	maxConfig = 1 << 20
	// maxModules bounds the submodules that are looked at.
	maxModules = 500
	// unreadable stands for what a configuration that cannot be read may say.
	unreadable = "include.path"
)

// Repository describes the git repository that git finds from a directory.
func (w *World) Repository(dir string) policy.Repository {
	for at := w.follow(dir); ; at = filepath.Dir(at) {
		if git := gitDir(at); git != "" {
			return policy.Repository{Found: true, Keys: keysOf(git, filepath.Join(at, ".gitmodules"))}
		}
		if at == filepath.Dir(at) {
			return policy.Repository{}
		}
	}
}

// gitDir is the directory of git's own files for a directory: .git in it, what a file .git names, or itself when it is a
// bare repository.
func gitDir(at string) string {
	name := filepath.Join(at, ".git")
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return name
	case err == nil:
		data, err := readSmall(name)
		if to, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir:"); err == nil && ok {
			return clean(at, strings.TrimSpace(to))
		}
		return name
	}
	for _, part := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(at, part)); err != nil {
			return ""
		}
	}
	return at
}

// keysOf collects the settings of a repository: of the directory that work trees share, of the work tree, and of its
// submodules, which a reading command enters.
func keysOf(git, modules string) []string {
	common := git
	if data, err := readSmall(filepath.Join(git, "commondir")); err == nil {
		common = clean(git, strings.TrimSpace(string(data)))
	}
	var keys []string
	for _, file := range []string{filepath.Join(common, "config"), filepath.Join(common, "config.worktree"), filepath.Join(git, "config.worktree")} {
		keys = append(keys, readConfig(file)...)
	}
	// Reading commands write the index anew, and then run this hook.
	if info, err := os.Stat(filepath.Join(common, "hooks", "post-index-change")); err == nil && info.Mode().Perm()&0o111 != 0 {
		keys = append(keys, "core.hookspath")
	}
	keys = append(keys, moduleKeys(filepath.Join(common, "modules"), new(int))...)
	if _, err := os.Lstat(modules); err == nil {
		keys = append(keys, embeddedKeys(modules)...)
	}
	return keys
}

func moduleKeys(dir string, seen *int) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // there are none
	}
	var keys []string
	for _, e := range entries {
		if *seen++; *seen > maxModules {
			return append(keys, unreadable)
		}
		at := filepath.Join(dir, e.Name())
		if !isDir(at) || e.Name() == "objects" || e.Name() == "refs" {
			continue
		}
		keys = append(keys, readConfig(filepath.Join(at, "config"))...)
		keys = append(keys, moduleKeys(at, seen)...)
	}
	return keys
}

// embeddedKeys looks into submodules that have a .git of their own.
func embeddedKeys(modules string) []string {
	var keys []string
	data, err := readSmall(modules)
	if err != nil {
		return []string{unreadable}
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.TrimSpace(name) != "path" {
			continue
		}
		git := filepath.Join(clean(filepath.Dir(modules), strings.Trim(strings.TrimSpace(value), `"`)), ".git")
		if isDir(git) {
			keys = append(keys, readConfig(filepath.Join(git, "config"))...)
		}
	}
	return keys
}

func readConfig(file string) []string {
	data, err := readSmall(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return []string{unreadable}
	}
	return configKeys(string(data))
}

func readSmall(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, os.ErrInvalid
	}
	return os.ReadFile(file)
}

// configKeys gives the names of the settings in a configuration of git. A value that goes on in the next line is read as a
// setting of its own: that can only add one.
func configKeys(text string) []string {
	var keys []string
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "\uFEFF"))
		if strings.HasPrefix(line, "[") {
			section, line = header(line)
		}
		name := line
		if end := strings.IndexAny(line, "= \t#;"); end >= 0 {
			name = line[:end]
		}
		if name != "" {
			keys = append(keys, strings.ToLower(section+"."+name))
		}
	}
	return keys
}

// header reads `[section "sub"] rest`.
func header(line string) (section, rest string) {
	quoted := false
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			name, sub, _ := strings.Cut(line[1:i], `"`)
			section = strings.TrimSpace(name)
			if sub != "" {
				section += "." + strings.TrimSuffix(sub, `"`)
			}
			return section, strings.TrimSpace(line[i+1:])
		}
	}
	return strings.TrimLeft(line, "["), ""
}
