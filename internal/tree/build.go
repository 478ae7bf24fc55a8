package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/atomicfile"
	"mcpx/internal/crash"
	"mcpx/internal/workspace"
)

const (
	generationsDir = "generations" // of an area
	sealedDir      = "tree"        // of a build: its bytes
	sealedFile     = 0o444
	sealedExec     = 0o555
	sealedFolder   = 0o555
)

// Build is the directory of a build: its bytes, the manifest of them, and the statement about how they were made.
type Build struct{ Dir string }

// Build is the build, or the draft, of this name in the area.
func (a *Area) Build(name string) Build {
	return Build{filepath.Join(a.path, generationsDir, name)}
}

// Builds are the names of all builds and drafts in the area.
func (a *Area) Builds() ([]string, error) {
	names, err := a.listed(".", generationsDir)
	return names, reading(err, a.path)
}

// Draft is where a candidate is sealed. Nobody else makes it.
func (a *Area) Draft(candidate string) Build { return a.Build(".tmp-" + candidate) }

// Make makes the directory of a draft, which does not exist.
func (a *Area) Make(b Build) error {
	if err := ensureDir(a.dir, generationsDir, 0o700); err != nil {
		return writing(err, b.Dir)
	}
	return writing(os.Mkdir(b.Dir, 0o700), b.Dir)
}

// Tree is where the bytes are.
func (b Build) Tree() string { return filepath.Join(b.Dir, sealedDir) }

// Manifest is where the manifest is.
func (b Build) Manifest() string { return filepath.Join(b.Dir, "manifest") }

// Statement is where the statement is.
func (b Build) Statement() string { return filepath.Join(b.Dir, "statement.json") }

// Exists says whether the directory is there.
func (b Build) Exists() (bool, error) { return Packet(b).Exists() }

// Seal copies outputs, with all that is below them, to files that nobody else has ever opened for writing, and takes the
// permission to write away from everybody. What it gives was read from the copy. NotFound for an output that is not there;
// otherwise the errors of CopyTo.
func (r *Root) Seal(ctx context.Context, to Build, outputs []string, skip func(path string) bool) ([]workspace.Sealed, error) {
	got, err := r.CopyTo(ctx, to.Tree(), "", CopyOptions{
		Only: outputs, Git: true, Refuse: func(string) bool { return true }, Each: func() { crash.Point("gen.seal.each") },
		Skip: func(e Seen) string {
			if skip(e.Path) {
				return "not an output"
			}
			return ""
		},
	})
	if err != nil {
		return nil, err
	}
	for _, o := range outputs {
		there := func(i Item) bool { return o == "." || string(i.Path) == o }
		if !slices.ContainsFunc(got.Manifest.Items, there) {
			return nil, refuse(NotFound, "the output %s is not there", o).With("path", o)
		}
	}
	if err := to.chmod(ctx, func(kind Kind, mode fs.FileMode) fs.FileMode {
		switch {
		case kind == Directory:
			return sealedFolder
		case mode&0o100 != 0:
			return sealedExec
		}
		return sealedFile
	}); err != nil {
		return nil, err
	}
	sealed, loose, err := to.entries(ctx, nil)
	if err == nil && len(loose) > 0 {
		err = refuse(Internal, "%s could not be sealed", loose[0])
	}
	return sealed, err
}

// chmod changes the permissions of everything in the tree, itself included.
func (b Build) chmod(ctx context.Context, of func(Kind, fs.FileMode) fs.FileMode) error {
	root, err := Open(b.Dir, Options{ByPath: true})
	if err != nil {
		return err
	}
	defer root.Close()
	return root.each(ctx, true, func(v Visit) error {
		if v.Path != sealedDir && !strings.HasPrefix(v.Path, sealedDir+"/") || v.Kind != Directory && v.Kind != File {
			return nil
		}
		f, err := openContent(v.dir.File, v.name)
		if err != nil {
			return writing(err, v.Path)
		}
		facts, err := factsOf(f)
		if err == nil {
			err = f.Chmod(of(facts.Kind, facts.Mode))
		}
		return writing(errors.Join(err, f.Close()), v.Path)
	})
}

// entries reads everything in the tree, and says where permissions are not those of a sealed build. read, which may be nil, is
// told of bytes as SurveyOptions.Read is. NotFound when there is none.
func (b Build) entries(ctx context.Context, read func(bytes int)) (sealed []workspace.Sealed, loose []string, err error) {
	root, err := Open(b.Dir, Options{ByPath: true}) // from above the tree, so that no name in it is one of the runtime
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	m, err := root.Survey(ctx, SurveyOptions{Git: true, Read: read, Skip: func(v Visit) bool {
		return v.Path != sealedDir && !strings.HasPrefix(v.Path, sealedDir+"/")
	}})
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(m.Items, func(i Item) bool { return i.Path == sealedDir && i.Kind == Directory }) {
		return nil, nil, refuse(NotFound, "%s is not there", b.Tree())
	}
	full := map[string]bool{} // directories in which something is
	for _, i := range m.Items {
		full[path.Dir(string(i.Path))] = true
	}
	for _, i := range m.Items {
		if i.Path == sealedDir && i.Kind == Directory && i.Mode != sealedFolder {
			loose = append(loose, ".")
		}
		name, inside := strings.CutPrefix(string(i.Path), sealedDir+"/")
		if !inside {
			continue
		}
		e := workspace.Sealed{Path: name, Entry: workspace.Entry{Kind: workspace.Kind(i.Kind)}}
		good := true
		switch i.Kind {
		case File:
			e.Size, e.Digest, e.Exec = i.Size, i.Digest, i.Mode&0o100 != 0
			good = i.Mode == sealedFile || i.Mode == sealedExec
		case Link:
			e.Digest = i.Link
		case Directory:
			good = i.Mode == sealedFolder
		case Other, Absent:
		}
		if !good {
			loose = append(loose, name)
		}
		if i.Kind != Directory || !full[string(i.Path)] {
			sealed = append(sealed, e)
		}
	}
	return sealed, loose, nil
}

// Describe writes the manifest, durably. State does the same for the statement.
func (b Build) Describe(manifest []byte) error {
	return writing(atomicfile.Write(b.Manifest(), manifest, sealedFile), b.Dir)
}

// State writes the statement; one that is there already, of an attempt that was cut off, is the same.
func (b Build) State(statement []byte) error {
	return writing(atomicfile.Write(b.Statement(), statement, sealedFile), b.Dir)
}

// ReadManifest reads the manifest.
func (b Build) ReadManifest() ([]byte, error) {
	raw, err := os.ReadFile(b.Manifest())
	return raw, reading(err, b.Manifest())
}

// Verify reads the whole build, and says how it differs from its manifest, and the tree hash of what is there. Nothing is
// left out, and nothing is believed because of its size or time. read, which may be nil, is told of bytes as SurveyOptions.Read
// is.
func (b Build) Verify(ctx context.Context, m workspace.Manifest, read func(bytes int)) (workspace.Difference, string, error) {
	sealed, loose, err := b.entries(ctx, read)
	switch code := CodeOf(err); {
	case code == NotFound: // the whole of it
		d := m.Compare(nil)
		d.Gone = slices.Insert(d.Gone, 0, ".")
		return d, "", nil
	case code == FileDenied: // somebody has changed its permissions
		return workspace.Difference{Changed: []string{err.Error()}}, "", nil
	case err != nil:
		return workspace.Difference{}, "", err
	}
	d := m.Compare(sealed)
	for _, name := range loose {
		if !slices.Contains(d.Added, name) && !slices.Contains(d.Changed, name) {
			d.Changed = append(d.Changed, name)
		}
	}
	slices.SortFunc(sealed, func(a, b workspace.Sealed) int { return strings.Compare(a.Path, b.Path) })
	_, hash := workspace.Manifest(sealed).Encode()
	return d, hash, nil
}

// Publish gives a draft, which is complete, the place of a build. One that a process has given it that was killed is published
// again. When it returns, everything is durable.
func (b Build) Publish(to Build) error {
	if err := flushAll(b.Dir); err != nil {
		return writing(err, b.Dir)
	}
	if b != to {
		if err := os.Rename(b.Dir, to.Dir); err != nil {
			return writing(err, to.Dir)
		}
		crash.Point("gen.rename.after")
	}
	return writing(atomicfile.SyncDir(filepath.Dir(to.Dir)), to.Dir)
}

// Empty removes the bytes of a build. Its manifest and its statement stay.
func (b Build) Empty(ctx context.Context) error {
	if there, err := Packet(b).Exists(); err != nil || !there {
		return err
	}
	if err := b.chmod(ctx, func(kind Kind, mode fs.FileMode) fs.FileMode {
		if kind == Directory {
			return 0o700
		}
		return mode.Perm()
	}); err != nil {
		return err
	}
	return writing(errors.Join(os.RemoveAll(b.Tree()), atomicfile.SyncDir(b.Dir)), b.Dir)
}

// Clear removes a draft as a whole.
func (b Build) Clear(ctx context.Context) error {
	if err := b.Empty(ctx); err != nil {
		return err
	}
	return writing(os.RemoveAll(b.Dir), b.Dir)
}
