package secret

import (
	"context"

	"mcpx/internal/fault"
)

// What a sign-in consists of is kept as one record, because its parts are of no use without each other: half a change would
// be a refresh token at the wrong server. Names of records have a slash, which no name of a credential has.

// recordLabel stands for the secrets of records in redacted text.
const recordLabel = "sign-in"

// Record gives a record that was kept, "" when there is none.
func (r *Resolver) Record(ctx context.Context, name string) (string, error) {
	text, err := r.cfg.Vault.get(ctx, name)
	if err != nil && fault.From(err).Code == "credential-missing" {
		return "", nil
	}
	return text, err
}

// KeepRecord keeps a record durably, in place of the one before. Hidden are the secrets in it.
func (r *Resolver) KeepRecord(ctx context.Context, name, record string, hidden ...string) error {
	if len(record) > maxValue {
		return fault.New(fault.Invalid, "credential-invalid").Saying("what is to be kept has %d bytes, at most %d are allowed", len(record), maxValue).
			Hinting("the server gives tokens that are larger than any request can carry")
	}
	r.Hide(hidden...) // before anything else may tell them
	_, err := r.cfg.Vault.put(ctx, name, record)
	return err
}

// Hide keeps values out of what is shown and logged.
func (r *Resolver) Hide(values ...string) {
	for _, value := range values {
		r.cfg.Redactor.AddPassing(recordLabel, value)
	}
}
