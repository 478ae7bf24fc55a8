//go:build !linux

package sandbox

import "errors"

// become refuses: there is no mechanism for this platform.
func become(confinement, []string) error {
	return errors.New("commands cannot be kept in on this platform")
}

// landlockABI is 0: there is no Landlock.
func landlockABI() (int, error) { return 0, errors.ErrUnsupported }
