package clientfile

import "mcpx/internal/fault"

// spliceTOML gives the spans that make the changes of ops in a TOML document.
func spliceTOML(_ []byte, ops []op) ([]span, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	return nil, fault.New(fault.Unavailable, "unsupported-file").Saying("TOML is not edited yet")
}
