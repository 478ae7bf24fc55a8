package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/atomicfile"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// today is the clock of these tests.
var today = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// records are the credentials of these tests.
func records(_ context.Context, name string) (catalog.Credential, error) {
	all := map[string]catalog.Credential{
		"file": {Ref: "file:~/whole"}, "stored": {Ref: "store:kept"}, "ring": {Ref: "keyring:svc/ada"}, "gone": {Ref: "env:NONE"},
		"young": {Ref: "env:TOKEN", Expires: today.Add(time.Hour)}, "old": {Ref: "env:TOKEN", Expires: today}, "round": {Ref: "cred:file"},
		"runs": {Ref: "command:pass"},
	}
	c, ok := all[name]
	if !ok {
		return c, catalog.CredentialUnknown(name)
	}
	c.Name = name
	return c, nil
}

// fakeRing is a keyring in memory. Services that are called shut, deny and broken fail in their way.
type fakeRing struct {
	mu    sync.Mutex
	items map[string]string // by service/account
	err   error             // of everything
	hang  chan struct{}     // not nil: calls wait for its end, whatever their context says
	calls int
}

func (f *fakeRing) enter(service string) error {
	if f.hang != nil {
		<-f.hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.err != nil {
		return f.err
	}
	return map[string]error{"shut": errLocked, "deny": errDenied, "broken": errors.New("bus error")}[service]
}

func (f *fakeRing) get(_ context.Context, service, account string) (string, error) {
	if err := f.enter(service); err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.items[service+"/"+account]
	if !ok {
		return "", errNoItem
	}
	return v, nil
}

func (f *fakeRing) set(_ context.Context, service, account, value string) error {
	if err := f.enter(service); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items[service+"/"+account] = value
	return nil
}

func newVault(t testing.TB, dir string, r *Ring) *Vault {
	t.Helper()
	v, err := NewVault(VaultConfig{
		Dir: dir, Ring: r, MakeDir: func(dir string) error { return os.MkdirAll(dir, 0o700) },
		Replace: func(path string, data []byte) error { return atomicfile.Write(path, data, 0o600) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func keep(t *testing.T, v *Vault, name, value string) {
	t.Helper()
	if changed, err := v.put(t.Context(), name, value); err != nil || !changed {
		t.Fatalf("put %s: %v, %v", name, changed, err)
	}
}

func holds(t *testing.T, v *Vault, name, want string) {
	t.Helper()
	if got, err := v.get(t.Context(), name); err != nil || got != want {
		t.Errorf("%s is %q, %v; want %q", name, got, err, want)
	}
}

func TestVault(t *testing.T) {
	for _, c := range []struct {
		name  string
		ring  *fakeRing
		place KeyPlace
	}{
		{"without a keyring", &fakeRing{err: errNoRing}, KeyInFile},
		{"locked keyring", &fakeRing{err: errLocked}, KeyInFile},
		{"keyring", &fakeRing{items: map[string]string{}}, KeyInKeyring},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "secrets")
			ring := newRing(c.ring, keyringTime)
			v := newVault(t, dir, ring)
			if place, err := v.KeyPlace(); err != nil || place != KeyNowhere {
				t.Errorf("before the first value: %s, %v", place, err)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("something was made for nothing: %v", err)
			}
			keep(t, v, "a", hidden)
			keep(t, v, "b", "other\nline ü")
			if changed, err := v.put(t.Context(), "a", hidden); err != nil || changed {
				t.Errorf("the same again: %v, %v", changed, err)
			}
			again := newVault(t, dir, ring) // another daemon
			holds(t, again, "a", hidden)
			holds(t, again, "b", "other\nline ü")
			if place, err := again.KeyPlace(); err != nil || place != c.place {
				t.Errorf("the key is in %s, %v; want %s", place, err, c.place)
			}
			if err := errors.Join(again.remove(t.Context(), "a"), again.remove(t.Context(), "a"), again.remove(t.Context(), "never")); err != nil {
				t.Error(err)
			}
			_, err := v.get(t.Context(), "a")
			wantFault(t, "removed", err, fault.Unavailable, "credential-missing", "credential set a")
			holds(t, v, "b", "other\nline ü")
			private(t, dir)
		})
	}
}

// private checks that everything below a directory is the owner's alone and shows no value.
func private(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 || bytes.Contains(data, []byte("hunter2")) {
			t.Errorf("%s has mode %v and may hold a value: %q", f.Name(), info.Mode(), data)
		}
	}
	if len(files) != 2 {
		t.Errorf("%d files, want the store and its key", len(files))
	}
}

// TestVaultIsDamaged: nothing is read, made anew or written over what cannot be read.
func TestVaultIsDamaged(t *testing.T) {
	other := newVault(t, filepath.Join(t.TempDir(), "other"), newRing(&fakeRing{err: errNoRing}, keyringTime))
	keep(t, other, "a", "x")
	foreign := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(other.cfg.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	edit := func(name string, change func([]byte) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir string)
		kind fault.Kind
		code string
		ring func(*fakeRing) // nil: the key is in a file
	}{
		"one bit":      {edit(vaultFile, func(b []byte) []byte { b[len(b)-5] ^= 1; return b }), fault.Unavailable, "secret-store-damaged", nil},
		"header":       {edit(vaultFile, func(b []byte) []byte { b[30] ^= 1; return b }), fault.Unavailable, "secret-store-", nil},
		"cut":          {edit(vaultFile, func(b []byte) []byte { return b[:len(b)-1] }), fault.Unavailable, "secret-store-damaged", nil},
		"empty":        {edit(vaultFile, func([]byte) []byte { return nil }), fault.Unavailable, "secret-store-damaged", nil},
		"no age file":  {edit(vaultFile, func([]byte) []byte { return []byte("hunter2") }), fault.Unavailable, "secret-store-damaged", nil},
		"too large":    {edit(vaultFile, func([]byte) []byte { return make([]byte, maxVault+1) }), fault.Unavailable, "secret-store-damaged", nil},
		"other store":  {edit(vaultFile, func([]byte) []byte { return foreign(vaultFile) }), fault.Unavailable, "secret-store-key", nil},
		"wrong key":    {edit(keyFile, func([]byte) []byte { return foreign(keyFile) }), fault.Unavailable, "secret-store-key", nil},
		"no key":       {edit(keyFile, func([]byte) []byte { return []byte("hunter2\n") }), fault.Unavailable, "secret-store-key", nil},
		"key is empty": {edit(keyFile, func([]byte) []byte { return nil }), fault.Unavailable, "secret-store-key", nil},
		"key is gone": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, keyFile)); err != nil {
				t.Fatal(err)
			}
		}, fault.Unavailable, "secret-store-key", nil},
		"key is open": {func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, keyFile), 0o644); err != nil {
				t.Fatal(err)
			}
		}, fault.Denied, "credential-permissions", nil},
		"item is gone":      {nil, fault.Unavailable, "secret-store-key", func(f *fakeRing) { clear(f.items) }},
		"keyring is locked": {nil, fault.Unavailable, "credential-locked", func(f *fakeRing) { f.err = errLocked }},
		"keyring is gone":   {nil, fault.Unavailable, "keyring-unavailable", func(f *fakeRing) { f.err = errNoRing }},
	} {
		t.Run(name, func(t *testing.T) {
			dir, fake := filepath.Join(t.TempDir(), "secrets"), &fakeRing{items: map[string]string{}}
			if c.ring == nil {
				fake.err = errNoRing
			}
			keep(t, newVault(t, dir, newRing(fake, keyringTime)), "a", hidden)
			if c.ring != nil {
				c.ring(fake)
			} else {
				c.do(t, dir)
			}
			before := tree(t, dir)
			v := newVault(t, dir, newRing(fake, keyringTime))
			_, getErr := v.get(t.Context(), "a")
			_, putErr := v.put(t.Context(), "b", "new")
			for what, err := range map[string]error{"get": getErr, "put": putErr, "remove": v.remove(t.Context(), "a")} {
				f := fault.From(err)
				if f == nil || f.Kind != c.kind || !strings.HasPrefix(f.Code, c.code) || f.Hint == "" || strings.Contains(f.Error(), "hunter2") {
					t.Errorf("%s: %v, want %s %s", what, err, c.kind, c.code)
				}
			}
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("what could not be read was changed: %s", d)
			}
		})
	}
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = string(data)
	}
	return all
}

// TestVaultIsFull: a store that would not be read again is not written.
func TestVaultIsFull(t *testing.T) {
	v := newVault(t, t.TempDir(), newRing(&fakeRing{err: errNoRing}, keyringTime))
	keep(t, v, "a", hidden)
	_, err := v.put(t.Context(), "b", strings.Repeat("x", maxVault))
	wantFault(t, "too much", err, fault.Invalid, "secret-store-full", "remove")
	holds(t, v, "a", hidden)
	v.cfg.Replace = func(string, []byte) error { return errors.New("disk full") }
	_, err = v.put(t.Context(), "b", "x")
	wantFault(t, "disk full", err, fault.Unavailable, "state-unwritable", "free space")
	holds(t, v, "a", hidden)
}

func TestVaultConcurrently(t *testing.T) {
	v := newVault(t, t.TempDir(), newRing(&fakeRing{err: errNoRing}, keyringTime))
	const writers, each = 8, 5
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range each {
				name := fmt.Sprintf("w%d-%d", w, n)
				if _, err := v.put(t.Context(), name, "value of "+name); err != nil {
					t.Error(err)
				}
				if got, err := v.get(t.Context(), name); err != nil || got != "value of "+name {
					t.Errorf("%s: %q, %v", name, got, err)
				}
				if n == 0 {
					if err := v.remove(t.Context(), name); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	c, _, err := v.read(t.Context())
	if err != nil || len(c.Values) != writers*(each-1) {
		t.Errorf("%d values, %v; want %d", len(c.Values), err, writers*(each-1))
	}
}

// TestRingHangs: a keyring that does not answer costs one wait and one goroutine, and works again when it answers.
func TestRingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeRing{items: map[string]string{"s/a": hidden}, hang: make(chan struct{})}
		r := newRing(fake, keyringTime)
		start := time.Now()
		_, err := r.get(t.Context(), "s", "a")
		wantFault(t, "first", err, fault.Unavailable, "keyring-unavailable", "credential set")
		if waited := time.Since(start); waited != keyringTime {
			t.Errorf("waited %s", waited)
		}
		for range 3 {
			wantFault(t, "later", r.usable(t.Context()), fault.Unavailable, "keyring-unavailable", "credential set")
		}
		if waited := time.Since(start); waited != keyringTime {
			t.Errorf("later callers waited, too: %s", waited)
		}
		close(fake.hang)
		synctest.Wait()
		if fake.calls != 1 {
			t.Errorf("%d calls, want the one that hung", fake.calls)
		}
		if got, err := r.get(t.Context(), "s", "a"); err != nil || got != hidden {
			t.Errorf("after it answered: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.get(ctx, "s", "a"); err != nil && fault.KindOf(err) != fault.Canceled {
			t.Errorf("canceled: %v", err)
		}
	})
}

func TestReadiness(t *testing.T) {
	for code, want := range map[string]catalog.Readiness{
		"credential-missing": catalog.ReadinessMissing, "credential-unknown": catalog.ReadinessMissing, "credential-locked": catalog.ReadinessLocked,
		"credential-permissions": catalog.ReadinessDenied, "credential-denied": catalog.ReadinessDenied, "credential-expired": catalog.ReadinessExpired,
		"credential-unavailable": catalog.ReadinessUnavailable, "keyring-unavailable": catalog.ReadinessUnavailable,
		"secret-store-key": catalog.ReadinessUnavailable, "canceled": catalog.ReadinessUnchecked,
	} {
		if got := ReadinessOf(fault.New(fault.Unavailable, code)); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
	if got := ReadinessOf(nil); got != catalog.ReadinessReady {
		t.Errorf("no error: %s", got)
	}
}

// TestKeep: what is stored is known to the redactor, and what no variable can carry is not stored.
func TestKeep(t *testing.T) {
	r, redactor, home := resolver(t, nil)
	for what, value := range map[string]string{"credential-empty": "", "credential-invalid": "hunter2\x00" + strings.Repeat("x", maxValue)} {
		_, err := r.Keep(t.Context(), "a", Hold(value))
		if fault.From(err) == nil || fault.From(err).Code != what || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "secrets")); !os.IsNotExist(err) {
		t.Errorf("something was stored: %v", err)
	}
	if _, err := r.Keep(t.Context(), "tok", Hold(hidden)); err != nil {
		t.Fatal(err)
	}
	if got := redactor.Values(hidden); got != "[redacted:tok]" {
		t.Errorf("the redactor shows %s", got)
	}
	for value, want := range map[string]bool{hidden: true, hidden + "x": false} {
		if same, err := r.Holds(t.Context(), "tok", Hold(value)); err != nil || same != want {
			t.Errorf("holds: %v, %v", same, err)
		}
	}
	if err := r.Forget(t.Context(), "tok"); err != nil {
		t.Error(err)
	}
	if err := r.Check(t.Context(), "store:tok"); ReadinessOf(err) != catalog.ReadinessMissing {
		t.Errorf("after it was forgotten: %v", err)
	}
	if place, err := r.KeyPlace(); err != nil || place != KeyInFile {
		t.Errorf("the key is in %s, %v", place, err)
	}
	if err := r.RingUsable(t.Context()); err != nil {
		t.Errorf("the keyring: %v", err)
	}
	for ref, want := range map[string]bool{"env:X": true, "cred:file": true, "cred:runs": false, "command:x": false} {
		if quiet, err := r.Quiet(t.Context(), ref); err != nil || quiet != want {
			t.Errorf("%s: quiet %v, %v", ref, quiet, err)
		}
	}
}

func TestNewVaultNamesWhatIsMissing(t *testing.T) {
	if _, err := NewVault(VaultConfig{}); err == nil || !strings.Contains(err.Error(), "VaultConfig.Dir") {
		t.Error(err)
	}
	if _, err := NewVault(VaultConfig{Dir: "/x", MakeDir: func(string) error { return nil }, Replace: func(string, []byte) error { return nil }}); err == nil || !strings.Contains(err.Error(), "VaultConfig.Ring") {
		t.Error(err)
	}
}
