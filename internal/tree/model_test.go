//go:build linux || darwin

package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"mcpx/internal/atomicfile"
	"mcpx/internal/test/faultdisk"
)

// node is a file, a link or a directory of the memory.
type node struct {
	id      int
	content string // a digest of itself; dirDigest for a directory
	mode    fs.FileMode
	open    bool // somebody has it open for writing
}

// memory is a disk with names and nodes, on which somebody else writes and a process is killed before any step.
type memory struct {
	t     failer
	names map[string]*node
	ids   int
	step  int
	// at is what somebody else does before a step; killAt are the steps at which the process is killed.
	at     map[int]func()
	killAt []int
	weak   bool // names cannot be exchanged
	must   map[string]bool
	last   string      // what somebody else wrote last under the name of the first target; "" nothing, or it is removed
	log    [][3]string // of what was done
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ files = (*memory)(nil)

func newMemory(t failer) *memory {
	return &memory{t: t, names: map[string]*node{}, at: map[int]func(){}, must: map[string]bool{}}
}

func (m *memory) put(name, content string) {
	m.ids++
	m.names[name] = &node{id: m.ids, content: content, mode: 0o644}
	m.must[content] = true
}

// contents are all that is in the memory. What somebody has open will be what he writes.
func (m *memory) contents() map[string]bool {
	all := map[string]bool{}
	for _, n := range m.names {
		all[n.content] = true
	}
	return all
}

// others lets somebody else do something: what is lost then is not lost by us.
func (m *memory) others(what string, do func()) {
	before := m.contents()
	do()
	after := m.contents()
	for c := range before {
		if !after[c] {
			delete(m.must, c)
		}
	}
	m.log = append(m.log, [3]string{"somebody:", what})
}

// beat is one step: somebody else comes first, and then the process may be killed.
func (m *memory) beat(what, a, b string) {
	if do := m.at[m.step]; do != nil {
		do()
	}
	m.log = append(m.log, [3]string{what, a, b})
	m.step++
	if len(m.killAt) > 0 && m.killAt[0] == m.step-1 {
		m.killAt = m.killAt[1:]
		m.log = append(m.log, [3]string{"killed"})
		panic(faultdisk.Killed{})
	}
}

func (m *memory) Read(name string) (atomicfile.Content, error) {
	m.beat("read", name, "")
	return m.see(name), nil
}

func (m *memory) see(name string) atomicfile.Content {
	n := m.names[name]
	if n == nil {
		return atomicfile.Content{Absent: true}
	}
	c := atomicfile.Content{SHA256: n.content, Facts: atomicfile.Facts{Identity: strconv.Itoa(n.id), Links: m.links(n), Mode: n.mode}}
	if n.content == dirDigest {
		c.Mode = 0
	}
	return c
}

func (m *memory) links(n *node) (links uint64) {
	for _, other := range m.names {
		if other == n {
			links++
		}
	}
	return links
}

func (m *memory) Settle(_ context.Context, name string) (atomicfile.Content, error) {
	m.beat("settle", name, "")
	if n := m.names[name]; n != nil && n.open {
		return atomicfile.Content{}, atomicfile.ErrOpen
	}
	return m.see(name), nil
}

func (m *memory) Stage(string, []byte, string, fs.FileMode) error { return errNotStaged }

func (m *memory) Exchange(a, b string) error {
	m.beat("exchange", a, b)
	switch {
	case m.weak:
		return atomicfile.ErrNoExchange
	case m.names[a] == nil || m.names[b] == nil:
		return named("exchange", a, fs.ErrNotExist)
	}
	m.names[a], m.names[b] = m.names[b], m.names[a]
	return nil
}

func (m *memory) Move(from, to string) error {
	m.beat("move", from, to)
	switch {
	case m.weak:
		return atomicfile.ErrNoExchange
	case m.names[from] == nil, m.orphan(to):
		return named("move", from, fs.ErrNotExist)
	case m.names[to] != nil:
		return named("move", to, fs.ErrExist)
	}
	m.names[to] = m.names[from]
	delete(m.names, from)
	return nil
}

func (m *memory) Link(from, to string) error {
	m.beat("link", from, to)
	switch {
	case m.names[from] == nil, m.orphan(to):
		return named("link", from, fs.ErrNotExist)
	case m.names[to] != nil:
		return named("link", to, fs.ErrExist)
	}
	m.names[to] = m.names[from]
	return nil
}

func (m *memory) Replace(from, to string) error {
	m.beat("replace", from, to)
	if m.names[from] == nil {
		return named("replace", from, fs.ErrNotExist)
	}
	if gone := m.names[to]; gone != nil && gone != m.names[from] && m.weak && strings.HasPrefix(to, "at/") && m.links(gone) == 1 {
		delete(m.must, gone.content) // the gap that `cas: weak` tells of
		m.last = ""
	}
	if m.names[from] != m.names[to] {
		m.names[to] = m.names[from]
		delete(m.names, from)
	}
	return nil
}

func (m *memory) Remove(name string) error {
	m.beat("remove", name, "")
	n := m.names[name]
	switch {
	case n == nil:
		return named("remove", name, fs.ErrNotExist)
	case m.links(n) < 2:
		return named("remove", name, errLastName)
	}
	delete(m.names, name)
	return nil
}

func (m *memory) Mkdir(name string, _ fs.FileMode) error {
	m.beat("mkdir", name, "")
	if n := m.names[name]; n != nil && n.content != dirDigest {
		return named("mkdir", name, fs.ErrExist)
	}
	m.mkdir(name)
	return nil
}

func (m *memory) mkdir(name string) {
	m.ids++
	m.names[name] = &node{id: m.ids, content: dirDigest}
}

func (m *memory) Rmdir(name string) error {
	m.beat("rmdir", name, "")
	if m.names[name] == nil {
		return named("rmdir", name, fs.ErrNotExist)
	}
	for other := range m.names {
		if strings.HasPrefix(other, name+"/") {
			return named("rmdir", name, unix.ENOTEMPTY)
		}
	}
	delete(m.names, name)
	return nil
}

func (m *memory) Chmod(name string, from, to fs.FileMode) error {
	m.beat("chmod", name, "")
	n := m.names[name]
	switch {
	case n == nil:
		return named("chmod", name, fs.ErrNotExist)
	case n.mode != from:
		return atomicfile.ErrStale
	}
	n.mode = to
	return nil
}

func (m *memory) SyncDir(string) error { return nil }
func (m *memory) Flush() error         { return nil }
func (m *memory) Deep() files          { return m }

// orphan says that the directory of a name below the root is not there.
func (m *memory) orphan(name string) bool {
	dir := name[:strings.LastIndexByte(name, '/')]
	if !strings.HasPrefix(dir, "at/") {
		return false
	}
	n := m.names[dir]
	return n == nil || n.content != dirDigest
}

// saves are what somebody else does to the file under a name, with a text of his own.
var saves = []string{"rename", "in place", "remove", "open"}

// save lets somebody else do one of these. One that opens the file writes to it later, wherever it is then.
func (m *memory) save(kind, name, text string, later int) func() {
	return func() {
		m.others(kind+" "+name, func() {
			n := m.names[name]
			switch {
			case m.orphan(name), n != nil && n.content == dirDigest:
			case kind == "remove":
				delete(m.names, name)
				m.last = ""
			case kind == "open" && n != nil:
				n.open = true
				m.at[later] = func() {
					m.others("writes what was open", func() {
						if n.open, n.content = false, text; m.links(n) > 0 {
							m.must[text] = true
						}
					})
				}
			case kind == "in place" && n != nil:
				n.content, m.last = text, text
				m.must[text] = true
			default:
				m.put(name, text)
				m.last = text
			}
		})
	}
}

// play runs a batch, is killed, recovers, is killed again, and recovers, and says what came out.
func (m *memory) play(rows []Change) Outcome {
	m.t.Helper()
	e := &engine{files: m, rows: rows}
	o, err := Outcome{}, error(nil)
	do := e.apply
	for faultdisk.Kill(func() { o, err = do(context.Background()) }) {
		e = &engine{files: m, rows: rows}
		do = e.recover
	}
	if err != nil {
		m.fail("%v", err)
	}
	return o
}

func (m *memory) fail(format string, args ...any) {
	m.t.Helper()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		names = append(names, name+"="+m.names[name].content)
	}
	var steps []string
	for _, l := range m.log {
		steps = append(steps, strings.Join(l[:], " "))
	}
	m.t.Fatalf("%s\nafter\n%s\nthere is %s", fmt.Sprintf(format, args...), strings.Join(steps, "\n"), strings.Join(names, " "))
}

// whole checks what must hold, however a batch ended.
func (m *memory) whole(rows []Change, o Outcome) {
	m.t.Helper()
	for content := range m.must {
		if !m.contents()[content] {
			m.fail("%q is lost; %+v", content, o)
		}
	}
	warned := map[RawPath]bool{}
	for _, w := range o.Warnings {
		warned[w.Path] = warned[w.Path] || w.Code == ChangedAfterApply || w.Code == KeptForeign
	}
	disputed := map[RawPath]bool{}
	for _, x := range o.Exceptions {
		disputed[x.Path] = true
	}
	if (o.State == Contested) != (len(disputed) > 0) {
		m.fail("%+v", o)
	}
	for _, c := range rows {
		now := m.see(c.target()).SHA256
		if o.State == Applied && (c.Kind == Replace || c.Kind == Delete) && m.see(c.trashName()).SHA256 != c.Expect && !m.written(c.trashName()) {
			m.fail("applied, and the trash of %s has %q", c.Path, m.see(c.trashName()).SHA256)
		}
		if o.State != Applied && !disputed[c.Path] && c.Kind != Mkdir && c.Kind != Rmdir && c.Kind != SetMode && now != "" && now == c.Propose {
			m.fail("%s, and %s is %q", o.State, c.Path, now)
		}
	}
}

// written says that somebody wrote to what is under a name after it was displaced, through a descriptor.
func (m *memory) written(name string) bool { return strings.HasPrefix(m.see(name).SHA256, "late") }

// row is one row with its proposal staged.
func (m *memory) row(c Change) Change {
	c.Kind = cmpOr(c.Kind, Replace)
	if c.Kind == Rmdir {
		m.mkdir(c.target())
	} else if c.Expect != "" {
		m.put(c.target(), c.Expect)
	}
	if c.Kind == Add || c.Kind == Replace {
		m.put(c.slotName(), c.Propose)
	}
	return c
}

func cmpOr(a, b ChangeKind) ChangeKind {
	if a == "" {
		return b
	}
	return a
}

// lengths: how many steps a run of one row has, and a recovery.
const modelSteps = 45

// TestModelOneFile tries, for a replacement, an addition, a removal and a rename, everything: somebody else at every step
// in every way, and a kill at every step, and again in every recovery.
func TestModelOneFile(t *testing.T) {
	runs := 0
	outcomes := map[string]int{}
	for _, kind := range []ChangeKind{Replace, Add, Delete, Rename} {
		for _, weak := range []bool{false, true} {
			for _, save := range append([]string{""}, saves...) {
				for when := range modelSteps {
					if save == "" && when > 0 {
						break
					}
					for kill := -1; kill < modelSteps; kill++ {
						for _, again := range secondKills() {
							if kill < 0 && again >= 0 {
								break
							}
							m := newMemory(t)
							m.weak = weak
							rows := []Change{m.row(map[ChangeKind]Change{
								Replace: {Path: "f", Expect: "old", Propose: "new"}, Add: {Kind: Add, Path: "f", Propose: "new"},
								Delete: {Kind: Delete, Path: "f", Expect: "old"}, Rename: {Kind: Rename, Path: "f", To: "g", Expect: "old"},
							}[kind])}
							if save != "" {
								m.at[when] = m.save(save, "at/f", "late save", when+3)
							}
							if kill >= 0 {
								m.killAt = []int{kill}
							}
							if again >= 0 {
								m.killAt = append(m.killAt, kill+again)
							}
							o := m.play(rows)
							m.whole(rows, o)
							m.newest(o)
							if m.alone(save, when) && o.State != Applied {
								m.fail("%+v without anybody else", o)
							}
							outcomes[fmt.Sprintf("%s %s", kind, o.State)]++
							runs++
						}
					}
				}
			}
		}
	}
	t.Logf("%d runs: %v", runs, outcomes)
}

// secondKills are the steps of a recovery at which it is killed, too; -1 it is not.
func secondKills() []int {
	if os.Getenv("MCPX_TEST_FULL") != "" {
		return []int{-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 21, 24}
	}
	return []int{-1, 7, 12}
}

// alone says that nobody else came, or after everything was over.
func (m *memory) alone(save string, when int) bool { return save == "" || when >= m.step }

// newest: what somebody wrote last is under its name, or was put where the outcome says.
func (m *memory) newest(o Outcome) {
	m.t.Helper()
	if m.last == "" {
		return
	}
	for _, name := range []string{"at/f", "at/g"} {
		if m.see(name).SHA256 == m.last {
			return
		}
	}
	for _, x := range o.Exceptions {
		if x.Kept != "" && m.see(x.Kept).SHA256 == m.last {
			return
		}
	}
	m.fail("the last save %q is not under its name; %+v", m.last, o)
}

// panicking is a failer whose failures can be counted.
type panicking struct{}

func (panicking) Helper()                           {}
func (panicking) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// TestModelFindsTheShorterRule: the model finds that "the target is what was proposed, so it is applied" loses bytes.
func TestModelFindsTheShorterRule(t *testing.T) {
	was := verdicts[Replace]
	t.Cleanup(func() { verdicts[Replace] = was })
	shorter := maps.Clone(was)
	for _, slot := range []seen{none, expected, foreign} {
		shorter[evidence{proposed, slot, none}] = applied
	}
	verdicts[Replace] = shorter
	found := 0
	for when := range modelSteps {
		for kill := range modelSteps {
			func() {
				m := newMemory(panicking{})
				defer func() {
					if r := recover(); r != nil {
						found++
					}
				}()
				rows := []Change{m.row(Change{Path: "f", Expect: "old", Propose: "new"})}
				m.at[when], m.killAt = m.save("rename", "at/f", "save", 0), []int{kill}
				o := m.play(rows)
				m.whole(rows, o)
				m.newest(o)
			}()
		}
	}
	if found == 0 {
		t.Error("nothing was found")
	}
}

// TestModelTwoSaves: two saves of somebody else, each in every way, and two kills at any step lose no byte of one file, and
// nothing is said to be applied without the displaced bytes in the trash.
func TestModelTwoSaves(t *testing.T) {
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 200 {
			runs++
			playRandom(t, []ChangeKind{Replace}, 2)
		}
	})
	t.Logf("%d runs", runs)
}

// TestModelBatches: the same for batches of all kinds.
func TestModelBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom(applyOrder), 1, 5).Draw(t, "kinds")
		for range 50 {
			playRandom(t, kinds, 3)
		}
	})
}

func playRandom(t *rapid.T, kinds []ChangeKind, most int) {
	m := newMemory(t)
	m.weak = rapid.Bool().Draw(t, "weak")
	var rows []Change
	kinds = slices.Clone(kinds)
	slices.SortFunc(kinds, func(a, b ChangeKind) int { return slices.Index(applyOrder, a) - slices.Index(applyOrder, b) })
	for n, kind := range kinds {
		c := Change{N: n, Kind: kind, Path: RawPath(fmt.Sprintf("f%d", n))}
		switch kind {
		case Add:
			c.Propose = fmt.Sprintf("new %d", n)
		case Replace:
			c.Expect, c.Propose = fmt.Sprintf("old %d", n), fmt.Sprintf("new %d", n)
		case Rename:
			c.Expect, c.To = fmt.Sprintf("old %d", n), RawPath(fmt.Sprintf("g%d", n))
		case Delete:
			c.Expect = fmt.Sprintf("old %d", n)
		case SetMode:
			m.put(c.target(), fmt.Sprintf("old %d", n))
			c.Was, c.Mode = 0o644, 0o755
		case Mkdir:
			c.Propose, c.Mode = dirDigest, 0o755
		case Rmdir:
			c.Expect, c.Was = dirDigest, 0o755
		}
		if kind == Add && kinds[0] == Mkdir {
			c.Path = "f0/" + c.Path
		}
		if kind == Delete && kinds[len(kinds)-1] == Rmdir {
			c.Path = RawPath(fmt.Sprintf("f%d/%s", len(kinds)-1, c.Path))
		}
		rows = append(rows, m.row(c))
	}
	steps := modelSteps * len(rows)
	for i := range rapid.IntRange(0, most).Draw(t, "saves") {
		n := rapid.IntRange(0, len(rows)-1).Draw(t, "file")
		when := rapid.IntRange(0, steps).Draw(t, "when")
		m.at[when] = m.save(rapid.SampledFrom(saves).Draw(t, "how"), rows[n].target(), fmt.Sprintf("late %d", i), when+rapid.IntRange(1, 20).Draw(t, "later"))
	}
	m.killAt = rapid.SliceOfNDistinct(rapid.IntRange(0, steps), 0, 2, rapid.ID[int]).Draw(t, "kills")
	slices.Sort(m.killAt)
	o := m.play(rows)
	m.whole(rows, o)
	if o.State == Unchanged && CodeOf(o.Cause) == "" {
		m.fail("unchanged, and it is not said why")
	}
	m.killAt = nil
	again, err := (&engine{files: m, rows: rows}).recover(context.Background())
	if err != nil && !errors.Is(err, errNotStaged) {
		m.fail("again: %v", err)
	}
	if err == nil {
		m.whole(rows, again)
	}
}
