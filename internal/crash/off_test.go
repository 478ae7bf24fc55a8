//go:build !crash

package crash

import "testing"

func TestPointIsNothing(t *testing.T) {
	t.Setenv("MCPX_CRASH_AT", "cli/here#1")
	if n := testing.AllocsPerRun(100, func() { Point("here") }); n != 0 {
		t.Errorf("a point allocates %v times", n)
	}
	if e := Environ(); e != nil {
		t.Errorf("the release hands on %v", e)
	}
}
