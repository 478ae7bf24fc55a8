//go:build !linux && !darwin

package atomicfile

import "os"

// exchange: no system call is known here, so a swap falls back to links.
func exchange(int, string, int, string) error { return ErrNoExchange }

func move(int, string, int, string) error { return ErrNoExchange }

// Unwritten: there are no leases here.
func Unwritten(*os.File, func() error) (leased bool, err error) { return false, nil }
