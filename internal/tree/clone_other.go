//go:build !linux && !darwin

package tree

import (
	"errors"
	"os"
)

func clone(_, _ *os.File) error { return errors.ErrUnsupported }
func flushAll(string) error     { return errors.ErrUnsupported }
