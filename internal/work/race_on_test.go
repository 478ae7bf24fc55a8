//go:build race

package work

// raceOn says that the race detector makes everything several times slower: what it looks for is found in a part.
const raceOn = true
