package cli

import (
	"slices"
	"strings"
	"testing"
)

// TestShortcuts: every word stands for a command of the table.
func TestShortcuts(t *testing.T) {
	x := newTerminal(t)
	root := tree(x.env)
	for _, s := range shortcuts {
		if s.argv == nil {
			continue
		}
		for _, n := range []int{s.min, max(s.min, min(2, s.max)), s.min + 1} {
			if s.max >= 0 && n > s.max {
				continue
			}
			argv := s.argv(slices.Repeat([]string{"1"}, n))
			c, rest, err := root.Find(argv)
			if err != nil || c.Name() == argv[0] && len(argv) > 1 && c.HasSubCommands() {
				t.Errorf("%s stands for %v, which is no command: %v", s.Word, argv, err)
			} else if err := c.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v: %v", s.Word, argv, err)
			}
		}
	}
}

func TestREPLFromAPipe(t *testing.T) {
	for _, c := range []struct {
		name, typed string
		code        int
		out, err    string // what stands in them
	}{
		{"nothing", "", 0, "", ""},
		{"comments", "\n  \n# a comment\n", 0, "", ""},
		{"help", "help\n", 0, "rollback [RECEIPT]", ""},
		{"help of one", "/help deny", 0, "deny ID [NOTE]", ""},
		{"a command", "problems\n", 0, "health      ", ""},
		{"a slash", "/problems\n", 0, "health      ", ""},
		{"a misspelling", "aprovals\nproblems\n", 1, "health      ", "did you mean `approvals`?"},
		{"no word", "xyzzy\n", 1, "", "`help` lists all"},
		{"quit", "quit\nxyzzy\n", 0, "", ""},
		{"quit after a failure", "xyzzy\nquit\n", 1, "", "xyzzy"},
		{"approve", "approve apr_1\n", 1, "", "a pipe is none"},
		{"deny", "deny apr_1 not this one\n", 1, "", "--note=not this one"},
		{"too few", "plan\n", 1, "", "usage: plan ID"},
		{"too many", "plan a b\n", 1, "", "usage: plan ID"},
		{"flags", "plans --all\n", 1, "", "takes no flags here"},
		{"a long line", "help " + strings.Repeat("x", maxTyped) + "\n", 2, "", "cannot be read on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTerminal(t)
			x.daemon.health.State = "ok"
			x.env.In = strings.NewReader(c.typed)
			code := x.types("tui", "--repl")
			if code != c.code || !strings.Contains(x.out.String(), c.out) || !strings.Contains(x.err.String(), c.err) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, c.code, x.out.String(), x.err.String())
			}
			if strings.Contains(x.out.String()+x.err.String(), "mcpx> ") {
				t.Error("a pipe got a prompt")
			}
			if c.err == "" && x.err.Len() > 0 {
				t.Errorf("stderr: %s", x.err.String())
			}
		})
	}
}

func TestREPLIsPrompted(t *testing.T) {
	x := newTerminal(t)
	x.env.asks = true
	x.env.In = strings.NewReader("xyzzy\nquit\n")
	if code := x.types("tui", "--repl"); code != 0 || strings.Count(x.err.String(), "mcpx> ") != 2 {
		t.Errorf("exit code %d\n%s", code, x.err.String())
	}
	if code := x.types("tui"); code != 2 || !strings.Contains(x.err.String(), "mcpx tui --repl") {
		t.Errorf("without --repl: exit code %d\n%s", code, x.err.String())
	}
}
