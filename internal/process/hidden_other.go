//go:build !linux && !darwin

package process

import (
	"context"
	"errors"
	"os"
)

// ReadHidden fails where a terminal cannot be told to show nothing.
func ReadHidden(context.Context, *os.File, func()) (string, error) {
	return "", errors.New("this system cannot hide what is typed")
}
