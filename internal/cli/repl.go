package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

var tui = Command{
	Path: "tui", Short: "Type one command after the other, without mcpx before each",
	Long: "--repl is the only form. On a terminal it prompts with `mcpx> `; from a pipe the same words work without a prompt, and\n" +
		"the exit code is 1 when one of them failed. `help` lists the words; a / before a word is accepted. Ctrl-C ends what runs,\n" +
		"`quit` or the end of the input ends it all. Approving from a pipe is refused: there is no person.",
	Example: "mcpx tui --repl\nprintf 'dashboard\\nplans\\n' | mcpx tui --repl",
	Flags:   []Flag{{Name: "repl", Kind: BoolFlag, Usage: "read commands, one a line"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if !a.Bool("repl") {
			return fault.New(fault.Invalid, "usage").Saying("`mcpx tui` needs --repl").Hinting("run `mcpx tui --repl`")
		}
		r := repl{e: e, json: e.json, input: bufio.NewScanner(e.In)}
		r.input.Buffer(nil, maxTyped)
		return r.run(ctx)
	},
}

// maxTyped bounds one line of the input, in bytes: the longest sensible one is a note.
const maxTyped = 64 << 10

// shortcut is one word of the REPL and the command that it stands for.
type shortcut struct {
	Word  string `json:"command"`
	Args  string `json:"arguments,omitempty"`
	Short string `json:"does"`
	min   int
	max   int // -1: any number
	// argv is the command line without mcpx; nil: the REPL itself carries it out.
	argv   func(args []string) []string
	person bool // only a person decides it
}

// always stands for one command line whatever the arguments, which are put behind it.
func always(words ...string) func([]string) []string {
	return func(args []string) []string { return slices.Concat(words, args) }
}

// either stands for one command line without arguments and another one with them.
func either(without, with []string) func([]string) []string {
	return func(args []string) []string {
		if len(args) == 0 {
			return without
		}
		return slices.Concat(with, args)
	}
}

// shortcuts are the words of the REPL, governance.md section 12.
var shortcuts = []shortcut{
	{Word: "dashboard", Short: "daemon, health and servers", argv: always("status")},
	{Word: "problems", Short: "what the daemon knows to be wrong", argv: always("health")},
	{Word: "agents", Short: "the coding agents on this machine", argv: always("agents", "discover")},
	{Word: "self-check", Args: "[KIND]", Short: "whether agents reach what they shall", max: 1, argv: always("agents", "self-check")},
	{Word: "plans", Short: "what mcpx proposes", argv: always("plan", "list")},
	{Word: "plan", Args: "ID", Short: "one plan with its difference", min: 1, max: 1, argv: always("plan", "show")},
	{Word: "approvals", Short: "what waits for a person", argv: always("approval", "list")},
	{Word: "approval", Args: "ID", Short: "one approval with what it is about", min: 1, max: 1, argv: always("approval", "show")},
	{Word: "approve", Args: "ID", Short: "say yes", min: 1, max: 1, argv: always("approval", "approve"), person: true},
	{Word: "deny", Args: "ID [NOTE]", Short: "say no", min: 1, max: -1, argv: deny, person: true},
	{Word: "apply", Args: "ID...", Short: "carry out plans; those of one file together", min: 1, max: -1, argv: always("apply")},
	{Word: "rollback", Args: "[RECEIPT]", Short: "what was applied; the plan that takes a receipt back", max: 1, argv: always("rollback")},
	{Word: "candidates", Short: "servers that were seen and are not in the catalog", argv: always("catalog", "candidates")},
	{Word: "catalog", Args: "[WORDS]", Short: "the servers, or those with these words", max: -1, argv: searched},
	{Word: "runtime", Args: "[NAME]", Short: "processes, or one server", max: 1, argv: either([]string{"ps"}, []string{"server", "show"})},
	{Word: "credentials", Short: "credentials by name, and whether they are ready", argv: always("credential", "list")},
	{Word: "changes", Args: "[N]", Short: "the newest events of the log", max: 1, argv: newest},
	{Word: "cutover", Args: "NAME", Short: "how far the cut-over from the hub NAME is", min: 1, max: 1, argv: cutoverOf},
	{Word: "doctor", Short: "everything that is wrong, with the command that fixes it", argv: always("doctor")},
	{Word: "watch", Short: "new events as they come, until Ctrl-C; from a pipe the newest, once"},
	{Word: "help", Args: "[CMD]", Short: "these words", max: 1},
	{Word: "quit", Short: "end"},
}

func deny(args []string) []string {
	argv := []string{"approval", "deny", args[0]}
	if len(args) > 1 {
		argv = append(argv, "--note="+strings.Join(args[1:], " "))
	}
	return argv
}

func searched(args []string) []string {
	if len(args) == 0 {
		return []string{"catalog", "list"}
	}
	return []string{"catalog", "search", strings.Join(args, " ")}
}

func cutoverOf(args []string) []string { return []string{"cutover", "status", "--from=" + args[0]} }

func newest(args []string) []string {
	argv := []string{"audit", "list"}
	if len(args) > 0 {
		argv = append(argv, "--last="+args[0])
	}
	return argv
}

// repl reads commands and has them carried out by those of the table, one after the other.
type repl struct {
	e      *Env
	json   bool
	input  *bufio.Scanner
	failed bool
}

var errQuit = errors.New("quit")

func (r *repl) run(ctx context.Context) error {
	interrupts := make(chan os.Signal, 1)
	if r.e.asks { // Ctrl-C ends a command, not all of them
		ctx = context.WithoutCancel(ctx)
		signal.Notify(interrupts, os.Interrupt)
		defer signal.Stop(interrupts)
	}
	typed := make(chan bool, 1)
	reading := false
	for {
		r.prompt()
		if !reading {
			reading = true
			go func() { typed <- r.input.Scan() }()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-interrupts:
			_, _ = io.WriteString(r.e.Err, "\n") // nobody is left to see it
			continue
		case more := <-typed:
			reading = false
			if !more {
				return r.end(r.input.Err())
			}
		}
		if err := r.carryOut(ctx, interrupts, r.input.Text()); errors.Is(err, errQuit) {
			return r.end(nil)
		}
		if out, ok := r.e.Out.(*output); ok && out.failed() != nil {
			return nil // the caller tells why
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (r *repl) prompt() {
	if r.e.asks {
		_, _ = io.WriteString(r.e.Err, "mcpx> ") // nobody is left to see it
	}
}

// end gives the exit code of it all. At a terminal each failure was seen by who typed.
func (r *repl) end(err error) error {
	switch {
	case err != nil:
		return fault.New(fault.Invalid, "line-unreadable").Saying("the input cannot be read on").Because(err).
			Hinting("a line has at most %d bytes", maxTyped)
	case r.e.asks:
		return nil
	case r.failed:
		return errAnswerNo
	}
	return nil
}

// carryOut does one line and tells when that failed.
func (r *repl) carryOut(ctx context.Context, interrupts <-chan os.Signal, line string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-interrupts:
			stop()
		case <-done:
		}
	}()
	err := r.do(ctx, line)
	if err == nil || errors.Is(err, errQuit) {
		return err
	}
	r.failed = true
	r.e.report(err, r.json)
	return err
}

func (r *repl) do(ctx context.Context, line string) error {
	words := strings.Fields(line)
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	word, args := strings.TrimPrefix(words[0], "/"), words[1:]
	s, err := findShortcut(word)
	if err != nil {
		return err
	}
	for _, a := range args {
		if strings.HasPrefix(a, "-") && s.Word != "deny" {
			return fault.New(fault.Invalid, "usage").Saying("%s takes no flags here", s.Word).Hinting("type `help %s`; flags belong to the whole command", s.Word)
		}
	}
	if len(args) < s.min || s.max >= 0 && len(args) > s.max {
		return fault.New(fault.Invalid, "usage").Saying("usage: %s", strings.TrimSpace(s.Word+" "+s.Args)).Hinting("`help` lists the words")
	}
	switch {
	case s.Word == "quit":
		return errQuit
	case s.Word == "help":
		return r.help(args)
	case s.Word == "watch" && r.e.asks:
		return r.command(ctx, []string{"audit", "list", "--last=10", "--follow"})
	case s.Word == "watch":
		return r.command(ctx, []string{"audit", "list", "--last=10"})
	case s.person && !r.e.asks:
		return fault.New(fault.NeedsApproval, "no-person").Saying("only a person can decide this, and a pipe is none").
			Hinting("type `mcpx %s` in a terminal", strings.Join(s.argv(args), " ")).Retrying(fault.AfterFix)
	}
	return r.command(ctx, s.argv(args))
}

// command carries out a command line as if it had been typed whole.
func (r *repl) command(ctx context.Context, argv []string) error {
	if r.json {
		argv = append(slices.Clone(argv), "--json")
	}
	return r.e.again(ctx, argv)
}

func findShortcut(word string) (shortcut, error) {
	var known []string
	for _, s := range shortcuts {
		if s.Word == word {
			return s, nil
		}
		known = append(known, s.Word)
	}
	f := fault.New(fault.Invalid, "command-unknown").Saying("there is no command %q here", word)
	if near := catalog.Nearest(word, known); near != "" {
		return shortcut{}, f.Hinting("did you mean `%s`? `help` lists all", near)
	}
	return shortcut{}, f.Hinting("`help` lists all")
}

// replHelp is the answer of help.
type replHelp struct {
	Commands []shortcut `json:"commands"`
}

func (r *repl) help(args []string) error {
	shown := shortcuts
	if len(args) > 0 {
		s, err := findShortcut(strings.TrimPrefix(args[0], "/"))
		if err != nil {
			return err
		}
		shown = []shortcut{s}
	}
	r.e.json = r.json
	return r.e.Show(replHelp{shown}, func(w io.Writer) {
		for _, s := range shown {
			line(w, "%s", strings.TrimRight(fmt.Sprintf("%-22s %s", strings.TrimSpace(s.Word+" "+s.Args), s.Short), " "))
		}
	})
}
