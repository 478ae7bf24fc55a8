package work

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpx/internal/operation"
	"mcpx/internal/text"
	"mcpx/internal/tree"
)

// pageBytes is how much of an answer the entries of one page may take: what does not fit is the next page, and no result
// that has to be kept apart.
const pageBytes = inlineLimit - envelope - 1<<10

// page collects what fits into one answer.
type page struct{ left int }

// takes says whether a value fits, and counts it. The first one always does.
func (p *page) takes(v any) bool {
	raw, err := json.Marshal(v)
	if err != nil {
		return true // the answer as a whole tells
	}
	size := len(raw) + 1
	if size > p.left && p.left < pageBytes {
		return false
	}
	p.left -= size
	return true
}

// cursor is where a page ended.
type cursor struct {
	After tree.RawPath `json:"a"`
	Hits  int          `json:"n,omitempty"` // of that file, told so far
	Call  string       `json:"c"`           // digest of the call that it goes on with
}

// callDigest is that of a call without what may differ from page to page.
func (t *turn) callDigest() string {
	args := maps.Clone(t.args)
	for _, name := range []string{"cursor", "limit", "activity"} {
		delete(args, name)
	}
	raw, _ := json.Marshal(args) // they were read from JSON
	return digest(raw)[:12]
}

// from reads the cursor of a call.
func (t *turn) from(given string) (c cursor, err error) {
	if given == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(given)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c.After == "" || c.Hits < 0 {
		return c, operation.Refuse(cursorInvalid, "this is no cursor of %s: leave it out to begin anew", t.Tool)
	}
	if c.Call != t.callDigest() {
		return c, operation.Refuse(cursorInvalid, "the cursor belongs to a call with other arguments: leave it out to begin anew")
	}
	return c, nil
}

const cursorInvalid operation.Code = "CURSOR_INVALID"

// goOn is the call that gets the next page, and writes its cursor.
func (t *turn) goOn(c cursor, into *string) operation.Next {
	c.Call = t.callDigest()
	raw, _ := json.Marshal(c) // strings and a number
	args := map[string]any{}
	for name, value := range t.args {
		if name != "activity" {
			args[name] = value
		}
	}
	*into = base64.RawURLEncoding.EncodeToString(raw)
	args["cursor"] = *into
	return operation.Next{Tool: t.Tool, Args: args, Why: "the next page"}
}

// shownPath is a path in an answer: as it is, or percent-encoded where it is no plain text.
type shownPath struct {
	Path string `json:"path,omitempty"`
	Pct  string `json:"path_pct,omitempty"`
}

func showPath(path string) shownPath {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, unicode.IsControl) {
		return shownPath{Path: path}
	}
	return shownPath{Pct: text.EncodePath(path)}
}

// pathShown is the path that showPath shows so.
func pathShown(as string) string {
	if path, err := text.DecodePath(as); err == nil && showPath(path).Pct == as {
		return path
	}
	return as
}

// shownPaths adds to what is said of paths, as they are shown, the same under the paths themselves.
func shownPaths(all map[string]string) {
	for _, as := range slices.Collect(maps.Keys(all)) {
		all[pathShown(as)] = all[as]
	}
}

// AskedPath is a path in a call: as it is, or percent-encoded as an answer shows one that is no plain text.
type AskedPath struct {
	Path string `json:"path,omitempty" jsonschema:"relative to the project, or absolute"`
	Pct  string `json:"path_pct,omitempty" jsonschema:"instead of path, as an answer shows it"`
}

// decode makes Path what path_pct says.
func (p *AskedPath) decode() (err error) {
	switch {
	case p.Pct == "":
		return nil
	case p.Path != "":
		return operation.Refuse(operation.ArgumentInvalid, "give one of path and path_pct")
	}
	p.Path, err = text.DecodePath(p.Pct)
	p.Pct = ""
	return problem(err)
}

// within bounds a number of a call: from 1 to most, usual without it.
func within(given, usual, most int) int {
	if given < 1 {
		return usual
	}
	return min(given, most)
}
