package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	files "mcpx/internal/tree"
)

// scenarioVerify is reading a build and comparing it with its manifest.
const scenarioVerify = "verify"

// minVerify is how much of what sha256sum reads in a second of a processor is to be read in one.
const minVerify = 0.9

// The build that is verified: many small files have the cost of opening them, large ones that of their bytes.
const (
	largeFiles = 8
	largeSize  = 64 << 20
	smallFiles = 20_000
)

// verify measures the verification of a build against sha256sum of the same files, by the time of the processors that each
// takes: one uses several, the other one.
func (b *bench) verify(ctx context.Context, r *report) error {
	sum, err := exec.LookPath("sha256sum")
	if err != nil {
		b.say("skip: verify: sha256sum is not installed")
		return nil
	}
	shrink := 1
	if b.o.quick {
		shrink = 8
	}
	for _, one := range []struct{ count, size int }{{largeFiles, largeSize / shrink}, {smallFiles / shrink, packetSize}} {
		if err := b.verified(ctx, r, sum, one.count, one.size); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) verified(ctx context.Context, r *report, sum string, count, size int) (err error) {
	dir, err := os.MkdirTemp(b.dir, "verify")
	if err != nil {
		return err
	}
	out := filepath.Join(dir, "project", "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	body := make([]byte, size)
	for i := range count {
		copy(body, fmt.Sprintln(i))
		if err := os.WriteFile(filepath.Join(out, fmt.Sprintf("f%05d", i)), body, 0o644); err != nil {
			return err
		}
	}
	root, err := files.Open(filepath.Dir(out), files.Options{})
	if err != nil {
		return err
	}
	defer root.Close()
	build := files.Build{Dir: filepath.Join(dir, "build")}
	if err := os.Mkdir(build.Dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, build.Clear(context.WithoutCancel(ctx))) }() // its directories cannot be written to
	sealed, err := root.Seal(ctx, build, []string{"out"}, func(string) bool { return false })
	if err != nil {
		return err
	}
	if cpu([]int{os.Getpid()}) == 0 { // after a copy of hundreds of megabytes
		b.say("skip: verify: nobody tells the time of a processor here")
		return nil
	}
	return b.versus(ctx, r, scenarioVerify, fmt.Sprintf("verify a build, %d files of %d KiB", count, size>>10), "sha256sum, per core", func(ctx context.Context) (time.Duration, error) {
		before := cpu([]int{os.Getpid()})
		d, _, err := build.Verify(ctx, sealed, nil)
		if err == nil && !d.Same() {
			err = fmt.Errorf("it differs: %+v", d)
		}
		return cpu([]int{os.Getpid()}) - before, err
	}, func(ctx context.Context) (time.Duration, error) {
		cmd := exec.CommandContext(ctx, "sh", "-c", `find . -type f -print0 | xargs -0 "$0" > /dev/null`, sum)
		cmd.Dir = build.Tree()
		err := cmd.Run()
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
	})
}
