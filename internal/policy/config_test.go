package policy

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestConfigErrors: what is wrong is named by its key, and the hint says what to do.
func TestConfigErrors(t *testing.T) {
	rule := func(more map[string]any) map[string]any {
		r := map[string]any{"id": "x", "decision": "allow", "program": "npm"}
		for key, value := range more {
			if value == nil {
				delete(r, key)
			} else {
				r[key] = value
			}
		}
		return commandRules(r)
	}
	commands := func(key string, value any) map[string]any {
		return map[string]any{"commands": map[string]any{key: value}}
	}
	files := func(key string, value any) map[string]any { return map[string]any{"files": map[string]any{key: value}} }
	for _, c := range []struct {
		values map[string]any
		says   string
	}{
		{map[string]any{"comands": map[string]any{}}, "comands: this key is not known"},
		{map[string]any{"commands": 1}, "commands: want a table"},
		{commands("contained", "yes"), "commands.contained: want confirm or allow"},
		{commands("lift", "rm.root"), "commands.lift: want a list"},
		{commands("lift", []any{"rm.rot"}), `"rm.rot" is no rule that can be lifted`},
		{commands("lift", []any{"default"}), "can be lifted"},
		{commands("lift", []any{"file.secret"}), "can be lifted"},
		{commands("lift", []any{"vetted.ls"}), "can be lifted"},
		{commands("lift", []any{1}), "want a text"},
		{commands("program_dirs", []any{"bin"}), "no clean absolute path"},
		{commands("rule", 1), "want a list of tables"},
		{commands("rule", []any{1}), "want a list of tables"},
		{rule(map[string]any{"id": nil}), "commands.rule[0].id"},
		{rule(map[string]any{"id": "A b"}), "commands.rule[0].id"},
		{rule(map[string]any{"id": "rm.root"}), "built in"},
		{rule(map[string]any{"id": "vetted.x"}), "built in"},
		{rule(map[string]any{"decision": "maybe"}), "want allow or confirm or deny"},
		{rule(map[string]any{"decision": nil}), "commands.rule[0].decision"},
		{rule(map[string]any{"program": nil}), "commands.rule[0].program"},
		{rule(map[string]any{"program": "./x"}), "neither a name nor"},
		{rule(map[string]any{"cwd": "../x"}), "no clean path below the target"},
		{rule(map[string]any{"operands": "all"}), "want target or any"},
		{rule(map[string]any{"args": map[string]any{"some_of": []any{}}}), "args.some_of: this key is not known"},
		{rule(map[string]any{"when": map[string]any{"sandbox": "loose"}}), "when.sandbox: want"},
		{rule(map[string]any{"secrets": []any{"X"}}), "names the project"},
		{rule(map[string]any{"project": "x"}), "only a rule that gives secrets"},
		{commandRules(map[string]any{"id": "x", "decision": "deny", "program": "a"}, map[string]any{"id": "x", "decision": "deny", "program": "b"}), "given twice"},
		{files("deny", "x"), "files.deny: want a list"},
		{files("deny", []any{"[a"}), "is no glob"},
		{files("deny", []any{"a/../b"}), "is no clean path"},
		{files("deny", []any{"a**/b"}), "stands alone"},
		{files("deny", []any{""}), "is empty"},
		{files("deny", []any{strings.Repeat("x", maxPattern+1)}), "at most"},
	} {
		_, err := ParseUser(c.values)
		if at, ok := errors.AsType[*KeyError](err); !ok || at.Key == "" || !strings.Contains(at.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.values, err, c.says)
		}
		if _, _, err := ParseProject(c.values); err == nil && !strings.Contains(c.says, "project") {
			t.Logf("%v: a project's file is read", c.values)
		}
	}
}

// TestShippedRules: every id that a verdict can have is in the list, and the list is in the document.
func TestShippedRules(t *testing.T) {
	document, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(document)) {
		rows[strings.TrimSpace(line)] = true
	}
	seen := map[string]bool{}
	for _, s := range ShippedRules() {
		if row := fmt.Sprintf("| `%s` | %s | %s |", s.ID, s.Decision, s.Matches); !rows[row] {
			t.Errorf("docs/policy.md has no row %s", row)
		}
		if seen[s.ID] || s.Matches == "" || s.Decision.rank() == 0 {
			t.Errorf("%+v", s)
		}
		seen[s.ID] = true
	}
}
