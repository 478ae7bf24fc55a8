package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// idPrefix marks ids that the gateway made. A client's own id that starts with it is rewritten even on an exclusive
// lane, so that the two can never be confused.
const idPrefix = "mx1."

// idKind says which part of the gateway made an id (protocol.md section 5).
type idKind byte

// The kinds of gateway ids.
const (
	idLegacy idKind = 'l' // a legacy session's request on a shared lane
	idModern idKind = 'm' // a modern client's request
	idBridge idKind = 'b' // a request that crossed eras
	idOwn    idKind = 'g' // the gateway's own request, and requests of a server on their way to a client
)

// wireID is an id or a progress token on a shared lane: mx1.<epoch>.<kind>.<session>.<stream>.<orig>. It encodes its
// own origin, so a later daemon can map a late answer without a table.
type wireID struct {
	Epoch   uint64
	Kind    idKind
	Session string // 12-character short key, "" for none
	Stream  string // counter of the POST for modern requests, "" for the request's own stream
	Orig    []byte // the client's raw JSON token
}

// encode renders the id as a raw JSON string; every character is safe inside quotes.
func (w wireID) encode() []byte {
	b := make([]byte, 0, 40+len(w.Orig)*2)
	b = append(b, '"')
	b = append(b, idPrefix...)
	b = strconv.AppendUint(b, w.Epoch, 36)
	b = append(b, '.', byte(w.Kind), '.')
	b = append(b, orDash(w.Session)...)
	b = append(b, '.')
	b = append(b, orDash(w.Stream)...)
	b = append(b, '.')
	if plainDigits(w.Orig) {
		b = append(b, 'i')
		b = append(b, w.Orig...)
	} else {
		b = append(b, 'r')
		b = base64.RawURLEncoding.AppendEncode(b, w.Orig)
	}
	return append(b, '"')
}

// maxOrig bounds the token that an id carries. A longer one is replaced by its digest: the id must stay below the limit
// that rpc.Scan sets for ids, on the way back too. The call in flight knows the token itself.
const maxOrig = 512

// origOf is the token as it goes into an id.
func origOf(raw []byte) []byte {
	if len(raw) <= maxOrig {
		return raw
	}
	sum := sha256.Sum256(raw)
	return fmt.Appendf(nil, `"sha256:%x"`, sum)
}

// decodeID is the inverse of encode. It refuses everything that encode does not make.
func decodeID(raw []byte) (wireID, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return wireID{}, false
	}
	body, ok := strings.CutPrefix(string(raw[1:len(raw)-1]), idPrefix)
	if !ok {
		return wireID{}, false
	}
	part := strings.Split(body, ".")
	if len(part) != 5 || len(part[1]) != 1 || part[4] == "" || part[2] == "" || part[3] == "" {
		return wireID{}, false
	}
	epoch, err := strconv.ParseUint(part[0], 36, 64)
	if err != nil || strconv.FormatUint(epoch, 36) != part[0] {
		return wireID{}, false
	}
	w := wireID{Epoch: epoch, Kind: idKind(part[1][0]), Session: fromDash(part[2]), Stream: fromDash(part[3])}
	switch w.Kind {
	case idLegacy, idModern, idBridge, idOwn:
	default:
		return wireID{}, false
	}
	switch orig := part[4]; orig[0] {
	case 'i':
		w.Orig = []byte(orig[1:])
		if !plainDigits(w.Orig) {
			return wireID{}, false
		}
	case 'r':
		w.Orig, err = base64.RawURLEncoding.Strict().DecodeString(orig[1:])
		if err != nil || plainDigits(w.Orig) {
			return wireID{}, false
		}
	default:
		return wireID{}, false
	}
	return w, true
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func fromDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// plainDigits reports whether raw is a non-empty run of decimal digits.
func plainDigits(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(raw) > 0
}

// maxSafeDigits bounds the integers that every JSON implementation keeps exactly: 15 digits are below 2^53.
const maxSafeDigits = 15

// keepsOwnID reports whether an exclusive lane may carry the client's id unchanged. Integers that a double cannot
// hold are rewritten: a JavaScript backend would answer under a rounded id (docs/decisions/0004).
func keepsOwnID(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '"' {
		return !strings.HasPrefix(string(raw[1:]), idPrefix)
	}
	digits := raw
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	return len(digits) <= maxSafeDigits
}
