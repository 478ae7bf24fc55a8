package sqlite

import (
	"context"
	"errors"
	"strings"

	"mcpx/internal/fault"
)

// ReadOnly lets no Change happen from now on: why is what each says. What is stored stays readable, and stays as it is until a
// person has decided what to do about it.
func (db *DB) ReadOnly(why error) {
	f := fault.From(why)
	db.stopped.CompareAndSwap(nil, fault.New(fault.Unavailable, "store-degraded").
		Saying("nothing is changed: %s", f.Message).Hinting("%s", f.Hint).Retrying(fault.AfterFix).Because(why))
}

// Stopped says why nothing is changed any more; nil: it is.
func (db *DB) Stopped() error {
	if why := db.stopped.Load(); why != nil {
		return why
	}
	return nil
}

// spoilt stops changes once the file turns out to be damaged.
func (db *DB) spoilt(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == "store-corrupt" {
		db.ReadOnly(f)
	}
	return err
}

// Damage reads a whole file, which may be open elsewhere, and says what is wrong with it: damage, and rows that point nowhere. It
// changes nothing.
func Damage(ctx context.Context, path string) error {
	alone := !hasWAL(path)
	err := damage(ctx, path)
	if err != nil && alone && hasWAL(path) { // somebody began to write while it was read
		err = damage(ctx, path)
	}
	return err
}

func damage(ctx context.Context, path string) (err error) {
	look, err := lookPool(path)
	if err != nil {
		return describe(err, path)
	}
	defer func() { err = errors.Join(err, look.Close()) }()
	verdicts, err := texts(ctx, look, "PRAGMA integrity_check(20)")
	switch {
	case err != nil:
		return describe(err, path)
	case len(verdicts) != 1 || verdicts[0] != "ok":
		return corrupt(path).Because(errors.New(strings.Join(verdicts, "; ")))
	}
	return orphans(ctx, look, path)
}
