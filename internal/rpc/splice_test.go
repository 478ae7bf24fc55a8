package rpc

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func whole(s string) Span { return Span{0, len(s)} }

func TestSplice(t *testing.T) {
	in := []byte("0123456789")
	got := Splice(in,
		Edit{Span{8, 10}, nil}, Edit{Span{2, 4}, []byte("ab")}, Edit{Span{2, 2}, []byte("x")}, Edit{Span{2, 2}, []byte("y")},
		Edit{Span{4, 5}, []byte("-")}, Edit{Span{10, 10}, []byte("end")})
	if string(got) != "01xyab-567end" || string(in) != "0123456789" {
		t.Errorf("got %s, input now %s", got, in)
	}
	same := Splice(in)
	if same[0] = 'x'; in[0] == 'x' {
		t.Error("no edits share memory with the input")
	}
	for name, edits := range map[string][]Edit{
		"overlap":  {{Span{1, 3}, nil}, {Span{2, 4}, nil}},
		"reversed": {{Span{3, 1}, nil}},
		"outside":  {{Span{9, 11}, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			Splice(in, edits...)
		})
	}
}

func TestEditObject(t *testing.T) {
	pair := func(k, v string) Pair { return Pair{k, []byte(v)} }
	for name, c := range map[string]struct {
		in     string
		remove []string
		set    []Pair
		want   string
	}{
		"first":            {`{ "a":1 , "b":2 , "c":3 }`, []string{"a"}, nil, `{ "b":2 , "c":3 }`},
		"middle":           {`{ "a":1 , "b":2 , "c":3 }`, []string{"b"}, nil, `{ "a":1 , "c":3 }`},
		"last":             {`{ "a":1 , "b":2 , "c":3 }`, []string{"c"}, nil, `{ "a":1 , "b":2 }`},
		"outer":            {`{ "a":1 , "b":2 , "c":3 }`, []string{"a", "c"}, nil, `{ "b":2 }`},
		"tail":             {`{"a":1,"b":2,"c":3}`, []string{"c", "b"}, nil, `{"a":1}`},
		"front":            {`{"a":1,"b":2,"c":3}`, []string{"a", "b"}, nil, `{"c":3}`},
		"all":              {`{"a":1, "b":2}`, []string{"a", "b"}, nil, `{}`},
		"all and add":      {`{"a":1,"b":2}`, []string{"a", "b"}, []Pair{pair("x", "0"), pair("y", "[]")}, `{"x":0,"y":[]}`},
		"tail and add":     {`{"a":1 ,"b":2 }`, []string{"b"}, []Pair{pair("x", "0")}, `{"a":1,"x":0 }`},
		"replace":          {`{"a": 1 ,"b":2}`, nil, []Pair{pair("a", `"long"`)}, `{"a": "long" ,"b":2}`},
		"replace, remove":  {`{"a":1,"b":2}`, []string{"b"}, []Pair{pair("a", "9")}, `{"a":9}`},
		"remove, replace":  {`{"a":1,"b":2}`, []string{"a"}, []Pair{pair("b", "9"), pair("c", "8")}, `{"b":9,"c":8}`},
		"set wins":         {`{"a":1}`, []string{"a"}, []Pair{pair("a", "2")}, `{"a":2}`},
		"empty":            {`{ }`, []string{"a"}, []Pair{pair("k\n", "1")}, `{"k\n":1 }`},
		"duplicates":       {`{"a":1,"x":{"a":1},"\u0061":2}`, []string{"a"}, nil, `{"x":{"a":1}}`},
		"duplicates set":   {`{"a":1,"\u0061":2}`, nil, []Pair{pair("a", "3")}, `{"a":3,"\u0061":3}`},
		"the same twice":   {`{}`, nil, []Pair{pair("a", "3"), pair("a", "4")}, `{"a":3}`},
		"nothing to do":    {`{"a":1}`, []string{"b"}, nil, `{"a":1}`},
		"not an object":    {`[1]`, []string{"a"}, []Pair{pair("a", "1")}, `[1]`},
		"alternate":        {`{"a":1,"b":2,"c":3,"d":4,"e":5}`, []string{"a", "c", "e"}, nil, `{"b":2,"d":4}`},
		"alternate others": {`{"a":1,"b":2,"c":3,"d":4,"e":5}`, []string{"b", "d"}, []Pair{pair("z", "0")}, `{"a":1,"c":3,"e":5,"z":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := []byte(c.in)
			if got := string(Splice(b, EditObject(b, whole(c.in), c.remove, c.set...)...)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestFindAndWalk(t *testing.T) {
	in := ` {"a" : [ 1 , "x]" , {"b":2} ] ,"\u0062":{"c": null},"a\"":true, "d":1, "d":2}`
	b := []byte(in)
	obj := Span{1, len(in)}
	for key, want := range map[string]string{"a": `[ 1 , "x]" , {"b":2} ]`, "b": `{"c": null}`, `a"`: "true", "d": "2", "A": "", "c": ""} {
		if got := string(Find(b, obj, key).Of(b)); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
	var got []string
	for e := range Elements(b, Find(b, obj, "a")) {
		got = append(got, string(e.Of(b)))
	}
	if d := cmp.Diff([]string{"1", `"x]"`, `{"b":2}`}, got); d != "" {
		t.Error(d)
	}
	for range Elements(b, obj) {
		t.Error("an object has elements")
	}
	for m := range Members(b, obj) {
		if string(m.Key.Of(b)) != `"a"` {
			t.Errorf("first key is %s", m.Key.Of(b))
		}
		break
	}
	for range Members([]byte("[]"), Span{0, 2}) {
		t.Error("an array has members")
	}
	if Find(nil, Span{}, "a").Ok() {
		t.Error("found something in an absent object")
	}
}

func TestOneLine(t *testing.T) {
	in := []byte("{\r\n\"a\":\n1}")
	if got := string(OneLine(in)); got != `{  "a": 1}` || in[1] != '\r' {
		t.Errorf("got %q, input %q", got, in)
	}
	plain := []byte(`{"a":"\n"}`)
	if &OneLine(plain)[0] != &plain[0] {
		t.Error("copied without need")
	}
}

func TestBuilders(t *testing.T) {
	for want, got := range map[string][]byte{
		`{"jsonrpc":"2.0","id":"a","error":{"code":-32700,"message":"<\"x\">","data":{"k":1}}}`: ErrorResponse([]byte(`"a"`), -32700, `<"x">`, []byte(`{"k":1}`)),
		`{"jsonrpc":"2.0","error":{"code":1,"message":""}}`:                                     ErrorResponse(nil, 1, "", nil),
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                                  ResultResponse([]byte("1"), []byte("{}")),
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                                              RequestMessage([]byte("1"), "ping", nil),
		`{"jsonrpc":"2.0","method":"n","params":{"a":1}}`:                                       NotificationMessage("n", []byte(`{"a":1}`)),
	} {
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := Scan(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

// FuzzSplice: every byte outside the edited ranges survives in its order, and every replacement is there.
func FuzzSplice(f *testing.F) {
	f.Add([]byte("0123456789"), uint8(1), uint8(3), uint8(3), uint8(9), []byte("ab"))
	f.Fuzz(func(t *testing.T, b []byte, w, x, y, z uint8, with []byte) {
		cuts := []int{int(w) % (len(b) + 1), int(x) % (len(b) + 1), int(y) % (len(b) + 1), int(z) % (len(b) + 1)}
		slices.Sort(cuts)
		before := bytes.Clone(b)
		got := Splice(b, Edit{Span{cuts[2], cuts[3]}, with}, Edit{Span{cuts[0], cuts[1]}, with})
		want := slices.Concat(b[:cuts[0]], with, b[cuts[1]:cuts[2]], with, b[cuts[3]:])
		if !bytes.Equal(got, want) || !bytes.Equal(b, before) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// FuzzEditObject: the result is JSON and differs from the input in the named members only.
func FuzzEditObject(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"a":2}, "c":[],"\u0061":7}`), "a", "b", "z", true)
	f.Add([]byte(` { } `), "", "x", "x", false)
	f.Fuzz(func(t *testing.T, b []byte, r1, r2, key string, add bool) {
		var before map[string]json.RawMessage
		if json.Unmarshal(b, &before) != nil || before == nil || !utf8Clean(string(b), r1, r2, key) || strings.Contains(string(b), `\ud`) || strings.Contains(string(b), `\uD`) {
			return
		}
		s := scanner{b: b}
		from := s.space(0)
		obj := Span{from, s.value(from, 0, elsewhere)}
		if obj.To < 0 {
			return // deeper than we accept
		}
		var set []Pair
		if add {
			set = []Pair{{key, []byte(`[1,"}"]`)}}
		}
		got := Splice(b, EditObject(b, obj, []string{r1, r2}, set...)...)
		delete(before, r1)
		delete(before, r2)
		if add {
			before[key] = json.RawMessage(`[1,"}"]`)
		}
		var after map[string]json.RawMessage
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s became %s", b, got)
		}
	})
}

func utf8Clean(all ...string) bool {
	for _, s := range all {
		if strings.ToValidUTF8(s, "") != s {
			return false
		}
	}
	return true
}
