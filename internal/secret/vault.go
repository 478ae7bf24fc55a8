package secret

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"filippo.io/age"

	"mcpx/internal/crash"
	"mcpx/internal/fault"
)

const (
	// maxVault bounds the encrypted file, in bytes: it is read whole for each value.
	maxVault = 4 << 20
	// maxKeyFile bounds the key file: one line.
	maxKeyFile = 4 << 10
	// ringService is the service of our items in the keyring.
	ringService = "mcpx"
	// vaultFormat is the version of what lies inside of the encrypted file.
	vaultFormat = 1
)

// The files of the store, below its directory.
const (
	vaultFile = "store.age"
	keyFile   = "store.key"
)

// KeyPlace says where the key of the store is.
type KeyPlace string

// The places.
const (
	KeyNowhere   KeyPlace = "none"    // nothing was stored yet
	KeyInFile    KeyPlace = "file"    // store.key, readable by the owner only
	KeyInKeyring KeyPlace = "keyring" // store.key says which item
)

// VaultConfig is what a Vault needs. Everything is required.
type VaultConfig struct {
	Dir string // private directory; it is made when the first value is stored
	// MakeDir makes Dir and checks that it is ours.
	MakeDir func(dir string) error
	// Replace gives a file new content, durably and at once: a crash leaves the old file or the new one (0600).
	Replace func(path string, data []byte) error
	Ring    *Ring
}

// Vault is the store of values in one file, encrypted with age (age-encryption.org/v1) to one X25519 key. The key lies in
// the keyring when there was a usable one at the first value, else in a file of mode 0600 beside it, which keeps the
// values out of backups, search indexes and mistakes, not from a program of the same user.
//
// Only one process may write: the one that holds the lock of the home. Safe for concurrent use in it.
type Vault struct {
	cfg VaultConfig

	mu       sync.Mutex        // guards the files and unlocked
	unlocked map[string]string // keys that came from the keyring, by item
}

// NewVault makes a Vault. It touches no file.
func NewVault(c VaultConfig) (*Vault, error) {
	switch {
	case !filepath.IsAbs(c.Dir):
		return nil, fmt.Errorf("secret: VaultConfig.Dir is %q, want an absolute path", c.Dir)
	case c.MakeDir == nil || c.Replace == nil:
		return nil, errors.New("secret: VaultConfig.MakeDir and VaultConfig.Replace are required")
	case c.Ring == nil:
		return nil, errors.New("secret: VaultConfig.Ring is required")
	}
	return &Vault{cfg: c, unlocked: map[string]string{}}, nil
}

// content is what lies inside of the encrypted file.
type content struct {
	Format int               `json:"format"`
	Values map[string]string `json:"values"`
}

// KeyPlace says where the key is, without reading it.
func (v *Vault) KeyPlace() (KeyPlace, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text, err := v.keyText()
	switch {
	case err != nil:
		return "", err
	case text == "":
		return KeyNowhere, nil
	case strings.HasPrefix(text, string(Keyring)+":"):
		return KeyInKeyring, nil
	}
	return KeyInFile, nil
}

// get gives one value; an unknown name is credential-missing.
func (v *Vault) get(ctx context.Context, name string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, _, err := v.read(ctx)
	if err != nil {
		return "", err
	}
	value, ok := c.Values[name]
	if !ok {
		return "", missing("the store has no value for %s", name).Hinting("store it with `mcpx credential set %s`", name)
	}
	return value, nil
}

// put stores a value. Changed is false when it was there already.
func (v *Vault) put(ctx context.Context, name, value string) (changed bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, key, err := v.read(ctx)
	if err != nil {
		return false, err
	}
	if old, ok := c.Values[name]; ok && old == value {
		return false, nil
	}
	if key == nil {
		if key, err = v.makeKey(ctx); err != nil {
			return false, err
		}
	}
	c.Values[name] = value
	return true, v.write(c, key)
}

// remove forgets a value. Removing one that is not there is no error.
func (v *Vault) remove(ctx context.Context, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, key, err := v.read(ctx)
	if err != nil {
		return err
	}
	if _, ok := c.Values[name]; !ok {
		return nil
	}
	delete(c.Values, name)
	return v.write(c, key)
}

// read gives what is stored. Key is nil when there is none yet.
func (v *Vault) read(ctx context.Context) (content, *age.X25519Identity, error) {
	c := content{Format: vaultFormat, Values: map[string]string{}}
	data, err := limited(filepath.Join(v.cfg.Dir, vaultFile), maxVault)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return c, nil, v.damaged("it cannot be read", err)
	}
	key, err := v.key(ctx)
	switch {
	case err != nil:
		return c, nil, err
	case absent:
		return c, key, nil
	case key == nil:
		return c, nil, fault.New(fault.Unavailable, "secret-store-key").Saying("the key of %s is gone: %s does not exist", vaultFile, filepath.Join(v.cfg.Dir, keyFile)).
			Hinting("restore it from a backup. Without it the values are lost: move %s away and store them again", filepath.Join(v.cfg.Dir, vaultFile)).
			Retrying(fault.AfterFix)
	}
	plain, err := age.Decrypt(bytes.NewReader(data), key)
	if err != nil {
		if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
			return c, nil, fault.New(fault.Unavailable, "secret-store-key").Saying("the key of the store does not fit %s", filepath.Join(v.cfg.Dir, vaultFile)).
				Hinting("restore both files from the same backup").Retrying(fault.AfterFix)
		}
		return c, nil, v.damaged("it was changed or cut", nil) // the cause may quote what was read
	}
	// The bound of the file bounds this, too.
	text, err := io.ReadAll(plain)
	if err != nil {
		return c, nil, v.damaged("it was changed or cut", err)
	}
	if err := json.Unmarshal(text, &c); err != nil || c.Format != vaultFormat {
		return c, nil, v.damaged("it is of another version of mcpx", nil) // an error of the decoder may quote what it read
	}
	if c.Values == nil {
		c.Values = map[string]string{}
	}
	return c, key, nil
}

func (v *Vault) damaged(how string, cause error) error {
	return fault.New(fault.Unavailable, "secret-store-damaged").Saying("the store of credentials %s cannot be used: %s", filepath.Join(v.cfg.Dir, vaultFile), how).
		Hinting("restore it from a backup, or move it away and store the values again").Retrying(fault.AfterFix).Because(cause)
}

func (v *Vault) write(c content, key *age.X25519Identity) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fault.New(fault.Internal, "secret-store-damaged").Saying("the store of credentials cannot be written as JSON")
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, key.Recipient())
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fault.New(fault.Internal, "secret-store-damaged").Saying("the store of credentials cannot be encrypted").Because(err)
	}
	if sealed.Len() > maxVault {
		return fault.New(fault.Invalid, "secret-store-full").Saying("the store would have %d KiB, at most %d are allowed", sealed.Len()>>10, maxVault>>10).
			Hinting("remove credentials that nothing uses, or keep large values in files of their own (file:PATH)")
	}
	return v.replace(vaultFile, sealed.Bytes())
}

func (v *Vault) replace(name string, data []byte) error {
	path := filepath.Join(v.cfg.Dir, name)
	if err := v.cfg.Replace(path, data); err != nil {
		return fault.New(fault.Unavailable, "state-unwritable").Saying("%s cannot be written", path).Because(err).
			Hinting("check owner, mode and free space of the state directory").Retrying(fault.AfterFix)
	}
	return nil
}

// keyText is the line in the key file: the key, or the reference of an item of the keyring. "": there is no such file.
func (v *Vault) keyText() (string, error) {
	path := filepath.Join(v.cfg.Dir, keyFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	data, err := readPrivate(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" || len(text) > maxKeyFile {
		return "", v.badKey(path)
	}
	return text, nil
}

// badKey never says what was read instead of a key.
func (v *Vault) badKey(where string) error {
	return fault.New(fault.Unavailable, "secret-store-key").Saying("%s holds no key of the store", where).
		Hinting("restore it from a backup. Without it the values are lost: move %s away and store them again", filepath.Join(v.cfg.Dir, vaultFile)).
		Retrying(fault.AfterFix)
}

// key is the key of the store, nil when there is none yet.
func (v *Vault) key(ctx context.Context) (*age.X25519Identity, error) {
	text, err := v.keyText()
	if err != nil || text == "" {
		return nil, err
	}
	where := filepath.Join(v.cfg.Dir, keyFile)
	if item := text; strings.HasPrefix(item, string(Keyring)+":") {
		ref, err := ParseRef(item)
		if err != nil {
			return nil, v.badKey(where)
		}
		if where, text = item, v.unlocked[item]; text == "" {
			if text, err = v.cfg.Ring.get(ctx, ref.Service, ref.Account); err != nil {
				if fault.From(err).Code == "credential-missing" {
					return nil, v.badKey(item)
				}
				return nil, err
			}
			v.unlocked[item] = text
		}
	}
	key, err := age.ParseX25519Identity(text)
	if err != nil {
		return nil, v.badKey(where)
	}
	return key, nil
}

// makeKey makes the key, in the keyring if that works now. It is durable before anything is encrypted to it; killed in
// between, an item of the keyring that nobody names is all that is left.
func (v *Vault) makeKey(ctx context.Context) (*age.X25519Identity, error) {
	if err := v.cfg.MakeDir(v.cfg.Dir); err != nil {
		return nil, err
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fault.New(fault.Internal, "secret-store-key").Saying("no key can be made for the store").Because(err)
	}
	text := key.String()
	if item, ok := v.toRing(ctx, text); ok {
		v.unlocked[item] = text
		text = item
	}
	crash.Point("secret.key-made")
	if err := v.replace(keyFile, []byte(text+"\n")); err != nil {
		return nil, err
	}
	crash.Point("secret.key-kept")
	return key, nil
}

// toRing puts the key into the keyring and looks whether it is there. False: it cannot stay there, for whatever reason.
func (v *Vault) toRing(ctx context.Context, text string) (item string, ok bool) {
	suffix := make([]byte, 8)
	_, _ = rand.Read(suffix) // never fails
	ref := Ref{Kind: Keyring, Service: ringService, Account: "store-" + hex.EncodeToString(suffix)}
	if v.cfg.Ring.set(ctx, ref.Service, ref.Account, text) != nil {
		return "", false
	}
	got, err := v.cfg.Ring.get(ctx, ref.Service, ref.Account)
	return ref.String(), err == nil && got == text
}

// limited reads a file of at most limit bytes.
func limited(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}
