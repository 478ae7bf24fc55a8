package policy

import (
	"slices"
	"strings"
)

// dirs are the directories that may be current at one place of a text. An empty value is a place that is not reached.
type dirs struct {
	list    []string // absolute, sorted
	unknown bool     // others are possible
}

// maxDirs bounds them: a text that changes the directory more often is not followed.
const maxDirs = 8

func (d dirs) dead() bool { return len(d.list) == 0 && !d.unknown }

// or is what may be current after either of two ways.
func (d dirs) or(e dirs) dirs {
	if d.dead() {
		return e
	}
	if e.dead() {
		return d
	}
	list := slices.Concat(d.list, e.list)
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) > maxDirs {
		return dirs{list: list[:maxDirs], unknown: true}
	}
	return dirs{list: list, unknown: d.unknown || e.unknown}
}

func (d dirs) orUnknown() dirs { return dirs{list: d.list, unknown: true} }

func (d dirs) key() string {
	k := strings.Join(d.list, "\x00")
	if d.unknown {
		k += "\x00?"
	}
	return k
}

// flow is where a command leaves the shell: the directories after it succeeded, and after it failed.
type flow struct{ ok, fail dirs }

func stays(d dirs) flow { return flow{d, d} }

func (f flow) any() dirs { return f.ok.or(f.fail) }

func (f flow) or(g flow) flow { return flow{f.ok.or(g.ok), f.fail.or(g.fail)} }
