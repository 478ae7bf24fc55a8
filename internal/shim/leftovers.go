//go:build unix

package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"mcpx/internal/atomicfile"
	"mcpx/internal/gateway"
	"mcpx/internal/key"
	"mcpx/internal/process"
)

const (
	// lookers is how many bundles are looked at side by side: the time goes to the end of orphans and to disks.
	lookers = 16
	// exitKept is how long an exit file tells of calls. Whoever asks for the outcome of a call after that has given up.
	exitKept = 24 * time.Hour
	// quarantineTries bounds the names that are tried for one thing in quarantine.
	quarantineTries = 100
)

// fate is what became of the owner of a bundle.
type fate int

const (
	living  fate = iota // a supervisor holds the lock
	between             // it holds the lock and has no record: it starts, or removes its bundle just now
	owned               // a direct child of a process that lives and clears up itself
	dead                // nobody owns it any more
	unborn              // no record, and nobody who would write one
	foreign             // not made by us, or not as we would make it
)

// leftover is one entry of state/bundles, as it was found.
type leftover struct {
	dir    bundle
	fate   fate
	record record    // living, owned, dead
	exit   *exitInfo // dead: the last words of its supervisor; nil without any
	cause  error     // foreign: why
}

// look reads one entry and changes nothing. Links are not followed.
func look(dir bundle) leftover {
	l := leftover{dir: dir}
	held, err := false, checkOwned(string(dir), fs.ModeDir)
	if err == nil {
		held, err = atomicfile.Held(dir.lock())
	}
	if err == nil {
		err = checkPrivate(string(dir))
	}
	if err == nil {
		l.record, err = dir.readRecord()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.fate = unborn
		if held {
			l.fate = between
		}
	case err != nil:
		l.fate, l.cause = foreign, err
		if held { // moving the bundle would break a supervisor that lives, maybe one of a newer version
			l.fate = between
		}
	case held:
		l.fate = living
	case l.record.Kind == kindDirect && l.record.Supervisor.Alive():
		l.fate = owned
	default:
		l.fate = dead
		var e exitInfo
		if readJSON(dir.exit(), &e) == nil {
			l.exit = &e
		}
	}
	return l
}

// checkPrivate says whether dir is a directory of ours that nobody else can write to.
func checkPrivate(dir string) error {
	if err := checkOwned(dir, fs.ModeDir); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written to by others (mode %#o)", dir, info.Mode().Perm())
	}
	return nil
}

// survivor is the leftover as the gateway sees it.
func (l leftover) survivor() gateway.Survivor {
	r := l.record
	s := gateway.Survivor{
		ID: r.ID, Server: r.Server, Lane: r.Lane, Process: r.Process, Version: r.Version, Supervisor: r.Supervisor.Pid,
		Started: r.Started,
	}
	if r.Child != nil {
		s.Child = r.Child.Pid
	}
	return s
}

// lost is what is known of a child that is gone. ok is false when there is nothing that anybody could want to know.
func (l leftover) lost(now time.Time) (lost gateway.Lost, ok bool) {
	lost = gateway.Lost{Survivor: l.survivor()}
	if e := l.exit; e != nil {
		lost.Exit, lost.Complete = exitOf(*e), e.Complete
		lost.Open = keptCalls(e.Open, gateway.CallRunning)
		// Whether its answer reached somebody or not: it was answered, and is not here any more.
		lost.Answered = append(keptCalls(e.Answered, gateway.CallLost), keptCalls(e.Finished, gateway.CallLost)...)
		return lost, now.Sub(e.At) < exitKept
	}
	lost.Exit = gateway.Exit{Reason: gateway.SupervisorLost, Text: "its supervisor ended without a word; exit status unknown"}
	if l.record.Kind == kindDirect {
		lost.Exit.Text = "it runs without a supervisor, so it ended with the daemon; exit status unknown"
	}
	return lost, l.record.Child != nil
}

func keptCalls(calls []keptCall, state gateway.CallState) (kept []gateway.KeptCall) {
	for _, c := range calls {
		kept = append(kept, gateway.KeptCall{
			ID: c.ID, Method: c.Method, Tag: c.Tag, State: state, Age: time.Duration(c.Age) * time.Millisecond,
		})
	}
	return kept
}

// yard is where leftovers lie.
type yard struct {
	state string // bundles and quarantine lie below it
	run   string // sockets lie below it; "" leaves stale ones alone
	now   time.Time
	log   *slog.Logger
}

func (y yard) bundles() string { return filepath.Join(y.state, "bundles") }

// tidy looks at everything that earlier daemons left, clears away what is dead, puts aside what is not ours, and returns
// what lives and what was lost. Only the holder of the owner lock calls it. A bundle that cannot be cleared away is told
// and found again at the next start; the error is about all of them.
func (y yard) tidy(ctx context.Context) (alive []leftover, lost []gateway.Lost, ended int, err error) {
	if err := checkPrivate(y.bundles()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, 0, nil
	} else if err != nil {
		return nil, nil, 0, err
	}
	entries, err := os.ReadDir(y.bundles())
	if err != nil {
		return nil, nil, 0, err
	}
	var (
		mu   sync.Mutex // guards the results
		skip int
		work errgroup.Group
	)
	work.SetLimit(lookers)
	for _, e := range entries {
		if ctx.Err() != nil {
			skip++ // found again at the next start
			continue
		}
		work.Go(func() error {
			l := look(bundle(filepath.Join(y.bundles(), e.Name())))
			killed := y.clear(l)
			mu.Lock()
			defer mu.Unlock()
			if killed {
				ended++
			}
			switch l.fate {
			case living:
				alive = append(alive, l)
			case dead:
				if one, ok := l.lost(y.now); ok {
					lost = append(lost, one)
				}
			case between, owned, unborn, foreign: // nothing to report
			}
			return nil
		})
	}
	_ = work.Wait() // what fails is logged where it is known
	y.removeStaleSockets()
	if skip > 0 {
		err = fmt.Errorf("%d of %d bundles in %s were not looked at in time", skip, len(entries), y.bundles())
	}
	return alive, lost, ended, err
}

// clear does what the fate of l asks for, and reports whether something was killed.
func (y yard) clear(l leftover) (killed bool) {
	var err error
	switch l.fate {
	case living, owned:
		return false
	case between:
		if l.cause != nil {
			y.log.Warn("a supervisor lives whose bundle is not understood; it ends by itself when no daemon comes",
				slog.String(key.Path, string(l.dir)), slog.String(key.Cause, l.cause.Error()))
		}
		return false
	case unborn:
		err = l.dir.remove()
	case foreign:
		y.putAside(l)
		return false
	case dead:
		if l.exit == nil && l.record.Child != nil {
			if killed = process.KillOrphans(*l.record.Child); killed {
				waitGone(*l.record.Child, groupWait)
			}
			y.log.Warn("the owner of a child is gone", slog.String(key.Shim, l.dir.id()), slog.String(key.Server, cmp.Or(l.record.Name, l.record.Server)),
				slog.Int(key.Child, l.record.Child.Pid), slog.Bool(key.Orphans, killed))
		}
		// A record is only a file: what it calls its socket is removed only if it is the one of this bundle.
		if y.run == "" || l.record.Socket == l.dir.socket(y.run) {
			removeSocket(l.record.Socket)
		}
		err = l.dir.remove()
	}
	if err != nil {
		y.log.Warn("bundle not removed", slog.String(key.Path, string(l.dir)), slog.String(key.Cause, err.Error()))
	}
	return killed
}

// putAside moves what is not ours out of the way, or says why it stays. Nothing is deleted and no link is followed.
func (y yard) putAside(l leftover) {
	to, err := y.quarantine(l.dir)
	if err != nil {
		y.log.Warn("something that is no bundle of ours stays where it is", slog.String(key.Path, string(l.dir)),
			slog.String(key.Cause, errors.Join(l.cause, err).Error()))
		return
	}
	y.log.Warn("something that is no bundle of ours was put aside", slog.String(key.Path, to), slog.String(key.Cause, l.cause.Error()))
}

func (y yard) quarantine(b bundle) (to string, err error) {
	dir := filepath.Join(y.state, "quarantine")
	if err := makePrivate(dir); err != nil {
		return "", err
	}
	to = filepath.Join(dir, b.id())
	for n := 2; n <= quarantineTries; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return to, os.Rename(string(b), to) // only the holder of the owner lock makes names here
		}
		to = filepath.Join(dir, b.id()+"."+strconv.Itoa(n))
	}
	return "", fmt.Errorf("%s holds %d things of that name", dir, quarantineTries)
}

// removeStaleSockets removes the sockets in run/shim whose bundles are gone and on which nobody listens: another home may
// have the same run directory. The short directory for long paths is left alone, because all homes of the user share it
// and a supervisor of theirs may be just about to listen.
func (y yard) removeStaleSockets() {
	dir := filepath.Join(y.run, "shim")
	if y.run == "" || checkPrivate(dir) != nil {
		return
	}
	sockets, err := os.ReadDir(dir)
	if err != nil || len(sockets) == 0 {
		return
	}
	bundles, err := os.ReadDir(y.bundles())
	if err != nil {
		return
	}
	named := map[string]bool{}
	for _, b := range bundles {
		named[filepath.Base(bundle(filepath.Join(y.bundles(), b.Name())).socket(y.run))] = true
	}
	for _, s := range sockets {
		path := filepath.Join(dir, s.Name())
		if filepath.Ext(path) != ".sock" || named[s.Name()] {
			continue
		}
		c, err := net.DialTimeout("unix", path, connectWait)
		if err == nil {
			_ = c.Close() // nothing was said
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			removeSocket(path)
		}
	}
}
