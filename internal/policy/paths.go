package policy

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// place says where a canonical path lies.
type place string

const (
	inTarget place = "target"
	inTemp   place = "temp" // the job's private temporary directory
	outside  place = "outside"
)

func (j *judge) locate(canonical string) place {
	switch {
	case j.place.Target != "" && within(canonical, j.place.Target):
		return inTarget
	case j.place.Temp != "" && within(canonical, j.place.Temp):
		return inTemp
	}
	return outside
}

// within tells that a cleaned absolute path is a directory or lies below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir) && name[len(dir)] == '/'
}

// absolute gives the paths a word may mean from the directories that may be current, not cleaned. unresolved tells that
// there are others.
func (j *judge) absolute(word string, sc scope) (paths []string, unresolved bool) {
	switch {
	case word == "": // no file has this name
		return nil, false
	case word[0] == '/':
		return []string{word}, false
	}
	for _, dir := range j.current(sc) {
		paths = append(paths, strings.TrimSuffix(dir, "/")+"/"+word)
	}
	return paths, sc.dirs.unknown
}

// current are the directories to judge from; what is not reached is judged from the start.
func (j *judge) current(sc scope) []string {
	if len(sc.dirs.list) == 0 {
		return j.start.list
	}
	return sc.dirs.list
}

// readPath judges a word as a file that is read.
func (j *judge) readPath(word string, sc scope) []finding {
	return j.judgePath(word, AccessRead, sc)
}

// writePath judges a word as a file that is written. What is allowed is a finding, too.
func (j *judge) writePath(word string, sc scope) []finding {
	return j.judgePath(word, AccessWrite, sc)
}

func (j *judge) judgePath(word string, access Access, sc scope) []finding {
	var found []finding
	paths, unresolved := j.absolute(word, sc)
	for _, name := range paths {
		found = append(found, j.judgeFile(name, access)...)
	}
	if unresolved {
		found = append(found, confirm("path.unresolved", "the directory that "+quote(word)+" is relative to is not known"))
	}
	return found
}

func (j *judge) judgeFile(name string, access Access) []finding {
	if harmlessDevice(name) {
		return []finding{allowed("redirect.fd", "the device leads to nothing or to what is open")}
	}
	file := j.world.File(name)
	if access == AccessWrite && isDevice(name, file) {
		return []finding{denied("disk.raw", quote(name)+" is a device")}
	}
	if v := JudgeFile(file, access, j.place, j.rules.Files); v.Decision == Deny {
		return []finding{denied(v.Rule, v.Reason)}
	}
	switch j.locate(file.Path) {
	case outside:
		return []finding{confirm("path.outside", quote(file.Path)+" lies outside of the target")}
	case inTemp:
		if access == AccessWrite {
			return []finding{allowed("write.tmp", "a file in the private temporary directory")}
		}
	case inTarget:
		if access == AccessWrite {
			return []finding{confirm("write.redirect", quote(file.Path)+" would be written")}
		}
	}
	return []finding{allowed("redirect.read", "a file of the target is read")}
}

// isDevice tells that a path is written as a device. Shared memory is a file system below /dev.
func isDevice(name string, file File) bool {
	if file.Device {
		return true
	}
	for _, p := range []string{path.Clean(name), file.Path} {
		if within(p, "/dev") && p != "/dev" && !within(p, "/dev/shm") {
			return true
		}
	}
	return false
}

// entry is the canonical path of the name itself: links on the way are followed, the last one is not. rm and mv act on it.
func (j *judge) entry(name string) string {
	trimmed := strings.TrimRight(name, "/")
	last := path.Base(trimmed)
	if trimmed == "" || trimmed != name || last == "." || last == ".." {
		return j.world.File(name).Path
	}
	return path.Join(j.world.File(path.Dir(trimmed)+"/").Path, last)
}

// protected says why a canonical path may not be removed as a whole, "" when it may.
func (j *judge) protected(name string) string {
	switch {
	case name == "/":
		return "the root of the file system"
	case path.Dir(name) == "/":
		return "a directory at the root of the file system"
	case path.Dir(name) == "/home", path.Dir(name) == "/Users":
		return "a home directory"
	}
	if slices.ContainsFunc(j.homes(), func(h string) bool { return within(h, name) }) {
		return "a home directory, or one that holds it"
	}
	roots := append(slices.Clone(j.place.Roots), j.place.Target)
	if slices.ContainsFunc(roots, func(r string) bool { return r != "" && within(r, name) }) {
		return "a registered root, or a directory that holds one"
	}
	if slices.ContainsFunc(j.place.Own, func(o string) bool { return within(o, name) }) {
		return "a directory of this product, or one that holds it"
	}
	return ""
}

func (j *judge) homes() []string { return j.place.homes() }

func (p Place) homes() []string {
	homes := slices.Clone(p.Homes)
	if p.Home != "" {
		homes = append(homes, p.Home)
	}
	return homes
}

// globbed replaces the patterns among words with what they match now. A pattern that matches nothing stays as it is.
func (s *script) globbed(args []arg, sc scope) []arg {
	if !slices.ContainsFunc(args, func(a arg) bool { return a.src != "" && !a.dynamic }) {
		return args
	}
	var out []arg
	for _, a := range args {
		if a.src == "" || a.dynamic {
			out = append(out, a)
			continue
		}
		out = append(out, s.matches(a, sc)...)
	}
	return out
}

func (s *script) matches(a arg, sc scope) []arg {
	var out []arg
	seen := map[string]bool{}
	bases := []string{""}
	if !strings.HasPrefix(a.src, "/") {
		bases = s.current(sc)
	}
	for _, base := range bases {
		prefix := base
		if base != "" {
			prefix = strings.TrimSuffix(base, "/") + "/"
		}
		found, complete := s.world.Glob(escapePattern(prefix) + a.src)
		if s.words -= len(found); s.words < 0 || !complete {
			return []arg{{text: a.text, src: a.src, dynamic: true}}
		}
		for _, name := range found {
			if text := strings.TrimPrefix(name, prefix); !seen[text] {
				seen[text] = true
				m := a
				m.text, m.lead = text, len(text)
				out = append(out, m)
			}
		}
	}
	if len(out) == 0 {
		return []arg{a}
	}
	return out
}

func escapePattern(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`*?[]\`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// quote shows a path or word in a reason: control characters cannot change what a person sees.
func quote(s string) string {
	if s == "" {
		return `""`
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r > 0x7e {
			return shorten(strconv.QuoteToGraphic(s))
		}
	}
	return shorten(s)
}
