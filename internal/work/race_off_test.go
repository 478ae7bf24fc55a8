//go:build !race

package work

const raceOn = false
