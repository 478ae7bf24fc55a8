//go:build !unix

package text

import (
	"testing"
	"time"
)

// cpuTime is the time since some moment.
func cpuTime(*testing.T) time.Duration { return time.Since(began) }

var began = time.Now()
