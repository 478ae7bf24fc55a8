// Package watch decides when files deserve another look: it notices that one of them may have changed, waits until its
// content stays the same, and says so. It refuses to know what the files mean and who asked for them.
//
// Invariant: what it says is a hint. A hint may be missing or wrong; contents that differ are found by the next rescan,
// and whoever gets a hint looks for himself.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"mcpx/internal/key"
)

const (
	// rescanEvery is how often all files are compared, whatever was notified.
	rescanEvery = time.Minute
	// pollEvery is how often they are compared where notification is not there, or does not reach all of them.
	pollEvery = 2 * time.Second
	// settleFor is how long a content has to stay the same, so that a file is not looked at while it is written.
	settleFor = 500 * time.Millisecond
	// settleMost bounds the wait for a file that is written all the time.
	settleMost = 10 * time.Second
	// maxDirs bounds the watched directories: all agents together have less than 100, a project has a dozen at most, and a
	// user has 8192 by default.
	maxDirs = 1024
	// maxFiles bounds the files; those beyond it are not looked at. A project has some 30 in each of its directories.
	maxFiles = 8192
	// maxOpened bounds the entries of a watched directory where the system opens each of them (kqueue).
	maxOpened = 256
	// maxLinks bounds a chain of symbolic links, as the system does.
	maxLinks = 40
	// maxRounds bounds how often directories are looked at again that appear while they are about to be watched: each round
	// is one level deeper, unless somebody makes and removes them all the time, and then the next notification goes on.
	maxRounds = 64
)

// Config is what a Watcher needs.
type Config struct {
	// Files are absolute paths of files of interest, those that matter most first. They are asked for again at each rescan and
	// after Refresh.
	Files func() []string
	// Dirs are directories in which more of them may appear: then Files is asked again. nil: there are none.
	Dirs func() []string
	Log  *slog.Logger
}

// Watcher watches the directories of files.
type Watcher struct {
	cfg     Config
	notify  *fsnotify.Watcher // nil: there is no notification
	add     func(dir string) error
	files   map[string]*file
	touches map[string][]string // path of which a notification is of interest -> files
	watched map[string]watched
	others  map[string][]string // watched directory -> its other names
	inside  map[string]bool     // directories in which more files may appear
	polled  []string            // files that notification does not reach
	blind   bool                // it does not reach one of these directories
	state   atomic.Pointer[State]
	again   chan struct{}
	rescan  time.Duration
	poll    time.Duration
}

// watched is a directory that is notified.
type watched struct {
	info fs.FileInfo
	as   string // the name under which it is: another one when links lead to it
}

// State says how much of what is wanted is notified.
type State struct {
	Dirs   int    // directories in which something is of interest
	Polled int    // of them those that are not watched
	Left   int    // files that are not looked at at all
	Why    string // of one that is not watched; "" all are
}

// State is how things are now. It may be called at any time.
func (w *Watcher) State() State { return *w.state.Load() }

// Refresh asks for the files again soon. It may be called at any time.
func (w *Watcher) Refresh() {
	select {
	case w.again <- struct{}{}:
	default: // it is to be done anyway
	}
}

// file is what is known of one file.
type file struct {
	seen  content
	moved *change // nil: it is as it was told
}

// change is a content that was not told yet.
type change struct {
	now          content
	since, first time.Time
}

func (c change) due() time.Time {
	if most := c.first.Add(settleMost); most.Before(c.since.Add(settleFor)) {
		return most
	}
	return c.since.Add(settleFor)
}

// New watches from now on: what changes after it returned is told by Run. Without notification it polls.
func New(c Config) *Watcher {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		c.Log.LogAttrs(context.Background(), slog.LevelWarn, "no notification of changed files: they are polled", slog.Any(key.Cause, err))
		notify = nil
	}
	return newWatcher(c, notify)
}

func newWatcher(c Config, notify *fsnotify.Watcher) *Watcher {
	w := &Watcher{cfg: c, notify: notify, files: map[string]*file{}, watched: map[string]watched{}, again: make(chan struct{}, 1), rescan: rescanEvery, poll: pollEvery}
	w.add = func(dir string) error { return watchDir(notify, dir) }
	w.state.Store(&State{})
	w.arm()
	for path, f := range w.files {
		f.seen = read(path, content{})
	}
	return w
}

// Run calls hint with the files whose content changed and then stayed the same, until ctx ends. It is called once.
func (w *Watcher) Run(ctx context.Context, hint func(changed []string)) {
	var events chan fsnotify.Event
	var failures chan error
	if w.notify != nil {
		events, failures = w.notify.Events, w.notify.Errors
		defer w.notify.Close()
	}
	rescan := time.NewTicker(w.rescan)
	defer rescan.Stop()
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	settle := time.NewTimer(0)
	defer settle.Stop()
	for {
		var due <-chan time.Time
		if len(w.polled) > 0 || w.blind { // else nothing wakes the machine for it
			due = poll.C
		}
		select {
		case <-ctx.Done():
			return
		case e, open := <-events:
			if !open {
				w.notify, events, failures = nil, nil, nil
				w.arm()
				break
			}
			w.notified(e)
		case err, open := <-failures:
			if !open {
				failures = nil
				break
			}
			w.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "notification of changed files failed", slog.Any(key.Cause, err))
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.compare(w.paths(), true)
			}
		case <-rescan.C:
			w.arm()
			w.compare(w.paths(), false)
		case <-w.again:
			w.arm()
			w.compare(w.paths(), false)
		case <-due:
			if w.blind {
				w.compare(w.arm(), true)
			}
			w.compare(w.polled, false)
		case <-settle.C:
			if changed := w.settled(time.Now()); len(changed) > 0 {
				hint(changed)
			}
		}
		if next, some := w.next(); some {
			settle.Reset(time.Until(next))
		}
	}
}

func (w *Watcher) paths() []string {
	all := make([]string, 0, len(w.files))
	for path := range w.files {
		all = append(all, path)
	}
	return all
}

// notified looks at the files that a notification may be about.
func (w *Watcher) notified(e fsnotify.Event) {
	about, new := w.about(e.Name)
	if len(about) == 0 && (!new || !e.Has(fsnotify.Create)) {
		return
	}
	if e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		fresh := w.arm() // a directory or a link may lead elsewhere now
		more, _ := w.about(e.Name)
		about = append(append(fresh, about...), more...)
	}
	w.compare(about, true)
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		w.vanished(about)
	}
}

// vanished tells of files that are not there, as before, though something under their name went: whoever looks at files by
// himself may have seen what was there in between.
func (w *Watcher) vanished(paths []string) {
	now := time.Now()
	for _, path := range paths {
		if f := w.files[path]; f != nil && f.moved == nil && f.seen.sum == absent {
			f.moved = &change{now: f.seen, since: now, first: now}
		}
	}
}

// about lists the files that what happened at a path may be about, and says whether it may be a new one itself.
func (w *Watcher) about(path string) (all []string, new bool) {
	dir := filepath.Dir(path)
	names := append([]string{path}, w.others[path]...)
	for _, other := range w.others[dir] {
		names = append(names, filepath.Join(other, filepath.Base(path)))
	}
	for _, name := range names {
		all = append(all, w.touches[name]...)
		new = new || w.inside[filepath.Dir(name)]
	}
	return all, new
}

// compare notes which of the files are not as they were told. Without again, one whose size and times are the same is
// not read.
func (w *Watcher) compare(paths []string, again bool) {
	for _, path := range paths {
		f := w.files[path]
		if f == nil {
			continue
		}
		last := f.seen
		if again {
			last = content{sum: last.sum}
		}
		w.note(f, read(path, last), time.Now())
	}
}

// note takes what a file is now. One that is again what it was told to be is told all the same, since it was something else
// in between.
func (w *Watcher) note(f *file, now content, at time.Time) {
	switch {
	case f.moved == nil && now.same(f.seen):
		f.seen = now
	case f.moved == nil:
		f.moved = &change{now: now, since: at, first: at}
	case f.moved.now.sum != now.sum:
		f.moved.now, f.moved.since = now, at
	default:
		f.moved.now = now
	}
}

// settled reads what may have come to rest, and gives the files that did.
func (w *Watcher) settled(now time.Time) []string {
	var changed []string
	for path, f := range w.files {
		if f.moved == nil || now.Before(f.moved.due()) {
			continue
		}
		before := f.moved.now.sum
		w.note(f, read(path, content{}), now)
		if f.moved.now.sum != before && now.Before(f.moved.first.Add(settleMost)) {
			continue
		}
		f.seen, f.moved = f.moved.now, nil
		changed = append(changed, path)
	}
	slices.Sort(changed)
	return changed
}

// next is when something may have settled.
func (w *Watcher) next() (at time.Time, some bool) {
	for _, f := range w.files {
		if f.moved != nil && (!some || f.moved.due().Before(at)) {
			at, some = f.moved.due(), true
		}
	}
	return at, some
}

// arm asks for the files again, and watches the directories in which they are or would appear. It gives the files that are
// new to it.
func (w *Watcher) arm() (fresh []string) {
	var r *reaching
	var kept []string
	left := 0
	// What was made in a directory before it was watched is told by nobody: after each new watch it is looked at again.
	for range maxRounds {
		var more []string
		kept, more, left = w.ask()
		fresh = append(fresh, more...)
		r = newReaching()
		for _, path := range kept {
			r.reach(path)
		}
		for dir := range w.inside {
			r.reach(filepath.Join(dir, anyName))
		}
		w.touches = r.touches
		if !w.watch(r.dirs) {
			break
		}
	}
	w.polled, w.blind, w.others = nil, false, map[string][]string{}
	for dir, is := range w.watched {
		if is.as != dir {
			w.others[is.as] = append(w.others[is.as], dir)
		}
	}
	unwatched := map[string]bool{}
	for path, dirs := range r.needs {
		missing := false
		for _, dir := range dirs {
			if w.watched[dir].as == "" {
				unwatched[dir], missing = true, true
			}
		}
		switch {
		case missing && filepath.Base(path) == anyName && w.inside[filepath.Dir(path)]:
			w.blind = true
		case missing:
			w.polled = append(w.polled, path)
		}
	}
	w.tell(State{Dirs: len(r.dirs), Polled: len(unwatched), Left: left, Why: w.state.Load().Why})
	return fresh
}

// anyName stands for a file of which nobody knows the name yet.
const anyName = "*"

// ask asks which files are of interest, and gives all, those that are new, and how many were left out. What is known of those
// that stay is kept.
func (w *Watcher) ask() (kept, fresh []string, left int) {
	paths := w.cfg.Files()
	if over := len(paths) - maxFiles; over > 0 {
		paths, left = paths[:maxFiles], over
	}
	old := w.files
	w.files, w.inside = map[string]*file{}, map[string]bool{}
	for _, path := range paths {
		path = filepath.Clean(path)
		if w.files[path] != nil {
			continue
		}
		if w.files[path] = old[path]; w.files[path] == nil {
			w.files[path] = &file{} // told whatever it is: it may not be any more what made it of interest
			fresh = append(fresh, path)
		}
		kept = append(kept, path)
	}
	if w.cfg.Dirs != nil {
		for _, dir := range w.cfg.Dirs() {
			w.inside[filepath.Clean(dir)] = true
		}
	}
	return kept, fresh, left
}

// tell keeps the state, and says once when it is no longer what is wanted.
func (w *Watcher) tell(now State) {
	if now.Polled == 0 {
		now.Why = ""
	}
	if was := w.state.Swap(&now); now.Polled > 0 && was.Polled == 0 {
		w.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "not every directory of agents can be watched: their files are polled",
			slog.Int(key.Count, now.Polled), slog.String(key.Cause, now.Why))
	}
}

// watch makes the watched directories those that are wanted, the first ones first, and says whether one is new. Some may be
// refused: then their files are polled.
func (w *Watcher) watch(want []string) (added bool) {
	if w.notify == nil {
		clear(w.watched)
		w.because("the system does not notify")
		return false
	}
	w.forget(want)
	for _, dir := range want {
		if w.watched[dir].as != "" {
			continue
		}
		info, err := os.Stat(dir)
		if err != nil {
			w.because(refusal(err))
			continue
		}
		if as := w.nameOf(info); as != "" {
			w.watched[dir] = watched{info, as}
			continue
		}
		if len(w.watched) >= maxDirs {
			w.because(fmt.Sprintf("mcpx watches %d directories at most", maxDirs))
			continue
		}
		if err := w.add(dir); err != nil {
			w.because(refusal(err))
			continue
		}
		w.watched[dir], added = watched{info, dir}, true
	}
	return added
}

// nameOf is the name under which a directory is watched already: the system knows it by one name only.
func (w *Watcher) nameOf(info fs.FileInfo) string {
	for dir, is := range w.watched {
		if is.as == dir && os.SameFile(info, is.info) {
			return dir
		}
	}
	return ""
}

// forget ends the watches on what is not wanted any more, and on directories in whose place others stand by now.
func (w *Watcher) forget(want []string) {
	wanted, listed := map[string]bool{}, map[string]bool{}
	for _, dir := range want {
		wanted[dir] = true
	}
	is := func(dir string) bool {
		info, err := os.Stat(dir)
		return wanted[dir] && err == nil && w.watched[dir].as != "" && os.SameFile(info, w.watched[dir].info)
	}
	for _, dir := range w.notify.WatchList() {
		if listed[dir] = is(dir); !listed[dir] {
			_ = w.notify.Remove(dir) // it may have gone by itself
		}
	}
	for dir, one := range w.watched {
		if !listed[one.as] || one.as != dir && !is(dir) {
			delete(w.watched, dir)
		}
	}
}

// because notes why a directory is not watched.
func (w *Watcher) because(why string) {
	now := *w.state.Load()
	now.Why = why
	w.state.Store(&now)
}

// refusal says why the system does not watch a directory.
func refusal(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "the system allows this user no more watches (fs.inotify.max_user_watches)"
	case errors.Is(err, syscall.EMFILE):
		return "the system allows this process no more open files"
	}
	return err.Error()
}

// opensAll says whether the system opens every file of a watched directory.
const opensAll = runtime.GOOS != "linux" && runtime.GOOS != "windows"

func watchDir(notify *fsnotify.Watcher, dir string) error {
	if opensAll {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		names, _ := d.Readdirnames(maxOpened + 1) // what cannot be read is told by Add
		_ = d.Close()
		if len(names) > maxOpened {
			return fmt.Errorf("a directory has more than %d entries, which this system would all open", maxOpened)
		}
	}
	return notify.Add(dir)
}
