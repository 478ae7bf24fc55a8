package process

import (
	"slices"
	"testing"
)

func TestKillStrays(t *testing.T) {
	variable := "MCPX_STRAY=" + t.TempDir()
	start := func(env ...string) *Child {
		c, err := Start(Command{File: "/bin/sleep", Argv: []string{"sleep", "600"}, Dir: "/", Env: env})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.EndGroup(0); <-c.Done() })
		return c
	}
	one, other := start("A=1", variable), start("MCPX_STRAY=elsewhere", "B="+variable)
	if found := having(variable, one.ID.Start); !slices.Equal(found, []Identity{one.ID}) {
		t.Errorf("found %v, want %v", found, one.ID)
	}
	if found := having(variable, one.ID.Start+1); found != nil {
		t.Errorf("found %v, which is older", found)
	}
	if killed := KillStrays(variable); !slices.Equal(killed, []int{one.ID.Pid}) {
		t.Errorf("killed %v, want %d", killed, one.ID.Pid)
	}
	<-one.Done()
	if !other.ID.Alive() {
		t.Error("a stranger was killed")
	}
}
