//go:build race

package policy

// raceOn says that the race detector makes everything several times slower.
const raceOn = true
