//go:build !linux && !darwin

package atomicfile

import (
	"errors"
	"os"
)

// exchange: no system call is known here, so a swap falls back to links.
func exchange(int, string, int, string) error { return ErrNoExchange }

func move(int, string, int, string) error { return ErrNoExchange }

// Unwritten: there are no leases here.
func Unwritten(*os.File, func() error) (leased bool, err error) { return false, nil }

// Clone: no system call is known here.
func Clone(_, to string) error {
	return &os.PathError{Op: "clone", Path: to, Err: errors.ErrUnsupported}
}
