package policy

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestCommandTable judges the table of runtime-tests.md (RT-76, RT-C1 and those after it). It stands in testdata as it stands there.
func TestCommandTable(t *testing.T) {
	if n := judgeTable(t, "testdata/commands.txt"); n != 84 {
		t.Errorf("%d lines, want 84", n)
	}
}

// TestMoreCommands judges what the table has no line for.
func TestMoreCommands(t *testing.T) {
	if n := judgeTable(t, "testdata/more.txt"); n < 250 {
		t.Errorf("%d lines: where is the rest?", n)
	}
}

func judgeTable(t *testing.T, file string) (lines int) {
	t.Helper()
	table, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(table)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(row), `\|`, "\x00"), " | ")
		if len(cells) != 4 {
			continue
		}
		lines++
		name := strings.TrimPrefix(cells[0], "| ")
		text := strings.NewReplacer("\x00", "|", "⏎", "\n").Replace(strings.TrimSuffix(strings.TrimPrefix(cells[1], "`"), "`"))
		decision, rule := cells[2], strings.Trim(strings.TrimSuffix(cells[3], " |"), "`")
		t.Run(name, func(t *testing.T) { checkLine(t, text, decision, rule) })
	}
	return lines
}

func checkLine(t *testing.T, text, decision, rule string) {
	t.Helper()
	v, err := Judge(Command{Shell: text}, newShop(), Rules{})
	if decision == "refused" {
		problem, ok := errors.AsType[*Problem](err)
		if !ok || problem.Code != rule || problem.Details["line"] == nil || problem.Details["column"] == nil {
			t.Errorf("%s: error %v, want %s with line and column", text, err, rule)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if string(v.Decision) != decision || !slices.ContainsFunc(v.Units, func(u Unit) bool { return u.Rule == rule && string(u.Decision) == decision }) {
		t.Errorf("%s: %s, want %s by %s; units:\n%s", text, v.Decision, decision, rule, show(v))
	}
}

func show(v Verdict) string {
	var b strings.Builder
	for _, u := range v.Units {
		b.WriteString("  " + u.Text + " -> " + string(u.Decision) + " " + u.Rule + ": " + u.Reason + "\n")
	}
	return b.String()
}
