//go:build unix

package shim

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/process"
)

// maxSocketPath bounds the path of a unix socket: sun_path holds 104 bytes on macOS and 108 on Linux.
const maxSocketPath = 100

// maxFile bounds what is read of a file in a bundle. A record has about 1 KiB; an exit names up to 4096 requests that
// were under way and as many that had ended, each with an id of at most 1 KiB and a tag of at most 512 bytes.
const maxFile = 32 << 20

// Kinds of a record.
const (
	kindStdio  = "stdio"
	kindDirect = "direct"
)

// bundle is the directory of one supervised child: state/bundles/<id>.
type bundle string

func (b bundle) id() string     { return filepath.Base(string(b)) }
func (b bundle) spec() string   { return filepath.Join(string(b), "spec") }
func (b bundle) lock() string   { return filepath.Join(string(b), "lock") }
func (b bundle) record() string { return filepath.Join(string(b), "record") }
func (b bundle) exit() string   { return filepath.Join(string(b), "exit") }
func (b bundle) stderr() string { return filepath.Join(string(b), "stderr.log") }

// remove deletes the bundle with everything in it.
func (b bundle) remove() error { return os.RemoveAll(string(b)) }

// hash is the short name of the bundle: first 16 hex digits of the SHA-256 of its path.
func (b bundle) hash() string {
	sum := sha256.Sum256([]byte(b))
	return hex.EncodeToString(sum[:8])
}

// socket is where the supervisor of this bundle listens: in run/shim, or in a short private directory when that path
// is too long for a socket.
func (b bundle) socket(run string) string {
	path := filepath.Join(run, "shim", b.hash()+".sock")
	if len(path) > maxSocketPath {
		return filepath.Join("/tmp", "mcpx-"+strconv.Itoa(os.Geteuid()), b.hash()+".sock")
	}
	return path
}

// spec is written by the daemon before the start. Values of variables are not in it.
type spec struct {
	Format    int               `json:"format"`
	ID        string            `json:"id"`
	Server    string            `json:"server"`
	Name      string            `json:"name,omitempty"` // of the server
	Lane      string            `json:"lane"`
	Process   string            `json:"process,omitempty"` // gateway.Open.Process
	File      string            `json:"file"`
	Argv      []string          `json:"argv"`
	Dir       string            `json:"dir"`
	Env       map[string]string `json:"env"` // name: digest of the value
	Socket    string            `json:"socket"`
	Ladder    process.Ladder    `json:"ladder"`
	OrphanTTL time.Duration     `json:"orphan_ttl"` // zero or negative: never
	Version   string            `json:"version"`    // of the daemon; the supervisor is the same binary

	Executable process.Executable `json:"executable,omitzero"` // what File was before the start
}

// record says who owns what. The supervisor writes it; the daemon writes the one of a direct child.
type record struct {
	Format     int               `json:"format"`
	ID         string            `json:"id"`
	Kind       string            `json:"kind"`
	Server     string            `json:"server"`
	Name       string            `json:"name,omitempty"` // of the server; records of the first version have none
	Lane       string            `json:"lane"`
	Process    string            `json:"process,omitempty"` // gateway.Open.Process: digest of the definition
	Token      string            `json:"token,omitempty"`
	Socket     string            `json:"socket,omitempty"`
	Supervisor process.Identity  `json:"supervisor"`
	Version    string            `json:"version"`
	Min        int               `json:"min"`
	Max        int               `json:"max"`
	Child      *process.Identity `json:"child,omitempty"` // its pid is the id of its group, too
	Started    time.Time         `json:"started,omitzero"`
	State      string            `json:"state"`

	Executable process.Executable `json:"executable,omitzero"` // of the child, before its start
}

// secrets is what the supervisor gets on its stdin and nowhere else.
type secrets struct {
	Env    []string          `json:"env"`
	Stdin  string            `json:"stdin,omitempty"`  // of a job: the text for its standard input
	Redact map[string]string `json:"redact,omitempty"` // of a job: values, by name, that must not be in its output
}

// ready is the one line on the ready pipe.
type ready struct {
	Error  string           `json:"error,omitempty"`
	State  bool             `json:"state,omitempty"` // the error is about the state directory
	Self   process.Identity `json:"self"`
	Token  string           `json:"token"`
	Socket string           `json:"socket"`
}

// digestKey is kept nowhere: whoever reads a record does not find a short value by trying.
var digestKey = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
})

// digest is what a record may hold of a secret value: enough to see that two of one daemon differ.
func digest(value string) string {
	sum := hmac.New(sha256.New, digestKey())
	_, _ = sum.Write([]byte(value)) // never fails
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// makePrivate makes a directory 0700 and refuses a link, or one that belongs to somebody else.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := checkOwned(dir, fs.ModeDir); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// checkOwned says whether path itself, not what a link points to, is of our user and of the given type.
func checkOwned(path string, kind fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != kind {
		return fmt.Errorf("%s is %v, want %v", path, info.Mode().Type(), kind)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", path)
	}
	return nil
}

// readJSON reads one small file of a bundle.
func readJSON(path string, into any) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // a pipe in its place must not block
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is %v, want a file", path, info.Mode().Type())
	}
	if info.Size() > maxFile {
		return fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), maxFile)
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, b, 0o600)
}

// readRecord reads and checks the record of a bundle.
func (b bundle) readRecord() (record, error) {
	var r record
	if err := checkOwned(string(b), fs.ModeDir); err != nil {
		return r, err
	}
	if err := readJSON(b.record(), &r); err != nil {
		return r, err
	}
	if r.ID != b.id() {
		return r, fmt.Errorf("%s is the record of %q", b.record(), r.ID)
	}
	if r.Format < 1 || r.Format > formatVersion {
		return r, fmt.Errorf("%s has format %d, this version reads 1 to %d", b.record(), r.Format, formatVersion)
	}
	return r, nil
}
