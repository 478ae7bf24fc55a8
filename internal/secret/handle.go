// Package secret decides how a credential reference becomes a value, and how a value is kept out of everything that is
// shown or stored. It refuses to know who needs a value, and it starts no process itself: a Runner does.
//
// Invariant: a Handle prints as "secret(redacted)" through every verb, logger and encoder; only Reveal gives the value.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// shown is all that a Handle says about itself.
const shown = "secret(redacted)"

// Handle holds a value until the last moment. The zero Handle holds the empty value.
//
// The value lies behind a pointer: fmt calls no method on an unexported field of another struct, but prints only the
// address of what such a field points to (TestHandleHides/field).
type Handle struct{ value *string }

// Hold wraps a value that was found elsewhere, for example in another program's file.
func Hold(value string) Handle { return Handle{value: &value} }

// Reveal gives the value. Call it where the value leaves the process for its one destination, and nowhere else.
func (h Handle) Reveal() string {
	if h.value == nil {
		return ""
	}
	return *h.value
}

// String hides the value.
func (Handle) String() string { return shown }

// GoString hides the value.
func (Handle) GoString() string { return shown }

// Format hides the value from every verb, %x and %d too.
func (Handle) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, shown) // fmt.State has no error to give
}

// LogValue hides the value.
func (Handle) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalText hides the value from every text encoder.
func (Handle) MarshalText() ([]byte, error) { return []byte(shown), nil }

// MarshalJSON hides the value.
func (Handle) MarshalJSON() ([]byte, error) { return []byte(`"` + shown + `"`), nil }
