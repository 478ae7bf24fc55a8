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
)

// errUsageShown says that the help on stderr is the whole message.
var errUsageShown = fault.New(fault.Invalid, "usage").Saying("a command is missing")

// Main runs one invocation and returns its exit code. args are without the name of the program.
func Main(args []string, streams Streams, version string) int {
	e := &Env{
		In: streams.In, Out: streams.Out, Err: streams.Err,
		Getenv: os.Getenv, Version: version, Now: time.Now, files: streams,
		asks:  terminal(streams.In) && terminal(streams.Err),
		color: terminal(streams.Out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
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
	_, _ = fmt.Fprintf(e.Err, "mcpx: %s\n", f.Error())
	if f.Hint != "" {
		_, _ = fmt.Fprintf(e.Err, "      %s\n", f.Hint)
	}
}

// terminal reports whether a stream is a terminal.
func terminal(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
