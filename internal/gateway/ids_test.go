package gateway

import (
	"bytes"
	"testing"

	"mcpx/internal/rpc"
)

func TestWireID(t *testing.T) {
	for _, w := range []wireID{
		{Epoch: 1, Kind: idLegacy, Session: "abcdefghijkl", Orig: []byte("0")},
		{Epoch: 1, Kind: idLegacy, Session: "abcdefghijkl", Orig: []byte(`"0"`)},
		{Epoch: 99, Kind: idModern, Stream: "1z", Orig: []byte("-5")},
		{Epoch: 1 << 40, Kind: idBridge, Orig: []byte(`"q\u0062"`)},
		{Epoch: 0, Kind: idOwn, Orig: []byte(`""`)},
		{Epoch: 3, Kind: idModern, Stream: "x", Orig: []byte("12345678901234567890")},
	} {
		raw := w.encode()
		if _, err := rpc.Scan(append(append([]byte(`{"jsonrpc":"2.0","result":{},"id":`), raw...), '}')); err != nil {
			t.Errorf("%s is no id: %v", raw, err)
		}
		got, ok := decodeID(raw)
		if !ok || got.Epoch != w.Epoch || got.Kind != w.Kind || got.Session != w.Session || got.Stream != w.Stream || !bytes.Equal(got.Orig, w.Orig) {
			t.Errorf("decode(%s) = %+v, %v; want %+v", raw, got, ok, w)
		}
	}
}

func TestDecodeIDRefuses(t *testing.T) {
	for _, raw := range []string{
		``, `5`, `"x"`, `"mx1."`, `"mx1.1.l.-.-"`, `"mx1.1.q.-.-.i0"`, `"mx1.01.l.-.-.i0"`, `"mx1.1.l.-.-.rMA"`, `"mx1.1.l.-.-.i"`, `"mx1.1.l..-.i0"`, `"mx1.1.l.-.-.r!"`,
	} {
		if w, ok := decodeID([]byte(raw)); ok {
			t.Errorf("decode(%s) = %+v, want refusal", raw, w)
		}
	}
}

// FuzzDecodeID: what decodes, encodes to the same bytes, so no two inputs share an id.
func FuzzDecodeID(f *testing.F) {
	f.Add([]byte(`"mx1.1.l.abcdefghijkl.-.i0"`))
	f.Add([]byte(`"mx1.z.m.-.1z.rIngi"`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, ok := decodeID(raw)
		if ok && !bytes.Equal(w.encode(), raw) {
			t.Errorf("%s decodes and encodes to %s", raw, w.encode())
		}
	})
}

func TestKeepsOwnID(t *testing.T) {
	for raw, want := range map[string]bool{
		"0": true, "-1": true, `""`: true, `"a"`: true, "999999999999999": true,
		"9007199254740993": false, "12345678901234567890": false, `"mx1.1.l.-.-.i0"`: false,
	} {
		if got := keepsOwnID([]byte(raw)); got != want {
			t.Errorf("keepsOwnID(%s) = %v, want %v", raw, got, want)
		}
	}
}
