//go:build race

package text

// raceOn says that the race detector makes everything ten times slower. There are no goroutines here: a part is enough then.
const raceOn = true
