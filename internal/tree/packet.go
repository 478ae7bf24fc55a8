package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"mcpx/internal/atomicfile"
	"mcpx/internal/crash"
)

// Packet is the directory of a workspace: its working copy, the bytes of its BASE, each under its hash or in a pack, and a
// record for each BASE that it had.
type Packet struct{ Dir string }

// Packet is the workspace of this name in the area.
func (a *Area) Packet(name string) Packet { return Packet{filepath.Join(a.path, packetsDir, name)} }

// Snapshot is the kept copy of this name in the area.
func (a *Area) Snapshot(name string) Packet {
	return Packet{filepath.Join(a.path, snapshotsDir, name)}
}

// Copy is where the working copy is.
func (p Packet) Copy() string { return filepath.Join(p.Dir, "tree") }

// Blobs is where the bytes of BASE are.
func (p Packet) Blobs() string { return filepath.Join(p.Dir, "base") }

// blob is where the bytes with this hash are, unless they are in the pack.
func (p Packet) blob(digest string) string { return filepath.Join(p.Blobs(), digest) }

// holds says whether the bytes with this hash are there, undamaged: in a file of their own, or in the pack.
func (p Packet) holds(digest string) bool {
	f, err := os.Open(p.blob(digest))
	if err != nil {
		_, err = readPacked(p.Blobs(), digest, copySmall)
		return err == nil
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == digest
}

// Make makes the directory, which does not exist.
func (p Packet) Make() error { return writing(os.Mkdir(p.Dir, 0o700), p.Dir) }

// Exists says whether the directory is there.
func (p Packet) Exists() (bool, error) {
	_, err := os.Lstat(p.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, reading(err, p.Dir)
}

// Gone says whether the directory is not there, and what it lay in is. Where that cannot be read, nobody knows.
func (p Packet) Gone() (bool, error) {
	there, err := p.Exists()
	if there || err != nil {
		return false, err
	}
	_, err = os.ReadDir(filepath.Dir(p.Dir))
	return err == nil, reading(err, p.Dir)
}

// Lay puts what is below another root into the working copy, at paths that are not there, as CopyTo does; the bytes that are to be
// there twice are kept with those of BASE. What is above them is a directory, or becomes one. NOT_A_DIRECTORY, EXISTS, and the
// codes of CopyTo.
func (p Packet) Lay(ctx context.Context, from *Root, o CopyOptions) (Copied, error) {
	laid := filepath.Join(p.Dir, ".laid")
	got, err := from.CopyTo(ctx, laid, "", o)
	if err != nil {
		return got, err
	}
	all := got.Manifest.Items
	got.Manifest.Items = nil
	for _, i := range all {
		at := filepath.Join(p.Copy(), string(i.Path))
		there, err := os.Lstat(at)
		switch {
		case err == nil && i.Kind == Directory && there.IsDir():
			continue
		case err == nil && i.Kind == Directory:
			return got, refuse(NotADirectory, "%s is no directory in the project", i.Path).With("path", string(i.Path))
		case err == nil:
			return got, refuse(Exists, "%s is there already", i.Path).With("path", string(i.Path))
		case !errors.Is(err, fs.ErrNotExist):
			return got, writing(err, string(i.Path))
		case i.Kind == Directory:
			i.Mode |= 0o700
			err = os.Mkdir(at, fs.FileMode(i.Mode))
		default:
			if i.Kind == File {
				i.Mode |= 0o600
			}
			err = os.Rename(filepath.Join(laid, string(i.Path)), at)
		}
		if err != nil {
			return got, writing(err, string(i.Path))
		}
		got.Manifest.Items = append(got.Manifest.Items, i)
	}
	copied, err := Open(p.Copy(), Options{ByPath: true})
	if err != nil {
		return got, err
	}
	defer copied.Close()
	var twice []Item
	for _, i := range got.Manifest.Items {
		if i.Kind == File && o.Twice != nil && o.Twice(string(i.Path)) {
			twice = append(twice, i)
			got.Real += i.Size
		}
	}
	if o.Limit > 0 && got.Real > o.Limit {
		return got, tooLarge("what is to be copied", o.Limit)
	}
	if err := p.KeepFrom(ctx, copied, twice...); err != nil {
		return got, err
	}
	return got, writing(errors.Join(os.RemoveAll(laid), flushAll(p.Dir)), p.Dir)
}

// Keep adds the bytes of files of the working copy to those of BASE, and makes them durable. FileBusy: they are others now.
func (p Packet) Keep(ctx context.Context, files ...Item) error {
	root, err := Open(p.Copy(), Options{ByPath: true})
	if err != nil {
		return err
	}
	defer root.Close()
	return p.KeepFrom(ctx, root, files...)
}

// draftsDir is where bytes of BASE are until they are durable.
const draftsDir = ".drafts"

// KeepFrom is Keep for files of another root. Bytes get their name when they are durable; the first error is the last file. What
// an attempt that was cut off has left is removed: nobody else keeps anything in the packet now.
func (p Packet) KeepFrom(ctx context.Context, root *Root, files ...Item) (err error) {
	if len(files) == 0 {
		return nil
	}
	asked := map[string]bool{}
	files = slices.DeleteFunc(slices.Clone(files), func(i Item) bool {
		twice := asked[i.Digest]
		asked[i.Digest] = true
		return twice || p.holds(i.Digest)
	})
	if len(files) == 0 { // some may have their name from an attempt that was cut off
		return writing(atomicfile.SyncDir(p.Blobs()), p.Dir)
	}
	drafts := filepath.Join(p.Dir, draftsDir)
	if err := errors.Join(os.RemoveAll(drafts), os.Mkdir(drafts, 0o700)); err != nil {
		return writing(err, p.Dir)
	}
	defer func() { err = errors.Join(err, writing(os.RemoveAll(drafts), p.Dir)) }()
	group, keeping := errgroup.WithContext(ctx)
	group.SetLimit(stageWorkers)
	for _, i := range files {
		group.Go(func() error {
			if keeping.Err() != nil {
				return context.Cause(keeping)
			}
			return writing(p.keep(keeping, root, i, filepath.Join(drafts, i.Digest)), string(i.Path))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return writing(atomicfile.SyncDir(p.Blobs()), p.Dir)
}

// keep copies a file to a draft, and makes that bytes of BASE.
func (p Packet) keep(ctx context.Context, root *Root, i Item, draft string) error {
	at, err := root.Resolve(string(i.Path), Read)
	if err != nil {
		return err
	}
	defer at.Close()
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	got, err := at.Copy(ctx, f)
	if err == nil && got != i.Digest {
		err = refuse(FileBusy, "%s changes all the time", i.Path)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(draft, p.blob(i.Digest))
}

// Bytes reads bytes of BASE. LimitExceeded, NotFound, also when those that are there are others.
func (p Packet) Bytes(digest string, limit int64) ([]byte, error) {
	info, err := os.Lstat(p.blob(digest))
	if errors.Is(err, fs.ErrNotExist) {
		data, err := readPacked(p.Blobs(), digest, limit)
		return data, reading(err, digest)
	}
	if err != nil {
		return nil, reading(err, digest)
	}
	if info.Size() > limit {
		return nil, tooLarge(digest, limit)
	}
	data, err := os.ReadFile(p.blob(digest))
	if err == nil && atomicfile.Sum(data) != digest {
		return nil, reading(fs.ErrNotExist, digest)
	}
	return data, reading(err, digest)
}

// Aside is where a workspace of this name is in the quarantine.
func (a *Area) Aside(name string) Packet { return Packet{filepath.Join(a.path, quarantineDir, name)} }

// InTrash is where a workspace of this name is when it is done with.
func (a *Area) InTrash(name string) Packet { return Packet{filepath.Join(a.path, trashDir, name)} }

// IsAside says whether the packet is in a quarantine.
func (p Packet) IsAside() bool { return filepath.Base(filepath.Dir(p.Dir)) == quarantineDir }

// IsInTrash says whether the packet is in a trash.
func (p Packet) IsInTrash() bool { return filepath.Base(filepath.Dir(p.Dir)) == trashDir }

// Move moves a packet within the area, as it is and in one step. Of one that a process has moved that was killed it makes that
// durable. Exists: something has the other name.
func (a *Area) Move(p, to Packet) error {
	from, err := enter(a.dir, filepath.Base(filepath.Dir(p.Dir)))
	if err != nil {
		return reading(err, p.Dir)
	}
	defer from.Close()
	into, err := enter(a.dir, filepath.Base(filepath.Dir(to.Dir)))
	if err != nil {
		return reading(err, to.Dir)
	}
	defer into.Close()
	crash.Point("ws.move.before")
	if err := atomicfile.MoveAt(from, filepath.Base(p.Dir), into, filepath.Base(to.Dir)); err != nil {
		there, unread := to.Exists()
		if gone := errors.Is(err, fs.ErrNotExist); !gone || unread != nil || !there {
			return writing(err, p.Dir)
		}
	}
	crash.Point("ws.move.after")
	return writing(errors.Join(syncDir(from), syncDir(into)), p.Dir)
}

// Packets are the names of all workspaces in the area.
func (a *Area) Packets() ([]string, error) {
	all, err := a.listed(".", packetsDir)
	var names []string
	for _, name := range all {
		if !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, reading(err, a.path)
}

// Snapshot copies a packet, and says what is in the copy of its working copy. Both are compared once more: what is kept is
// what was there.
func (p Packet) Snapshot(ctx context.Context, to Packet) (Manifest, error) {
	root, err := Open(p.Dir, Options{ByPath: true})
	if err != nil {
		return Manifest{}, err
	}
	defer root.Close()
	if _, err = root.CopyTo(ctx, to.Dir, "", CopyOptions{Git: true, Setuid: true}); err != nil {
		return Manifest{}, err
	}
	kept, err := to.Survey(ctx)
	if err != nil {
		return Manifest{}, err
	}
	was, err := p.Survey(ctx)
	if err == nil && kept.kept().Digest() != was.kept().Digest() {
		err = refuse(Moved, "the workspace changes while it is copied")
	}
	return kept, err
}

// kept is what a copy keeps of a manifest: no pipes, sockets and devices, and of the permissions whether the owner may execute
// a file.
func (m Manifest) kept() Manifest {
	var k Manifest
	for _, i := range m.Items {
		if i.Kind == Other {
			continue
		}
		if i.Mode &= 0o100; i.Kind != File {
			i.Mode = 0
		}
		k.Items = append(k.Items, i)
	}
	return k
}

// draftBegins begins the names of copies that are being made.
const draftBegins = ".draft-"

// SnapshotDraft is where a copy of a workspace is made before it gets its name.
func (a *Area) SnapshotDraft(of string) Packet { return a.Snapshot(draftBegins + of) }

// ClearSnapshotDrafts removes the copies that were cut off: nobody makes one now.
func (a *Area) ClearSnapshotDrafts() error {
	names, err := a.listed(".", snapshotsDir)
	for _, name := range names {
		if strings.HasPrefix(name, draftBegins) {
			err = errors.Join(err, a.Snapshot(name).Clear())
		}
	}
	return reading(err, a.path)
}

// Survey is the manifest of the working copy with all that is in it. A directory that somebody else has made has none: then
// it is of all that is there.
func (p Packet) Survey(ctx context.Context) (Manifest, error) {
	root, err := Open(p.Copy(), Options{ByPath: true})
	if code := CodeOf(err); code == NotFound || code == NotADirectory {
		root, err = Open(p.Dir, Options{ByPath: true})
	}
	if err != nil {
		return Manifest{}, err
	}
	defer root.Close()
	return root.Survey(ctx, SurveyOptions{Git: true})
}

// Become gives a copy that was made under another name its own one. One that has it is the same, and stays.
func (p Packet) Become(to Packet) error {
	err := os.Rename(p.Dir, to.Dir)
	if errors.Is(err, fs.ErrExist) || isNotEmpty(err) {
		return writing(os.RemoveAll(p.Dir), p.Dir) // our own copy, that nobody has seen
	}
	if err != nil {
		return writing(err, to.Dir)
	}
	above, err := os.Open(filepath.Dir(to.Dir))
	if err != nil {
		return writing(err, to.Dir)
	}
	return writing(errors.Join(above.Sync(), above.Close()), to.Dir)
}

// Clear removes a copy that nobody has seen.
func (p Packet) Clear() error { return writing(os.RemoveAll(p.Dir), p.Dir) }
