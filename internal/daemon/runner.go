package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"mcpx/internal/process"
	"mcpx/internal/secret"
)

// runner runs the programs of command: references, with the environment of the daemon: password managers need it.
type runner struct {
	home    string
	environ []string
	tells   bool // an error has what the program printed to stderr: no secret can be in it
}

var _ secret.Runner = runner{}

// maxComplaint bounds what is kept of stderr, in bytes.
const maxComplaint = 512

// settle is how long a program may take to end after it closed its output.
const settle = time.Second

// Output runs argv and gives its stdout. Neither arguments nor output are part of an error.
func (r runner) Output(ctx context.Context, argv []string, limit int) ([]byte, error) {
	file, err := process.Resolve(argv[0], r.home, r.environ)
	if err != nil {
		return nil, err
	}
	child, err := process.Start(process.Command{File: file, Argv: argv, Dir: r.home, Env: r.environ})
	if err != nil {
		return nil, err
	}
	defer child.Stdout.Close()
	defer child.Stderr.Close()
	_ = child.Stdin.Close() // nothing is said to it
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(child.Stderr, maxComplaint)) // what was read until then counts
		_, _ = io.Copy(io.Discard, child.Stderr)                          // it ends with the pipe; a full pipe would stop the program
		said <- strings.TrimSpace(string(text))
	}()
	stop := context.AfterFunc(ctx, func() { child.EndGroup(0) })
	defer stop()
	out, err := io.ReadAll(io.LimitReader(child.Stdout, int64(limit)+1))
	if err == nil && len(out) > limit {
		err = fmt.Errorf("it printed more than %d bytes", limit)
	}
	if err != nil {
		child.EndGroup(0)
		return nil, err
	}
	select {
	case <-child.Done():
	case <-time.After(settle):
		child.EndGroup(0)
	}
	<-child.Done()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if status := child.Status(); status.Code != 0 || status.Signal != 0 {
		if r.tells {
			select {
			case text := <-said:
				return nil, fmt.Errorf("it ended with %s: %s", status, text)
			case <-time.After(settle): // something that it started holds the pipe
			}
		}
		return nil, errors.New("it ended with " + status.String())
	}
	return out, nil
}
