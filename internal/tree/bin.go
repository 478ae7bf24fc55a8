package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/crash"
)

// BinKind says whose a bin is.
type BinKind string

// The kinds.
const (
	HomeBin    BinKind = "home"       // the trash of the user
	VolumeBin  BinKind = "volume"     // the trash of the user on another volume
	Quarantine BinKind = "quarantine" // ours: the volume has no trash that can be used
)

// BinName says where a bin is. It is kept with the record of dispatch, so that recovery and a restore find it.
type BinName struct {
	Kind BinKind `json:"kind"`
	Path string  `json:"path"`
	Top  string  `json:"top,omitempty"` // of a VolumeBin: paths in it are told from there
}

// Bin is where removed files go: a trash of the freedesktop specification, on the volume of the root so that what is moved
// there is never copied, or the quarantine of the area.
type Bin struct {
	BinName
	files, info *os.File // info is nil in a quarantine
}

// BinOptions say where a trash may be.
type BinOptions struct {
	Data string // directory of the user's data, XDG_DATA_HOME; "" there is none
	UID  int
}

// Bin opens the bin for what is removed below the root, and makes it when it may.
func (r *Root) Bin(a *Area, o BinOptions) (*Bin, error) {
	for _, name := range r.trashes(o) {
		if b, err := r.trash(name, o.UID); err == nil {
			return b, nil
		}
	}
	return a.OpenBin(a.Quarantine())
}

// Quarantine is the bin of the area itself, where nothing stands in the way.
func (a *Area) Quarantine() BinName {
	return BinName{Kind: Quarantine, Path: filepath.Join(a.path, quarantineDir)}
}

// trashes are the places where the specification looks for a trash, in its order.
func (r *Root) trashes(o BinOptions) []BinName {
	if runtime.GOOS == "darwin" {
		return nil // its trash is another one
	}
	top := r.top()
	uid := strconv.Itoa(o.UID)
	var all []BinName
	if o.Data != "" {
		all = append(all, BinName{Kind: HomeBin, Path: filepath.Join(o.Data, "Trash")})
	}
	return append(all,
		BinName{Kind: VolumeBin, Path: filepath.Join(top, ".Trash", uid), Top: top},
		BinName{Kind: VolumeBin, Path: filepath.Join(top, ".Trash-"+uid), Top: top})
}

// top is the highest directory of the mount that the root is on.
func (r *Root) top() string {
	top := r.path
	for top != "/" {
		dir, err := openRoot(filepath.Dir(top))
		if err != nil {
			break
		}
		facts, err := factsOf(dir)
		_ = dir.Close() // it was only looked at
		if err != nil || facts.mount != r.facts.mount || facts.ID.Dev != r.facts.ID.Dev {
			break
		}
		top = filepath.Dir(top)
	}
	return top
}

// trash opens a trash, and makes it where the specification allows that: not the directory for all users of a volume, which
// has to be one that nobody can remove another's files from.
func (r *Root) trash(name BinName, uid int) (*Bin, error) {
	above := filepath.Dir(name.Path)
	if filepath.Base(above) == ".Trash" {
		info, err := os.Lstat(above)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() || info.Mode()&fs.ModeSticky == 0 {
			return nil, fs.ErrPermission
		}
	}
	if name.Kind == HomeBin {
		if err := os.MkdirAll(above, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(name.Path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	b, err := openTrash(name)
	if err != nil {
		return nil, err
	}
	facts, err := factsOf(b.files)
	if err == nil && (facts.mount != r.facts.mount || facts.ID.Dev != r.facts.ID.Dev || !ownedBy(b.files, uid)) {
		err = fs.ErrPermission
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// openTrash opens the two directories of a trash, no part of which is a link below the directory that it lies in.
func openTrash(name BinName) (*Bin, error) {
	physical, err := filepath.EvalSymlinks(filepath.Dir(name.Path))
	if err != nil {
		return nil, err
	}
	dir, err := openRoot(filepath.Join(physical, filepath.Base(name.Path)))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	b := &Bin{BinName: name}
	for _, part := range []struct {
		name string
		into **os.File
	}{{"files", &b.files}, {"info", &b.info}} {
		if err = ensureDir(dir, part.name, 0o700); err == nil {
			*part.into, err = enter(dir, part.name)
		}
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// OpenBin opens a bin that was used before.
func (a *Area) OpenBin(name BinName) (*Bin, error) {
	if name.Kind != Quarantine {
		b, err := openTrash(name)
		return b, reading(err, name.Path)
	}
	files, err := enter(a.dir, quarantineDir)
	return &Bin{BinName: name, files: files}, reading(err, name.Path)
}

// Close ends the use of the bin.
func (b *Bin) Close() error {
	var errs []error
	for _, dir := range []*os.File{b.files, b.info} {
		if dir != nil {
			errs = append(errs, dir.Close())
		}
	}
	return errors.Join(errs...)
}

// Binned is something that was removed, and its name in the bin.
type Binned struct {
	Path RawPath `json:"path"`
	Name RawPath `json:"name"`
}

// Where is the path of what was removed.
func (b BinName) Where(x Binned) string {
	if b.Kind == Quarantine {
		return filepath.Join(b.Path, string(x.Name))
	}
	return filepath.Join(b.Path, "files", string(x.Name))
}

// Has says whether something is in the bin.
func (b *Bin) Has(x Binned) bool {
	_, err := look(b.files, string(x.Name))
	return err == nil
}

// Names are the names that the removals of a batch get in a bin: each is of the batch alone, so that a removal that was cut
// off is found again.
func (b Batch) Names() []Binned {
	var all []Binned
	for _, c := range b.Changes {
		if c.Kind != Delete {
			continue
		}
		base := c.Path[strings.LastIndexByte(string(c.Path), '/')+1:]
		behind := fmt.Sprintf(".%s-%d", strings.TrimPrefix(b.ID, "op-"), c.N)
		const info = len(".trashinfo")
		base = base[:min(len(base), maxName-len(behind)-info)]
		all = append(all, Binned{Path: c.Path, Name: base + RawPath(behind)})
	}
	return all
}

// Empty moves what a batch has displaced from the trash of the area to the bin. It goes by what is on the disk, and may be
// cut off and called again.
func (r *Root) Empty(ctx context.Context, a *Area, b Batch, bin *Bin, at time.Time) error {
	ctx = context.WithoutCancel(ctx)
	d, err := r.disk(ctx, a, b.ID)
	if err != nil {
		return writing(err, b.ID)
	}
	defer d.Close()
	names := b.Names()
	for _, c := range b.Changes {
		if c.Kind != Delete {
			continue
		}
		x := names[0]
		names = names[1:]
		if _, err := look(d.trash, c.trash()); errors.Is(err, fs.ErrNotExist) {
			continue // it is in the bin
		}
		crash.Point("fs.bin.before")
		if err := bin.note(filepath.Join(r.path, string(x.Path)), x.Name, at); err != nil {
			return writing(err, string(x.Path))
		}
		if err := atomicfile.MoveAt(d.trash, c.trash(), bin.files, string(x.Name)); err != nil {
			return writing(err, string(x.Path))
		}
		crash.Point("fs.bin.after")
	}
	return writing(errors.Join(syncDir(bin.files), syncDir(d.trash)), b.ID)
}

// note writes what a trash tells about a file in it: where it was, and when it was removed.
func (b *Bin) note(path string, name RawPath, at time.Time) error {
	if b.info == nil {
		return nil
	}
	if b.Kind == VolumeBin {
		if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(b.Top, "/")+"/"); ok {
			path = rest
		}
	}
	info := string(name) + ".trashinfo"
	f, err := create(b.info, info)
	if errors.Is(err, fs.ErrExist) { // of this removal, before it was cut off
		if err := unlinkAt(b.info, info); err != nil {
			return err
		}
		f, err = create(b.info, info)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "[Trash Info]\nPath=%s\nDeletionDate=%s\n", (&url.URL{Path: path}).EscapedPath(), at.Local().Format("2006-01-02T15:04:05"))
	return errors.Join(err, f.Sync(), f.Close(), syncDir(b.info))
}

// Returned is what became of one removed path.
type Returned struct {
	Path RawPath
	Why  Code // of what was not restored; "" it was
}

// Restore brings back what was removed, where nothing stands in its place: a directory that is there again gets what of it
// is not. m is the manifest of x; only what of it is below one of paths is restored, all without any. It may be cut off, and
// called again.
func (r *Root) Restore(ctx context.Context, bin *Bin, x Binned, m Manifest, paths []string, judge func(*Place) error) ([]Returned, error) {
	ctx = context.WithoutCancel(ctx)
	z := &restorer{ctx: ctx, root: r, judge: judge, was: map[string]Item{}, base: string(x.Path)}
	for _, i := range m.Items {
		z.was[joined(z.base, string(i.Path))] = i
	}
	dir, err := enter(bin.files, ".")
	if err != nil {
		return nil, reading(err, string(x.Path))
	}
	err = z.restore(dir, string(x.Name), z.base, paths)
	if err == nil && bin.info != nil {
		if _, still := look(bin.files, string(x.Name)); errors.Is(still, fs.ErrNotExist) {
			if gone := unlinkAt(bin.info, string(x.Name)+".trashinfo"); !errors.Is(gone, fs.ErrNotExist) {
				err = gone
			}
		}
	}
	return z.done, writing(errors.Join(err, syncDir(bin.files), dir.Close()), string(x.Path))
}

// restorer brings one removed entry back.
type restorer struct {
	ctx   context.Context
	root  *Root
	judge func(*Place) error
	was   map[string]Item
	base  string
	done  []Returned
}

func (z *restorer) tell(path string, why Code) {
	z.done = append(z.done, Returned{Path: RawPath(path), Why: why})
}

// wanted says whether a path is to be restored, or something below it.
func wanted(path string, paths []string) (whole, part bool) {
	if len(paths) == 0 {
		return true, true
	}
	for _, p := range paths {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true, true
		}
		part = part || strings.HasPrefix(p, path+"/")
	}
	return false, part
}

// restore brings the entry under a name in a directory of the bin back to its path.
func (z *restorer) restore(dir *os.File, name, path string, paths []string) error {
	whole, part := wanted(path, paths)
	if !part {
		return nil
	}
	facts, err := look(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return z.absent(path)
	}
	if err != nil {
		return err
	}
	p, err := z.root.Resolve(path, Look)
	if CodeOf(err) == NotFound {
		p, err = z.root.Resolve(path, Write)
	}
	if err != nil {
		z.tell(path, CodeOf(err))
		return nil
	}
	defer p.Close()
	switch {
	case p.Path != path:
		z.tell(path, PathAlias)
		return nil
	case facts.Kind == Directory && (p.Kind == Directory || p.Kind == Absent && !whole):
		return z.below(dir, name, path, paths)
	case p.Kind != Absent:
		z.tell(path, Exists)
		return nil
	}
	return z.move(dir, name, p)
}

// absent tells of what is not in the bin: it was restored before, or somebody has emptied the trash.
func (z *restorer) absent(path string) error {
	p, err := z.root.Resolve(path, Look)
	if err != nil {
		z.tell(path, NotFound)
		return nil
	}
	defer p.Close()
	why := Exists
	if m, err := p.Freeze(z.ctx, nil); err == nil && z.isAsItWas(path, m) {
		why = ""
	}
	z.tell(path, why)
	return nil
}

// isAsItWas says whether all that is below a path is what was removed there.
func (z *restorer) isAsItWas(path string, m Manifest) bool {
	for _, i := range m.Items {
		w, known := z.was[joined(path, string(i.Path))]
		if !known || w.Kind != i.Kind || w.Mode != i.Mode || w.Digest != i.Digest {
			return false
		}
	}
	return true
}

// below restores what is in a directory of the bin, which is there again or of which a part is wanted.
func (z *restorer) below(dir *os.File, name, path string, paths []string) error {
	sub, err := enter(dir, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	entries, err := sortedEntries(sub)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := z.restore(sub, e.name, path+"/"+e.name, paths); err != nil {
			return err
		}
	}
	if err := rmdirAt(dir, name); err != nil && !isNotEmpty(err) {
		return err
	}
	return nil
}

// move moves an entry of the bin whole, if it is what was removed.
func (z *restorer) move(dir *os.File, name string, p *Place) error {
	m, err := freeze(z.ctx, z.root, dir, name, func(Seen) error { return nil })
	if err != nil {
		return err
	}
	if !z.isAsItWas(p.Path, m) {
		z.tell(p.Path, Moved)
		return nil
	}
	if z.judge != nil {
		if err := z.judge(p); err != nil {
			z.tell(p.Path, FileDenied)
			return nil
		}
	}
	into, err := z.parent(p)
	if err != nil {
		return err
	}
	defer into.Close()
	crash.Point("fs.restore.before")
	err = atomicfile.MoveAt(dir, name, into, filepath.Base(p.Path))
	if errors.Is(err, fs.ErrExist) {
		z.tell(p.Path, Exists)
		return nil
	}
	if err != nil {
		return err
	}
	crash.Point("fs.restore.after")
	z.tell(p.Path, "")
	return syncDir(into)
}

// joined is the path of an item of a manifest that was made of a path.
func joined(path, item string) string {
	if item == "." {
		return path
	}
	return path + "/" + item
}

// parent opens the directory that an entry comes back to, and makes those that are missing, with the permissions that they
// had.
func (z *restorer) parent(p *Place) (*os.File, error) {
	names := components(p.Path)
	names = names[:len(names)-1]
	at, err := enter(z.root.dir, ".")
	for i, name := range names {
		if err != nil {
			return nil, err
		}
		perm := fs.FileMode(0o755)
		if was, ok := z.was[strings.Join(names[:i+1], "/")]; ok {
			perm = fs.FileMode(was.Mode)
		}
		var next *os.File
		if next, err = enter(at, name); errors.Is(err, fs.ErrNotExist) {
			if err = errors.Join(ensureDir(at, name, perm), syncDir(at)); err == nil {
				next, err = enter(at, name)
			}
		}
		_ = at.Close() // it was only entered
		at = next
	}
	return at, err
}

// Overlap is the first of some paths that lies in another one of them, "" none does.
func Overlap(paths []string) string {
	sorted := slices.Clone(paths)
	slices.Sort(sorted)
	seen := map[string]bool{}
	for _, path := range sorted {
		for at := path; at != "."; at = filepath.Dir(at) {
			if seen[at] {
				return path
			}
		}
		seen[path] = true
	}
	return ""
}
