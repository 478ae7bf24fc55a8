package clientfile

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/atomicfile"
)

// Stat is what is known of a file beside what it says.
type Stat struct {
	Real     string // where links lead
	Size     int64  // bytes
	SHA256   string // hex
	Identity string // device and inode; "" the system does not tell
	Mode     fs.FileMode
}

// statOf tells of a file that was just read. A link that leads elsewhere by now is told as it is now: who writes looks
// again.
func statOf(path string, data []byte) Stat {
	s := Stat{Real: path, Size: int64(len(data)), SHA256: atomicfile.Sum(data)}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		s.Real = real
	}
	if info, err := os.Stat(path); err == nil {
		s.Identity, s.Mode = atomicfile.IdentityOf(info), info.Mode().Perm()
	}
	return s
}

// Evidence says how well the dialect of the agent is known.
func (a Agent) Evidence() Evidence {
	for _, row := range agents {
		if row.agent == a {
			return row.evidence
		}
	}
	return Documented
}

// idLength is that of all ids that are hashes: 26 characters of base32, as many as a ULID has.
const idLength = 26

// ObservationID is the id of a place in a file: it stays while an entry is there.
func ObservationID(a Agent, real string, at []string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{string(a), real}, at...), "\x00")))
	return "obs_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:idLength]
}

// Digest is the HMAC-SHA-256 of what the entry says. Without the key nobody can guess a short secret from it. Spaces,
// comments and the order of names do not matter: a client that writes its file anew does not change it.
func (e Entry) Digest(key []byte) string {
	if e.value == nil {
		return ""
	}
	return digest(key, *e.value)
}

func digest(key []byte, n node) string {
	if n.kind == absent {
		return ""
	}
	var b bytes.Buffer
	n.canonical(&b)
	return keyed(key, b.Bytes())
}

func keyed(key, data []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write(data) // never fails
	return hex.EncodeToString(h.Sum(nil))
}
