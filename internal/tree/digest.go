package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"mcpx/internal/atomicfile"
	"mcpx/internal/text"
)

// A digest says what lies under a name: of a file the SHA-256 of its bytes in hex, as tools show it; of anything else one
// of these, which no file has.
const (
	linkDigest = "link:" // with the SHA-256 of its text
	dirDigest  = "dir"   // a directory, whatever is in it
	treeDigest = "tree:" // with the SHA-256 of the manifest of all that is in a directory
	oddDigest  = "other" // a pipe, a socket, a device
)

// LinkDigest is the digest of a symbolic link with a text.
func LinkDigest(text string) string { return linkDigest + atomicfile.Sum([]byte(text)) }

func isLink(digest string) bool { return strings.HasPrefix(digest, linkDigest) }

// isTree says whether a digest is of a directory with all that is in it.
func isTree(digest string) bool { return strings.HasPrefix(digest, treeDigest) }

// isFile says whether a digest is of a regular file.
func isFile(digest string) bool {
	return len(digest) == 2*sha256.Size && !strings.Contains(digest, ":")
}

// Item is one entry of a manifest.
type Item struct {
	Path   RawPath `json:"path"` // relative to the root of the manifest; "." that itself
	Kind   Kind    `json:"kind"`
	Mode   uint32  `json:"mode"` // permission bits
	Size   int64   `json:"size"` // bytes of a file
	Digest string  `json:"digest"`
	Link   string  `json:"link,omitempty"`
}

// Manifest is all that lies under a name, in the order of walks.
type Manifest struct {
	Items []Item `json:"items"`
}

// Digest is the digest of the whole: kinds, permissions, bytes and texts of links.
func (m Manifest) Digest() string {
	if len(m.Items) == 1 && m.Items[0].Kind != Directory {
		return m.Items[0].Digest
	}
	sum := sha256.New()
	var line []byte
	for _, i := range m.Items {
		line = append(i.appendTo(line[:0]), '\n')
		sum.Write(line)
	}
	return treeDigest + hex.EncodeToString(sum.Sum(nil))
}

// appendTo appends what counts of an entry: its kind, permissions, digest and path.
func (i Item) appendTo(line []byte) []byte {
	line = append(append(line, i.Kind...), ' ')
	line = append(strconv.AppendUint(line, uint64(i.Mode), 8), ' ')
	line = append(append(line, i.Digest...), ' ')
	return append(line, text.EncodePath(string(i.Path))...)
}

// Difference is how what is there differs from a manifest.
type Difference struct {
	Added, Changed, Gone []RawPath
}

// Same says that nothing differs.
func (d Difference) Same() bool { return len(d.Added)+len(d.Changed)+len(d.Gone) == 0 }

// Compare says how what is there now differs from what was there.
func (m Manifest) Compare(now Manifest) Difference {
	var d Difference
	was := map[RawPath]Item{}
	for _, i := range m.Items {
		was[i.Path] = i
	}
	for _, i := range now.Items {
		w, ok := was[i.Path]
		delete(was, i.Path)
		switch {
		case !ok:
			d.Added = append(d.Added, i.Path)
		case w.Kind != i.Kind || w.Mode != i.Mode || w.Digest != i.Digest:
			d.Changed = append(d.Changed, i.Path)
		}
	}
	for path := range was {
		d.Gone = append(d.Gone, path)
	}
	slices.Sort(d.Gone)
	return d
}

// Freeze makes the manifest of an entry with all that is below it. No link is followed, nothing but regular files is
// opened, and a mount or a directory of the runtime below it is a refusal. judge, which may be nil, is asked about every
// entry by its path below the root.
func (p *Place) Freeze(ctx context.Context, judge func(Seen) error) (Manifest, error) {
	if p.base == "." {
		return Manifest{}, refuse(TargetRoot, "%s is the root itself", p.Asked)
	}
	if judge == nil {
		judge = func(Seen) error { return nil }
	}
	m, err := freeze(ctx, p.root, p.dir, p.base, func(s Seen) error {
		s.Path = strings.TrimSuffix(p.Path+"/"+s.Path, "/.")
		return judge(s)
	})
	return m, reading(err, p.Asked)
}

// Digest is the digest of the entry; of a directory with all that is below it.
func (p *Place) Digest(ctx context.Context) (string, error) {
	m, err := p.Freeze(ctx, nil)
	if err != nil {
		return "", err
	}
	return m.Digest(), nil
}

// freezer makes one manifest.
type freezer struct {
	ctx   context.Context
	root  *Root
	judge func(Seen) error
	m     Manifest
}

func freeze(ctx context.Context, root *Root, dir *os.File, name string, judge func(Seen) error) (Manifest, error) {
	z := &freezer{ctx: ctx, root: root, judge: judge}
	err := z.add(dir, name, ".")
	return z.m, err
}

func (z *freezer) add(dir *os.File, name, path string) error {
	facts, err := look(dir, name)
	if err != nil {
		return err
	}
	if facts.mount != z.root.facts.mount {
		return refuse(Unsupported, "%s is on another mount", name).With("mount", path)
	}
	if z.root.areas[facts.ID] {
		return refuse(Outside, "%s is a directory of mcpx itself", name).With("reason", "runtime_area")
	}
	if err := z.judge(Seen{Facts: facts, Path: path, Folds: z.root.volume.folds(dir)}); err != nil {
		return err
	}
	item := Item{Path: RawPath(path), Kind: facts.Kind, Mode: uint32(facts.Mode.Perm())}
	switch facts.Kind {
	case File:
		c, err := stable(z.ctx, dir, name, io.Discard)
		if err != nil {
			return err
		}
		item.Size, item.Digest, item.Mode = c.Size, c.SHA256, uint32(c.Mode.Perm())
	case Link:
		text, err := readlink(dir, name)
		if err != nil {
			return err
		}
		item.Link, item.Digest, item.Mode = text, LinkDigest(text), 0
	case Directory:
		item.Digest = dirDigest
		z.m.Items = append(z.m.Items, item)
		return z.below(dir, name, path)
	case Other, Absent:
		item.Digest = oddDigest
	}
	z.m.Items = append(z.m.Items, item)
	return nil
}

func (z *freezer) below(dir *os.File, name, path string) error {
	if err := z.ctx.Err(); err != nil {
		return context.Cause(z.ctx)
	}
	sub, err := enter(dir, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	names, err := namesIn(sub)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := z.add(sub, n, strings.TrimPrefix(path+"/"+n, "./")); err != nil {
			return err
		}
	}
	return nil
}

// stable hashes a file in one state, however large it is, and tries again while it changes. What is read goes into into, too.
func stable(ctx context.Context, dir *os.File, name string, into io.Writer) (Content, error) {
	p := &Place{dir: dir, base: name, Asked: name}
	return p.Stream(ctx, math.MaxInt64-1, func() io.Writer { return into })
}
