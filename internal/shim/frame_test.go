package shim

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeaderRoundTrip(t *testing.T) {
	want := header{length: 600, kind: kindMsg, flags: 3, tag: 512, generation: 1<<32 - 1, seq: 1<<63 + 5}
	b := want.append(nil)
	if len(b) != headerLen {
		t.Fatalf("%d bytes, want %d", len(b), headerLen)
	}
	got, err := parseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(header{})); diff != "" {
		t.Error(diff)
	}
}

func TestHeaderRefuses(t *testing.T) {
	for name, h := range map[string]header{
		"tag over its bound":    {length: 600, tag: maxTag + 1},
		"tag longer than frame": {length: 3, tag: 4},
		"frame over its bound":  {length: maxFrame + maxTag + 1},
	} {
		if _, err := parseHeader(h.append(nil)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzFrames feeds the reader any bytes: it must end with an error or EOF, never hand out more than it was given, and
// read back what it encodes again.
func FuzzFrames(f *testing.F) {
	f.Add(header{kind: kindPing}.append(nil))
	f.Add(append(header{length: 5, kind: kindMsg, tag: 2, seq: 1}.append(nil), "tagab"...))
	f.Add(append(header{length: 9, kind: kindMsg}.append(nil), "short"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newFrameReader(bytes.NewReader(data), 64)
		var again []byte
		for {
			fr, err := r.next()
			if err != nil {
				if errors.Is(err, io.EOF) && !bytes.Equal(again, data) {
					t.Fatalf("read %d bytes of %d, then a clean end", len(again), len(data))
				}
				return
			}
			again = fr.append(again)
			again = append(again, fr.tag...)
			again = append(again, fr.body...)
			if !bytes.HasPrefix(data, again) {
				t.Fatal("the frames read are not the bytes given")
			}
		}
	})
}
