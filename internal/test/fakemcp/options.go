package fakemcp

import (
	"flag"
	"fmt"
	"io"
	"time"
)

// Era is which handshakes a fixture answers.
type Era string

// The eras. The zero Era is Legacy.
const (
	Legacy Era = "legacy" // initialize only
	Modern Era = "modern" // server/discover only
	Dual   Era = "dual"   // both
)

// Options script one fixture from its start; tools script it from its calls.
type Options struct {
	Era         Era
	Name        string        // serverInfo.name
	Record      string        // file that gets every line read, in order
	Answers     string        // JSON file {method: [lines]}: raw answers instead of the built-in ones
	Banner      string        // printed to stdout before anything is read
	Tail        string        // printed to stderr at the start
	SilentProbe bool          // never answers server/discover
	Hang        bool          // reads everything, answers nothing
	ExitOn      string        // exits with code 3 when this method arrives
	StartDelay  time.Duration // before the first read
	IgnoreTerm  bool          // ignores SIGTERM
	IgnoreEOF   bool          // lives on after stdin ended
	Tasks       bool          // declares tasks in the form of the era
	Serve       string        // address: Streamable HTTP instead of stdio
	Stateful    bool          // HTTP: legacy sessions with an id
	Behave      Behaviour     // HTTP: how it goes wrong
}

// Flags is the command line of a fixture: options as flags, in the order of the struct.
func (o Options) Flags() []string {
	var f []string
	text := func(name, value string) {
		if value != "" {
			f = append(f, "-"+name+"="+value)
		}
	}
	yes := func(name string, value bool) {
		if value {
			f = append(f, "-"+name)
		}
	}
	text("era", string(o.Era))
	text("name", o.Name)
	text("record", o.Record)
	text("answers", o.Answers)
	text("banner", o.Banner)
	text("tail", o.Tail)
	yes("silent-probe", o.SilentProbe)
	yes("hang", o.Hang)
	text("exit-on", o.ExitOn)
	if o.StartDelay > 0 {
		f = append(f, "-start-delay="+o.StartDelay.String())
	}
	yes("ignore-term", o.IgnoreTerm)
	yes("ignore-eof", o.IgnoreEOF)
	yes("tasks", o.Tasks)
	text("serve", o.Serve)
	yes("stateful", o.Stateful)
	text("behave", string(o.Behave))
	return f
}

// ParseFlags reads what Flags wrote.
func ParseFlags(args []string, complaints io.Writer) (Options, error) {
	var o Options
	f := flag.NewFlagSet("fakemcp", flag.ContinueOnError)
	f.SetOutput(complaints)
	f.StringVar((*string)(&o.Era), "era", string(Legacy), "legacy, modern or dual")
	f.StringVar(&o.Name, "name", "fakemcp", "name in serverInfo")
	f.StringVar(&o.Record, "record", "", "append every line read to this file")
	f.StringVar(&o.Answers, "answers", "", "JSON file of raw answers by method")
	f.StringVar(&o.Banner, "banner", "", "print this to stdout first")
	f.StringVar(&o.Tail, "tail", "", "print this to stderr first")
	f.BoolVar(&o.SilentProbe, "silent-probe", false, "do not answer server/discover")
	f.BoolVar(&o.Hang, "hang", false, "answer nothing")
	f.StringVar(&o.ExitOn, "exit-on", "", "exit with code 3 when this method arrives")
	f.DurationVar(&o.StartDelay, "start-delay", 0, "wait before the first read")
	f.BoolVar(&o.IgnoreTerm, "ignore-term", false, "ignore SIGTERM")
	f.BoolVar(&o.IgnoreEOF, "ignore-eof", false, "live on after stdin ended")
	f.BoolVar(&o.Tasks, "tasks", false, "declare tasks")
	f.StringVar(&o.Serve, "serve", "", "serve Streamable HTTP on this address instead of stdio")
	f.BoolVar(&o.Stateful, "stateful", false, "HTTP: legacy sessions")
	f.StringVar((*string)(&o.Behave), "behave", "", "HTTP: html, hang, drop, gone or unavailable")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("fakemcp: unexpected argument %q", f.Arg(0))
	}
	switch o.Era {
	case Legacy, Modern, Dual:
		return o, nil
	}
	return o, fmt.Errorf("fakemcp: era %q is not one of legacy, modern, dual", o.Era)
}
