package control

import (
	"context"
	"sync"

	"mcpx/internal/fault"
	"mcpx/internal/secret"
)

// fakeSecrets keeps values in a map; a reference that is no stored one is missing, unless ready says otherwise.
type fakeSecrets struct {
	mu     sync.Mutex
	values map[string]string
	ready  map[string]error // by reference
	ring   error
	runs   map[string]bool // references that run a program
}

func newFakeSecrets() *fakeSecrets {
	return &fakeSecrets{values: map[string]string{}, ready: map[string]error{}, runs: map[string]bool{}}
}

func (f *fakeSecrets) Check(_ context.Context, ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err, ok := f.ready[ref]; ok {
		return err
	}
	return fault.New(fault.Unavailable, "credential-missing").Saying("nothing is there")
}

func (f *fakeSecrets) Quiet(_ context.Context, ref string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.runs[ref], nil
}

func (f *fakeSecrets) Keep(_ context.Context, name string, value secret.Handle) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := f.values[name] != value.Reveal()
	f.values[name], f.ready["cred:"+name] = value.Reveal(), nil
	return changed, nil
}

func (f *fakeSecrets) Holds(_ context.Context, name string, value secret.Handle) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values[name] == value.Reveal(), nil
}

func (f *fakeSecrets) Forget(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.values, name)
	delete(f.ready, "cred:"+name)
	return nil
}

func (f *fakeSecrets) KeyPlace() (secret.KeyPlace, error) { return secret.KeyInFile, nil }

func (f *fakeSecrets) RingUsable(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ring
}
