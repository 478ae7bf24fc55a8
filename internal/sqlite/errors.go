package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"mcpx/internal/fault"
)

// describe turns a driver error into a fault. What is a fault already stays as it is.
func describe(err error, path string) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return fault.New(fault.Internal, "store-failed").Saying("the database %s failed", path).Because(err)
	}
	switch e.Code() & 0xff { // the primary code; the rest tells which system call
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return fault.New(fault.Busy, "store-busy").
			Saying("another process holds the database %s", path).
			Hinting("close the program that has it open and try again").Retrying(fault.AfterWait).Because(err)
	case lib.SQLITE_FULL:
		return fault.New(fault.Unavailable, "store-full").
			Saying("no space left to write the database %s", path).
			Hinting("free some disk space; nothing was written").Retrying(fault.AfterFix).Because(err)
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return corrupt(path).Because(err)
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_READONLY:
		return fault.New(fault.Unavailable, "store-unusable").
			Saying("the database %s cannot be used", path).
			Hinting("check that the disk works and that the file and its directory belong to you").Because(err)
	}
	return fault.New(fault.Internal, "store-failed").Saying("the database %s failed", path).Because(err)
}

func corrupt(path string) *fault.Error {
	return fault.New(fault.Unavailable, "store-corrupt").
		Saying("%s is damaged or no database", path).
		Hinting("move it away and put the newest copy of the backups directory in its place; keep the damaged file")
}

// isConstraint tells a violated rule of the schema from a failing database.
func isConstraint(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code()&0xff == lib.SQLITE_CONSTRAINT
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// texts reads the first column of all rows.
func texts(ctx context.Context, q querier, query string, args ...any) (_ []string, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// orphans reads the rows of foreign_key_check: the pragma succeeds whatever it finds.
func orphans(ctx context.Context, q querier, path string) error {
	tables, err := texts(ctx, q, `SELECT "table" FROM pragma_foreign_key_check LIMIT 20`)
	if err != nil {
		return describe(err, path)
	}
	if len(tables) > 0 {
		return corrupt(path).Because(fmt.Errorf("rows without their parent in %v", tables))
	}
	return nil
}
