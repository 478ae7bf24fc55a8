//go:build crash

package crash

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Enabled says whether points do anything.
const Enabled = true

// Variables of the environment; see the package comment.
const (
	envRecord = "MCPX_CRASH_RECORD"
	envAt     = "MCPX_CRASH_AT"
	envOnce   = "MCPX_CRASH_ONCE"
	envHold   = "MCPX_CRASH_HOLD"
)

// script is what the environment asks of this process.
type script struct {
	kind   string
	record *os.File // nil: nothing is recorded
	at     string   // name of the point to die at; "" for none in this kind of process
	pass   int
	once   string
	hold   string

	mu     sync.Mutex // guards passes
	passes int
}

// current is read at the first point, because the package may have no init function.
var current = sync.OnceValue(func() *script { return read(os.Args, os.Getenv) })

// read panics at a script that does not parse: a harness that mistypes must not pass.
func read(args []string, getenv func(string) string) *script {
	s := &script{kind: kindOf(args), once: getenv(envOnce), hold: getenv(envHold)}
	if path := getenv(envRecord); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic("crash: " + err.Error())
		}
		s.record = f
	}
	at := getenv(envAt)
	if at == "" {
		return s
	}
	kind, rest, ok := strings.Cut(at, "/")
	name, pass, ok2 := strings.Cut(rest, "#")
	n, err := strconv.Atoi(pass)
	if !ok || !ok2 || err != nil || n < 1 {
		panic(fmt.Sprintf("crash: %s=%q is not KIND/NAME#N", envAt, at))
	}
	if kind == s.kind {
		s.at, s.pass = name, n
	}
	return s
}

func kindOf(args []string) string {
	if len(args) < 2 {
		return "cli"
	}
	switch args[1] {
	case "serve", "up":
		if slices.Contains(args, "--take-over") {
			return "successor"
		}
		return "daemon"
	case "supervise", "connect":
		return args[1]
	}
	return "cli"
}

// Point marks a place where a test may kill the process, or hold it.
func Point(name string) {
	s := current()
	if !s.note(name) {
		return
	}
	if s.hold == "" {
		die()
	}
	held(s.hold)
}

// note notes one pass and says whether it is the last.
func (s *script) note(name string) bool {
	if s.record != nil {
		// One write, so that lines of several processes do not mix.
		if _, err := fmt.Fprintf(s.record, "%s %d %s\n", s.kind, os.Getpid(), name); err != nil {
			panic("crash: " + err.Error())
		}
	}
	if s.at != name {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passes++
	if s.passes != s.pass {
		return false
	}
	if s.once == "" {
		return true
	}
	f, err := os.OpenFile(s.once, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false // another process was killed here before
	}
	_ = f.Close() // nothing was written
	return true
}

// held makes a file, and goes on when somebody has removed it.
func held(path string) {
	err := os.WriteFile(path, nil, 0o600)
	for err == nil {
		time.Sleep(holdEvery)
		_, err = os.Stat(path)
	}
	if !os.IsNotExist(err) {
		panic("crash: " + err.Error())
	}
}

// holdEvery is how often a process that is held looks whether it may go on.
const holdEvery = 2 * time.Millisecond

// die is the end without any clean-up: no deferred call, no flush, no signal handler.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic("crash: " + err.Error())
	}
	select {} // the signal is on its way
}

// Environ is what a process must hand to the processes it starts with an environment of their own.
func Environ() []string {
	var own []string
	for _, name := range []string{envRecord, envAt, envOnce, envHold} {
		if value := os.Getenv(name); value != "" {
			own = append(own, name+"="+value)
		}
	}
	return own
}
