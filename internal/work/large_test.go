//go:build linux || darwin

package work

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadLargeFile: windows of a file of 520 MB, or 1 GB with MCPX_TEST_FULL, by line and by byte, at its beginning, in it and at its end. Above 512 MB no
// hash is made; the file is never in memory.
func TestReadLargeFile(t *testing.T) {
	if raceOn {
		t.Skip("half a gigabyte is looked through without the race detector")
	}
	s := newShop(t)
	path := filepath.Join(s.root, "large")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(520 << 20) // just above what is hashed
	if os.Getenv("MCPX_TEST_FULL") != "" {
		size = 1 << 30
	}
	head := strings.Repeat("line of text\n", 1000) // no NUL where one would make the file binary
	if _, err := f.WriteString(head); err != nil {
		t.Fatal(err)
	}
	const end = "\nlast but one\nlast\n"
	if _, err := f.WriteAt([]byte(end), size-int64(len(end))); err != nil { // zeros in between, which take no room
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	type window struct {
		SHA256   json.RawMessage
		Size     int64
		Lines    int `json:"lines_total"`
		Text     *string
		Base64   []byte
		More     bool
		FromLine int `json:"from_line"`
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{`"lines":2`, "line of text\nline of text\n"},
		{`"from_line":1002,"lines":10`, "last but one\nlast\n"},
		{fmt.Sprintf(`"from_byte":%d,"bytes":100`, size-5), "last\n"},
	} {
		w := read[window](t, s.do(t, "read_file", `"path":"large",%s`, c.args))
		if w.Text == nil || *w.Text != c.want || w.Size != size || w.Lines != 1003 || string(w.SHA256) != "null" {
			t.Errorf("%s: %+v", c.args, w)
		}
	}
	w := read[window](t, s.do(t, "read_file", `"path":"large","as":"base64","from_byte":%d,"bytes":5`, size/2))
	if !bytes.Equal(w.Base64, make([]byte, 5)) || !w.More {
		t.Errorf("in the middle: %+v", w)
	}
	if err := os.Truncate(path, 300<<20); err != nil { // above what was once the limit, below that of the hash
		t.Fatal(err)
	}
	if w := read[window](t, s.do(t, "read_file", `"path":"large","lines":1`)); len(w.SHA256) != 66 || w.Size != 300<<20 {
		t.Errorf("300 MB: %+v", w)
	}
}
