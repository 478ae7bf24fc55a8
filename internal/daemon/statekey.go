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

// stateKeyLen is the length of the key that seals requestState, in bytes.
const stateKeyLen = 32

// stateKey gives the key that seals requestState (protocol.md section 5.3). It outlives the daemon: a client may bring
// its answer to the next one. A key that is damaged is made anew: what it sealed lives for minutes.
func stateKey(paths api.Paths) ([]byte, error) {
	dir := filepath.Join(paths.State, "secrets")
	path := filepath.Join(dir, "request-state.key")
	key, err := os.ReadFile(path)
	if err == nil && len(key) == stateKeyLen {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unusableKey(path, err)
	}
	if err := api.MakePrivate(dir); err != nil {
		return nil, err
	}
	key = make([]byte, stateKeyLen)
	_, _ = rand.Read(key) // never fails
	if err := atomicfile.Write(path, key, 0o600); err != nil {
		return nil, unusableKey(path, err)
	}
	return key, nil
}

func unusableKey(path string, err error) error {
	return fault.New(fault.Unavailable, "state-unwritable").Saying("%s cannot be used", path).Because(err).
		Hinting("check owner, mode and free space of the state directory").Retrying(fault.AfterFix)
}
