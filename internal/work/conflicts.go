package work

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"

	"mcpx/internal/text"
	"mcpx/internal/tree"
)

// maxBundle bounds a file of a bundle, in bytes.
const maxBundle = 64 << 20

// bundles writes what a caller needs to resolve conflicts into the working copy: of each path the three sides and, of a
// text, both changes in one file. Those of an earlier try go. The working copy is its agents': no link in it is followed out.
func (g *integration) bundles(ctx context.Context, clashes []pathPlan) ([]conflictShown, error) {
	root, err := os.OpenRoot(g.p.dir.Copy())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.RemoveAll(conflictsDir); err != nil {
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

// sides are the files of a bundle. What may not be read, or is no file, has none.
func (g *integration) sides(ctx context.Context, one pathPlan) map[string][]byte {
	files := map[string][]byte{}
	if one.base.Kind == tree.File {
		if data, err := g.p.dir.Bytes(one.base.Digest, maxBundle); err == nil {
			files["BASE"] = data
		}
	}
	for name, x := range map[string]*target{"CURRENT": g.at, "PROPOSED": g.copy} {
		if got, err := g.s.bytes(ctx, x, one.path, maxBundle); err == nil {
			files[name] = got.Data
		}
	}
	if one.marked != "" {
		files["MERGED"] = []byte(one.marked)
	}
	return files
}
