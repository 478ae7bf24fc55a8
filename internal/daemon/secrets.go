package daemon

import (
	"context"
	"path/filepath"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/catalog"
	"mcpx/internal/control"
	"mcpx/internal/secret"
	"mcpx/internal/store"
)

var _ control.Secrets = (*secret.Resolver)(nil)

// newSecrets makes what keeps and finds the values of credentials. Nothing is read before a value is needed.
func (d *Daemon) newSecrets() (*secret.Resolver, error) {
	ring := secret.OpenRing(d.cfg.Getenv)
	vault, err := secret.NewVault(secret.VaultConfig{
		Dir: filepath.Join(d.cfg.Paths.State, "secrets"), MakeDir: api.MakePrivate, Ring: ring,
		Replace: func(path string, data []byte) error { return atomicfile.Write(path, data, 0o600) },
	})
	if err != nil {
		return nil, err
	}
	return secret.New(secret.Config{
		Lookup: d.lookup, Home: d.home(), Runner: runner{home: d.home(), environ: d.cfg.Environ}, Redactor: &d.redact,
		Ring: ring, Vault: vault, Credential: d.credential, Now: d.cfg.Now,
	})
}

// credential finds the record of a credential.
func (d *Daemon) credential(ctx context.Context, name string) (c catalog.Credential, err error) {
	err = d.db.View(ctx, func(r store.Reader) error {
		var err error
		c, err = r.CredentialByName(ctx, catalog.CredentialByName{Name: name})
		return err
	})
	return c, err
}
