package converge_test

import (
	"testing"

	"mcpx/internal/clientfile"
	"mcpx/internal/converge"
)

// TestEveryAgentHasHabits: a plan for any agent whose files are read says how the agent gets to know of it.
func TestEveryAgentHasHabits(t *testing.T) {
	for _, agent := range clientfile.Agents() {
		if !converge.HasHabit(string(agent)) {
			t.Errorf("%s: nothing is known of it", agent)
		}
	}
}
