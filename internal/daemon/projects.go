package daemon

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/control"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/session"
	"mcpx/internal/tree"
)

// surveyWithin bounds the look at a directory: one of a network that is gone can hold a system call for minutes.
const surveyWithin = 2 * time.Second

// registerBase makes the directory that the environment names a project. One that cannot be one keeps nobody from starting.
func (d *Daemon) registerBase(ctx context.Context) {
	if d.settings.BaseDir == "" || d.db.Stopped() != nil {
		return
	}
	ctx = api.CalledBy(api.As(ctx, api.Owner), api.Caller{Client: baseDirVariable, Channel: "start"})
	if _, err := d.control.AddProject(ctx, api.AddProject{Path: d.settings.BaseDir}); err != nil {
		d.log.LogAttrs(ctx, slog.LevelError, "the directory that the environment names is no project", slog.String(key.Path, d.settings.BaseDir), slog.Any(key.Cause, err))
	}
}

// lookAtProjects finds out which projects are still where they were, before anything is changed in one. That it cannot be
// written down keeps nobody from starting.
func (d *Daemon) lookAtProjects(ctx context.Context) {
	if d.db.Stopped() != nil {
		return
	}
	if err := d.control.LookAtProjects(ctx); err != nil {
		d.log.LogAttrs(ctx, slog.LevelError, "it is not known which projects are where they were", slog.Any(key.Cause, err))
	}
}

// directories looks at directories for control.
type directories struct{ d *Daemon }

var _ control.Directories = directories{}

// Survey says what is at a path. A call that hangs is left behind: it ends when the file system answers.
func (directories) Survey(ctx context.Context, path string) (session.Found, error) {
	ctx, stop := context.WithTimeout(ctx, surveyWithin)
	defer stop()
	type answer struct {
		found session.Found
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		found, err := survey(path)
		answers <- answer{found, err}
	}()
	select {
	case a := <-answers:
		return a.found, a.err
	case <-ctx.Done():
		return session.Found{}, fault.New(fault.Unavailable, "project-silent").Saying("the file system of %s does not answer", path).
			Hinting("try again when it does").Because(ctx.Err())
	}
}

func survey(path string) (session.Found, error) {
	root, err := tree.Open(path, tree.Options{})
	switch tree.CodeOf(err) { //nolint:exhaustive // every other code is a failure
	case "":
	case tree.NotFound, tree.NotADirectory, tree.Unsupported:
		return session.Found{Gone: err.Error()}, nil
	default:
		return session.Found{}, err
	}
	is := root.Identity()
	found := session.Found{Identity: session.Identity{Real: root.Path(), Volume: is.Volume, Inode: is.Ino}}
	if !is.Born.IsZero() {
		found.Identity.Born = is.Born.UnixNano()
	}
	if p, ok := errors.AsType[*tree.Problem](root.Changeable()); ok {
		found.Identity.Unstable, _ = p.Details["file_system"].(string)
	}
	return found, root.Close()
}

// Home is the home directory of the user without links.
func (r directories) Home() string { return withoutLinks(r.d.look().Home) }

// Runtime are the directories of this mcpx without links.
func (r directories) Runtime() []string {
	p := r.d.cfg.Paths
	return []string{withoutLinks(p.Config), withoutLinks(p.State), withoutLinks(p.Run), withoutLinks(p.Cache)}
}

func withoutLinks(path string) string {
	if path == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path) // it does not exist yet: nothing can be in it
}
