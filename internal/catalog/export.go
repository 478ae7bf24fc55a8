package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"mcpx/internal/fault"
)

// exportFormat is the word by which our own export is recognised.
const exportFormat = "mcpx-catalog"

// exportVersion rises when a field changes its meaning. A newer one is refused, since a field of it could be missed.
const exportVersion = 1

// export is the document: entries without values, ids and times.
type export struct {
	Format  string     `json:"format"`
	Version int        `json:"version"`
	Servers []exported `json:"servers"`
}

// exported is one entry. What belongs to one catalog stays there.
type exported struct {
	Name       string       `json:"name"`
	Aliases    []string     `json:"aliases,omitempty"`
	Title      string       `json:"title,omitempty"`
	Notes      string       `json:"notes,omitempty"`
	Tags       []string     `json:"tags,omitempty"`
	Profiles   []string     `json:"profiles,omitempty"`
	Stdio      *Stdio       `json:"stdio,omitempty"`
	HTTP       *HTTP        `json:"http,omitempty"`
	Sharing    Sharing      `json:"sharing"`
	Direct     bool         `json:"direct,omitempty"`
	Protocol   Protocol     `json:"protocol,omitempty"`
	IDStyle    string       `json:"id_style,omitempty"`
	Stateful   bool         `json:"stateful,omitempty"`
	Retry      string       `json:"retry,omitempty"`
	OnChange   OnChange     `json:"on_change,omitempty"`
	Limits     Limits       `json:"limits,omitzero"`
	Review     Review       `json:"review"` // for people: an import asks for a new one
	Lifecycle  Lifecycle    `json:"lifecycle"`
	Risk       Risk         `json:"risk,omitempty"`
	Pins       PinMode      `json:"pins,omitempty"`
	Source     Source       `json:"source,omitempty"`
	Provenance []Provenance `json:"provenance,omitempty"`
}

// Export writes entries as a document that ParseImport reads. Values of variables and headers stay behind; references are
// kept. Arguments and URLs that look like secrets are replaced, which Import then refuses.
func Export(servers []Server) ([]byte, error) {
	doc := export{Format: exportFormat, Version: exportVersion, Servers: []exported{}}
	for _, s := range servers {
		s = WithoutValues(s)
		doc.Servers = append(doc.Servers, exported{
			Name: s.Name, Aliases: s.Aliases, Title: s.Title, Notes: s.Notes, Tags: s.Tags, Profiles: s.Profiles, Stdio: s.Stdio,
			HTTP: s.HTTP, Sharing: s.Sharing, Direct: s.Direct, Protocol: s.Protocol, IDStyle: s.IDStyle, Stateful: s.Stateful,
			Retry: s.Retry, OnChange: s.OnChange, Limits: s.Limits, Review: s.Review, Lifecycle: s.Lifecycle, Risk: s.Risk,
			Pins: s.Pins, Source: Source(s.Source), Provenance: s.Provenance,
		})
	}
	return indented(doc)
}

// indented is a document for people and files.
func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("catalog: export: %w", err)
	}
	return b.Bytes(), nil
}

// WithoutValues is the entry with only the names of its variables and headers, and the references behind them.
func WithoutValues(s Server) Server {
	names := func(in map[string]Binding) map[string]Binding {
		if in == nil {
			return nil
		}
		out := make(map[string]Binding, len(in))
		for name, b := range in {
			if b.Ref == "" && b.Template == "" || SecretValue(b.Template) {
				b = Binding{Unresolved: true}
			}
			out[name] = b
		}
		return out
	}
	if s.Stdio != nil {
		b := *s.Stdio
		b.Env, b.Args = names(b.Env), RedactArgs(b.Args)
		s.Stdio = &b
	}
	if s.HTTP != nil {
		b := *s.HTTP
		b.Headers, b.URL = names(b.Headers), HideURL(b.URL)
		s.HTTP = &b
	}
	return s
}

// Named is the entry with references to variables of the same name in place of values.
func Named(s Server) Server {
	s = WithoutValues(s)
	for prefix, all := range map[string]map[string]Binding{"": s.variables(), s.Name + "_": s.headers()} {
		for name, b := range all {
			if b.Unresolved {
				all[name] = Binding{Ref: "env:" + variableName(prefix+name)}
			}
		}
	}
	return s
}

// ExportPlain writes entries as most agents and README files have them: {"mcpServers": {...}}. A value becomes a reference
// to a variable of the same name.
func ExportPlain(servers []Server) ([]byte, error) {
	type entry struct {
		Type    string            `json:"type,omitempty"`
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		Cwd     string            `json:"cwd,omitempty"`
		Env     map[string]string `json:"env,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}
	all := map[string]entry{}
	for _, s := range servers {
		s = WithoutValues(s)
		var e entry
		if b := s.Stdio; b != nil {
			e = entry{Command: b.Command, Args: b.Args, Cwd: b.Cwd, Env: map[string]string{}}
			for name, binding := range b.Env {
				e.Env[name] = Placeholder(name, binding)
			}
			for _, name := range b.EnvPass {
				e.Env[name] = Placeholder(name, Binding{})
			}
		}
		if b := s.HTTP; b != nil {
			e = entry{Type: "http", URL: b.URL, Headers: map[string]string{}}
			if b.Transport == TransportSSE {
				e.Type = "sse"
			}
			for name, binding := range b.Headers {
				e.Headers[name] = Placeholder(s.Name+"_"+name, binding)
			}
		}
		all[s.Name] = e
	}
	return indented(map[string]any{"mcpServers": all})
}

// Placeholder is what stands for a value in a file: each reference to the environment as ${NAME}, everything else as a
// variable with the name of what is bound.
func Placeholder(name string, b Binding) string {
	own := "${" + variableName(name) + "}"
	text := b.Template
	if b.Ref != "" {
		text = "{" + b.Ref + "}"
	}
	if text == "" {
		return own
	}
	out, err := expand(text, func(ref string) (string, error) {
		if variable, ok := strings.CutPrefix(ref, "env:"); ok {
			return "${" + variable + "}", nil
		}
		return own, nil
	})
	if err != nil {
		return own
	}
	return out
}

// isExport recognises our own export.
func isExport(members []member) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.name == "format" && string(m.value) == `"`+exportFormat+`"` })
}

// export reads our own export. It is strict: a key that is not known would be a decision that is not heard.
func (i *importer) export(members []member) ([]Imported, error) {
	for _, m := range members {
		switch m.name {
		case "format":
		case "version":
			var version int
			if err := json.Unmarshal(m.value, &version); err != nil || version != exportVersion {
				return nil, fault.New(fault.Invalid, "import-version").
					Saying("the export has version %s; this mcpx reads version %d", m.value, exportVersion).
					Hinting("export it again with this version of mcpx, or import it with the newer one")
			}
		case "servers":
			items, ok := itemsOf(m.value)
			if !ok {
				return nil, noServers()
			}
			for n, item := range items {
				i.exported(n, item)
			}
		default:
			return nil, unknownKey("the document", m.name, []string{"format", "version", "servers"})
		}
	}
	return i.all, nil
}

func (i *importer) exported(n int, item []byte) {
	entry := Imported{Name: fmt.Sprintf("entry %d", n+1)}
	var named struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(item, &named); err == nil && named.Name != "" {
		entry.Name = named.Name
	}
	var e exported
	d := json.NewDecoder(bytes.NewReader(item))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		i.put(entry, Server{}, exportFault(entry.Name, err))
		return
	}
	s := Server{
		Name: e.Name, Aliases: e.Aliases, Title: e.Title, Notes: e.Notes, Tags: e.Tags, Profiles: e.Profiles, Stdio: e.Stdio, HTTP: e.HTTP,
		Sharing: e.Sharing, Direct: e.Direct, Protocol: e.Protocol, IDStyle: e.IDStyle, Stateful: e.Stateful, Retry: e.Retry,
		OnChange: e.OnChange, Limits: e.Limits, Review: ReviewPending, Lifecycle: e.Lifecycle, Risk: e.Risk, Pins: e.Pins,
		Source: string(FromImport), Created: time.Time{},
	}
	s, err := i.withoutRawValues(&entry, s)
	i.put(entry, s, err)
}

// withoutRawValues drops values that somebody has written into an export, as in every other file.
func (i *importer) withoutRawValues(entry *Imported, s Server) (Server, error) {
	reader := entryReader{imported: *entry, keep: i.keep}
	for what, all := range map[string]map[string]Binding{"variable": s.variables(), "header": s.headers()} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			b := all[name]
			if b.Literal == "" {
				continue
			}
			b, err := reader.binding(what+" "+name, name, variableName(name), b.Literal)
			if err != nil {
				return s, err
			}
			all[name] = b
		}
	}
	*entry = reader.imported
	if s.Stdio != nil && (slices.Contains(s.Stdio.Args, Redacted) || !slices.Equal(RedactArgs(s.Stdio.Args), s.Stdio.Args)) {
		return s, reader.bad("import-secret-argument", "an argument was or looks like a secret, which an export does not carry").
			Hinting("pass it as a variable if the server takes one, or add it yourself with `mcpx server add`")
	}
	return s, nil
}

// exportFault says what is wrong with an entry of an export.
func exportFault(name string, err error) error {
	if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unknownKey(name, strings.Trim(key, `"`), exportKeys())
	}
	text := "it is no entry of an export"
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		text = "the field " + t.Field + " is or holds " + article(t.Value) + ", want " + wanted(t.Type)
	}
	return fault.New(fault.Invalid, "import-shape").Saying("%s: %s", name, text).Hinting("correct it in the file and import again")
}

func unknownKey(where, key string, known []string) error {
	e := fault.New(fault.Invalid, "import-unknown-key").Saying("%s: there is no field %q", where, key)
	if near := Nearest(key, known); near != "" {
		return e.Hinting("did you mean %q?", near)
	}
	return e.Hinting("remove it")
}

// exportKeys are the names of all fields of an export.
func exportKeys() []string {
	var keys []string
	for _, t := range []reflect.Type{
		reflect.TypeFor[exported](), reflect.TypeFor[Stdio](), reflect.TypeFor[HTTP](), reflect.TypeFor[Binding](), reflect.TypeFor[Limits](),
		reflect.TypeFor[Provenance](),
	} {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			keys = append(keys, name)
		}
	}
	return keys
}
