//go:build !race

package clientfile

const raceOn = false
