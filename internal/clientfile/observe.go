package clientfile

import (
	"encoding/json"
	"errors"

	"mcpx/internal/catalog"
	"mcpx/internal/converge"
)

// Schema is the version of the observation record.
const Schema = "mcpx.observation/1"

// Observed is what one file says, governance.md section 3.3. Its JSON holds no secret value.
type Observed struct {
	Schema   string    `json:"schema"`
	Agent    Agent     `json:"agent"`
	Evidence Evidence  `json:"evidence,omitempty"` // how well the agent's dialect is known
	File     File      `json:"file"`
	Entries  []Entry   `json:"entries"`
	Problems []Problem `json:"problems"`

	Stat Stat `json:"-"` // zero for what is in no file, or could not be read

	off []rule // which entries of this and of weaker files the file switches off
}

// File is the file of an observation.
type File struct {
	Path   string `json:"path"`
	Scope  Scope  `json:"scope"`
	Format Format `json:"format"`
	Shared bool   `json:"shared"` // in a git work tree; ignore rules are not asked, so it errs to yes

	Project string `json:"-"` // directory of a project file
}

// Problem is a finding about a file or an entry.
type Problem struct {
	Code   string `json:"code"`
	Field  string `json:"field,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"` // in bytes
	Text   string `json:"text,omitempty"`   // for people; quotes nothing of the file
}

// nullable is a text that is null in JSON when it is empty.
type nullable string

// MarshalJSON writes null for the empty text.
func (s nullable) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

// Transport is how the agent would reach the server.
type Transport string

// The transports; "" in a broken entry.
const (
	Stdio     Transport = "stdio"
	HTTP      Transport = "http"
	SSE       Transport = "sse"
	Websocket Transport = "ws"
)

// Auth is how an entry proves who it is to a remote server.
type Auth string

// The ways of authentication.
const (
	AuthNone     Auth = "none"
	AuthLiteral  Auth = "header-literal"
	AuthTemplate Auth = "header-template"
	AuthEnv      Auth = "env-name"
	AuthHelper   Auth = "helper"
	AuthOAuth    Auth = "oauth"
)

// Parse says how much of an entry was understood.
type Parse string

// The degrees.
const (
	Complete Parse = "complete"
	Extra    Parse = "extra"  // with unknown fields
	Broken   Parse = "broken" // no transport, or wrong types
)

// Entry is one server in a file, as its agent understands it.
type Entry struct {
	Name        string    `json:"name"`
	At          []string  `json:"at"`
	Enabled     bool      `json:"enabled"`
	Transport   nullable  `json:"transport"`
	Command     nullable  `json:"command"`
	Args        []string  `json:"args"` // secrets redacted
	URL         nullable  `json:"url"`  // secrets redacted
	Cwd         nullable  `json:"cwd"`
	EnvNames    []string  `json:"env_names"`
	EnvSecret   []string  `json:"env_secret"`
	HeaderNames []string  `json:"header_names"`
	Auth        Auth      `json:"auth"`
	Tools       Tools     `json:"tools"`
	Package     *Package  `json:"package"` // null for a bridge of mcpx and for a broken entry
	Routed      *Routed   `json:"routed"`  // null: it does not go through mcpx
	Extra       []string  `json:"extra"`
	Parse       Parse     `json:"parse"`
	Problems    []Problem `json:"problems"`
	Scope       Scope     `json:"scope,omitempty"` // when it is not the file's

	agent   Agent
	project string
	dir     string      // of the file, where relative references start
	value   *node       // the raw entry, for merging; behind a pointer, so that printing an Entry shows only an address
	def     *definition // the values; nil in a broken entry
	gated   bool        // the agent ignores the whole file
}

// Agent is the agent whose file holds the entry.
func (e Entry) Agent() Agent { return e.agent }

// Project is the project that the entry counts for, "" every one.
func (e Entry) Project() string { return e.project }

// switchOff notes that the agent does not use the entry. Copies of it are left as they are.
func (e *Entry) switchOff() {
	e.Enabled = false
	if e.Routed != nil {
		r := *e.Routed
		r.State = converge.RoutedDisabled
		e.Routed = &r
	}
}

// Tools is the agent's own filter; a nil Allow allows everything.
type Tools struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

// Package is the package identity in an observation.
type Package struct {
	Kind    catalog.PackageKind `json:"kind"`
	Name    string              `json:"name"`
	Version nullable            `json:"version"`
	Via     nullable            `json:"via"`
}

// Location is a place where an agent looks for servers.
type Location struct {
	Agent Agent
	File  File
	Rule  string // why we look there: a default, or the variable that moved it

	list   func(root node) listing // how the file is listed, when not as the dialect says
	inline []byte                  // content that is not in a file
	gate   string                  // code of the reason for which the agent ignores the file; "" none
}

// Read reads the content of a file. It never fails: what is wrong is part of the result.
func Read(l Location, data []byte, hub Hub) Observed {
	d := dialectOf(l.Agent)
	o := Observed{Schema: Schema, Agent: l.Agent, Evidence: d.evidence, File: l.File, Entries: []Entry{}, Problems: []Problem{}}
	o.File.Format = d.format
	doc, err := d.document(data)
	if err == nil && doc.root.kind != object {
		err = &catalog.SyntaxError{Line: 1, Column: 1, Reason: "the file holds no object"}
	}
	if err != nil {
		o.Problems = append(o.Problems, brokenFile(err))
		return o
	}
	list := d.list
	if l.list != nil {
		list = l.list
	}
	o.read(l, doc, list(doc.root), hub, nil)
	return o
}

// read looks at the entries that a document lists, nil wanted: at all of them.
func (o *Observed) read(l Location, doc document, listed listing, hub Hub, wanted func(found) bool) {
	d := doc.dialect
	o.off, o.Problems = listed.off, append(o.Problems, listed.faults...)
	if l.gate != "" {
		o.Problems = append(o.Problems, Problem{Code: l.gate})
	}
	for _, f := range listed.entries {
		if wanted != nil && !wanted(f) {
			continue
		}
		r := reader{dialect: d, agent: l.Agent, hub: hub, found: f}
		e := r.entry()
		e.project = f.project
		if e.project == "" {
			e.project = l.File.Project
		}
		e.gated = l.gate != ""
		if !e.Enabled || e.gated || switchedOff(o.off, f.name, f.project) {
			e.switchOff()
		}
		o.Problems = append(o.Problems, r.fatal(doc.data)...)
		if d.unseen && l.File.Scope == ScopeProject {
			e.Problems = append(e.Problems, Problem{Code: "approval-unseen"})
		}
		o.Entries = append(o.Entries, e)
	}
}

func brokenFile(err error) Problem {
	p := Problem{Code: "config-broken", Text: "the agent cannot read the file"}
	if s, ok := errors.AsType[*catalog.SyntaxError](err); ok {
		p.Line, p.Column, p.Text = s.Line, s.Column, s.Reason
	}
	return p
}

// switchedOff applies the rules of a project, and those that count everywhere.
func switchedOff(rules []rule, name, project string) bool {
	only, named := false, false
	for _, r := range rules {
		if r.project != "" && r.project != project {
			continue
		}
		if r.not {
			only = true
			named = named || r.name == name
		} else if r.name == name {
			return true
		}
	}
	return only && !named
}
