package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// checkArg is the argument of the stub that makes it the check: it tries what a command must not be able to do.
const checkArg = "check"

// outsideText is what the file outside holds before and after a trial.
const outsideText = "of somebody else"

// plan is where a check tries.
type plan struct {
	Inside  string `json:"inside"`
	Outside string `json:"outside"`
	Hidden  string `json:"hidden"`
	Socket  string `json:"socket"`
	Address string `json:"address"`
	Pid     int    `json:"pid"`       // a process outside
	Space   string `json:"pid_space"` // the namespace in which that number means something
}

// findings is what a check could do.
type findings struct {
	Done     []string `json:"done"`   // what must not be possible
	Failed   []string `json:"failed"` // what must be possible
	Complete bool     `json:"complete"`
}

// The acts that must not be possible.
const (
	actWrite    = "writing a file outside"
	actCreate   = "making a file outside"
	actRemove   = "removing a file outside"
	actLink     = "writing through a link"
	actHardLink = "a second name for a file outside"
	actTruncate = "emptying a file outside"
	actMode     = "changing the mode or times of a file outside"
	actRead     = "reading a hidden file"
	actRoot     = "reading a hidden file through /proc"
	actEnviron  = "reading the variables of a process outside"
	actConnect  = "reaching a listener of this machine"
	actSocket   = "a socket of the file system"
	actSignal   = "signalling a process outside"
)

// gapOf are the acts that can be accepted by name. Nothing else can.
var gapOf = map[string]string{actMode: GapMetadata, actTruncate: GapTruncate, actSignal: GapSignals}

// check tries everything and prints what it could do.
func check(spec string, stdout, stderr io.Writer) int {
	var p plan
	if err := json.Unmarshal([]byte(spec), &p); err != nil {
		_, _ = fmt.Fprintln(stderr, err) // nobody is told when it cannot be written
		return exitUnconfined
	}
	out := findings{Done: []string{}, Failed: []string{}}
	must := func(act string, err error) {
		if err != nil {
			out.Failed = append(out.Failed, act+": "+err.Error())
		}
	}
	mustNot := func(act string, err error) {
		if err == nil {
			out.Done = append(out.Done, act)
		}
	}
	inside := filepath.Join(p.Inside, "file")
	must("writing in its own directory", os.WriteFile(inside, []byte("x"), 0o600))
	must("renaming in its own directory", os.Rename(inside, inside+"2"))
	_, err := os.ReadFile(p.Outside)
	must("reading", err)
	must("writing to /dev/null", write("/dev/null", os.O_WRONLY))

	mustNot(actWrite, write(p.Outside, os.O_WRONLY))
	mustNot(actCreate, os.WriteFile(p.Outside+"2", nil, 0o600))
	mustNot(actLink, write(filepath.Join(p.Inside, "link"), os.O_WRONLY))
	mustNot(actTruncate, os.Truncate(p.Outside, 0))
	mustNot(actMode, os.Chmod(p.Outside, 0o644))
	mustNot(actMode, os.Chtimes(p.Outside, time.Unix(1, 0), time.Unix(1, 0)))
	mustNot(actHardLink, os.Link(p.Outside, filepath.Join(p.Inside, "hard")))
	mustNot(actRemove, os.Rename(p.Outside, filepath.Join(p.Inside, "moved")))
	mustNot(actRead, seen(p.Hidden))
	mustNot(actRoot, seen(fmt.Sprintf("/proc/%d/root%s", p.Pid, p.Hidden)))
	mustNot(actRoot, seen("/proc/self/root"+p.Hidden))
	if pidSpace() == p.Space { // elsewhere the number is another process's, and those outside have none
		_, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.Pid))
		mustNot(actEnviron, err)
		mustNot(actSignal, reachable(p.Pid))
	}
	mustNot(actConnect, dial("tcp", p.Address))
	mustNot(actSocket, dial("unix", p.Socket))
	out.Complete = true
	if err := json.NewEncoder(stdout).Encode(out); err != nil {
		return exitUnconfined
	}
	return 0
}

func write(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("x")
	_ = f.Close() // what counts is whether it could be written
	return err
}

// seen is nil when the hidden file shows what it holds.
func seen(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(data), canary) {
		return os.ErrNotExist
	}
	return err
}

// pidSpace names the namespace of the numbers of processes.
func pidSpace() string {
	name, _ := os.Readlink("/proc/self/ns/pid") // "" where there are none
	return name
}

// reachable is nil when a process can be signalled.
func reachable(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }() // it was only looked at
	return p.Signal(syscall.Signal(0))
}

func dial(network, address string) error {
	conn, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}
