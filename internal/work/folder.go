package work

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"mcpx/internal/tree"
)

// The bounds of a folder whose content is agreed to as a whole, runtime.md section 11.
const (
	maxFolderFiles = 200
	maxFolderBytes = 8 << 20
	// maxFolderEntries bounds what is looked at: directories and links are entries, too.
	maxFolderEntries = 4 * maxFolderFiles
)

// folder is a directory with the hash of every file in it.
type folder struct {
	path    string // canonical, below the root
	files   []folderFile
	kept    map[string][]byte // of the files that were asked for
	digest  string            // over every file and link, and over what is wrong
	problem string            // why it cannot be used; "" it can
}

// folderFile is a file of a folder.
type folderFile struct {
	Path   string `json:"path"` // below the folder
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// readFolder reads a directory through. What leads out of it makes it useless: what it does could change without its digest.
func readFolder(ctx context.Context, root *tree.Root, dir string, keep ...string) folder {
	f := folder{path: dir, kept: map[string][]byte{}}
	var lines []string
	at, err := root.Resolve(dir, tree.Look)
	if err == nil && at.Kind == tree.Link {
		f.problem = "the folder is a link"
	}
	if err == nil {
		_ = at.Close() // it was only looked at
	}
	if err == nil && f.problem == "" {
		if at, err = root.Resolve(dir, tree.List); err == nil {
			f.path = at.Path
			lines, err = f.read(ctx, root, at, keep)
			_ = at.Close() // it was only read from
		}
	}
	if err != nil {
		f.problem = problemText(err)
	}
	f.digest = digest([]byte("mcpx folder 1\x00" + strings.Join(lines, "") + "problem\x00" + f.problem))
	return f
}

// read walks the folder; the lines are what its digest is made of.
func (f *folder) read(ctx context.Context, root *tree.Root, at *tree.Place, keep []string) (lines []string, err error) {
	prefix := at.Path + "/"
	if at.Path == "." {
		prefix = ""
	}
	room := int64(maxFolderBytes)
	entries := 0
	spoil := func(format string, args ...any) {
		if f.problem == "" {
			f.problem = fmt.Sprintf(format, args...)
		}
	}
	var buf []byte
	err = at.Walk(ctx, tree.WalkOptions{Ignored: true, Failed: func(path string, err error) {
		spoil("%s cannot be read: %s", strings.TrimPrefix(path, prefix), problemText(err))
	}}, func(v tree.Visit) error {
		name := strings.TrimPrefix(v.Path, prefix)
		if entries++; entries > maxFolderEntries {
			spoil("it has more than %d entries", maxFolderEntries)
			return fs.SkipAll
		}
		switch v.Kind {
		case tree.Directory, tree.Absent:
			return nil
		case tree.Other:
			spoil("%s is no file", name)
			return nil
		case tree.Link:
			text, err := v.Link()
			if err != nil {
				return err
			}
			lines = append(lines, "link\x00"+name+"\x00"+text+"\x00")
			if !leadsInto(root, v.Path, prefix) {
				spoil("the link %s leads out of the folder", name)
			}
			return nil
		case tree.File:
		}
		if len(f.files) == maxFolderFiles || room <= 0 {
			spoil("it has more than %d files or %d MB", maxFolderFiles, maxFolderBytes>>20)
			return fs.SkipAll
		}
		var seen tree.Facts
		sum, rest, err := v.Sift(ctx, room, buf, func(facts tree.Facts, data []byte) (bool, error) {
			seen = facts
			if slices.Contains(keep, name) {
				f.kept[name] = slices.Clone(data)
			}
			return true, nil
		})
		buf = rest
		if tree.CodeOf(err) == tree.LimitExceeded {
			spoil("it has more than %d MB", maxFolderBytes>>20)
			return fs.SkipAll
		}
		if err != nil {
			return err
		}
		room -= seen.Size
		f.files = append(f.files, folderFile{Path: name, Bytes: seen.Size, SHA256: sum})
		lines = append(lines, "file\x00"+name+"\x00"+strconv.FormatBool(seen.Mode&0o111 != 0)+"\x00"+sum+"\x00")
		return nil
	})
	return lines, err
}

// leadsInto says whether a link leads to something in the directory with this prefix.
func leadsInto(root *tree.Root, link, prefix string) bool {
	at, err := root.Resolve(link, tree.Read)
	if tree.CodeOf(err) == tree.NotAFile {
		at, err = root.Resolve(link, tree.List)
	}
	if err != nil {
		return false
	}
	defer at.Close()
	return strings.HasPrefix(at.Path, prefix)
}

// problemText is what is wrong, for a list.
func problemText(err error) string { return plain(problem(err)) }
