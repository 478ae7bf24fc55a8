package era

import (
	"encoding/base64"
	"hash/fnv"
	"strconv"
)

// maxStreamName bounds the name of a stream; a longer request id is hashed.
const maxStreamName = 48

// StreamName names the stream of a request in event ids (protocol.md section 8). It is made from the raw id alone, so
// that a later daemon, and a client that never received an event, know it too.
func StreamName(id []byte) string {
	if name := "r" + base64.RawURLEncoding.EncodeToString(id); len(name) <= maxStreamName {
		return name
	}
	h := fnv.New64a()
	_, _ = h.Write(id) // never fails
	return "h" + strconv.FormatUint(h.Sum64(), 36)
}

// RejoinID is the event id with which a client asks for the outcome of a request of which it has seen no event. Epochs
// are counted from 1: 0 stands for whatever daemon sent the request on. It holds the id whole, however long it is: of a
// request that no daemon has heard of, the answer still needs the id.
func RejoinID(id []byte) string {
	return "r" + base64.RawURLEncoding.EncodeToString(id) + ".0.0"
}
