//go:build !unix

package process

import "errors"

// OpenBrowser is not supported here.
func OpenBrowser(string, func(string) string) error { return errors.ErrUnsupported }
