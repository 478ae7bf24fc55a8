//go:build !linux

package secret

import (
	"context"
	"errors"

	"github.com/zalando/go-keyring"
)

// libraryRing is the keyring of macOS or Windows. The library takes no deadline, which is why Ring calls it beside its
// callers; macOS itself may show a dialog for an item that another program has made.
type libraryRing struct{}

func systemRing(func(string) string) ring { return libraryRing{} }

func (libraryRing) get(_ context.Context, service, account string) (string, error) {
	value, err := keyring.Get(service, account)
	return value, libraryFault(err)
}

func (libraryRing) set(_ context.Context, service, account, value string) error {
	return libraryFault(keyring.Set(service, account, value))
}

func libraryFault(err error) error {
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return errNoItem
	case errors.Is(err, keyring.ErrUnsupportedPlatform):
		return errNoRing
	}
	return err
}
