//go:build !linux && !darwin

package tree

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// Nothing is served on this system: every call says so.

func isNotDir(error) bool   { return false }
func isNotEmpty(error) bool { return false }
func isNoSpace(error) bool  { return false }
func isReadOnly(error) bool { return false }
func isCrossing(error) bool { return false }
func isLoop(error) bool     { return false }
func isBadName(error) bool  { return false }
func isTooLong(error) bool  { return false }
func isUncloned(error) bool { return true }

func openRoot(string) (*os.File, error)                 { return nil, errors.ErrUnsupported }
func enter(*os.File, string) (*os.File, error)          { return nil, errors.ErrUnsupported }
func openContent(*os.File, string) (*os.File, error)    { return nil, errors.ErrUnsupported }
func openListing(*os.File) (*os.File, error)            { return nil, errors.ErrUnsupported }
func create(*os.File, string) (*os.File, error)         { return nil, errors.ErrUnsupported }
func readlink(*os.File, string) (string, error)         { return "", errors.ErrUnsupported }
func symlinkAt(string, *os.File, string) error          { return errors.ErrUnsupported }
func mkdirAt(*os.File, string, fs.FileMode) error       { return errors.ErrUnsupported }
func unlinkAt(*os.File, string) error                   { return errors.ErrUnsupported }
func rmdirAt(*os.File, string) error                    { return errors.ErrUnsupported }
func linkAt(*os.File, string, *os.File, string) error   { return errors.ErrUnsupported }
func renameAt(*os.File, string, *os.File, string) error { return errors.ErrUnsupported }
func regroup(*os.File, uint32) error                    { return errors.ErrUnsupported }
func look(*os.File, string) (Facts, error)              { return Facts{}, errors.ErrUnsupported }
func factsOf(*os.File) (Facts, error)                   { return Facts{}, errors.ErrUnsupported }
func volumeOf(*os.File, string) (volume, error)         { return volume{}, errors.ErrUnsupported }

func entriesIn(*os.File) ([]entry, error) { return nil, errors.ErrUnsupported }

func readSmall(*os.File, string, []byte, int64) ([]byte, Facts, error) {
	return nil, Facts{}, errors.ErrUnsupported
}

func writeSmall(*os.File, string, []byte, fs.FileMode, time.Time) (Facts, error) {
	return Facts{}, errors.ErrUnsupported
}

func ownedBy(*os.File, int) bool { return false }

// Writable says why no file can be made in a directory; nil: one can.
func Writable(string) error { return errors.ErrUnsupported }
