package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"mcpx/internal/policy"
)

const (
	// probeWithin bounds one trial. It takes some 20 ms here; a machine under load may need much longer.
	probeWithin = 10 * time.Second
	// maxFindings bounds what the check prints, in bytes.
	maxFindings = 16 << 10
	// canary is what the hidden file of a trial holds.
	canary = "what a command must not see"
)

// probe tries the mechanisms in their order until one is applied. A mechanism that is named is the only one.
func (s *Sandbox) probe(ctx context.Context) Report {
	report := Report{Wanted: s.cfg.Mechanism, Gaps: []string{}, Trials: []Trial{}}
	candidates := []Mechanism{s.cfg.Mechanism}
	switch s.cfg.Mechanism {
	case None:
		report.Applied = None
		return report
	case Auto:
		candidates = []Mechanism{Bubblewrap, Landlock}
	case Bubblewrap, Landlock:
	}
	for _, m := range candidates {
		t := s.try(ctx, m)
		report.Trials = append(report.Trials, t)
		unaccepted := slices.ContainsFunc(t.Gaps, func(gap string) bool { return !slices.Contains(s.cfg.Accept, gap) })
		if t.Works && !unaccepted {
			report.Applied, report.Gaps = m, t.Gaps
			break
		}
	}
	return report
}

// try runs the check below a mechanism, and looks afterwards whether something outside has changed.
func (s *Sandbox) try(ctx context.Context, m Mechanism) Trial {
	t := Trial{Mechanism: m, Gaps: []string{}}
	fail := func(err error) Trial {
		t.Why, t.Fix = err.Error(), fix(m, err)
		return t
	}
	if runtime.GOOS != "linux" {
		return fail(errors.New("this platform has no mechanism that is tried here"))
	}
	if m == Bubblewrap {
		path, err := s.cfg.Find("bwrap")
		if err != nil {
			return fail(errNoBwrap)
		}
		s.bwrap = path
	} else if abi, err := landlockABI(); err != nil {
		return fail(fmt.Errorf("%w: %w", errNoLandlock, err))
	} else if abi < abiDevices { // there may be no device to try it on
		t.Gaps = append(t.Gaps, GapDevices)
	}
	y, err := newYard(s.cfg.Scratch)
	if err != nil {
		return fail(err)
	}
	defer y.close()
	found, err := s.runCheck(ctx, m, y)
	if err != nil {
		return fail(err)
	}
	done := append(found.Done, y.changed()...)
	for _, act := range done {
		if gap, ok := gapOf[act]; ok {
			if !slices.Contains(t.Gaps, gap) {
				t.Gaps = append(t.Gaps, gap)
			}
			continue
		}
		return fail(fmt.Errorf("it did not prevent: %s", act))
	}
	if len(found.Failed) > 0 {
		return fail(fmt.Errorf("it prevents what a command needs: %s", strings.Join(found.Failed, ", ")))
	}
	if slices.Contains(t.Gaps, GapMetadata) && m == Landlock && !slices.Contains(s.cfg.Accept, GapMetadata) {
		return fail(errors.New("the filter of system calls has no effect"))
	}
	t.Works = true
	return t
}

func (s *Sandbox) runCheck(ctx context.Context, m Mechanism, y *yard) (findings, error) {
	ctx, stop := context.WithTimeout(ctx, probeWithin)
	defer stop()
	spec, err := json.Marshal(y.check)
	if err != nil {
		return findings{}, err
	}
	exe := s.cfg.Exe
	r := Request{
		Level: policy.SandboxWorkspace, Writable: []string{y.check.Inside}, Readable: []string{y.outside, exe}, Hidden: []string{y.hidden},
		Dir: y.check.Inside, File: exe, Argv: []string{exe, Subcommand, checkArg, string(spec)}, Env: []string{"PATH=/usr/bin:/bin"},
	}
	w, err := s.wrap(m, r, Applied{})
	if err != nil {
		return findings{}, err
	}
	out, err := s.cfg.Run.Output(ctx, w.Argv, maxFindings)
	if err != nil {
		return findings{}, err
	}
	var found findings
	if err := json.Unmarshal(out, &found); err != nil {
		return findings{}, fmt.Errorf("the check said nothing that is understood: %w", err)
	}
	if !found.Complete {
		return findings{}, errors.New("the check did not come to its end")
	}
	return found, nil
}

// yard is the place of one trial: a directory that may be changed, one that may be read, one that is hidden, and listeners
// that must not be reached.
type yard struct {
	root    string
	outside string
	hidden  string
	check   plan
	before  os.FileInfo
	tcp     net.Listener
	unix    net.Listener
	reached atomic.Bool
}

func newYard(scratch string) (y *yard, err error) {
	y = &yard{}
	defer func() {
		if err != nil {
			y.close()
		}
	}()
	if y.root, err = os.MkdirTemp(scratch, "sandbox-"); err != nil {
		return nil, err
	}
	inside := filepath.Join(y.root, "inside")
	y.outside, y.hidden = filepath.Join(y.root, "outside"), filepath.Join(y.root, "hidden")
	for _, dir := range []string{inside, y.outside, y.hidden} {
		if err = os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	y.check = plan{
		Inside: inside, Outside: filepath.Join(y.outside, "file"), Hidden: filepath.Join(y.hidden, "file"),
		Socket: filepath.Join(y.outside, "s"), Pid: os.Getpid(), Space: pidSpace(),
	}
	if err = os.WriteFile(y.check.Outside, []byte(outsideText), 0o600); err != nil {
		return nil, err
	}
	if err = os.WriteFile(y.check.Hidden, []byte(canary), 0o600); err != nil {
		return nil, err
	}
	if err = os.Symlink(y.check.Outside, filepath.Join(inside, "link")); err != nil {
		return nil, err
	}
	if y.before, err = os.Stat(y.check.Outside); err != nil {
		return nil, err
	}
	if y.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	y.check.Address = y.tcp.Addr().String()
	go y.accept(y.tcp)
	if y.unix, err = net.Listen("unix", y.check.Socket); err != nil {
		return y, nil //nolint:nilerr // the path is too long for a socket: then none can be reached either
	}
	go y.accept(y.unix)
	return y, nil
}

// accept notes that somebody came through.
func (y *yard) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		y.reached.Store(true)
		_ = conn.Close() // nothing is said
	}
}

func (y *yard) close() {
	for _, l := range []net.Listener{y.tcp, y.unix} {
		if l != nil {
			_ = l.Close() // nobody is served
		}
	}
	_ = os.RemoveAll(y.root) // what stays is found below the state directory, in nobody's way
}

// changed tells what happened outside, whatever the check says of itself.
func (y *yard) changed() []string {
	var acts []string
	if y.reached.Load() {
		acts = append(acts, actConnect)
	}
	data, err := os.ReadFile(y.check.Outside)
	if err != nil || string(data) != outsideText {
		acts = append(acts, actWrite)
	}
	after, err := os.Stat(y.check.Outside)
	if err != nil || after.Mode() != y.before.Mode() || !after.ModTime().Equal(y.before.ModTime()) {
		acts = append(acts, actMode)
	}
	if entries, err := os.ReadDir(y.outside); err != nil || len(entries) > 2 {
		acts = append(acts, actCreate)
	}
	return acts
}
