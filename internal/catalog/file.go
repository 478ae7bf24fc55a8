package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mcpx/internal/fault"
)

// File is one file of config/catalog: servers that a person keeps by hand (governance.md section 2.1).
type File struct {
	Path    string
	Entries []FileEntry  // in order of name
	Problem *FileProblem // why nothing of it can be told; nil: Entries are all that it says
}

// FileEntry is one server of a file, or what is wrong with it.
type FileEntry struct {
	Name     string
	Line     int
	Server   Server        // without id, review, life cycle, source and times; only without Problems
	Problems []FileProblem // in order of line
}

// FileProblem is something in a file that cannot be taken, and where.
type FileProblem struct {
	Code   string `json:"code"` // docs/errors.md
	Path   string `json:"path"`
	Line   int    `json:"line,omitempty"`   // 0: the whole file
	Key    string `json:"key,omitempty"`    // servers.NAME.args
	Server string `json:"server,omitempty"` // name of the entry
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

// Where is the place of the problem for people: the file, and what is known of line and key.
func (p FileProblem) Where() string {
	where := p.Path
	if p.Line > 0 {
		where += fmt.Sprintf(", line %d", p.Line)
	}
	if p.Key != "" {
		where += ", " + p.Key
	}
	return where
}

// ProblemIn is an error as a problem of a file.
func ProblemIn(path string, err error) FileProblem {
	f := fault.From(err)
	return FileProblem{Code: f.Code, Path: path, Text: f.Error(), Hint: f.Hint}
}

// fileServers is the only table of a file.
const fileServers = "servers"

// ReadFile reads the servers of a document: tables, lists, texts, booleans and numbers, as TOML has them. Line gives the line of
// a path of keys, 0 for one that is not there. One bad entry does not block the others; what stands beside the
// servers is an entry without a name.
func ReadFile(path string, doc map[string]any, line func(keys ...string) int) File {
	out := File{Path: path}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		tables, ok := doc[key].(map[string]any)
		if key != fileServers || !ok {
			r := fileReader{path: path, line: line}
			text, hint := fmt.Sprintf("there is no key %q here", key), "write a server as [servers.NAME]"
			if key == fileServers {
				text = "it is no table"
			} else if near := Nearest(key, []string{fileServers}); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			r.problem([]string{key}, text, hint)
			out.Entries = append(out.Entries, FileEntry{Line: line(key), Problems: r.problems})
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(tables)) {
			r := fileReader{path: path, line: line, keys: []string{fileServers, name}}
			out.Entries = append(out.Entries, r.entry(name, tables[name]))
		}
	}
	return out
}

// fileReader reads one entry.
type fileReader struct {
	path     string
	line     func(keys ...string) int
	keys     []string // of the table that is read
	problems []FileProblem
}

func (r *fileReader) problem(keys []string, text, hint string) {
	at := append(slices.Clone(r.keys), keys...)
	p := FileProblem{Code: "catalog-file-entry", Path: r.path, Key: keyPath(at), Text: text, Hint: hint}
	if len(at) > 1 {
		p.Server = at[1]
	}
	for p.Line == 0 && len(at) > 0 { // a key that is missing has the line of its table
		p.Line = r.line(at...)
		at = at[:len(at)-1]
	}
	r.problems = append(r.problems, p)
}

// keyPath spells keys as TOML does.
func keyPath(keys []string) string {
	words := make([]string, len(keys))
	for i, key := range keys {
		if words[i] = key; key == "" || strings.ContainsFunc(key, func(c rune) bool { return c >= 0x80 || !isNameByte(byte(c)) || c == '.' }) {
			words[i] = fmt.Sprintf("%q", key)
		}
	}
	return strings.Join(words, ".")
}

func (r *fileReader) entry(name string, value any) FileEntry {
	out := FileEntry{Name: name, Line: r.line(r.keys...)}
	table, ok := value.(map[string]any)
	if !ok {
		r.problem(nil, "it is no table", "write a server as [servers."+name+"]")
	} else {
		out.Server = r.server(name, table)
	}
	if len(r.problems) == 0 {
		r.validate(out.Server)
	}
	slices.SortStableFunc(r.problems, func(a, b FileProblem) int { return cmp.Compare(a.Line, b.Line) })
	if out.Problems = r.problems; len(out.Problems) > 0 {
		out.Server = Server{}
	}
	return out
}

// fileField reads the value of one key, and says what the value is not.
type fileField func(value any) (want string)

func (r *fileReader) server(name string, table map[string]any) Server {
	s := Server{Name: name, Sharing: ShareSession}
	var program Stdio
	var remote HTTP
	forProgram := map[string]fileField{
		"command": into(&program.Command, asText), "args": into(&program.Args, asTexts), "cwd": into(&program.Cwd, asText),
		"cwd_policy": into(&program.CwdPolicy, asWord[CwdPolicy]), "env_pass": into(&program.EnvPass, asTexts),
		"env": r.bindings("env", &program.Env), "direct": into(&s.Direct, asFlag), "on_change": into(&s.OnChange, asWord[OnChange]),
	}
	forRemote := map[string]fileField{
		"url": into(&remote.URL, asText), "transport": into(&remote.Transport, asWord[Transport]), "headers": r.bindings("headers", &remote.Headers),
	}
	fields := map[string]fileField{
		"title": into(&s.Title, asText), "notes": into(&s.Notes, asText), "aliases": into(&s.Aliases, asTexts), "tags": into(&s.Tags, asTexts),
		"profiles": into(&s.Profiles, asTexts), "sharing": into(&s.Sharing, asWord[Sharing]), "protocol": into(&s.Protocol, asWord[Protocol]),
		"id_style": into(&s.IDStyle, asText), "stateful": into(&s.Stateful, asFlag), "retry": into(&s.Retry, asText),
		"risk": into(&s.Risk, asWord[Risk]), "pins": into(&s.Pins, asWord[PinMode]), "limits": r.limits(&s.Limits),
	}
	_, isProgram := table["command"]
	_, isRemote := table["url"]
	switch {
	case isProgram && isRemote:
		r.problem([]string{"url"}, "a server has a command or a url, not both", "keep one of them; write a second server for the other")
	case isRemote:
		s.HTTP = &remote
		maps.Copy(fields, forRemote)
		r.foreign(table, forProgram, "a server behind a url has no program")
	case isProgram:
		s.Stdio = &program
		maps.Copy(fields, forProgram)
		r.foreign(table, forRemote, "a program has no url")
	default:
		r.problem(nil, "it has neither a command nor a url", `write command = "PROGRAM" and args = [...], or url = "https://..."`)
	}
	if len(r.problems) == 0 {
		r.read(nil, table, fields)
	}
	return s
}

// foreign refuses keys of the other kind of server.
func (r *fileReader) foreign(table map[string]any, fields map[string]fileField, why string) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if fields[key] != nil {
			r.problem([]string{key}, why, "remove it")
		}
	}
}

// decided are keys of an entry that a file does not have: they are decisions, and outlive the file.
var decided = map[string]string{
	"lifecycle": "`mcpx server disable` and `enable`, and `mcpx catalog review NAME --deprecate`, say it",
	"enabled":   "`mcpx server disable` and `enable` say it",
	"disabled":  "`mcpx server disable` and `enable` say it",
	"review":    "what stands in a file counts as reviewed; `mcpx catalog review NAME --reject` says otherwise",
}

// read gives each key of a table to its field.
func (r *fileReader) read(under []string, table map[string]any, fields map[string]fileField) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		at := append(slices.Clone(under), key)
		field := fields[key]
		if field == nil {
			hint := "remove it; docs/catalog.md lists the keys"
			if near := Nearest(key, slices.Sorted(maps.Keys(fields))); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			if how := decided[key]; how != "" && under == nil {
				hint = how
			}
			r.problem(at, fmt.Sprintf("there is no key %q here", key), hint)
			continue
		}
		if want := field(table[key]); want != "" {
			r.problem(at, "it is not "+want, "correct it")
		}
	}
}

func into[T any](field *T, read func(any) (T, string)) fileField {
	return func(value any) (want string) {
		*field, want = read(value)
		return want
	}
}

func asText(value any) (string, string) {
	text, ok := value.(string)
	if !ok {
		return "", "a text in quotes"
	}
	return text, ""
}

func asWord[T ~string](value any) (T, string) {
	text, want := asText(value)
	return T(text), want
}

func asFlag(value any) (bool, string) {
	flag, ok := value.(bool)
	if !ok {
		return false, "true or false"
	}
	return flag, ""
}

func asTexts(value any) ([]string, string) {
	const want = "a list of texts in quotes"
	list, ok := value.([]any)
	if !ok {
		return nil, want
	}
	var texts []string
	for _, item := range list {
		text, ok := item.(string)
		if !ok {
			return nil, want
		}
		texts = append(texts, text)
	}
	return texts, ""
}

func asTime(value any) (time.Duration, string) {
	text, _ := value.(string)
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, ""
	}
	return 0, `a time in quotes, such as "90s"`
}

func asTimeOrNever(value any) (time.Duration, string) {
	if value == "never" {
		return -1, ""
	}
	d, want := asTime(value)
	if want != "" {
		want += `, or "never"`
	}
	return d, want
}

func (r *fileReader) limits(limits *Limits) fileField {
	return func(value any) string {
		table, ok := value.(map[string]any)
		if !ok {
			return "a table"
		}
		r.read([]string{"limits"}, table, map[string]fileField{
			"start": into(&limits.Start, asTime), "call": into(&limits.Call, asTime), "max": into(&limits.Max, asTime),
			"idle": into(&limits.Idle, asTimeOrNever),
		})
		return ""
	}
}

// bindings reads the values of variables or headers: a text, a text with references in braces, or {ref = "..."}.
func (r *fileReader) bindings(key string, into *map[string]Binding) fileField {
	return func(value any) string {
		table, ok := value.(map[string]any)
		if !ok {
			return "a table"
		}
		out := make(map[string]Binding, len(table))
		for _, name := range slices.Sorted(maps.Keys(table)) {
			b, text := bindingOf(table[name])
			if b.Literal != "" && (SecretName(name) || SecretValue(b.Literal)) {
				r.problem([]string{key, name}, "its value looks like a secret, which no file of the catalog holds",
					fmt.Sprintf("give it to `mcpx credential set NAME`, and write %s = {ref = \"cred:NAME\"}", keyPath([]string{name})))
				continue
			}
			if text != "" {
				r.problem([]string{key, name}, "it is not "+text, "correct it")
				continue
			}
			out[name] = b
		}
		*into = out
		return ""
	}
}

func bindingOf(value any) (b Binding, want string) {
	switch v := value.(type) {
	case string:
		return Binding{Literal: v}, ""
	case map[string]any:
		ref, isRef := v["ref"].(string)
		template, isTemplate := v["template"].(string)
		if len(v) == 1 && (isRef && ref != "" || isTemplate && template != "") {
			return Binding{Ref: ref, Template: template}, ""
		}
	}
	return Binding{}, `a text in quotes, {ref = "cred:NAME"} or {template = "Bearer {cred:NAME}"}`
}

// validate checks the whole entry. The message of Validate begins with the field that it is about.
func (r *fileReader) validate(s Server) {
	s.Review, s.Lifecycle = ReviewApproved, Enabled
	err := Validate(s)
	if err == nil {
		return
	}
	f := fault.From(err)
	field, _, _ := strings.Cut(f.Message, ":")
	var keys []string
	if at := r.fieldAt(field); r.line(append(slices.Clone(r.keys), at...)...) > 0 {
		keys = at
	}
	r.problem(keys, f.Message, f.Hint)
}

// fieldAt is where a field stands that Validate names.
func (r *fileReader) fieldAt(field string) []string {
	if limit, ok := strings.CutSuffix(field, "-timeout"); ok {
		return []string{"limits", limit}
	}
	kind, name, _ := strings.Cut(field, " ")
	switch kind {
	case "alias":
		return []string{"aliases"}
	case "header":
		return []string{"headers", name}
	case "env":
		if name != "" {
			return []string{"env", name}
		}
	}
	return []string{strings.ReplaceAll(kind, "-", "_")}
}
