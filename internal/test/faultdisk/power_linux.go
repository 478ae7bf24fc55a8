package faultdisk

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Power is a file system of which every change is known, so that it can tell what may be on it after the power has failed
// (durable-work-tests.md, H2). What was not synced may be missing: each version of the bytes and the permissions of a file since the
// last sync of it, half of the bytes, and each change of names in a directory since the last sync of that, in any order in which one
// does not need the other. A rename is there or not, in both directories: journals of file systems see to that.
type Power struct {
	Marks map[string]int // number of the call, by its name

	root    *object
	byIno   map[uint64]*object
	changes []change
	calls   int
	syncfs  []int
}

// object is a file, a link or a directory.
type object struct {
	kind     fs.FileMode // type bits
	first    map[string]*object
	live     map[string]*object
	versions []version
	syncs    []int
	made     int // number of the change that made it; -1 it was there before
}

type version struct {
	at   int // number of the call
	data []byte
	mode fs.FileMode
}

type cell struct {
	dir  *object
	name string
}

// change is a change of names that happens as a whole.
type change struct {
	at    int
	cells []cell
	after []*object
	needs []int
}

// NewPower reads what is below a directory, all of it durable.
func NewPower(dir string) (*Power, error) {
	p := &Power{Marks: map[string]int{}, byIno: map[uint64]*object{}}
	var err error
	p.root, err = p.read(dir)
	return p, err
}

func (p *Power) read(path string) (*object, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	ino := info.Sys().(*syscall.Stat_t).Ino
	if o := p.byIno[ino]; o != nil {
		return o, nil
	}
	o := &object{kind: info.Mode().Type(), made: -1, live: map[string]*object{}, first: map[string]*object{}}
	p.byIno[ino] = o
	v := version{at: -1, mode: info.Mode().Perm()}
	switch {
	case info.IsDir():
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if o.live[e.Name()], err = p.read(filepath.Join(path, e.Name())); err != nil {
				return nil, err
			}
		}
		o.first = maps.Clone(o.live)
	case info.Mode().IsRegular():
		if v.data, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	default:
		text, err := os.Readlink(path)
		if err != nil {
			return nil, err
		}
		v.data = []byte(text)
	}
	o.versions, o.syncs = []version{v}, []int{-1}
	return o, nil
}

// cell finds the place of a name as it is now.
func (p *Power) cell(path string) (cell, error) {
	dir := p.root
	names := strings.Split(path, "/")
	for _, name := range names[:len(names)-1] {
		if dir = dir.live[name]; dir == nil {
			return cell{}, fmt.Errorf("faultdisk: the trace has nothing at the way to %s", path)
		}
	}
	return cell{dir, names[len(names)-1]}, nil
}

// Play takes the changes of a trace. It is called once.
func (p *Power) Play(calls []Call) error {
	for n, c := range calls {
		if err := p.play(n, c); err != nil {
			return err
		}
	}
	p.calls = len(calls)
	return nil
}

func (p *Power) play(n int, c Call) error {
	switch c.Op {
	case "mark":
		p.Marks[c.Path] = n
		return nil
	case "syncfs":
		p.syncfs = append(p.syncfs, n)
		return nil
	case "data", "mode", "sync":
		o := p.byIno[c.Ino]
		switch {
		case o == nil: // it has no name
		case c.Op == "sync":
			o.syncs = append(o.syncs, n)
		case c.Op == "data":
			o.versions = append(o.versions, version{n, c.Data, o.versions[len(o.versions)-1].mode})
		default:
			o.versions = append(o.versions, version{n, o.versions[len(o.versions)-1].data, c.Mode.Perm()})
		}
		return nil
	}
	from, err := p.cell(c.Path)
	if err != nil {
		return err
	}
	there := from.dir.live[from.name]
	switch c.Op {
	case "create", "mkdir", "symlink":
		o := &object{kind: c.Mode.Type(), made: len(p.changes), live: map[string]*object{}, first: map[string]*object{}}
		o.versions = []version{{n, c.Data, c.Mode.Perm()}}
		p.byIno[c.Ino] = o
		p.change(n, []cell{from}, o)
		return nil
	case "remove":
		p.change(n, []cell{from}, nil)
		return nil
	}
	to, err := p.cell(c.To)
	if err != nil {
		return err
	}
	switch c.Op {
	case "link":
		p.change(n, []cell{to}, there)
	case "exchange":
		p.change(n, []cell{from, to}, to.dir.live[to.name], there)
	case "rename":
		if from != to {
			p.change(n, []cell{from, to}, nil, there)
		}
	default:
		return fmt.Errorf("faultdisk: %q is no call", c.Op)
	}
	return nil
}

// change notes a change of names, and what it needs: those of the same names before it, and that its directories and files are there.
func (p *Power) change(n int, cells []cell, after ...*object) {
	now := change{at: n, cells: cells, after: after}
	for i, x := range cells {
		gone := x.dir.live[x.name]
		for j, before := range p.changes {
			if slices.Contains(before.cells, x) || gone != nil && after[i] == nil && len(cells) == 1 && slices.ContainsFunc(before.cells, func(y cell) bool { return y.dir == gone }) {
				now.needs = append(now.needs, j)
			}
		}
		for _, o := range []*object{x.dir, after[i]} {
			if o != nil && o.made >= 0 && o.made < len(p.changes) {
				now.needs = append(now.needs, o.made)
			}
		}
	}
	for i, x := range cells {
		if delete(x.dir.live, x.name); after[i] != nil {
			x.dir.live[x.name] = after[i]
		}
	}
	p.changes = append(p.changes, now)
}

// synced says whether an object was synced after one call and before another one.
func (p *Power) synced(o *object, after, before int) bool {
	is := func(at int) bool { return at > after && at < before }
	return slices.ContainsFunc(o.syncs, is) || slices.ContainsFunc(p.syncfs, is)
}

// Left is what is on the disk when the power fails before the n-th call. choose picks one of so many that are possible: of two, 0 is
// what was synced.
func (p *Power) Left(n int, choose func(of int) int) Left {
	forced, kept := make([]bool, len(p.changes)), make([]bool, len(p.changes))
	for j, c := range slices.Backward(p.changes) {
		if c.at >= n {
			continue
		}
		if !slices.ContainsFunc(c.cells, func(x cell) bool { return !p.synced(x.dir, c.at, n) }) {
			forced[j] = true
		}
		for _, need := range c.needs {
			forced[need] = forced[need] || forced[j]
		}
	}
	l := Left{root: p.root, names: map[*object]map[string]*object{}, files: map[*object]version{}}
	for j, c := range p.changes {
		if c.at >= n {
			break
		}
		if !forced[j] {
			l.Open++
		}
		kept[j] = forced[j] || !slices.ContainsFunc(c.needs, func(need int) bool { return !kept[need] }) && choose(2) == 1
		for i, x := range c.cells {
			if kept[j] {
				l.in(x.dir)[x.name] = c.after[i]
			}
		}
	}
	for _, o := range p.objects() {
		all := p.versionsOf(o, n)
		if len(all) > 1 {
			l.Open++
		}
		if len(all) > 0 {
			l.files[o] = all[choose(len(all))]
		}
	}
	return l
}

// objects are all that have ever been, in order.
func (p *Power) objects() []*object {
	var all []*object
	var add func(o *object)
	add = func(o *object) {
		if o == nil || slices.Contains(all, o) {
			return
		}
		all = append(all, o)
		for _, name := range slices.Sorted(maps.Keys(o.first)) {
			add(o.first[name])
		}
	}
	add(p.root)
	for _, c := range p.changes {
		for _, o := range c.after {
			add(o)
		}
	}
	return all
}

// versionsOf are what may be left of a file: what was synced first.
func (p *Power) versionsOf(o *object, n int) []version {
	var all []version
	for _, v := range o.versions {
		if v.at >= n {
			break
		}
		if p.synced(o, v.at, n) || v.at < 0 {
			all = nil
		}
		all = append(all, v)
	}
	if last := len(all) - 1; last > 0 && o.kind.IsRegular() && !bytes.Equal(all[0].data, all[last].data) {
		torn := all[last]
		torn.data = torn.data[:len(torn.data)/2]
		all = append(all, torn)
	}
	return all
}

// Left is what is left on a disk.
type Left struct {
	Open  int // how many choices there were
	root  *object
	names map[*object]map[string]*object
	files map[*object]version
}

func (l Left) in(dir *object) map[string]*object {
	if l.names[dir] == nil {
		l.names[dir] = maps.Clone(dir.first)
	}
	return l.names[dir]
}

// Lay makes it in a directory that does not exist.
func (l Left) Lay(dir string) error { return l.lay(l.root, dir, map[*object]string{}) }

func (l Left) lay(o *object, path string, laid map[*object]string) error {
	v := l.files[o]
	switch {
	case o.kind.IsDir():
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(l.in(o))) {
			if below := l.in(o)[name]; below != nil {
				if err := l.lay(below, filepath.Join(path, name), laid); err != nil {
					return err
				}
			}
		}
		return os.Chmod(path, v.mode)
	case o.kind&fs.ModeSymlink != 0:
		return os.Symlink(string(v.data), path)
	case laid[o] != "":
		return os.Link(laid[o], path)
	}
	laid[o] = path
	if err := os.WriteFile(path, v.data, 0o600); err != nil {
		return err
	}
	return os.Chmod(path, v.mode)
}
