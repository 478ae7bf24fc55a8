package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
)

// A tag travels with a request into the journal of its supervisor and tells a later daemon whose call it is
// (protocol.md section 5). It begins with a kind; sections follow, each a letter, a length and bytes.
const (
	tagSession = 's' // a call of a legacy session: the short key of the session follows
	tagModern  = 'm' // a call of a modern client
	tagBridge  = 'b' // a call of a modern client on a legacy server
)

// The sections of a tag. A request of the gateway's own has no tag.
const (
	tagSame     = '=' // the progress token is the id, and the server sees both as they are; no length follows
	tagToken    = 't' // the client's raw progress token
	tagUpstream = 'u' // the raw token that the server sees, when it is another
	tagID       = 'i' // the client's raw id, when the id that the server sees does not hold it
	tagParked   = 'k' // key, caller and digest of a call that may be parked, as JSON
)

// maxTag is what the journal keeps with an entry (supervisor.md section 4). A section that does not fit is left out:
// then the progress of the call cannot be passed on after a restart, or the call itself cannot be found.
const maxTag = 512

// tagSection adds one section.
func tagSection(tag []byte, letter byte, data []byte) []byte {
	if len(tag)+3+len(data) > maxTag {
		return tag
	}
	tag = binary.BigEndian.AppendUint16(append(tag, letter), uint16(len(data)))
	return append(tag, data...)
}

// keptTag is a tag that was read back.
type keptTag struct {
	kind    byte   // 0: a request of the gateway's own
	short   string // of the session whose call it is, "" for others
	id      []byte // the client's raw id
	token   []byte // the client's raw progress token, nil for none
	upToken []byte // the raw token that the server sees
	parked  []byte
	wire    wireID // the id that the server sees, when the gateway made it
}

// readTag reads the tag of a request with the given id towards the server. False: it cannot be attributed.
func readTag(tag, id []byte) (keptTag, bool) {
	if len(tag) == 0 {
		return keptTag{}, true
	}
	t := keptTag{kind: tag[0]}
	rest := tag[1:]
	switch t.kind {
	case tagSession:
		if len(rest) < shortKeyLen {
			return t, false
		}
		t.short, rest = string(rest[:shortKeyLen]), rest[shortKeyLen:]
	case tagModern, tagBridge:
	default:
		return t, false
	}
	w, ours := decodeID(id)
	t.id = id
	if ours {
		t.wire, t.id = w, w.Orig
	}
	for len(rest) > 0 {
		letter := rest[0]
		if letter == tagSame {
			t.token, t.upToken, rest = id, id, rest[1:]
			continue
		}
		if len(rest) < 3 {
			return t, false
		}
		n := int(binary.BigEndian.Uint16(rest[1:]))
		if len(rest) < 3+n {
			return t, false
		}
		data := bytes.Clone(rest[3 : 3+n])
		rest = rest[3+n:]
		switch letter {
		case tagToken:
			t.token = data
			if t.upToken == nil {
				t.upToken = data
			}
		case tagUpstream:
			t.upToken = data
		case tagID:
			t.id = data
		case tagParked:
			t.parked = data
		}
	}
	if t.token == nil {
		t.upToken = nil // nobody asked for progress
	}
	return t, !bytes.HasPrefix(t.id, []byte(`"sha256:`)) || !ours
}

// tagOf is what a later daemon needs to know of the call beside the id that the server sees. For most calls that is the
// session alone.
func (x *Session) tagOf(c *call) []byte {
	hidden := string(c.upID) != string(c.id) && (len(c.id) > maxOrig || c.upID[0] != '"') // the server's id does not hold the client's
	switch {
	case hidden:
	case c.token == nil:
		return x.tag
	case string(c.token) == string(c.id) && string(c.upRaw) == string(c.upID) && string(c.upID) == string(c.id):
		return x.tagSame
	}
	tag := append(make([]byte, 0, len(x.tag)+9+len(c.id)+len(c.token)+len(c.upRaw)), x.tag...)
	if hidden {
		tag = tagSection(tag, tagID, c.id)
	}
	return tagTokens(tag, c)
}

// tagTokens adds the progress token of a call.
func tagTokens(tag []byte, c *call) []byte {
	if c.token == nil {
		return tag
	}
	tag = tagSection(tag, tagToken, c.token)
	if string(c.upRaw) != string(c.token) {
		tag = tagSection(tag, tagUpstream, c.upRaw)
	}
	return tag
}

// modernTag is what a later daemon needs to know of the call beside the id that the server sees.
func modernTag(c *call) []byte {
	if c.token == nil && len(c.id) <= maxOrig && c.upID[0] == '"' {
		return modernTagPlain
	}
	tag := []byte{tagModern}
	if len(c.id) > maxOrig || c.upID[0] != '"' {
		tag = tagSection(tag, tagID, c.id)
	}
	return tagTokens(tag, c)
}

var modernTagPlain = []byte{tagModern}

// parkedTag is what the journal keeps of a modern client's call on a legacy server.
type parkedTag struct {
	Key       string          `json:"k"` // of the sealed state
	Principal string          `json:"p"`
	Digest    string          `json:"d"`
	Caps      json.RawMessage `json:"c,omitempty"` // what the client can be asked
	Level     int             `json:"l"`
	URI       json.RawMessage `json:"u,omitempty"` // params.uri, for the error of a missing resource
}

// bridgeTag is modernTag for a call on a legacy server.
func bridgeTag(b *bridged, c *call) []byte {
	caps, err := json.Marshal(b.caps)
	if err != nil {
		panic("gateway: capabilities do not encode: " + err.Error())
	}
	p := parkedTag{Key: b.key, Principal: b.m.req.Caller.Principal, Digest: b.digest, Caps: caps, Level: b.level}
	const maxURI = 128
	if uri := b.m.req.Msg.URI.Of(b.m.req.Body); uri != nil && len(uri) <= maxURI {
		p.URI = uri
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic("gateway: a tag does not encode: " + err.Error())
	}
	tag := tagSection([]byte{tagBridge}, tagParked, raw)
	if len(c.id) > maxOrig || c.upID[0] != '"' {
		tag = tagSection(tag, tagID, c.id)
	}
	return tagTokens(tag, c)
}
