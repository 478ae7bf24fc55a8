//go:build !linux && !darwin

package atomicfile

// exchange: no system call is known here, so a swap falls back to links.
func exchange(string, string) error { return ErrNoExchange }

func move(string, string) error { return ErrNoExchange }

func settled(path string) (Content, error) { return settledTwice(path) }
