package gateway

import "testing"

func TestExitWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e    Exit
		want string
	}{
		{Exit{Reason: Exited, Code: 3, Text: "not shown"}, "exited: code 3"},
		{Exit{Reason: Terminated, Text: "its program was replaced"}, "terminated: code 0 (its program was replaced)"},
		{Exit{Reason: Terminated, Signal: 9, Name: "SIGKILL"}, "terminated: signal 9 (SIGKILL)"},
		{Exit{Reason: SupervisorLost, Text: "it said nothing"}, "supervisor_lost: it said nothing"},
	} {
		if got := c.e.Why(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.e, got, c.want)
		}
	}
}
