package secret

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mcpx/internal/catalog"
	"mcpx/internal/lazyregexp"
)

// minValue is the shortest value that is looked for: shorter ones occur in ordinary text (runtime.md section 9).
const minValue = 6

// Redactor replaces values that were resolved, in all their usual encodings, and text that has the shape of a secret.
// The number of values is bounded by the bindings of the catalog, and by maxPassing. The zero Redactor is ready to use.
type Redactor struct {
	mu       sync.RWMutex      // guards all fields
	markers  map[string]string // by encoded value
	patterns []string          // the same, longest first
	passing  [][]string        // encoded values that came by AddPassing, the oldest first
	replacer *strings.Replacer // nil until the first value
}

// Add makes a value known. Name is shown in its place.
func (r *Redactor) Add(name, value string) {
	if len(value) < minValue {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.learnLocked(name, value)) > 0 {
		r.compileLocked()
	}
}

// maxPassing bounds the values that are replaced by others again and again, such as tokens that are renewed each hour. The
// ones that are forgotten ended long ago.
const maxPassing = 64

// AddPassing is Add for a value that has a short life.
func (r *Redactor) AddPassing(name, value string) {
	if len(value) < minValue {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	learned := r.learnLocked(name, value)
	if len(learned) == 0 {
		return
	}
	r.passing = append(r.passing, learned)
	if len(r.passing) > maxPassing {
		for _, form := range r.passing[0] {
			delete(r.markers, form)
		}
		r.passing = r.passing[1:]
	}
	r.compileLocked()
}

// learnLocked takes the encodings of a value that are not known yet, and gives them.
func (r *Redactor) learnLocked(name, value string) (learned []string) {
	if r.markers == nil {
		r.markers = map[string]string{}
	}
	marker := Marker(name)
	for _, form := range forms(value) {
		if _, known := r.markers[form]; !known && len(form) >= minValue {
			r.markers[form] = marker
			learned = append(learned, form)
		}
	}
	return learned
}

// compileLocked makes the replacer anew.
func (r *Redactor) compileLocked() {
	// At one place of the text the longest form wins: a value may be the beginning of another one.
	r.patterns = r.patterns[:0:0]
	for form := range r.markers {
		r.patterns = append(r.patterns, form)
	}
	slices.SortFunc(r.patterns, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(r.patterns))
	for _, form := range r.patterns {
		pairs = append(pairs, form, r.markers[form])
	}
	r.replacer = strings.NewReplacer(pairs...)
}

// Marker is what stands in place of a value with this name; "" has none.
func Marker(name string) string {
	if name == "" {
		return catalog.Redacted
	}
	return "[redacted:" + name + "]"
}

// forms are the encodings in which a value turns up in logs and errors.
func forms(v string) []string {
	all := []string{v, url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		all = append(all, base64Forms(e, v)...)
	}
	if quoted, err := json.Marshal(v); err == nil {
		all = append(all, strings.Trim(string(quoted), `"`))
	}
	if line, _, several := strings.Cut(strings.TrimSpace(v), "\n"); several { // a key of many lines may be printed line by line
		all = append(all, line)
		for line := range strings.Lines(v) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

const (
	// minBase64 is the shortest part of an encoded value that is looked for: it stands for six bytes.
	minBase64 = 8
	// base64Line is where base64(1) ends its lines.
	base64Line = 76
)

// base64Forms are a value alone, with the line end that echo adds, in lines, and as a part of a longer text: then the groups
// of characters that it fills, which are others with one or two bytes before it.
func base64Forms(e *base64.Encoding, v string) (all []string) {
	for _, whole := range []string{v, v + "\n"} {
		form := e.EncodeToString([]byte(whole))
		all = append(all, form, strings.TrimRight(form, "="))
		if len(form) > base64Line {
			for line := range slices.Chunk([]byte(form), base64Line) {
				all = append(all, string(line))
			}
		}
	}
	for before := range 3 {
		text := strings.Repeat(" ", before) + v
		inner := e.EncodeToString([]byte(text[:len(text)/3*3]))
		if before > 0 {
			inner = inner[min(4, len(inner)):] // what is before has its part in the first group
		}
		if len(inner) >= minBase64 {
			all = append(all, inner)
		}
	}
	return all
}

// Values replaces known values only, so that text which merely looks like a secret stays as it is.
func (r *Redactor) Values(text string) string {
	r.mu.RLock()
	replacer := r.replacer
	r.mu.RUnlock()
	if replacer == nil {
		return text
	}
	return replacer.Replace(text)
}

// shape is what a secret looks like inside of running text.
type shape struct {
	pattern func() *regexp.Regexp // group 1 is kept
	needs   []string              // a text without any of these, in small letters, does not match: most texts need no expression
}

var shapes = []shape{
	{lazyregexp.New(`()-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), []string{"-----begin "}},
	{lazyregexp.New(`(?i)(\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+)[^\s"',;[]{3,}`), []string{"authorization"}},
	{lazyregexp.New(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}`), []string{"bearer"}},
	{lazyregexp.New(`(\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s/@]+@`), []string{"://"}},
	{lazyregexp.New(`(\b)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*`), []string{"eyj"}},
	{lazyregexp.New(`(\b)(?:sk-|sk_live_|sk_test_|rk_live_|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|xapp-|npm_|pypi-|hf_|AKIA|ASIA|AIza)[A-Za-z0-9_-]{8,}`), []string{"sk-", "sk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-", "npm_", "pypi-", "hf_", "akia", "asia", "aiza"}},
}

// assignment is NAME=VALUE, NAME: VALUE or "name": "value"; whether it is a secret depends on the name.
var assignment = lazyregexp.New(`([A-Za-z_][A-Za-z0-9_-]*)(["']?\s*[=:]\s*["']?)([^\s"',;&?/[][^\s"',;&?]{5,})`)

// assigned are parts of the names that catalog.SecretName takes for names of secrets.
var assigned = []string{"token", "secret", "pass", "pwd", "key", "cred", "auth", "bearer", "jwt", "cookie", "pat=", "pat:", "pat ", `pat"`, "pat'", "pat\t", "pat\n", "pat\r"}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// Text replaces known values and what has the shape of a secret. For stderr, errors and logs; not for content.
func (r *Redactor) Text(text string) string {
	text = r.Values(text)
	lower := strings.ToLower(text)
	for i, shape := range shapes {
		if !containsAny(lower, shape.needs) {
			continue
		}
		with := "${1}" + catalog.Redacted
		if i == urlPassword {
			with += "@"
		}
		text = shape.pattern().ReplaceAllString(text, with)
	}
	if !containsAny(lower, assigned) {
		return text
	}
	return assignment().ReplaceAllStringFunc(text, func(s string) string {
		m := assignment().FindStringSubmatch(s)
		// "Authorization: Bearer" is a name and a scheme; what follows the scheme is a shape of its own.
		if !catalog.SecretName(m[1]) || strings.EqualFold(m[3], "bearer") || catalog.HasTemplate(m[3]) {
			return s
		}
		return m[1] + m[2] + catalog.Redacted
	})
}

// urlPassword is the shape whose match ends with the @ of a URL.
const urlPassword = 3

// cut is how much of text can be shown although more may follow: what comes after it could be the beginning of a known
// value, and no value lies across it.
func (r *Redactor) cut(text string) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at := len(text)
	for _, p := range r.patterns {
		for n := min(len(p)-1, len(text)); n > len(text)-at; n-- {
			if strings.HasSuffix(text, p[:n]) {
				at = len(text) - n
				break
			}
		}
	}
	for moved := true; moved; {
		moved = false
		for _, p := range r.patterns {
			from := max(0, at-len(p)+1)
			window := text[from:min(len(text), at+len(p)-1)]
			if i := strings.Index(window, p); i >= 0 && from+i < at {
				at, moved = from+i, true
			}
		}
	}
	return at
}

// Stream redacts known values in a stream of chunks, across their borders. It is not safe for concurrent use.
type Stream struct {
	r    *Redactor
	rest string // the end of what came, as far as a value may begin in it
}

// Stream starts a stream.
func (r *Redactor) Stream() *Stream { return &Stream{r: r} }

// Write takes a chunk and gives what can be shown so far.
func (s *Stream) Write(chunk []byte) []byte {
	text := s.rest + string(chunk)
	at := s.r.cut(text)
	s.rest = text[at:]
	return []byte(s.r.Values(text[:at]))
}

// Flush gives what was held back; the stream has ended.
func (s *Stream) Flush() []byte {
	rest := s.r.Values(s.rest)
	s.rest = ""
	return []byte(rest)
}
