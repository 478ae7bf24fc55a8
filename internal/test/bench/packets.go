package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// scenarioWorkspace is making a workspace and bringing it into its project.
const scenarioWorkspace = "workspace"

// What the workspaces are measured against, and how many times of its time they may take.
const (
	byCopy     = "cp -a --reflink=auto"
	byWorktree = "git worktree add"
	byCheckout = "git status and git checkout"
)

var maxWorkspace = map[string]float64{byCopy: 1, byWorktree: 0.7, byCheckout: 2}

// The project of the workspaces, and what is changed in one.
const (
	packetFiles = 20_000
	packetSize  = 4096
	packetEdits = 10
)

// versus measures two single steps in turns, each of which says how long it took.
func (b *bench) versus(ctx context.Context, r *report, scenario, what, base string, do, other func(context.Context) (time.Duration, error)) error {
	b.say("%s", what)
	var rates, bases, ratios []float64
	for round := range b.o.rounds + 1 {
		took, err := do(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		of, err := other(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", base, err)
		}
		if round > 0 { // the first one fills caches
			rates, bases, ratios = append(rates, 1/took.Seconds()), append(bases, 1/of.Seconds()), append(ratios, of.Seconds()/took.Seconds())
		}
	}
	r.Pairs = append(r.Pairs, pair{scenario, what, base, 1, median(rates), median(bases), median(ratios)})
	return nil
}

// packet is the answer of create_agent_workspace.
type packet struct {
	ID   string `json:"workspace_id"`
	Path string `json:"path"`
}

// workspaces measures a workspace of a project of many files against a copy of it by cp and by git, and the integration of
// a few changes against git looking for them and taking them.
func (b *bench) workspaces(ctx context.Context, r *report) error {
	git, err := exec.LookPath("git")
	if err != nil {
		b.say("skip: workspaces: git is not installed")
		return nil
	}
	files := packetFiles
	if b.o.quick {
		files /= 20
	}
	dir := filepath.Join(b.dir, "estate")
	body := strings.Repeat(strings.Repeat("x", 63)+"\n", packetSize/64)
	for i := range files {
		in := filepath.Join(dir, fmt.Sprintf("d%03d", i/perDir))
		if i%perDir == 0 {
			if err := os.MkdirAll(in, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("f%02d.txt", i%perDir)), []byte(fmt.Sprintf("%d\n", i)+body), 0o644); err != nil {
			return err
		}
	}
	a, stop, err := b.agent(ctx, "workspace", dir, "none")
	if err != nil {
		return err
	}
	defer stop()
	run := func(argv ...string) error {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
		}
		return nil
	}
	as := []string{git, "-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-c", "gc.auto=0"}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "one"}} {
		if err := run(append(as, args...)...); err != nil {
			return err
		}
	}
	timed := func(do func() error) (time.Duration, error) {
		began := time.Now()
		err := do()
		return time.Since(began), err
	}
	create := func() (p packet, err error) {
		err = a.tool("create_agent_workspace", map[string]any{"purpose": fmt.Sprint("work ", ids.Add(1)), "mutable": []string{"."}, "on_overlap": "allow"}, &p)
		return p, err
	}
	ours := func(context.Context) (time.Duration, error) {
		var p packet
		took, err := timed(func() (err error) {
			p, err = create()
			return err
		})
		if err != nil {
			return 0, err
		}
		return took, os.RemoveAll(filepath.Dir(p.Path))
	}
	elsewhere := filepath.Join(b.dir, "elsewhere")
	what := fmt.Sprintf("create_agent_workspace, %d files", files)
	err = b.versus(ctx, r, scenarioWorkspace, what, byCopy, ours, func(context.Context) (time.Duration, error) {
		took, err := timed(func() error { return run("cp", "-a", "--reflink=auto", dir, elsewhere) })
		return took, errors.Join(err, os.RemoveAll(elsewhere))
	})
	if err != nil {
		return err
	}
	err = b.versus(ctx, r, scenarioWorkspace, what, byWorktree, ours, func(context.Context) (time.Duration, error) {
		took, err := timed(func() error { return run(append(as, "worktree", "add", "-q", "--detach", elsewhere)...) })
		return took, errors.Join(err, os.RemoveAll(elsewhere), run(append(as, "worktree", "prune")...))
	})
	if err != nil {
		return err
	}
	change := func(at string, round int64) error {
		for i := range packetEdits {
			name := filepath.Join(at, fmt.Sprintf("d%03d", i*files/perDir/packetEdits), "f01.txt")
			if err := os.WriteFile(name, fmt.Appendf(nil, "changed %d\n%s", round, body), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	beside := filepath.Join(b.dir, "beside") // git takes back what it finds: not in the project that is integrated into
	if err := run("cp", "-a", dir, beside); err != nil {
		return err
	}
	p, err := create()
	if err != nil {
		return err
	}
	handle := p.ID + "@1"
	return b.versus(ctx, r, scenarioWorkspace, fmt.Sprintf("integrate_agent_workspace, %d of %d files", packetEdits, files), byCheckout, func(context.Context) (time.Duration, error) {
		if err := change(p.Path, ids.Add(1)); err != nil {
			return 0, err
		}
		var done struct {
			Applied []any `json:"applied"`
		}
		took, err := timed(func() (err error) {
			handle, err = a.handled("integrate_agent_workspace", map[string]any{"handle": handle, "keep_open": true}, &done)
			return err
		})
		return took, errors.Join(err, same("files applied", len(done.Applied), packetEdits))
	}, func(context.Context) (time.Duration, error) {
		if err := change(beside, ids.Add(1)); err != nil {
			return 0, err
		}
		// What was changed is found, and the files are written as they are in the repository.
		return timed(func() error {
			return errors.Join(run(append(as, "-C", beside, "status", "--porcelain")...), run(append(as, "-C", beside, "checkout", "-q", "--", ".")...))
		})
	})
}
