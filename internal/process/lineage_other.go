//go:build !linux && !darwin

package process

func parentOf(int) (int, error) { return 0, ErrUnknown }

// TerminalOf is the name of the device of a process's controlling terminal, "" when it has none. ErrGone, ErrUnknown.
func TerminalOf(int) (string, error) { return "", ErrUnknown }
