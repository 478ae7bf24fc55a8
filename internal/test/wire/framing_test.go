package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// stdioPair adds the fixture twice, supervised and direct, and runs the test for each.
func stdioPair(t *testing.T, o fakemcp.Options, run func(t *testing.T, g *rig.Gateway, l lane)) {
	t.Helper()
	g := rig.Start(t)
	for _, supervised := range []bool{true, false} {
		name := fmt.Sprintf("supervised-%v", supervised)
		l := lane{name: name, url: g.URL(name), record: g.Home + "/" + name + ".record", stdio: true}
		o := o
		o.Record = l.record
		g.Add(name, rig.Fixture(t, o), fmt.Sprintf("--supervised=%v", supervised))
		t.Run(name, func(t *testing.T) { run(t, g, l) })
	}
}

// raw is a call that makes the fixture print lines; the answer is among them.
func raw(id string, extra string, lines ...string) string {
	quoted, err := json.Marshal(lines)
	if err != nil {
		panic(err) // strings always encode
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"raw","arguments":{"lines":` + string(quoted) + extra + `}}}`
}

const done = `{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"done"}]}}`

// stillWorks fails unless the session answers an ordinary call.
func stillWorks(t *testing.T, c *rig.Client) {
	t.Helper()
	got := string(c.Post(raw(`"alive"`, "", done)).Answer(t))
	if want := fill(done, `"alive"`, ""); got != want {
		t.Errorf("the session no longer works: %s", clip(got))
	}
}

// class is data.mcpx.class of an error answer, "" for any other.
func class(t *testing.T, answer []byte) (code int, class string) {
	t.Helper()
	var m struct {
		Error struct {
			Code int
			Data struct{ Mcpx struct{ Class string } }
		}
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		t.Fatalf("%v: %s", err, clip(string(answer)))
	}
	return m.Error.Code, m.Error.Data.Mcpx.Class
}

// TestLargeLines is (19): what the limit of 64 MiB allows arrives whole, one byte more costs one call and no session.
func TestLargeLines(t *testing.T) {
	stdioPair(t, fakemcp.Options{}, func(t *testing.T, _ *rig.Gateway, l lane) {
		c := l.client(t, `{}`)
		for _, size := range []int{10 << 20, 60 << 20} {
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"@PAD:%d@"}]}}`, size)
			want := strings.ReplaceAll(fill(answer, "1", ""), fmt.Sprintf("@PAD:%d@", size), strings.Repeat("x", size))
			if got := string(c.Post(raw("1", "", answer)).Answer(t)); got != want {
				t.Errorf("%d bytes: got %d bytes: %s", size, len(got), clip(got))
			}
		}
		for _, size := range []int{65 << 20, 70 << 20} {
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"@PAD:%d@"}]}}`, size)
			code, class := class(t, c.Post(raw("2", "", answer)).Answer(t))
			if code != -31903 || class != "answered_lost" {
				t.Errorf("a line of %d bytes: code %d class %q, want -31903 answered_lost", size, code, class)
			}
			stillWorks(t, c)
		}
	})
}

// TestOddLines is (20): lines that are no messages, between good ones.
func TestOddLines(t *testing.T) {
	stdioPair(t, fakemcp.Options{Banner: "✓ ready on stdio\n\n  {not json"}, func(t *testing.T, g *rig.Gateway, l lane) {
		c := l.client(t, `{}`)
		for name, lines := range map[string][]string{
			"banner":       {"starting …", done},
			"blank":        {"", "   ", "\t", done},
			"malformed":    {`{"jsonrpc":`, `{]`, `[1,2`, done},
			"not UTF-8":    {`{"jsonrpc":"2.0","method":"notifications/x","params":{"s":"@FF@"}}`, done},
			"partial":      {done[:20] + "@CUT@", done[20:]},
			"unknown id":   {`{"jsonrpc":"2.0","id":"nobody","result":{}}`, `{"jsonrpc":"2.0","id":99999,"result":{}}`, done},
			"null id":      {`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, done},
			"no id":        {`{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}`, done},
			"carriage":     {done + "\r"},
			"space around": {"  " + done + "  "},
		} {
			t.Run(name, func(t *testing.T) {
				got := strings.TrimSpace(string(c.Post(raw("1", `,"pause_ms":5`, lines...)).Answer(t)))
				if want := fill(done, "1", ""); got != want {
					t.Errorf("got %s, want %s", clip(got), want)
				}
			})
		}
		if log := g.Must("server", "logs", l.name); !strings.Contains(log, "✓ ready on stdio") || !strings.Contains(log, "stdout:") {
			t.Errorf("the banner is not in the server's log, marked stdout:\n%s", log)
		}
	})
}

// TestLastLineWithoutNewline is (21): a server that answers and exits in one breath has answered.
func TestLastLineWithoutNewline(t *testing.T) {
	stdioPair(t, fakemcp.Options{}, func(t *testing.T, _ *rig.Gateway, l lane) {
		c := l.client(t, `{}`)
		got := string(c.Post(raw("1", `,"exit":true`, done+"@CUT@")).Answer(t))
		if want := fill(done, "1", ""); got != want {
			t.Errorf("got %s, want %s", clip(got), want)
		}
	})
}

// TestPrettyBody is (18): a body of many lines is one line for the child, and nothing but the line feeds changed.
func TestPrettyBody(t *testing.T) {
	stdioPair(t, fakemcp.Options{}, func(t *testing.T, _ *rig.Gateway, l lane) {
		c := l.client(t, `{}`)
		pretty := "{\r\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"method\": \"tools/call\",\n  \"params\": {\n    \"name\": \"echo\",\n    \"arguments\": {\"message\": \"a\\nb\", \"mark\": \"pretty\"}\n  }\n}"
		got := string(c.Post(pretty).Answer(t))
		if !strings.Contains(got, `"text":"Echo: a\nb"`) {
			t.Errorf("got %s", got)
		}
		want := strings.NewReplacer("\r", " ", "\n", " ").Replace(pretty)
		if seen := l.recorded(t, `"pretty"`); seen != want {
			t.Errorf("the backend read\n%q, want\n%q", seen, want)
		}
	})
}

// TestPrettyAnswer is the other half of (18): an HTTP server that prints its JSON over many lines, answered as JSON or
// as one event.
func TestPrettyAnswer(t *testing.T) {
	g := rig.Start(t)
	g.AddURL("pretty", serve(t, fakemcp.Options{Stateful: true}))
	l := lane{url: g.URL("pretty")}
	c := l.client(t, `{}`)
	answer := "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": @ID@,\n  \"result\": {\"content\": [\n  ]}\n}"
	want := strings.ReplaceAll(fill(answer, "1", ""), "\n", " ")
	reply := c.Post(raw("1", "", answer))
	if got := strings.ReplaceAll(string(reply.Answer(t)), "\n", " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
