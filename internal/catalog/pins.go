package catalog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
)

// PinMode says what happens to a tool that is not as it was when a person agreed to the server.
type PinMode string

// The modes. "" of an entry follows its risk.
const (
	PinsStrict PinMode = "strict" // new tools are held too
	PinsWarn   PinMode = "warn"   // new tools pass and are told, changed ones are held
	PinsOff    PinMode = "off"    // nothing is compared
)

// PinMode is the mode that counts for an entry.
func (s Server) PinMode() PinMode {
	if s.Pins != "" {
		return s.Pins
	}
	switch s.Risk.OrUnknown() {
	case RiskLow, RiskNormal:
		return PinsWarn
	case RiskHigh, RiskUnknown:
	}
	return PinsStrict
}

// ToolPin is one tool as a person has seen it.
type ToolPin struct {
	Name   string          `json:"name"`
	Digest string          `json:"digest"` // hex SHA-256 of Tool
	Tool   json.RawMessage `json:"tool"`   // canonical, see PinTool
}

// pinned are the members of a tool that tell a model what it does.
var pinned = []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"}

// PinTool takes the pin of a tool as its server describes it. Members that no model decides by (icons, _meta) are not part
// of it, nor is the order of members. False: it is no object with a name.
func PinTool(raw []byte) (ToolPin, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // 1 and 1.0 are not the same text to a model
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		return ToolPin{}, false
	}
	name, ok := all["name"].(string)
	if !ok {
		return ToolPin{}, false
	}
	kept := map[string]any{}
	for _, member := range pinned {
		if v, there := all[member]; there {
			kept[member] = v
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b) // sorts the members of every object
	e.SetEscapeHTML(false)
	if err := e.Encode(kept); err != nil {
		return ToolPin{}, false
	}
	canonical := bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
	sum := sha256.Sum256(canonical)
	return ToolPin{Name: name, Digest: hex.EncodeToString(sum[:]), Tool: canonical}, true
}

// Pins are the tools of one server that a person has agreed to. With Wanted the person has agreed to the server and no
// list was seen yet: the next one is taken as it is.
type Pins struct {
	Server string    `json:"server"` // id of the entry
	Wanted bool      `json:"wanted,omitempty"`
	Tools  []ToolPin `json:"tools"` // by name
	Held   []Held    `json:"held"`  // what the latest list had beside them
	Taken  time.Time `json:"taken_at,omitzero"`
}

// Held is a tool of the latest list that is not as it was agreed to.
type Held struct {
	Name   string `json:"name"`
	Why    string `json:"why"` // one of the codes below
	Digest string `json:"digest"`
	Masked bool   `json:"masked"` // it is left out of lists, and calls are refused
}

// Why a tool is held, in docs/catalog.md.
const (
	ToolNew     = "tool-new"
	ToolChanged = "tool-changed"
	ToolHidden  = "hidden-characters"
)

// MaxPinnedTools bounds the tools of one server: a list above it is not compared, and everything beyond is held.
const MaxPinnedTools = 2000

// Compare says what is held of a list. A tool that is gone is nothing: nobody can call it.
func (p Pins) Compare(mode PinMode, list []ToolPin) []Held {
	if mode == PinsOff {
		return nil
	}
	known := make(map[string]string, len(p.Tools))
	for _, t := range p.Tools {
		known[t.Name] = t.Digest
	}
	var held []Held
	for i, t := range list {
		digest, there := known[t.Name]
		h := Held{Name: t.Name, Digest: t.Digest, Masked: true}
		switch {
		case there && digest == t.Digest && i < MaxPinnedTools:
			continue // also with hidden characters: a person has seen them marked and agreed
		case len(HiddenCharacters(t.Tool)) > 0:
			h.Why = ToolHidden
		case there:
			h.Why = ToolChanged
		default:
			h.Why, h.Masked = ToolNew, mode == PinsStrict || i >= MaxPinnedTools
		}
		held = append(held, h)
	}
	slices.SortFunc(held, func(a, b Held) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest)) })
	return held
}

// Take makes the list the agreed one. Tools with hidden characters are left out unless the person has seen them.
func (p Pins) Take(list []ToolPin, seen bool, now time.Time) Pins {
	p.Wanted, p.Taken, p.Held, p.Tools = false, now, nil, nil
	for _, t := range list[:min(len(list), MaxPinnedTools)] {
		if !seen && len(HiddenCharacters(t.Tool)) > 0 {
			continue
		}
		p.Tools = append(p.Tools, t)
	}
	slices.SortFunc(p.Tools, func(a, b ToolPin) int { return cmp.Compare(a.Name, b.Name) })
	return p
}

// HiddenCharacters lists the characters of a text that a person does not see and a model reads: controls of the writing
// direction, zero width, tags, and other controls.
func HiddenCharacters(text []byte) []rune {
	var found []rune
	note := func(r rune) {
		if hidden(r) && !slices.Contains(found, r) {
			found = append(found, r)
		}
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil { // no JSON: the text itself
		for _, r := range string(text) {
			note(r)
		}
		return found
	}
	// In JSON they may be written as escapes, so the texts in it count.
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			for _, r := range v {
				note(r)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for name, item := range v {
				walk(name)
				walk(item)
			}
		}
	}
	walk(v)
	slices.Sort(found)
	return found
}

func hidden(r rune) bool {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return false
	case r == 0x200D: // joins the parts of one emoji, which are everywhere in descriptions
		return false
	case r >= 0xFE00 && r <= 0xFE0F: // says whether a character is an emoji
		return false
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // Cf: direction, zero width, tags
		return true
	}
	return r >= 0xE0100 && r <= 0xE01EF || r == 0x115F || r == 0x1160 || r == 0x3164 || r == 0xFFA0
}

// DiffPart is one piece of a word diff.
type DiffPart struct {
	Op   DiffOp `json:"op"`
	Text string `json:"text"`
}

// DiffOp says what became of a piece.
type DiffOp string

// The operations.
const (
	DiffKeep   DiffOp = "keep"
	DiffRemove DiffOp = "remove"
	DiffAdd    DiffOp = "add"
)

// maxDiffWords bounds a word diff, which takes time and memory by the product of both lengths. Longer texts are told
// apart as wholes.
const maxDiffWords = 2000

// WordDiff compares two texts word by word.
func WordDiff(before, after string) []DiffPart {
	a, b := wordsOf(before), wordsOf(after)
	if len(a) > maxDiffWords || len(b) > maxDiffWords {
		return compact([]DiffPart{{DiffRemove, before}, {DiffAdd, after}})
	}
	// common[i][j] is the length of the longest common sequence of a[i:] and b[j:].
	common := make([][]uint16, len(a)+1)
	for i := range common {
		common[i] = make([]uint16, len(b)+1)
	}
	for i, word := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			if word == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var parts []DiffPart
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			parts = append(parts, DiffPart{DiffKeep, a[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			parts = append(parts, DiffPart{DiffRemove, a[i]})
			i++
		default:
			parts = append(parts, DiffPart{DiffAdd, b[j]})
			j++
		}
	}
	return compact(append(parts, DiffPart{DiffRemove, strings.Join(a[i:], "")}, DiffPart{DiffAdd, strings.Join(b[j:], "")}))
}

// compact joins neighbours of one operation and drops empty ones.
func compact(parts []DiffPart) []DiffPart {
	var out []DiffPart
	for _, p := range parts {
		switch last := len(out) - 1; {
		case p.Text == "":
		case last >= 0 && out[last].Op == p.Op:
			out[last].Text += p.Text
		default:
			out = append(out, p)
		}
	}
	return out
}

// wordsOf splits a text into words with what separates them, so that joining gives it back.
func wordsOf(text string) []string {
	var words []string
	start := 0
	var was rune = -1
	class := func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			return 'a'
		case unicode.IsSpace(r):
			return ' '
		}
		return r // each mark stands alone
	}
	for i, r := range text {
		c := class(r)
		if i > 0 && (c != was || c != 'a' && c != ' ') {
			words = append(words, text[start:i])
			start = i
		}
		was = c
	}
	if text != "" {
		words = append(words, text[start:])
	}
	return words
}

// PinReader reads the pins. It is part of the transaction port that package store joins.
type PinReader interface {
	// PinsOf gives the pins of a server. NotFound pins-none when no person has agreed to its tools.
	PinsOf(ctx context.Context, p PinsOf) (Pins, error)
	// AllPins are the pins of every server that has some, by id.
	AllPins(ctx context.Context) ([]Pins, error)
}

// PinStore reads and changes the pins. They end with their server.
type PinStore interface {
	PinReader
	// PutPins writes the pins of a server whole. NotFound server-unknown.
	PutPins(ctx context.Context, p PutPins) error
}

// PinsOf names the server.
type PinsOf struct{ Server string }

// PutPins carries the pins to write.
type PutPins struct{ Pins Pins }
