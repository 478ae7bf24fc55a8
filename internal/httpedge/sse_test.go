package httpedge

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func sseAll(r io.Reader, limit int) (all []sseEvent, err error) {
	events := newSSEReader(r, limit)
	for {
		ev, err := events.Next()
		if err != nil {
			return all, err
		}
		all = append(all, ev)
	}
}

func TestSSEReader(t *testing.T) {
	data := func(s string) sseEvent { return sseEvent{HasData: true, Data: []byte(s)} }
	for _, tc := range []struct {
		name, in string
		want     []sseEvent
	}{
		{"LF", "data: a\n\ndata: b\n\n", []sseEvent{data("a"), data("b")}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []sseEvent{data("a"), data("b")}},
		{"CR", "data: a\r\rdata: b\r\r", []sseEvent{data("a"), data("b")}},
		{"mixed ends", "data: a\r\n\ndata: b\n\r\n\rdata: c\r\n\r", []sseEvent{data("a"), data("b"), data("c")}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []sseEvent{data("a")}},
		{"mark only at the start", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []sseEvent{data("a")}},
		{"comments", ": hello\n\n:\ndata: a\n: in between\n\n", []sseEvent{data("a")}},
		{"one space goes", "data:  a\n\ndata:b\n\n", []sseEvent{data(" a"), data("b")}},
		{"several lines", "data: a\ndata:\ndata: b\n\n", []sseEvent{data("a\n\nb")}},
		{"empty data with id", "id: 7\nretry: 1500\ndata: \n\n", []sseEvent{{ID: "7", HasID: true, Retry: 1500 * time.Millisecond, HasRetry: true, HasData: true}}},
		{"field without colon", "data\n\nid\ndata: x\n\n", []sseEvent{{HasData: true}, {HasID: true, HasData: true, Data: []byte("x")}}},
		{"event type", "event: endpoint\ndata: /m?s=1\n\n", []sseEvent{{Type: "endpoint", HasData: true, Data: []byte("/m?s=1")}}},
		{"id alone", "id: 9\n\n", []sseEvent{{ID: "9", HasID: true}}},
		{"id with NUL", "id: 1\x002\ndata: x\n\n", []sseEvent{data("x")}},
		{"id too long", "id: " + strings.Repeat("i", sseMaxID+1) + "\ndata: x\n\n", []sseEvent{data("x")}},
		{"bad retry", "retry: 1s\ndata: x\n\nretry: -5\ndata: y\n\n", []sseEvent{data("x"), data("y")}},
		{"retry above the bound", "retry: 3600000\n\n", []sseEvent{{Retry: sseMaxRetry, HasRetry: true}}},
		{"unknown fields and other case", "Data: x\nfoo: y\ndata: z\n\n", []sseEvent{data("z")}},
		{"no blank line at the end", "id: 3\ndata: a\n", []sseEvent{{ID: "3", HasID: true, HasData: true, Data: []byte("a"), Partial: true}}},
		{"half a line at the end", "data: a", []sseEvent{{HasData: true, Data: []byte("a"), Partial: true}}},
		{"nothing but an id at the end", "data: a\n\nid: 4\n", []sseEvent{data("a")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"whole": strings.NewReader(tc.in), "bytes": iotest.OneByteReader(strings.NewReader(tc.in)),
				"data with error": iotest.DataErrReader(strings.NewReader(tc.in)),
			} {
				got, err := sseAll(r, 1<<16)
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v", how, err)
				}
				if diff := cmp.Diff(tc.want, got, sseEmpty); diff != "" {
					t.Errorf("%s: %s", how, diff)
				}
			}
		})
	}
}

// sseEmpty takes nil and empty data for the same.
var sseEmpty = cmp.Transformer("text", func(b []byte) string { return string(b) })

// An event is dispatched at its blank line, before anything else arrives, also when the line ends with CR alone.
func TestSSEReaderDoesNotWait(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		pr, pw := io.Pipe()
		events := newSSEReader(pr, 100)
		got := make(chan sseEvent)
		go func() {
			ev, _ := events.Next()
			got <- ev
		}()
		go func() { _, _ = io.WriteString(pw, "data: now"+end+end) }()
		select {
		case ev := <-got:
			if string(ev.Data) != "now" {
				t.Errorf("%q: got %q", end, ev.Data)
			}
		case <-time.After(upPatience):
			t.Errorf("%q: the event waits for more input", end)
		}
		_ = pw.Close() // never fails
	}
}

// Above the limit the event is dropped, its call is named, and the next event is whole.
func TestSSEReaderLimit(t *testing.T) {
	const limit = 1000
	pad := strings.Repeat("x", 3*sseWindow)
	for _, tc := range []struct {
		name, in string
		want     sseEvent
	}{
		{"answer with the id first", `data: {"id":"a1","result":"` + pad + "\"}\n\n", sseEvent{HasData: true, TooLong: true, LostID: []byte(`"a1"`), Size: int64(len(pad)) + 23}},
		{"answer with the id last", `data:{"result":"` + pad + "\",\"id\":7}\r\n\r\n", sseEvent{HasData: true, TooLong: true, LostID: []byte(`7`), Size: int64(len(pad)) + 20}},
		{"notification", `data: {"method":"m","params":"` + pad + "\"}\r\r", sseEvent{HasData: true, TooLong: true, LostCall: []byte(`"m"`), Size: int64(len(pad)) + 26}},
		{"just above", "data: " + pad[:limit+1] + "\n\n", sseEvent{HasData: true, TooLong: true, Size: limit + 1}},
		{"many lines", strings.Repeat("data: "+pad[:limit/2]+"\n", 3) + "\n", sseEvent{HasData: true, TooLong: true}},
		{"comment", ": " + pad + "\ndata: ok\n\n", sseEvent{HasData: true, Data: []byte("ok")}},
		{"id", "id: " + pad + "\ndata: ok\n\n", sseEvent{HasData: true, Data: []byte("ok")}},
		{"just at the limit", "data: " + pad[:limit] + "\n\n", sseEvent{HasData: true, Data: []byte(pad[:limit])}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for how, wrap := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader,
			} {
				got, err := sseAll(wrap(strings.NewReader(tc.in+"data: next\n\n")), limit)
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v", how, err)
				}
				want := []sseEvent{tc.want, {HasData: true, Data: []byte("next")}}
				if diff := cmp.Diff(want, got, sseEmpty); diff != "" {
					t.Errorf("%s: %s", how, diff)
				}
			}
		})
	}
}

// An error of the reader is reported behind what came before it.
func TestSSEReaderError(t *testing.T) {
	broken := errors.New("reset")
	got, err := sseAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 100)
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	want := []sseEvent{{HasData: true, Data: []byte("a")}, {HasData: true, Data: []byte("b"), Partial: true}}
	if diff := cmp.Diff(want, got, sseEmpty); diff != "" {
		t.Error(diff)
	}
}

func TestAppendEvent(t *testing.T) {
	for _, tc := range []struct{ id, data, want string }{
		{"", `{"a":1}`, "data: {\"a\":1}\n\n"},
		{"g.1.2", `{}`, "id: g.1.2\ndata: {}\n\n"},
		{"x", "", "id: x\ndata: \n\n"},
		{"", "{\r\n \"a\":\n1}", "data: {   \"a\": 1}\n\n"},
	} {
		if got := string(AppendEvent([]byte("z"), tc.id, []byte(tc.data))); got != "z"+tc.want {
			t.Errorf("AppendEvent(%q, %q) = %q, want %q", tc.id, tc.data, got, tc.want)
		}
	}
}

// The reader agrees with a plain reading of the standard, however the stream is cut into pieces.
func FuzzSSEReader(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "id: 1\r\ndata\r\n\r\n", "\xef\xbb\xbf:c\rdata:x\r\r", "retry: 10\nevent: e\ndata: 1\ndata: 2\n\n", "id: \x00\n\n", "data: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n\n",
	} {
		f.Add([]byte(s), 20)
	}
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		if limit < 1 || limit > 1<<12 {
			return
		}
		want := ssePlain(in, limit)
		for _, r := range []io.Reader{bytes.NewReader(in), iotest.OneByteReader(bytes.NewReader(in)), iotest.HalfReader(bytes.NewReader(in))} {
			got, err := sseAll(r, limit)
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			for i := range got {
				got[i].Size, got[i].LostID, got[i].LostCall = 0, nil, nil
			}
			if diff := cmp.Diff(want, got, sseEmpty); diff != "" {
				t.Fatalf("%q, limit %d: %s", in, limit, diff)
			}
		}
	})
}

// ssePlain reads a whole stream at once.
func ssePlain(in []byte, limit int) (all []sseEvent) {
	text := strings.TrimPrefix(string(in), sseMark)
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	var ev sseEvent
	used := false
	for i, line := range lines {
		if line == "" && i < len(lines)-1 {
			if used {
				all = append(all, ev)
			}
			ev, used = sseEvent{}, false
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		long := len(line) > limit+len(ssePrefix)
		switch name {
		case "data":
			used = true
			switch {
			case ev.TooLong:
			case long, len(ev.Data)+len(value) > limit:
				ev.TooLong, ev.Data = true, nil
			case ev.HasData:
				ev.Data = append(append(ev.Data, '\n'), value...)
			default:
				ev.Data = []byte(value)
			}
			ev.HasData = true
		case "event":
			used = true
			if !long {
				ev.Type = value
			}
		case "id":
			used = true
			if !long && !strings.Contains(value, "\x00") {
				ev.ID, ev.HasID = value, true
			}
		case "retry":
			used = true
			if ms, err := strconv.ParseUint(value, 10, 32); err == nil && !long {
				ev.Retry, ev.HasRetry = min(time.Duration(ms)*time.Millisecond, sseMaxRetry), true
			}
		}
	}
	if ev.HasData {
		ev.Partial = true
		all = append(all, ev)
	}
	return all
}

// What AppendEvent writes, the reader gives back.
func FuzzAppendEvent(f *testing.F) {
	f.Add("id", []byte("{\n}"))
	f.Fuzz(func(t *testing.T, id string, data []byte) {
		if strings.ContainsAny(id, "\r\n\x00") || len(id) > sseMaxID || strings.HasPrefix(id, " ") || !utf8.ValidString(id) {
			return
		}
		got, err := sseAll(bytes.NewReader(AppendEvent(nil, id, data)), len(id)+len(data)+1)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		plain := strings.NewReplacer("\r", " ", "\n", " ").Replace(string(data))
		want := []sseEvent{{ID: id, HasID: id != "", HasData: true, Data: []byte(plain)}}
		if diff := cmp.Diff(want, got, sseEmpty); diff != "" {
			t.Fatal(diff)
		}
	})
}
