package catalog

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Risk is how much harm a server could do, as a person sees it.
type Risk string

// The classes, the lightest first. RiskUnknown is also the empty value.
const (
	RiskLow     Risk = "low"
	RiskNormal  Risk = "normal"
	RiskHigh    Risk = "high"
	RiskUnknown Risk = "unknown"
)

// OrUnknown is the class with the empty value spelled out.
func (r Risk) OrUnknown() Risk {
	if r == "" {
		return RiskUnknown
	}
	return r
}

// Lowers says whether a change from one class to another asks for less care: only a person may make it. What is unknown
// counts as high.
func (r Risk) Lowers(to Risk) bool {
	weight := func(r Risk) int { return slices.Index([]Risk{RiskLow, RiskNormal, RiskHigh}, r) }
	from, next := weight(r), weight(to)
	if from < 0 {
		from = weight(RiskHigh)
	}
	if next < 0 {
		next = weight(RiskHigh)
	}
	return next < from
}

// Source says how something came into the catalog.
type Source string

// The sources.
const (
	FromOperator Source = "operator" // a person typed it
	FromObserved Source = "observed" // it stood in the configuration of an agent
	FromImport   Source = "import"   // it stood in a file that a person gave
	FromFile     Source = "file"     // it stands in config/catalog
)

// Provenance is one origin of an entry. Fields names what it set and nothing has set since; an origin that set nothing
// has seen the same server elsewhere.
type Provenance struct {
	Source Source    `json:"source"`
	Ref    string    `json:"ref,omitempty"`    // path of the file, or id of the candidate
	Agent  string    `json:"agent,omitempty"`  // whose configuration it was
	Digest string    `json:"digest,omitempty"` // of the entry there: the same digest is not noted twice
	Fields []string  `json:"fields,omitempty"` // names as in JSON, of bindings with their name: env.TOKEN
	At     time.Time `json:"at,omitzero"`
}

// maxProvenance bounds the origins of one entry. The first one and the newest are kept.
const maxProvenance = 16

// Origins is the provenance of an entry; for one of a release that kept none it is what that release knew.
func (s Server) Origins() []Provenance {
	if len(s.Provenance) > 0 || s.Source == "" {
		return s.Provenance
	}
	return []Provenance{{Source: Source(s.Source), At: s.Created}}
}

// Attribute notes that p made changed out of old: the fields that differ are p's from now on, all others keep the origin
// that they have. Old is the zero Server for a new entry.
func Attribute(old, changed Server, p Provenance) Server {
	before, after := fieldsOf(old), fieldsOf(changed)
	set := differing(before, after)
	origins := slices.Clone(old.Origins())
	for i, o := range origins {
		if len(o.Fields) == 0 && i == 0 && len(old.Provenance) == 0 { // it set everything that was there
			o.Fields = slices.Sorted(maps.Keys(before))
		}
		o.Fields = slices.DeleteFunc(slices.Clone(o.Fields), func(name string) bool { return slices.Contains(set, name) })
		origins[i] = o
	}
	p.Fields = slices.DeleteFunc(set, func(name string) bool { _, there := after[name]; return !there })
	same := func(o Provenance) bool {
		return o.Source == p.Source && o.Ref == p.Ref && o.Agent == p.Agent && o.Digest == p.Digest
	}
	if i := slices.IndexFunc(origins, same); i >= 0 {
		origins[i].At = p.At
		origins[i].Fields = slices.Compact(slices.Sorted(slices.Values(append(origins[i].Fields, p.Fields...))))
	} else {
		origins = append(origins, p)
	}
	if over := len(origins) - maxProvenance; over > 0 {
		origins = append(origins[:1:1], origins[1+over:]...)
	}
	changed.Provenance = origins
	return changed
}

// differing lists the names of fields that are not the same on both sides, sorted.
func differing(before, after map[string]string) []string {
	var names []string
	for name := range after {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, kept := after[name]; !kept {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Changed lists the fields that differ between two entries, sorted, review and lifecycle included. They are names only.
func Changed(old, changed Server) []string {
	names := differing(fieldsOf(old), fieldsOf(changed))
	for name, differs := range map[string]bool{
		"review": old.Review != changed.Review, "lifecycle": old.Lifecycle != changed.Lifecycle, "limits": old.Limits != changed.Limits,
	} {
		if differs {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// fieldsOf gives each field that has an origin of its own with its JSON. What the catalog itself decides about an entry
// (its id, times, review) has none.
func fieldsOf(s Server) map[string]string {
	out := map[string]string{}
	add := func(prefix string, v any) {
		raw, err := json.Marshal(v)
		var members map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal(raw, &members)
		}
		if err != nil {
			panic("catalog: an entry does not encode: " + err.Error()) // strings, booleans and maps of them always do
		}
		for name, value := range members {
			out[prefix+name] = string(value)
		}
	}
	bindings := func(prefix string, all map[string]Binding) {
		delete(out, strings.TrimSuffix(prefix, "."))
		for name, b := range all {
			add("", map[string]Binding{prefix + name: b})
		}
	}
	if s.Stdio != nil {
		add("", *s.Stdio)
		bindings("env.", s.Stdio.Env)
	}
	if s.HTTP != nil {
		add("", *s.HTTP)
		bindings("headers.", s.HTTP.Headers)
	}
	s.Stdio, s.HTTP, s.Provenance, s.Created, s.Updated, s.Limits = nil, nil, nil, time.Time{}, time.Time{}, Limits{}
	add("", s)
	for _, own := range []string{"id", "review", "lifecycle", "source", "file", "created", "updated"} {
		delete(out, own)
	}
	if s.Name == "" { // the zero Server
		return map[string]string{}
	}
	return out
}

// Known says whether the entry has an origin with this digest: the same thing was seen before.
func (s Server) Known(source Source, digest string) bool {
	return slices.ContainsFunc(s.Provenance, func(p Provenance) bool { return p.Source == source && p.Digest == digest })
}
