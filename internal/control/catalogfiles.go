package control

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/key"
	"mcpx/internal/store"
)

// filed is what the files of config/catalog said when they were last read.
type filed struct {
	problems []catalog.FileProblem
	lines    map[string]int // of servers, by id
}

// maxTakes bounds how often the files are compared again: a name that one entry gave up can be taken by another then.
const maxTakes = 4

// takeFilesLocked reads config/catalog and makes the catalog say the same. What cannot be taken is noted and stays as it
// was; the rest is taken. It gives the names of the servers that came, changed or went. The caller holds change.
func (c *Control) takeFilesLocked(ctx context.Context) (changed []string, err error) {
	files := c.cfg.CatalogFiles()
	var m merge
	for range maxTakes {
		err := c.cfg.DB.View(ctx, func(r store.Reader) error {
			var err error
			m, err = c.merged(ctx, r, files)
			return err
		})
		if err != nil || len(m.put)+len(m.gone) == 0 || c.cfg.DB.Stopped() != nil {
			return c.filedAs(ctx, m, changed, err)
		}
		// Whoever changes the catalog or removes a credential holds change: it is as it was looked at.
		if err := c.cfg.DB.Change(ctx, func(tx store.Tx) error { return c.putMerged(ctx, tx, m) }); err != nil {
			return c.filedAs(ctx, m, changed, err)
		}
		for _, s := range m.gone {
			c.cfg.Logs.Forget(s.Name)
			changed = append(changed, s.Name)
		}
		for _, p := range m.put {
			changed = append(changed, p.now.Name)
		}
	}
	return c.filedAs(ctx, m, changed, nil)
}

// filedAs keeps what is wrong with the files, and logs what is new of it.
func (c *Control) filedAs(ctx context.Context, m merge, changed []string, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	c.filing.Lock()
	old := c.filed
	c.filed = filed{problems: m.problems, lines: m.lines}
	c.filing.Unlock()
	for _, p := range m.problems {
		if !slices.Contains(old.problems, p) {
			c.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a file of the catalog cannot be taken as it is", slog.String(key.Path, p.Where()), slog.String(key.Cause, p.Text))
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

func (c *Control) filedNow() filed {
	c.filing.Lock()
	defer c.filing.Unlock()
	return c.filed
}

// merge is what becomes of the catalog when the files are taken.
type merge struct {
	put      []put
	gone     []catalog.Server
	problems []catalog.FileProblem
	lines    map[string]int // of servers, by id
}

// put is one entry that changes; old is the zero Server for a new one.
type put struct{ old, now catalog.Server }

// merged compares files and catalog. A name belongs to whoever has it already: the catalog before files, and of two files
// the first.
func (c *Control) merged(ctx context.Context, r store.Reader, files []catalog.File) (merge, error) {
	all, err := catalog.All(ctx, r)
	if err != nil {
		return merge{}, err
	}
	x := merging{merge: merge{lines: map[string]int{}}, files: files, owner: map[string]*catalog.Server{}, kept: map[string]bool{}}
	x.readDefined()
	for i := range all {
		s := &all[i]
		if s.File != "" && x.released(*s) {
			x.release(*s)
			continue
		}
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			x.owner[name] = s
		}
	}
	for _, file := range files {
		if file.Problem != nil {
			x.problems = append(x.problems, *file.Problem)
		}
		for _, e := range file.Entries {
			x.problems = append(x.problems, e.Problems...)
			if len(e.Problems) > 0 {
				continue
			}
			if err := c.mergeEntry(ctx, r, &x, file.Path, e); err != nil {
				x.problems = append(x.problems, problemOf(file.Path, e, err))
			}
		}
	}
	return x.merge, nil
}

// merging is a merge on its way.
type merging struct {
	merge
	files []catalog.File
	// defined are the files that have an entry of this name, whether it can be taken or not.
	defined map[string][]string
	owner   map[string]*catalog.Server // by name and alias, of what is not released
	kept    map[string]bool            // ids of entries that a file has said something about
}

func (x *merging) readDefined() {
	x.defined = map[string][]string{}
	for _, file := range x.files {
		for _, e := range file.Entries {
			x.defined[e.Name] = append(x.defined[e.Name], file.Path)
		}
	}
}

// released says whether no file has the entry any more. What stands in a file that cannot be read goes on.
func (x *merging) released(s catalog.Server) bool {
	return len(x.defined[s.Name]) == 0 && !x.unread(s.File)
}

// unread says whether a file is there and could not be read, or cannot be looked for.
func (x *merging) unread(file string) bool {
	return slices.ContainsFunc(x.files, func(f catalog.File) bool {
		return f.Problem != nil && (f.Path == file || strings.HasPrefix(file, f.Path+"/"))
	})
}

// release gives an entry back that was in the catalog before it was in a file; one that a file has made goes with it.
func (x *merging) release(s catalog.Server) {
	if s.Source == string(catalog.FromFile) {
		x.gone = append(x.gone, s)
		return
	}
	old := s
	s.File = ""
	x.put = append(x.put, put{old, s})
	for _, name := range append([]string{s.Name}, s.Aliases...) {
		x.owner[name] = &s
	}
}

// mergeEntry takes one entry of a file, or says why not.
func (c *Control) mergeEntry(ctx context.Context, r store.Reader, x *merging, file string, e catalog.FileEntry) error {
	s := e.Server
	old, taken := x.owner[s.Name]
	switch {
	case taken && x.kept[old.ID] || taken && old.Name != s.Name:
		return x.conflict(s.Name, *old)
	case taken && old.File != "" && old.File != file && (slices.Contains(x.defined[s.Name], old.File) || x.unread(old.File)):
		return x.conflict(s.Name, *old)
	case taken && old.File == "" && !sameServer(*old, s):
		return x.conflict(s.Name, *old)
	}
	for _, alias := range s.Aliases {
		if other, taken := x.owner[alias]; taken && other != old {
			return x.conflict(alias, *other)
		}
	}
	before := catalog.Server{}
	s.File, s.Updated, s.Review = file, c.cfg.Now(), catalog.ReviewApproved
	if !taken {
		s.ID, s.Lifecycle, s.Source, s.Created = c.cfg.IDs.New(id.Server), catalog.Enabled, string(catalog.FromFile), s.Updated
	} else {
		before = *old
		s.ID, s.Source, s.Created, s.Provenance, s.Lifecycle = old.ID, old.Source, old.Created, old.Provenance, old.Lifecycle
		if old.Review != catalog.ReviewPending { // who writes an entry by hand has looked at it; a no stays
			s.Review = old.Review
		}
	}
	for _, check := range []func() error{func() error { return valid(s) }, func() error { return c.foreign(s) }, func() error { return namesKnown(ctx, r, s) }} {
		if err := check(); err != nil {
			return err
		}
	}
	if taken {
		for _, name := range append([]string{old.Name}, old.Aliases...) {
			delete(x.owner, name)
		}
	}
	for _, name := range append([]string{s.Name}, s.Aliases...) {
		x.owner[name] = &s
	}
	x.kept[s.ID], x.lines[s.ID] = true, e.Line
	if taken && before.File == file && len(catalog.Changed(before, s)) == 0 {
		return nil
	}
	s = catalog.Attribute(before, s, catalog.Provenance{Source: catalog.FromFile, Ref: file, At: s.Updated})
	x.put = append(x.put, put{before, s})
	return nil
}

func (x *merging) conflict(name string, old catalog.Server) error {
	f := fault.New(fault.Conflict, "catalog-file-conflict")
	what := "is the name of"
	if old.Name != name {
		what = "is an alias of"
	}
	f = f.Saying("%s %s another server of the catalog: %s", name, what, api.Server{Server: old}.Definition())
	if old.File != "" {
		return f.Saying("%s, in %s", f.Message, old.File).Hinting("choose another name in one of the two places")
	}
	return f.Hinting("remove that one with `mcpx server remove %s`, or choose another name in the file", old.Name)
}

// problemOf is an error about an entry as a problem of its file.
func problemOf(file string, e catalog.FileEntry, err error) catalog.FileProblem {
	p := catalog.ProblemIn(file, err)
	p.Line, p.Key, p.Server = e.Line, "servers."+e.Name, e.Name
	return p
}

// putMerged writes a merge with an event for each entry, in the order in which names were found to be free.
func (c *Control) putMerged(ctx context.Context, tx store.Tx, m merge) error {
	for _, s := range m.gone {
		if err := tx.DeleteServer(ctx, catalog.DeleteServer{ID: s.ID}); err != nil {
			return err
		}
		if err := c.tellMerged(ctx, tx, event.CatalogRemoved, s.File, s.Name+" stands in no file any more and left the catalog", s, s); err != nil {
			return err
		}
	}
	for _, p := range m.put {
		if err := tx.PutServer(ctx, catalog.PutServer{Server: p.now}); err != nil {
			return err
		}
		kind, text := event.CatalogChanged, fmt.Sprintf("the entry of %s was changed in %s", p.now.Name, path.Base(p.now.File))
		switch {
		case p.old.ID == "":
			kind, text = event.CatalogCreated, fmt.Sprintf("the server %s came into the catalog from %s", p.now.Name, path.Base(p.now.File))
		case p.now.File == "":
			text = p.now.Name + " stands in no file any more and stays in the catalog"
		case p.old.File == "":
			text = fmt.Sprintf("the entry of %s is kept in %s from now on", p.now.Name, path.Base(p.now.File))
		}
		if err := c.tellMerged(ctx, tx, kind, p.now.File, text, p.old, p.now); err != nil {
			return err
		}
	}
	return nil
}

func (c *Control) tellMerged(ctx context.Context, tx store.Tx, kind event.Kind, file, text string, old, s catalog.Server) error {
	return c.tell(ctx, tx, kind, event.Refs{event.RefServer: s.ID, event.RefPath: file}, text, outline(old, s))
}

// inFile refuses a change by command of what a file says.
func (c *Control) inFile(s catalog.Server) error {
	if s.File == "" {
		return nil
	}
	where := s.File
	if line := c.filedNow().lines[s.ID]; line > 0 {
		where += fmt.Sprintf(", line %d", line)
	}
	return fault.New(fault.Conflict, "server-in-file").Saying("the server %s stands in %s", s.Name, where).
		Hinting("change it there; the daemon reads it again by itself, and `mcpx daemon reload` says what it makes of it").Retrying(fault.AfterFix)
}

// filedFindings tells what is wrong with the files.
func (c *Control) filedFindings() []api.Finding {
	var all []api.Finding
	for _, p := range c.filedNow().problems {
		subject := "catalog"
		if p.Server != "" {
			subject = p.Server
		}
		all = append(all, api.Finding{
			Code: p.Code, Severity: converge.WeightWarning, Subject: subject, Path: p.Path, Text: p.Where() + ": " + p.Text, Hint: p.Hint, Command: "mcpx daemon reload",
		})
	}
	return all
}
