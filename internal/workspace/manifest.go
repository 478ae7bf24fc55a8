package workspace

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"mcpx/internal/operation"
	"mcpx/internal/text"
)

// Sealed is one entry of a manifest: a file, a link, or a directory in which nothing is.
type Sealed struct {
	Path string // its bytes, relative, parts separated by slashes
	Size int64  // of a file, in bytes
	Entry
}

// Manifest is every entry of a build, in the order of the bytes of their paths.
type Manifest []Sealed

const manifestHead = "gen-manifest 1 sha256\n"

// NewManifest puts the entries in order. It refuses what cannot be given to another machine as it is: special files, paths
// that are absolute, not clean or not below the root, links that lead out of it, and two names that are one where case
// or composition of characters do not count.
func NewManifest(entries []Sealed) (Manifest, error) {
	m := Manifest(slices.SortedFunc(slices.Values(entries), func(a, b Sealed) int { return cmp.Compare(a.Path, b.Path) }))
	return m, m.check()
}

func (m Manifest) check() error {
	parts := map[string]string{} // folded path of every entry and directory above one, to how it is spelled
	leaves := map[string]bool{}
	for _, e := range m {
		if leaves[e.Path] {
			return wrong(e.Path, "is there twice")
		}
		leaves[e.Path] = true
		if !within(e.Path) {
			return wrong(e.Path, "is no path below the root")
		}
		switch {
		case e.Kind == File && (e.Size < 0 || !isSum(e.Digest)):
			return wrong(e.Path, "has no size or no SHA-256")
		case e.Kind != File && e.Kind != Link && e.Kind != Directory:
			return operation.Refuse("SPECIAL_FILE", "%s is neither a file nor a link nor a directory; a build holds no others", text.EncodePath(e.Path))
		}
		for p := e.Path; p != "."; p = path.Dir(p) {
			if other, seen := parts[fold(p)]; seen && other != p {
				return operation.Refuse("CASE_COLLISION", "%s and %s are one name where case or composition does not count", text.EncodePath(other), text.EncodePath(p))
			}
			parts[fold(p)] = p
		}
	}
	links := map[string]string{} // folded path to target
	for _, e := range m {
		for p := path.Dir(e.Path); p != "."; p = path.Dir(p) {
			if leaves[p] {
				return wrong(p, "has entries and is no directory, or none that is empty")
			}
		}
		if e.Kind == Link {
			links[fold(e.Path)] = e.Digest
		}
	}
	for _, e := range m {
		if e.Kind == Link && !linkStays(e.Path, links) {
			return wrong(e.Path, "is a link that leads out of the build, or over too many others")
		}
	}
	return nil
}

func wrong(p, what string) error {
	return operation.Refuse(operation.ArgumentInvalid, "%s %s", text.EncodePath(p), what)
}

// within says whether a path is clean and below the root.
func within(p string) bool {
	return p != "" && p != "." && p != ".." && !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "../") && path.Clean(p) == p && !strings.Contains(p, "\x00")
}

// maxLinks is how many links one is followed over, as the systems do.
const maxLinks = 40

// linkStays says whether a link leads to something below the root, on the way over other links of the build, too: a ".." goes
// up from where they lead. links have folded paths: where case does not count, a name in another case is the same link.
func linkStays(p string, links map[string]string) bool {
	at, left := path.Dir(p), []string{path.Base(p)}
	for followed := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		if name == ".." && at == "." {
			return false
		}
		next := path.Join(at, name)
		target, linked := links[fold(next)]
		if !linked {
			at = next
			continue
		}
		if followed++; followed > maxLinks || target == "" || strings.HasPrefix(target, "/") || strings.Contains(target, "\x00") {
			return false
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return true
}

// fold is a path where neither the case of letters counts nor how they are composed. Bytes that are no text stay what they
// are: no file system takes two of them for one.
func fold(p string) string {
	var b strings.Builder
	for p = norm.NFC.String(p); p != ""; {
		r, size := utf8.DecodeRuneInString(p)
		if r == utf8.RuneError && size == 1 {
			b.WriteByte(p[0])
		} else {
			least := r
			for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
				least = min(least, next)
			}
			b.WriteRune(least)
		}
		p = p[size:]
	}
	return norm.NFC.String(b.String())
}

func isSum(digest string) bool {
	sum, err := hex.DecodeString(digest)
	return err == nil && len(sum) == sha256.Size && strings.ToLower(digest) == digest
}

// Encode is the manifest in its form 1 (durable-work.md section 12), and its SHA-256 in hex: the tree hash of the build.
func (m Manifest) Encode() (encoded []byte, treeHash string) {
	b := []byte(manifestHead)
	for _, e := range m {
		name := text.EncodePath(e.Path)
		switch e.Kind {
		case File:
			mode := "644"
			if e.Exec {
				mode = "755"
			}
			b = fmt.Appendf(b, "f %s %d %s %s\n", mode, e.Size, e.Digest, name)
		case Link:
			b = fmt.Appendf(b, "l %x %s %s\n", sha256.Sum256([]byte(e.Digest)), text.EncodePath(e.Digest), name)
		case Directory:
			b = fmt.Appendf(b, "d %s\n", name)
		case Absent, Other: // check refused them
		}
	}
	return b, fmt.Sprintf("%x", sha256.Sum256(b))
}

// ParseManifest reads what Encode wrote, and nothing else: another spelling of the same entries is refused.
func ParseManifest(encoded []byte) (Manifest, error) {
	body, ok := bytes.CutPrefix(encoded, []byte(manifestHead))
	if !ok {
		return nil, malformed(1)
	}
	var m Manifest
	for n, line := range strings.SplitAfter(string(body), "\n") {
		if line == "" {
			break
		}
		e, ok := parseSealed(line)
		if !ok {
			return nil, malformed(n + 2)
		}
		m = append(m, e)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if again, _ := m.Encode(); !bytes.Equal(again, encoded) || !slices.IsSortedFunc(m, func(a, b Sealed) int { return cmp.Compare(a.Path, b.Path) }) {
		return nil, operation.Refuse(operation.ArgumentInvalid, "the manifest is not in its one form: order or spelling of entries")
	}
	return m, nil
}

func malformed(line int) error {
	return operation.Refuse(operation.ArgumentInvalid, "line %d is none of a manifest", line)
}

// parseSealed reads one line.
func parseSealed(line string) (Sealed, bool) {
	words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	var e Sealed
	var err error
	switch {
	case words[0] == "f" && len(words) == 5:
		e.Entry = Entry{Kind: File, Exec: words[1] == "755", Digest: words[3]}
		e.Size, err = strconv.ParseInt(words[2], 10, 64)
	case words[0] == "l" && len(words) == 4:
		e.Kind = Link
		e.Digest, err = text.DecodePath(words[2])
	case words[0] == "d" && len(words) == 2:
		e.Kind = Directory
	default:
		return Sealed{}, false
	}
	if err != nil {
		return Sealed{}, false
	}
	e.Path, err = text.DecodePath(words[len(words)-1])
	return e, err == nil
}
