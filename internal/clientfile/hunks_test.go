package clientfile

import (
	"bytes"
	"fmt"
	"testing"
)

// checkHunks applies what differs and gets the later content.
func checkHunks(t *testing.T, old, now []byte) []hunk {
	t.Helper()
	all := hunks(old, now)
	spans := make([]span, 0, len(all))
	at, later := 0, 0
	for _, h := range all {
		if h.from < at || h.to < h.from || h.nowTo < h.nowFrom || h.from == h.to && h.nowFrom == h.nowTo || !bytes.Equal(old[at:h.from], now[later:h.nowFrom]) {
			t.Fatalf("%v of %q and %q", all, old, now)
		}
		spans = append(spans, span{start: h.from, end: h.to, text: now[h.nowFrom:h.nowTo]})
		at, later = h.to, h.nowTo
	}
	if got := applySpans(old, spans); !bytes.Equal(got, now) {
		t.Fatalf("%q, want %q", got, now)
	}
	return all
}

func TestHunks(t *testing.T) {
	for name, tc := range map[string]struct{ old, now, want string }{
		"equal":         {"a\nb\n", "a\nb\n", "[]"},
		"nothing":       {"", "", "[]"},
		"made":          {"", "a\n", "[{0 0 0 2}]"},
		"two lines":     {"a\nb\nc\nd\ne\n", "x\nb\nc\nd\ny\n", "[{0 1 0 1} {8 9 8 9}]"},
		"words of one":  {"{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":4,\"b\":2,\"c\":5}", "[{5 6 5 6} {17 18 17 18}]"},
		"inserted":      {"a\nb\nc\n", "a\nnew\nb\nmore\nc\n", "[{2 2 2 6} {4 4 8 13}]"},
		"moved":         {"a\nb\nc\nd\n", "b\nc\nd\na\n", "[{0 2 0 0} {8 8 6 8}]"},
		"only brackets": {"{[}]", "{]}]", "[{1 2 1 2}]"},
		"no guess":      {"x\nx\n-\nx\nx\n", "y\nx\nx\n+\nx\nz\n", "[{0 9 0 11}]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(checkHunks(t, []byte(tc.old), []byte(tc.now))); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestCarried(t *testing.T) {
	changes := []hunk{{2, 4, 2, 7}, {10, 10, 13, 14}}
	for _, tc := range []struct {
		start, end int
		want       string
	}{
		{0, 2, "0-2"}, {1, 3, "no"}, {2, 4, "no"}, {3, 3, "no"}, {4, 10, "7-13"}, {5, 11, "no"}, {10, 10, "13-13"}, {10, 12, "14-16"}, {12, 12, "16-16"},
	} {
		got := "no"
		if all, ok := carried([]span{{start: tc.start, end: tc.end}}, changes); ok {
			got = fmt.Sprintf("%d-%d", all[0].start, all[0].end)
		}
		if got != tc.want {
			t.Errorf("%d-%d: %s, want %s", tc.start, tc.end, got, tc.want)
		}
	}
}

func FuzzHunks(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte("b\na\n"))
	f.Add([]byte("{\"a\":1}"), []byte("{\"b\":2,\"a\":1}"))
	f.Add([]byte("\xff\xfe\n"), []byte("\n\xff"))
	f.Fuzz(func(t *testing.T, old, now []byte) { checkHunks(t, old, now) })
}
