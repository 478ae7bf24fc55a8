package gateway

import (
	"bytes"
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// TestTags: whatever a client calls its request and its progress, a later daemon reads it back from the journal.
func TestTags(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			got := make(chan Outbound, 1)
			mc := newMachine(t, both(func(e *catalog.Server) { e.Limits.Call = -1 }, kind.edit), toolCalls(got))
			x := initialize(t, mc.s, "2025-11-25", "{}")
			for _, id := range append(oddIDs, "0", "-5", `""`, strings.Repeat("7", 60)) {
				for _, token := range []string{"", id, "1", `"t"`, `"mx1.t"`, "9007199254740993"} {
					meta := ""
					if token != "" {
						meta = `"_meta":{"progressToken":` + token + `},`
					}
					send(t, x, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{`+meta+`"name":"a"}}`)
					m := <-got
					msg := scan(t, m.Body)
					k, ok := readTag(m.Tag, msg.ID.Of(m.Body))
					switch {
					case !ok || k.kind != tagSession || k.short != x.short:
						t.Errorf("the tag of %s is %q", id, m.Tag)
					case string(k.id) != id || string(k.token) != token || string(k.upToken) != string(msg.ProgressToken.Of(m.Body)):
						t.Errorf("%s with token %s was read as %s, %s, %s", id, token, k.id, k.token, k.upToken)
					case len(m.Tag) > maxTag:
						t.Errorf("the tag of %.20s has %d bytes", id, len(m.Tag))
					}
					mc.k.newest().result(m, msg, `{}`)
					eventually(t, "it ended", func() bool { return inFlight(mc.s) == 0 })
				}
			}
		})
	}
}

// FuzzTag: a tag that another version or a broken disk wrote is refused or read, and what is read can be used as an id.
func FuzzTag(f *testing.F) {
	f.Add([]byte("s0123456789ab="), []byte("7"))
	f.Add(tagSection(tagSection([]byte("s0123456789ab"), tagToken, []byte(`"t"`)), tagUpstream, []byte("5")), []byte(`"mx1.1.l.0123456789ab.-.i1"`))
	f.Add(tagSection([]byte{tagBridge}, tagParked, []byte(`{}`)), []byte("1"))
	f.Add([]byte("st"), []byte(`"`))
	f.Fuzz(func(t *testing.T, tag, id []byte) {
		k, ok := readTag(tag, id)
		if !ok {
			return
		}
		if len(tag) > 0 && k.kind != tag[0] {
			t.Errorf("kind %q of %q", k.kind, tag)
		}
		again := []byte{k.kind}
		if k.kind == tagSession {
			again = append(again, k.short...)
		}
		if k.token != nil {
			again = tagSection(tagSection(again, tagToken, k.token), tagUpstream, k.upToken)
		}
		if k.kind == 0 || len(again) > maxTag || len(k.token)+len(k.upToken) > maxTag/2 {
			return
		}
		twice, ok := readTag(again, id)
		if !ok || !bytes.Equal(twice.token, k.token) || !bytes.Equal(twice.upToken, k.upToken) || twice.short != k.short {
			t.Errorf("%q was read as %+v and then as %+v", tag, k, twice)
		}
	})
}

// TestTagBound: what does not fit is left out, and the request is then nobody's rather than another's.
func TestTagBound(t *testing.T) {
	long := []byte(`"` + strings.Repeat("x", maxOrig+100) + `"`)
	w := wireID{Epoch: 1, Kind: idLegacy, Session: "0123456789ab", Orig: origOf(long)}
	tag := tagSection([]byte("s0123456789ab"), tagID, long)
	if len(tag) > maxTag {
		t.Errorf("the tag has %d bytes", len(tag))
	}
	if k, ok := readTag(tag, w.encode()); ok {
		t.Errorf("a request whose id is not known was read as %+v", k)
	}
	if _, ok := rpc.IDKey(w.encode()); !ok {
		t.Error("the id cannot be sent")
	}
}
