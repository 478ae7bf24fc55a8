package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// errUsageShown says that the help on stderr is the whole message.
var errUsageShown = fault.New(fault.Invalid, "usage").Saying("a command is missing")

// release is set by the release build: -ldflags "-X mcpx/internal/cli.release=1.2.3".
var release = "0.2.0-dev"

// Main runs one invocation and returns its exit code. args are without the name of the program.
func Main(args []string) int {
	e := &Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv, Version: release, Now: time.Now,
		asks:    process.IsTerminal(os.Stdin) && process.IsTerminal(os.Stderr),
		shows:   process.IsTerminal(os.Stdout),
		logs:    process.IsTerminal(os.Stderr),
		color:   process.IsTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		columns: func() int { return process.Columns(os.Stdout) },
		tty:     controllingTerminal, ttyColor: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
	e.prove = e.tried
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, e, args)
	e.report(err, slices.Contains(args, "--json"))
	return exitCode(err)
}

// report prints the error of a command, once.
func (e *Env) report(err error, asJSON bool) {
	switch {
	case err == nil, errors.Is(err, errAnswerNo), errors.Is(err, errUsageShown):
		return
	case asJSON:
		_ = json.NewEncoder(e.Err).Encode(api.Failure{Error: api.ProblemOf(err)}) // nobody is left to tell
		return
	}
	f := fault.From(err)
	if !errors.As(err, new(*fault.Error)) {
		f = fault.New(fault.Invalid, "usage").Saying("%v", err).Hinting("`mcpx -h` lists the commands")
	}
	_, _ = fmt.Fprintf(e.Err, "mcpx: %s\n", below(plain(f.Error()), 6))
	if f.Hint != "" {
		_, _ = fmt.Fprintf(e.Err, "      %s\n", f.Hint)
	}
}
