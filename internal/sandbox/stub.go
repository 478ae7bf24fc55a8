package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Subcommand is the hidden first argument that makes this binary the stub: `confine SPEC PROGRAM ARGUMENT...`.
const Subcommand = "confine"

// Exit codes of the stub, as those of env(1) and timeout(1).
const (
	exitUnconfined = 125 // the sandbox could not be applied: the command did not run
	exitUnusable   = 126 // the program cannot be executed
	exitMissing    = 127 // there is no such program
)

// Families of sockets that a command may make. A socket of the file system reaches programs outside, which nothing keeps in:
// no command makes those. Pairs of sockets are no way out.
const (
	socketsNone = ""
	socketsInet = "inet" // and netlink, by which a program sees its interfaces
)

// confinement is what one stub does to itself before it becomes the next program.
type confinement struct {
	Shield   bool     `json:"shield,omitempty"` // ignores signals to the group; the environment stays carried
	Landlock bool     `json:"landlock,omitempty"`
	Strict   bool     `json:"strict,omitempty"`
	Writable []string `json:"writable,omitempty"`
	Readable []string `json:"readable,omitempty"`
	Hidden   []string `json:"hidden,omitempty"`
	Dir      string   `json:"dir,omitempty"`
	Filter   bool     `json:"filter,omitempty"`
	Metadata bool     `json:"metadata,omitempty"` // the filter refuses changes of modes, owners, times and attributes
	Sockets  string   `json:"sockets,omitempty"`
}

func stubArgs(exe string, c confinement) ([]string, error) {
	spec, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return []string{exe, Subcommand, string(spec)}, nil
}

// Main is the hidden mode. args are the arguments after the subcommand. It returns only when the next program was not
// started.
func Main(args []string, stderr io.Writer) int {
	if len(args) == 2 && args[0] == checkArg {
		return check(args[1], os.Stdout, stderr)
	}
	err := errors.New("usage: confine SPEC PROGRAM ARGUMENT... (internal; started by a supervisor)")
	if len(args) >= 2 {
		var c confinement
		if err = json.Unmarshal([]byte(args[0]), &c); err == nil {
			err = become(c, args[1:])
		}
	}
	_, _ = fmt.Fprintf(stderr, "mcpx: %s\n", err) // the exit code says it, too
	if started, ok := errors.AsType[*notStarted](err); ok {
		if errors.Is(started, fs.ErrNotExist) {
			return exitMissing
		}
		return exitUnusable
	}
	return exitUnconfined
}

// notStarted is why the next program was not started, when the sandbox was applied.
type notStarted struct {
	file  string
	cause error
}

func (e *notStarted) Error() string { return "cannot start " + e.file + ": " + e.cause.Error() }

func (e *notStarted) Unwrap() error { return e.cause }

// own is the environment of the command: what was carried.
func own(environ []string) []string {
	env := []string{}
	for _, v := range environ {
		if v, ok := strings.CutPrefix(v, carry); ok {
			env = append(env, v)
		}
	}
	return env
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
