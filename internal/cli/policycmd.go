package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/daemon"
	"mcpx/internal/fault"
	"mcpx/internal/policy"
)

var policyExplain = Command{
	Path: "policy explain", Short: "Say what would become of a command of an agent", Args: "-- COMMAND", Dash: true,
	Long: "Judges a command by the policy files as they are now and by what is in the project, and runs nothing of it: the decision,\n" +
		"each part of the command with the rule that decides it, and the sandbox it would run in. The project is the current\n" +
		"directory, or --project. It asks no daemon and writes nothing. Exit code 0 whatever the decision is. docs/policy.md has\n" +
		"every rule.",
	Example: "mcpx policy explain -- git status\nmcpx policy explain --shell 'ls | xargs rm' --json",
	Flags: []Flag{
		{Name: "shell", Kind: StringFlag, Value: "TEXT", Usage: "a text for the shell, instead of a command after --"},
		{Name: "project", Kind: StringFlag, Value: "DIR", Usage: "root DIR of the project (default: the current directory)"},
		{Name: "cwd", Kind: StringFlag, Value: "DIR", Usage: "where the command starts (default: the root of the project)"},
		{Name: "sandbox", Kind: StringFlag, Value: "LEVEL", Usage: "level that the call asks for", Choices: []string{policy.SandboxWorkspace, policy.SandboxStrict}},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		in, err := e.explained(a)
		if err != nil {
			return err
		}
		out, err := daemon.Explain(ctx, in)
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) { e.printExplained(w, out) })
	},
}

// projectRoot is the whole path of a directory that exists: a slip would look like a project without a policy.
func projectRoot(path string) (string, error) {
	root, err := wholePath(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return "", fault.New(fault.NotFound, "project-missing").Saying("%s is no directory", root).
			Hinting("give the directory of a project; `mcpx project list` shows them")
	}
	return root, nil
}

func (e *Env) explained(a Args) (daemon.ExplainCommand, error) {
	in := daemon.ExplainCommand{Getenv: e.Getenv, Environ: os.Environ(), Argv: a.Argv(), Shell: a.String("shell"), Level: a.String("sandbox")}
	if (len(in.Argv) == 0) == (in.Shell == "") {
		return in, fault.New(fault.Invalid, "usage").Saying("give a command after --, or a text with --shell").Hinting("for example `%s policy explain -- git status`", e.self())
	}
	var err error
	if in.Paths, err = e.Paths(); err != nil {
		return in, err
	}
	if in.Exe, err = os.Executable(); err != nil {
		return in, err
	}
	if in.Root, err = projectRoot(a.String("project")); err != nil {
		return in, err
	}
	in.Dir = in.Root
	if dir := a.String("cwd"); dir != "" {
		in.Dir = filepath.Join(in.Root, dir)
		if filepath.IsAbs(dir) {
			in.Dir = dir
		}
	}
	return in, nil
}

func (e *Env) printExplained(w io.Writer, out daemon.Explained) {
	line(w, "%s: %s", e.decision(out.Decision), map[policy.Decision]string{
		policy.Allow: "it would run", policy.Confirm: "a person would be asked", policy.Deny: "it would not run, and nobody can say yes to it",
	}[out.Decision])
	for _, u := range out.Units {
		at := ""
		if u.Line > 0 {
			at = fmt.Sprintf(" (line %d, column %d)", u.Line, u.Column)
		}
		line(w, "  %s %s: %s%s\n      %s", e.decision(u.Decision), u.Rule, plain(u.Text), at, plain(u.Reason))
	}
	if out.More > 0 {
		line(w, "  and %d more", out.More)
	}
	network := "off"
	if out.Sandbox.Network {
		network = "on"
	}
	by := ""
	if out.Sandbox.By != "" {
		by = " by " + out.Sandbox.By
	}
	line(w, "sandbox: %s%s, network %s", out.Sandbox.Applied, by, network)
	if len(out.Sandbox.Gaps) > 0 {
		line(w, "gaps that you accepted: %s", strings.Join(out.Sandbox.Gaps, ", "))
	}
	for _, warning := range out.Warnings {
		line(w, "%s %s", e.paint(yellow, "warning:"), plain(warning))
	}
}

func (e *Env) decision(d policy.Decision) string {
	color := map[policy.Decision]string{policy.Allow: green, policy.Confirm: yellow, policy.Deny: red}[d]
	return e.paint(color, string(d))
}

var policyCheck = Command{
	Path: "policy check", Short: "Say whether the policy files load", Args: "[PROJECT]", Max: 1,
	Long: "Reads config/policy.toml, and .mcpx.toml of the project in the directory PROJECT (without it of the current one) as the\n" +
		"daemon does. What is wrong is told with its line and key, and what a project may not say is a warning. Exit code 1 when\n" +
		"one of them does not load.",
	Example: "mcpx policy check\nmcpx policy check ~/src/shop --json",
	Run: func(_ context.Context, e *Env, a Args) error {
		paths, err := e.Paths()
		if err != nil {
			return err
		}
		root, err := projectRoot(a.Pos(0))
		if err != nil {
			return err
		}
		out := daemon.CheckPolicies(paths, root)
		if err := e.Show(out, func(w io.Writer) {
			for _, f := range out.Files {
				state := e.paint(green, "ok")
				if !f.OK {
					state = e.paint(red, "does not load")
				} else if !f.There {
					state = "not there"
				}
				line(w, "%s: %s", f.Path, state)
				if f.Problem != "" {
					line(w, "  %s", plain(f.Problem))
				}
				for _, warning := range f.Warnings {
					line(w, "  %s %s", e.paint(yellow, "warning:"), plain(warning))
				}
			}
		}); err != nil {
			return err
		}
		if !out.OK {
			return errAnswerNo
		}
		return nil
	},
}
