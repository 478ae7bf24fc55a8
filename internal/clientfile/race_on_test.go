//go:build race

package clientfile

// raceOn says that the race detector makes everything ten times slower. Editing has no goroutines: a part is enough then.
const raceOn = true
