//go:build !race

package text

const raceOn = false
