package daemon

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/fault"
)

// stateKeyLen is the length of our keys, in bytes.
const stateKeyLen = 32

// installKey gives the key of this installation, for digests of what may hold a short secret: nobody without it can
// guess the secret from them. It is made once. A damaged one is not made anew: what the store says about entries would
// be about other ones then.
func installKey(paths api.Paths) ([]byte, error) {
	path := filepath.Join(paths.State, "secrets", "install.key")
	key, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newKey(path)
	case err == nil && len(key) != stateKeyLen:
		err = errors.New("it is damaged")
	}
	if err != nil {
		return nil, unusableKey(path, err)
	}
	return key, nil
}

func newKey(path string) ([]byte, error) {
	if err := api.MakePrivate(filepath.Dir(path)); err != nil {
		return nil, err
	}
	key := make([]byte, stateKeyLen)
	_, _ = rand.Read(key) // never fails
	if err := atomicfile.Write(path, key, 0o600); err != nil {
		return nil, unusableKey(path, err)
	}
	return key, nil
}

// stateKey gives the key that seals requestState (protocol.md section 5.3). It outlives the daemon: a client may bring
// its answer to the next one. A key that is damaged is made anew: what it sealed lives for minutes.
func stateKey(paths api.Paths) ([]byte, error) {
	path := filepath.Join(paths.State, "secrets", "request-state.key")
	key, err := os.ReadFile(path)
	if err == nil && len(key) == stateKeyLen {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unusableKey(path, err)
	}
	return newKey(path)
}

func unusableKey(path string, err error) error {
	return fault.New(fault.Unavailable, "state-unwritable").Saying("%s cannot be used", path).Because(err).
		Hinting("check owner, mode and free space of the state directory").Retrying(fault.AfterFix)
}
