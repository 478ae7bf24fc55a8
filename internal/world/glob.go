package world

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Glob is what an absolute shell pattern matches now, in the order of the shell.
func (w *World) Glob(pattern string) (matches []string, complete bool) {
	g := globber{complete: true}
	g.below("/", strings.Split(strings.TrimPrefix(pattern, "/"), "/"))
	slices.Sort(g.matches)
	return g.matches, g.complete
}

type globber struct {
	matches  []string
	complete bool
}

// below matches the parts of a pattern below a directory.
func (g *globber) below(dir string, parts []string) {
	if len(g.matches) >= maxMatches {
		g.complete = false
		return
	}
	if len(parts) == 0 {
		g.matches = append(g.matches, dir)
		return
	}
	part := parts[0]
	if !strings.ContainsAny(part, "*?[") {
		g.plain(dir, unescape(part), parts[1:])
		return
	}
	if strings.Contains(part, "[:") || strings.Contains(part, "[.") || strings.Contains(part, "[=") {
		g.complete = false // classes of characters are the shell's
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !os.IsNotExist(err) && isDir(dir) {
			g.complete = false
		}
		return
	}
	want := strings.ReplaceAll(part, "[!", "[^")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(part, ".") {
			continue
		}
		ok, err := path.Match(want, e.Name())
		if err != nil {
			g.complete = false // to the shell it is text, or another pattern
			return
		}
		if ok {
			g.plain(dir, e.Name(), parts[1:])
		}
	}
}

// plain goes on with an entry that has to exist.
func (g *globber) plain(dir, name string, rest []string) {
	at := strings.TrimSuffix(dir, "/") + "/" + name
	if _, err := os.Lstat(at); err != nil {
		return
	}
	if len(rest) > 0 && !isDir(at) {
		return
	}
	g.below(at, rest)
}

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

func unescape(part string) string {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] == '\\' && i+1 < len(part) {
			i++
		}
		b.WriteByte(part[i])
	}
	return b.String()
}

// clean joins as filepath does, for names that come from files.
func clean(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}
