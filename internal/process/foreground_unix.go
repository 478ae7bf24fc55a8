//go:build unix

package process

import (
	"context"
	"os"
	"os/exec"
)

// Foreground runs the command in the process group of the caller and waits for its end. It belongs to the same terminal,
// which it may read, and a key that interrupts the caller interrupts it too. Both outputs go to out. When ctx is done
// it is killed. The error is a *fault.Error that names the cause; how the command ended is no error.
func Foreground(ctx context.Context, c Command, in, out *os.File) (Status, error) {
	x := exec.CommandContext(ctx, c.File)
	x.Args, x.Dir, x.Env = c.Argv, c.Dir, c.Env
	x.Stdin, x.Stdout, x.Stderr = in, out, out
	if err := startOwn(x); err != nil {
		return Status{}, explain(c.File, err)
	}
	err := waitOwn(x)
	return statusOf(x.ProcessState, err), ctx.Err()
}
