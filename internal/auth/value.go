package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"strings"

	"mcpx/internal/fault"
)

// Form is a kind of token, which its beginning tells: scanners for secrets and people recognise one.
type Form string

// The forms. What is of one form never passes as another.
const (
	Prefix         = "mcpx_at_"
	OfAgent   Form = Prefix
	OfAccess  Form = "mcpx_oa_" // over OAuth
	OfRefresh Form = "mcpx_or_"
)

const (
	valueBytes    = 32 // random bytes of a token: nobody guesses 256 bits
	bodyLength    = 43 // of 32 bytes in base64url without padding
	checkedLength = 6  // of 4 bytes of checksum
)

// Value is a token as it is sent. It prints itself as its prefix only.
type Value struct {
	form Form
	text string
}

// Make makes a token from random bytes (crypto/rand.Reader in the product).
func Make(f Form, random io.Reader) (Value, error) {
	raw, err := draw(random, valueBytes)
	if err != nil {
		return Value{}, err
	}
	body := base64.RawURLEncoding.EncodeToString(raw)
	return Value{f, string(f) + body + checksum(body)}, nil
}

// draw takes random bytes.
func draw(random io.Reader, n int) ([]byte, error) {
	raw := make([]byte, n)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, fault.New(fault.Internal, "token-unmade").Saying("there are no random bytes for a token").Because(err)
	}
	return raw, nil
}

// Parse reads a token as somebody sent it. What was cut off or mistyped is told from what is unknown, without a look at
// any record.
func Parse(f Form, text string) (Value, error) {
	rest, ok := strings.CutPrefix(text, string(f))
	if !ok || len(rest) != bodyLength+checkedLength {
		return Value{}, Malformed()
	}
	body, sum := rest[:bodyLength], rest[bodyLength:]
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(raw) != valueBytes || checksum(body) != sum {
		return Value{}, Malformed()
	}
	return Value{f, text}, nil
}

func checksum(body string) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE([]byte(body)))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Reveal gives the text of the token, for the file of its agent and for the header that carries it.
func (v Value) Reveal() string { return v.text }

// Digest is what a record keeps of the token. A plain hash is enough: there are too many values to try.
func (v Value) Digest() string { return digestOf(v.text) }

// digestOf is the SHA-256 of a text, in hex.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// String keeps a token out of what is printed.
func (v Value) String() string { return string(v.form) + "[redacted]" }

// GoString is String.
func (v Value) GoString() string { return v.String() }

// MarshalText keeps a token out of JSON.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Variable is the one variable of an agent that holds its token, so that two agents in one shell stay two.
func Variable(agent string) string {
	return "MCPX_TOKEN_" + strings.ToUpper(strings.ReplaceAll(agent, "-", "_"))
}
