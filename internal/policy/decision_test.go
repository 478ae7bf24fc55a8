package policy

import (
	"fmt"
	"strings"
	"testing"
)

// However many commands a text has, what is told of them is short, and tells each rule that decided.
func TestUnitsAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "run%d\n", i)
	}
	text.WriteString("sudo ls\nls\nrm -rf /\n")
	v, err := Judge(Command{Shell: text.String()}, newShop(), Rules{})
	if err != nil {
		t.Fatal(err)
	}
	bytes, rules := 0, map[string]bool{}
	for _, u := range v.Units {
		bytes += len(u.Text) + len(u.Rule) + len(u.Reason)
		rules[u.Rule] = true
	}
	if v.Decision != Deny || !rules["rm.root"] || !rules["elevate"] || !rules["default"] || !rules["vetted.ls"] {
		t.Errorf("it is %s, by %v", v.Decision, rules)
	}
	if bytes > 2*maxUnits || len(v.Units)+v.More < 5003 {
		t.Errorf("it tells %d units in %d bytes, and leaves out %d", len(v.Units), bytes, v.More)
	}
	for i := 1; i < len(v.Units); i++ {
		if v.Units[i].Line < v.Units[i-1].Line {
			t.Errorf("unit %d is of line %d, after one of %d", i, v.Units[i].Line, v.Units[i-1].Line)
		}
	}
}

// The verdict on several commands is as strict as the strictest, and no longer than that on one.
func TestJoin(t *testing.T) {
	long := Unit{Text: strings.Repeat("x", maxUnits/2), Decision: Allow, Rule: "a"}
	v := Join(
		Verdict{Decision: Allow, Units: []Unit{long, long, long}},
		Verdict{Decision: Confirm, Units: []Unit{{Text: "y", Decision: Confirm, Rule: "b"}}, More: 2},
	)
	if v.Decision != Confirm || len(v.Units) != 2 || v.More != 4 || v.Units[1].Rule != "b" {
		t.Errorf("joined they are %s with %d units, and %d more", v.Decision, len(v.Units), v.More)
	}
}
