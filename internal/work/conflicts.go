package work

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"

	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// maxBundle bounds a file of a bundle, in bytes.
const maxBundle = 64 << 20

// currentDigest is the file of a bundle that says what the project has where CURRENT does not: nothing, a link, a directory,
// or a file that is too large or may not be read.
const currentDigest = "CURRENT.sha256"

// maxDigest bounds it, in bytes.
const maxDigest = 1 << 10

// bundles writes what a caller needs to resolve conflicts into the working copy: of each path the three sides and, of a
// text, both changes in one file. The working copy is its agents': no link in it is followed out.
func (g *integration) bundles(ctx context.Context, clashes []pathPlan) ([]conflictShown, error) {
	root, err := os.OpenRoot(g.p.dir.Copy())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := g.clear(root, clashes); err != nil {
		return nil, err
	}
	var shown []conflictShown
	for _, one := range clashes {
		dir := path.Join(conflictsDir, one.path)
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		for name, data := range g.sides(ctx, one) {
			if err := root.WriteFile(path.Join(dir, name), data, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
			}
		}
		shown = append(shown, g.shown(one, text.EncodePath(dir)))
	}
	return shown, nil
}

// clear removes what earlier tries have left, but for the bundles of paths that were resolved since: until the integration
// succeeds, they say what was seen.
func (g *integration) clear(root *os.Root, clashes []pathPlan) error {
	kept := map[string]bool{}
	for name := range g.in.Seen {
		kept[path.Join(conflictsDir, name)] = true
	}
	for _, one := range clashes {
		delete(kept, path.Join(conflictsDir, one.path))
	}
	return clearBundles(root, conflictsDir, kept)
}

// clearBundles removes what is in a directory of bundles and in those below it, but for the files of some of them.
func clearBundles(root *os.Root, dir string, kept map[string]bool) error {
	if info, err := root.Lstat(dir); err != nil || !info.IsDir() || len(kept) == 0 {
		return root.RemoveAll(dir)
	}
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	all, err := d.ReadDir(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	for _, e := range all {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			err = clearBundles(root, name, kept)
		case !kept[dir]:
			err = root.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	_ = root.Remove(dir) // unless something is left in it
	return nil
}

// sides are the files of a bundle. What may not be read, or is no file, has none.
func (g *integration) sides(ctx context.Context, one pathPlan) map[string][]byte {
	files := map[string][]byte{}
	if one.base.Kind == tree.File {
		if data, err := g.p.dir.Bytes(one.base.Digest, maxBundle); err == nil {
			files["BASE"] = data
		}
	}
	for name, side := range map[string]struct {
		at   *target
		item tree.Item
	}{workspace.SideCurrent: {g.at, one.current}, "PROPOSED": {g.copy, one.proposed}} {
		if side.item.Kind != tree.File {
			continue // what a link leads to is not what is in conflict
		}
		if got, err := g.s.bytes(ctx, side.at, one.path, maxBundle); err == nil {
			files[name] = got.Data
		}
	}
	if files[workspace.SideCurrent] == nil {
		files[currentDigest] = []byte(shownDigest(one.current))
	}
	if one.marked != "" {
		files["MERGED"] = []byte(one.marked)
	}
	return files
}
