package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// tree builds the commands of the flag library from the table.
func tree(e *Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "mcpx",
		Short: "Every MCP server once, one URL for each, for all your agents",
		Long: "mcpx runs every MCP server once and gives it one URL on this machine, for all your coding agents.\n\n" +
			"New here? `mcpx up` shows the servers your agents have already, plus a demo, and tells what to type next.",
		Version:           e.Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetVersionTemplate("mcpx {{.Version}}\n")
	root.PersistentFlags().Bool("json", false, "print one JSON document for programs")
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	root.SetFlagErrorFunc(flagError)
	// A group runs only to print its help: it is no command of its own.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	asGroup(root)
	root.SetHelpCommand(helpCommand())

	at := map[string]*cobra.Command{"": root}
	for _, g := range groups {
		parent, word := split(g.Path)
		c := &cobra.Command{Use: word, Short: g.Short}
		asGroup(c)
		at[parent].AddCommand(c)
		at[g.Path] = c
	}
	for _, command := range commands() {
		parent, word := split(command.Path)
		at[command.Path] = leaf(e, command, word)
		at[parent].AddCommand(at[command.Path])
	}
	root.AddCommand(&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesText()})
	return root
}

func split(path string) (parent, word string) {
	if i := strings.LastIndexByte(path, ' '); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// asGroup makes a bare group print its own help and fail, and an unknown word name the nearest one.
func asGroup(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			if json, _ := c.Flags().GetBool("json"); json { // defined on the root
				return fault.New(fault.Invalid, "usage").Saying("`%s` needs a command", c.CommandPath()).Hinting("`%s -h` lists them", c.CommandPath())
			}
			c.SetOut(c.ErrOrStderr()) // help that nobody asked for is no answer
			_ = c.Help()              // it can only fail to write
			return errUsageShown
		}
		return unknownWord(c, args[0])
	}
}

// leaf makes one command of the flag library.
func leaf(e *Env, command Command, word string) *cobra.Command {
	c := &cobra.Command{
		Use:     useLine(word, command),
		Short:   command.Short,
		Long:    command.Short + ".\n\n" + command.Long,
		Example: indent(command.Example),
		Hidden:  command.Hidden,
		Args:    cobra.ArbitraryArgs, // checked below, with better words
	}
	if command.Also != "" {
		c.Aliases = []string{command.Also}
	}
	if command.Long == "" {
		c.Long = command.Short + "."
	}
	c.DisableFlagsInUseLine = true // useLine has them in the right place
	values := map[string]func() any{}
	for _, f := range command.Flags {
		values[f.Name] = define(c.Flags(), f)
		if len(f.Choices) > 0 {
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(f.Choices, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag defined twice
		}
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if command.Complete == nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return command.Complete(c.Context(), e), cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		e.json, _ = c.Flags().GetBool("json") // defined on the root
		a := Args{pos: args, flags: map[string]any{}, given: map[string]bool{}}
		if n := c.ArgsLenAtDash(); n >= 0 {
			a.pos, a.argv, a.dash = args[:n], args[n:], true
		}
		for _, f := range command.Flags {
			a.flags[f.Name] = values[f.Name]()
			a.given[f.Name] = c.Flags().Changed(f.Name)
		}
		if err := check(c, command, a); err != nil {
			return err
		}
		return command.Run(c.Context(), e, a)
	}
	return c
}

// useLine is the shape of a command: flags stand before --, which ends them.
func useLine(word string, c Command) string {
	parts := []string{word}
	if c.Args != "" {
		parts = append(parts, c.Args)
	}
	if len(c.Flags) > 0 {
		parts = append(parts, "[flags]")
	}
	if c.Dash {
		parts = append(parts, "[-- COMMAND ARGS...]")
	}
	return strings.Join(parts, " ")
}

// check refuses arguments that the command does not take.
func check(c *cobra.Command, command Command, a Args) error {
	usage := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "usage").Saying(format, args...).
			Hinting("usage: %s; see `%s -h`", c.UseLine(), c.CommandPath())
	}
	switch {
	case a.dash && !command.Dash:
		return usage("`%s` takes no command after --", c.CommandPath())
	case len(a.pos) < command.Min:
		return usage("`%s` needs %s", c.CommandPath(), command.Args)
	case command.Max >= 0 && len(a.pos) > command.Max:
		if command.Dash {
			return usage("%q is one argument too many; a command comes after --", a.pos[command.Max])
		}
		return usage("%q is one argument too many", a.pos[command.Max])
	}
	for _, f := range command.Flags {
		if len(f.Choices) > 0 && a.Given(f.Name) && !slices.Contains(f.Choices, a.String(f.Name)) {
			return usage("--%s is %q, want one of %s", f.Name, a.String(f.Name), strings.Join(f.Choices, ", "))
		}
	}
	return nil
}

// define adds one flag and returns how to read it.
func define(set *pflag.FlagSet, f Flag) func() any {
	usage := f.Usage
	if f.Value != "" {
		usage = strings.Replace(usage, f.Value, "`"+f.Value+"`", 1) // the library takes the placeholder from back quotes
		if !strings.Contains(usage, "`") {
			usage += " (`" + f.Value + "`)"
		}
	}
	switch f.Kind {
	case StringFlag:
		text, _ := f.Default.(string)
		v := set.StringP(f.Name, f.Letter, text, usage)
		hide(set, f)
		return func() any { return *v }
	case StringsFlag:
		v := set.StringArrayP(f.Name, f.Letter, nil, usage)
		hide(set, f)
		return func() any { return *v }
	case BoolFlag:
		on, _ := f.Default.(bool)
		v := set.BoolP(f.Name, f.Letter, on, usage)
		hide(set, f)
		return func() any { return *v }
	case IntFlag:
		n, _ := f.Default.(int)
		v := set.IntP(f.Name, f.Letter, n, usage)
		hide(set, f)
		return func() any { return *v }
	case DurationFlag:
		d, _ := f.Default.(time.Duration)
		v := &duration{d: d}
		set.VarP(v, f.Name, f.Letter, usage)
		hide(set, f)
		return func() any { return v.d }
	}
	panic("cli: unknown flag kind " + string(f.Kind))
}

func hide(set *pflag.FlagSet, f Flag) {
	if f.Hidden {
		_ = set.MarkHidden(f.Name) // it fails only for a flag that does not exist
	}
}

// duration is a time.Duration that also knows "never".
type duration struct{ d time.Duration }

func (d *duration) String() string {
	if d.d == 0 {
		return ""
	}
	return d.d.String()
}

func (d *duration) Type() string { return "duration" }

func (d *duration) Set(text string) error {
	if text == "never" {
		d.d = -1
		return nil
	}
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return fmt.Errorf("want a duration like 30s, 5m or 2h, or never")
	}
	d.d = v
	return nil
}

// flagError turns an error of the flag library into one that names the nearest flag.
func flagError(c *cobra.Command, err error) error {
	text := err.Error()
	for parser, want := range map[string]string{"ParseBool": "true or false", "ParseInt": "a number"} {
		if what, _, found := strings.Cut(text, ": strconv."+parser+":"); found {
			text = what + ": want " + want
		}
	}
	f := fault.New(fault.Invalid, "flag-invalid").Saying("%s", text).Hinting("`%s -h` lists the flags", c.CommandPath())
	unknown, found := strings.CutPrefix(text, "unknown flag: --")
	if !found {
		return f
	}
	var names []string
	c.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	if near := catalog.Nearest(unknown, names); near != "" {
		return f.Hinting("did you mean --%s? `%s -h` lists the flags", near, c.CommandPath())
	}
	return f
}

func indent(example string) string {
	if example == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n  ")
}

// run parses and carries out one invocation.
func run(ctx context.Context, e *Env, args []string) error {
	e.again = func(ctx context.Context, args []string) error { return run(ctx, e, args) }
	out := &output{w: e.Out}
	e.Out = out
	defer func() { e.Out = out.w }()
	root := tree(e)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if failed := out.failed(); err == nil || failed != nil && errors.Is(err, failed) {
		return out.lost()
	}
	return err
}
