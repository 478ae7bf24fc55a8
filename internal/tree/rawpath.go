package tree

import "mcpx/internal/text"

// RawPath is a path in a row that is kept as JSON, which has no room for bytes that are no UTF-8.
type RawPath string

// MarshalText writes the path percent-encoded.
func (p RawPath) MarshalText() ([]byte, error) { return []byte(text.EncodePath(string(p))), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *RawPath) UnmarshalText(encoded []byte) error {
	path, err := text.DecodePath(string(encoded))
	*p = RawPath(path)
	return err
}
