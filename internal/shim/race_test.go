//go:build race

package shim

// raced says that the race detector is in: it multiplies memory.
const raced = true
