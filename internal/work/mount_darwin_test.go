package work

import "errors"

func bind(string, string) error { return errors.ErrUnsupported }
