package atomicfile

import (
	"errors"
	"io/fs"
)

// LookAt tells the facts of the regular file at path; false: there is none.
func LookAt(path string) (Facts, bool, error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Facts{}, false, nil
	}
	if err != nil {
		return Facts{}, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Facts{}, false, err
	}
	facts, err := factsOf(f, info)
	return facts, true, err
}
