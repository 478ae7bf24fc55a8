//go:build !linux

package process

// ScopeCommand is nil: there is no systemd here.
func ScopeCommand([]string) ([]string, error) { return nil, nil }
