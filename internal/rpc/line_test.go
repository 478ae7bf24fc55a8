package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// lines reads all lines; a long line is written as "long:id,method,size".
func lines(t *testing.T, r *LineReader) ([]string, error) {
	t.Helper()
	var got []string
	for {
		line, err := r.Next()
		var long *LongLineError
		switch {
		case errors.As(err, &long):
			got = append(got, fmt.Sprintf("long:%s,%s,%d", long.ID, long.Method, long.Size))
		case err != nil:
			return got, err
		default:
			got = append(got, string(line))
		}
	}
}

func TestLineReader(t *testing.T) {
	big := strings.Repeat("x", 3*lineBuffer+17)
	for name, c := range map[string]struct {
		in    string
		limit int
		want  []string
	}{
		"plain":           {"a\nb\n", 0, []string{"a", "b"}},
		"no last newline": {"a\nb", 0, []string{"a", "b"}},
		"blank and crlf":  {"\n\r\na\r\n", 0, []string{"", "", "a"}},
		"empty":           {"", 0, nil},
		"above buffer":    {big + "\nb\n" + big, 0, []string{big, "b", big}},
		"exact buffer":    {big[:lineBuffer] + "\nb\n" + big[:lineBuffer], 0, []string{big[:lineBuffer], "b", big[:lineBuffer]}},
		"at the limit":    {"12345\nab\n", 5, []string{"12345", "ab"}},
		"above the limit": {"123456\nab\n123456", 5, []string{"long:,,6", "ab", "long:,,6"}},
		"long answer": {
			`{"jsonrpc":"2.0","result":{"id":3,"x":"` + big + `"},"id":"q1"}` + "\n{}\n", 100,
			[]string{fmt.Sprintf(`long:"q1",,%d`, len(big)+52), "{}"},
		},
		"long request": {
			`{"id":-5,"method":"tools/call","params":"` + big + "\"}\nz", 100,
			[]string{fmt.Sprintf(`long:-5,"tools/call",%d`, len(big)+43), "z"},
		},
		"long with two ids": {`{"id":1,"params":"` + big + `","\u0069d":2}` + "\n", 100, []string{fmt.Sprintf("long:,,%d", len(big)+32)}},
	} {
		for _, how := range []struct {
			name string
			wrap func(io.Reader) io.Reader
		}{{"whole", func(r io.Reader) io.Reader { return r }}, {"bytewise", iotest.OneByteReader}, {"with error", iotest.DataErrReader}} {
			t.Run(name+"/"+how.name, func(t *testing.T) {
				r := NewLineReader(how.wrap(strings.NewReader(c.in)))
				r.Limit = c.limit
				got, err := lines(t, r)
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestLineReaderErrors(t *testing.T) {
	broken := errors.New("broken")
	got, err := lines(t, NewLineReader(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken))))
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("got %q, %v: a partial line before an error must not be delivered", got, err)
	}
	if _, err := NewLineReader(stuck{}).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestLineReaderBuffered(t *testing.T) {
	r := NewLineReader(strings.NewReader("a\nb\nhalf"))
	if r.Buffered() {
		t.Error("nothing was read yet")
	}
	for _, more := range []bool{true, false} {
		line, err := r.Next()
		if err != nil || r.Buffered() != more {
			t.Errorf("after %s: Buffered is %v, %v", line, r.Buffered(), err)
		}
		line[0] = 'z' // the caller's: must not reach the reader
	}
	if line, err := r.Next(); err != nil || string(line) != "half" {
		t.Errorf("got %q, %v", line, err)
	}
}

func TestLineClass(t *testing.T) {
	for in, want := range map[string]Class{
		"": Blank, " \t\r": Blank, "Server ready": Skipped, " {": MessageLike, "\t[1]": MessageLike, "1": Skipped, "\ufeff{}": Skipped, "\u00a0{": Skipped,
	} {
		if got := LineClass([]byte(in)); got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

func TestHead(t *testing.T) {
	for in, want := range map[string][2]string{
		`{"jsonrpc":"2.0","id":12,"method":"a/b","params":{"id":4,`:             {"12", `"a/b"`},
		` { "params" : {"method":"x","a":["id",{"id":1}]} , "id" : "q\"," , "x`: {`"q\","`, ""},
		`{"id":12`:                     {"", ""}, // may go on
		`{"id":12}`:                    {"12", ""},
		`{"id":"unfinished`:            {"", ""},
		`{"id":{"id":1},"method":[1],`: {"", ""},
		`{"id":1,"method":"a","id":2,`: {"", `"a"`},
		`{"ID":1,"x":"id","y":2,`:      {"", ""},
		`{"\u0069d":1,"result":"id`:    {"1", ""},
		`[{"id":1},`:                   {"", ""},
		`text {"id":1}`:                {"", ""},
		`{"x":"}","id":null,`:          {"null", ""},
		`{"` + strings.Repeat("k", 200) + `":1,"id":5,`: {"5", ""},
		`{"id":"` + strings.Repeat("k", maxID+1) + `",`: {"", ""},
	} {
		id, method, ok := head([]byte(in))
		got := [2]string{string(id.Of([]byte(in))), string(method.Of([]byte(in)))}
		if got != want || ok != (want != [2]string{}) {
			t.Errorf("%.60s: got %q, %v", in, got, ok)
		}
	}
}

func BenchmarkLineReader(b *testing.B) {
	for _, size := range []int{200, 1 << 20} {
		one := append(sample(size), '\n')
		in := bytes.Repeat(one, max(1, (8<<20)/len(one)))
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				r := NewLineReader(bytes.NewReader(in))
				for {
					if _, err := r.Next(); err != nil {
						break
					}
				}
			}
		})
	}
}

// FuzzLineReader compares with bytes.Split, whatever the sizes of the reads.
func FuzzLineReader(f *testing.F) {
	f.Add([]byte("a\n\r\nbc\r\n{\"id\":1,\"x\":2}\nlast"), uint8(3), uint8(8))
	f.Fuzz(func(t *testing.T, in []byte, chunk, limit uint8) {
		r := NewLineReader(&chunked{in, int(chunk) + 1})
		r.buf = make([]byte, 4) // so that lines go through all paths
		r.Limit = int(limit) + 1
		var want []string
		parts := bytes.Split(in, []byte{'\n'})
		if len(parts[len(parts)-1]) == 0 {
			parts = parts[:len(parts)-1]
		}
		for _, p := range parts {
			if len(p) > r.Limit {
				id, method, _ := head(append(bytes.Clone(p), '\n'))
				if LineClass(p) != MessageLike {
					id, method = trackAll(p)
				}
				want = append(want, fmt.Sprintf("long:%s,%s,%d", id.Of(p), method.Of(p), len(p)))
				continue
			}
			want = append(want, string(bytes.TrimSuffix(p, []byte{'\r'})))
		}
		got, err := lines(t, r)
		if !errors.Is(err, io.EOF) || !cmp.Equal(want, got) {
			t.Errorf("%v\n%s", err, cmp.Diff(want, got))
		}
	})
}

func trackAll(p []byte) (id, method Span) {
	var t tracker
	t.feed(append(bytes.Clone(p), '\n'))
	if t.id.token() != nil {
		id = t.id.at
	}
	if t.method.token() != nil {
		method = t.method.at
	}
	return id, method
}

type chunked struct {
	b []byte
	n int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.n)], c.b)
	c.b = c.b[n:]
	return n, nil
}

// FuzzHead: for every valid message the tracker finds the id and method that Scan finds.
func FuzzHead(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","method":"b","params":{"id":[{}]}}`))
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"result\":[\"id\"],\n\"\\u0069d\" :\t1 }"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Scan(b)
		if err != nil {
			head(b)
			return
		}
		id, method, _ := head(b)
		if m.ID.Ok() && id != m.ID || len(m.Method.Of(b)) <= maxToken && method != m.Method {
			t.Errorf("%s: got %s and %s", b, id.Of(b), method.Of(b))
		}
	})
}

// head finds the top-level id and method of a message of which only the first part is at hand. Each span is absent
// when its token does not lie in prefix completely, occurs twice in it, or is an object or array. ok says whether
// either was found.
func head(prefix []byte) (id, method Span, ok bool) {
	if LineClass(prefix) != MessageLike {
		return Span{}, Span{}, false
	}
	var t tracker
	t.feed(prefix)
	if t.id.token() != nil {
		id = t.id.at
	}
	if t.method.token() != nil {
		method = t.method.at
	}
	return id, method, id.Ok() || method.Ok()
}
