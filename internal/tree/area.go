package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The directories of an area.
const (
	txnDir        = "txn"        // staged bytes, one directory for each batch
	trashDir      = "trash"      // displaced bytes, the same
	quarantineDir = "quarantine" // what nobody understands, and removed files where the volume has no trash
	packetsDir    = "workspaces" // working copies with their BASE
	snapshotsDir  = "snapshots"  // kept copies of them
)

// Area is the runtime's own directory on the mount of a root, so that files can be exchanged with it.
type Area struct {
	path    string
	dir     *os.File
	project bool // it is in the project
}

// Area opens the area of a root: the state directory, if that is on the same mount, or else ".mcpx" at the top of the
// root. It makes what is missing there. state is absolute. ReadOnly, NoSpace, PathAlias.
func (r *Root) Area(state string) (*Area, error) {
	dir, err := openState(state)
	if err != nil {
		return nil, reading(err, state)
	}
	facts, err := factsOf(dir)
	if err != nil {
		return nil, errors.Join(reading(err, state), dir.Close())
	}
	a := &Area{path: state, dir: dir}
	if facts.mount != r.facts.mount || facts.ID.Dev != r.facts.ID.Dev {
		if err := dir.Close(); err != nil {
			return nil, err
		}
		if a, err = r.ownArea(); err != nil {
			return nil, writing(err, areaName)
		}
	}
	for _, name := range []string{txnDir, trashDir, quarantineDir, packetsDir, snapshotsDir} {
		if err := ensureDir(a.dir, name, 0o700); err != nil {
			return nil, errors.Join(writing(err, name), a.Close())
		}
	}
	return a, nil
}

func openState(path string) (*os.File, error) {
	physical, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return openRoot(physical)
}

// ownArea makes the area in the project itself.
func (r *Root) ownArea() (*Area, error) {
	if err := r.Changeable(); err != nil {
		return nil, err
	}
	if err := ensureDir(r.dir, areaName, 0o700); err != nil {
		return nil, err
	}
	dir, err := enter(r.dir, areaName)
	if err != nil {
		return nil, err
	}
	a := &Area{path: filepath.Join(r.path, areaName), dir: dir, project: true}
	if err := a.shut(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return a, nil
}

// shut keeps others out of an area in a project, and git.
func (a *Area) shut() error {
	f, err := openListing(a.dir)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o700), f.Close()); err != nil {
		return err
	}
	ignore, err := create(a.dir, ".gitignore")
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = ignore.WriteString("*\n")
	return errors.Join(err, ignore.Close())
}

// Close ends the use of the area.
func (a *Area) Close() error { return a.dir.Close() }

// Path is where the area is.
func (a *Area) Path() string { return a.path }

// batchDir opens a directory of a batch, and makes it when it does not exist.
func (a *Area) batchDir(where, id string) (*os.File, error) {
	above, err := enter(a.dir, where)
	if err != nil {
		return nil, err
	}
	defer above.Close()
	if err := ensureDir(above, id, 0o700); err != nil {
		return nil, err
	}
	if err := syncDir(above); err != nil {
		return nil, err
	}
	return enter(above, id)
}

// maxID bounds the name of a batch.
const maxID = 128

// validID says whether a batch may have this name: it is the name of a directory.
func validID(id string) bool {
	if id == "" || len(id) > maxID || id[0] == '.' {
		return false
	}
	return strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-") == ""
}

// listed are the names in a directory of a batch; none when it does not exist.
func (a *Area) listed(where, id string) ([]string, error) {
	above, err := enter(a.dir, where)
	if err != nil {
		return nil, err
	}
	defer above.Close()
	dir, err := enter(above, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := namesIn(dir)
	slices.Sort(names)
	return names, err
}

// unused refuses a batch that has left something in the area.
func (a *Area) unused(id string) error {
	for _, where := range []string{txnDir, trashDir} {
		names, err := a.listed(where, id)
		if err != nil {
			return reading(err, id)
		}
		if len(names) > 0 {
			return refuse(Internal, "the batch %s was staged before", id)
		}
	}
	return nil
}

// Discard removes what was staged for a batch that was never dispatched. With displaced bytes in its trash it refuses:
// then the batch was.
func (a *Area) Discard(id string) error {
	if !validID(id) {
		return refuse(ArgumentInvalid, "%q is no name of a batch", id)
	}
	displaced, err := a.listed(trashDir, id)
	if err != nil {
		return reading(err, id)
	}
	if len(displaced) > 0 {
		return refuse(Internal, "the batch %s has displaced something", id)
	}
	names, err := a.listed(txnDir, id)
	if err != nil {
		return reading(err, id)
	}
	if err := a.removeNames(txnDir, id, names); err != nil {
		return writing(err, id)
	}
	return writing(errors.Join(a.dropDir(txnDir, id), a.dropDir(trashDir, id)), id)
}

func (a *Area) removeNames(where, id string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	dir, err := a.batchDir(where, id)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range names {
		if err := removeAll(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// dropDir removes a directory of a batch, if nothing is in it.
func (a *Area) dropDir(where, id string) error {
	above, err := enter(a.dir, where)
	if err != nil {
		return err
	}
	defer above.Close()
	if err := rmdirAt(above, id); err != nil && !errors.Is(err, fs.ErrNotExist) && !isNotEmpty(err) {
		return err
	}
	return syncDir(above)
}

// Finish clears the staging of a batch whose outcome is recorded. What was proposed and never put in place goes; whatever
// else is there, bytes of others too, goes to the trash of the batch.
func (r *Root) Finish(ctx context.Context, a *Area, b Batch) error {
	d, err := r.disk(ctx, a, b.ID)
	if err != nil {
		return writing(err, b.ID)
	}
	defer d.Close()
	names, err := a.listed(txnDir, b.ID)
	if err != nil {
		return reading(err, b.ID)
	}
	proposals := map[string]Change{}
	for _, c := range b.Changes {
		proposals[c.slot()] = c
	}
	e := &engine{files: d}
	for _, name := range names {
		c, ours := proposals[name]
		now, err := e.disk(c).Read("txn/" + name)
		if err != nil {
			return reading(err, name)
		}
		if ours && c.Propose == now.SHA256 {
			err = removeAll(d.txn, name)
		} else {
			_, err = e.discard("txn/"+name, "trash/x_"+name)
		}
		if err != nil {
			return writing(err, name)
		}
	}
	return writing(errors.Join(d.Flush(), a.dropDir(txnDir, b.ID), a.dropDir(trashDir, b.ID)), b.ID)
}

// Purge removes the displaced bytes of a batch for good. They are read once more: what was written to after it was
// displaced stays, and so does what is not in the journal; a warning names the paths. The caller says when.
func (r *Root) Purge(ctx context.Context, a *Area, b Batch) ([]Warning, error) {
	d, err := r.disk(ctx, a, b.ID)
	if err != nil {
		return nil, writing(err, b.ID)
	}
	defer d.Close()
	var late []Warning
	for _, c := range b.Changes {
		e := &engine{files: d}
		now, err := e.disk(c).Read(c.trashName())
		switch {
		case err != nil:
			return late, reading(err, string(c.Path))
		case now.Absent:
		case now.SHA256 != c.Expect:
			late = append(late, Warning{Code: LateWrite, Path: c.Path})
		default:
			if err := removeAll(d.trash, c.trash()); err != nil {
				return late, writing(err, string(c.Path))
			}
		}
	}
	return late, writing(errors.Join(a.dropDir(txnDir, b.ID), a.dropDir(trashDir, b.ID)), b.ID)
}

// removeAll removes an entry of an area with all that is below it.
func removeAll(dir *os.File, name string) error {
	err := unlinkAt(dir, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	sub, enterErr := enter(dir, name)
	if enterErr != nil {
		return err
	}
	defer sub.Close()
	names, err := namesIn(sub)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := removeAll(sub, n); err != nil {
			return err
		}
	}
	return rmdirAt(dir, name)
}

// FindOwnArea opens the area that a project holds itself. NotFound: it has none. One that others can write to is none of
// ours: it came with the project.
func (r *Root) FindOwnArea() (*Area, error) {
	dir, err := enter(r.dir, areaName)
	if err != nil {
		return nil, reading(err, areaName)
	}
	info, err := dir.Stat()
	if err == nil && (info.Mode().Perm() != 0o700 || !ownedBy(dir, os.Geteuid())) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(reading(err, areaName), dir.Close())
	}
	return &Area{path: filepath.Join(r.path, areaName), dir: dir, project: true}, nil
}

// AreaAt opens an area that exists, by its path.
func AreaAt(path string) (*Area, error) {
	dir, err := openState(path)
	if err != nil {
		return nil, reading(err, path)
	}
	return &Area{path: path, dir: dir}, nil
}
