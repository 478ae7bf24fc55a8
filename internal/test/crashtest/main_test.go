// Package crashtest decides whether the promises of survival hold for a program that is killed: at every crash point of
// a recorded run, again during recovery, and at random under load. It refuses to know how the program survives; it
// compares what clients were told with what the servers really read, and looks for what was left behind.
//
// Invariant: a run can be repeated. What is random comes from a seed that is printed, and MCPX_SEED sets it.
package crashtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == decideVerb {
		os.Exit(decide(os.Args[2], os.Args[3]))
	}
	os.Exit(rig.Main(m))
}

// seeded is the randomness of a test.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("MCPX_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("MCPX_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("MCPX_SEED=%d repeats this run", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// amount is how much of something a run does: a number from the environment, or the default.
func amount(t *testing.T, variable string, usual int) int {
	t.Helper()
	given := os.Getenv(variable)
	if given == "" {
		return usual
	}
	n, err := strconv.Atoi(given)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
