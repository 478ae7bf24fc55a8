package work

import (
	"context"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/secret"
	"mcpx/internal/store"
)

// purse has values by reference.
type purse struct {
	values   map[string]string
	redactor secret.Redactor
	noisy    map[string]bool // references that run a program
}

func (p *purse) Resolve(_ context.Context, ref string) (secret.Handle, error) {
	name, _ := catalog.CredentialNamed(ref)
	value, ok := p.values[name]
	if !ok {
		return secret.Handle{}, fault.New(fault.Unavailable, "credential-missing").Saying("the file /home/dev/.keys has no line %s", name)
	}
	p.redactor.Add(name, value)
	return secret.Hold(value), nil
}

func (p *purse) Check(ctx context.Context, ref string) error {
	_, err := p.Resolve(ctx, ref)
	return err
}

func (p *purse) Quiet(_ context.Context, ref string) (bool, error) {
	name, _ := catalog.CredentialNamed(ref)
	return !p.noisy[name], nil
}

// grant stores a credential.
func (d *desk) grant(t *testing.T, c catalog.Credential) {
	t.Helper()
	if err := d.db.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutCredential(t.Context(), catalog.PutCredential{Credential: c})
	}); err != nil {
		t.Fatal(err)
	}
}
