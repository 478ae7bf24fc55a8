package process

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// own is what this process started itself. Each has a waiter that wants its exit status, so an init must not take it.
var own = struct {
	starting sync.RWMutex // held for reading from before a fork until the child is in pids
	mu       sync.Mutex   // guards pids
	pids     map[int]bool
}{pids: map[int]bool{}}

// startOwn starts x so that ReapAsInit leaves its exit status alone. The caller waits for it with waitOwn.
func startOwn(x *exec.Cmd) error {
	own.starting.RLock()
	defer own.starting.RUnlock()
	if err := x.Start(); err != nil {
		return err
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	own.pids[x.Process.Pid] = true
	return nil
}

// waitOwn waits for what startOwn started.
func waitOwn(x *exec.Cmd) error {
	err := x.Wait()
	own.mu.Lock()
	defer own.mu.Unlock()
	delete(own.pids, x.Process.Pid)
	return err
}

// IsInit reports whether this process is the first one of its container: the kernel gives it every orphan, and ends all
// others with it.
func IsInit() bool { return os.Getpid() == 1 }

// ReapAsInit takes the exit status of orphans from now on, if we are the first process of a container; supervisors are
// orphans there, too. The result ends it.
func ReapAsInit() (stop func()) {
	if !IsInit() {
		return func() {}
	}
	signals := make(chan os.Signal, 1) // one is enough: each look takes all that have ended
	signal.Notify(signals, unix.SIGCHLD)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range signals {
			reapStrangers()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

func reapStrangers() {
	own.starting.Lock() // a child between its fork and its entry in pids must not look like an orphan
	defer own.starting.Unlock()
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		if err != nil || s.ppid != os.Getpid() || !s.dead() {
			continue
		}
		own.mu.Lock()
		waited := own.pids[pid]
		own.mu.Unlock()
		if !waited {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // nobody asks how an orphan ended
		}
	}
}
