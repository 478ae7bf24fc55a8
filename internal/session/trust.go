package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"mcpx/internal/catalog"
)

// TrustState says whether a person has agreed to what the repository of a project can start.
type TrustState string

// The states, runtime.md section 7.
const (
	Untrusted TrustState = "untrusted"
	Trusted   TrustState = "trusted"
	Changed   TrustState = "changed" // since a person agreed; what is as it was goes on
)

// EntryKind says what in a repository can name something to run.
type EntryKind string

// The kinds. mcpx starts servers and skills; the others count for the digest alone.
const (
	EntryServer EntryKind = "server"
	EntrySkill  EntryKind = "skill"
	EntryHook   EntryKind = "hook"   // what git or an agent runs by itself
	EntryPolicy EntryKind = "policy" // it tightens, trusted or not
)

// Entry is one thing of a repository that names something to run.
type Entry struct {
	Kind   EntryKind `json:"kind"`
	Name   string    `json:"name"`
	File   string    `json:"file"` // in which it is said, below the root; of a skill its directory
	Digest string    `json:"sha256"`
	// Server is what is started of a server, under its name in the file. It has no id.
	Server *catalog.Server `json:"server,omitempty"`
	// Runs is what a skill starts, as its own file says it; none: it only tells what to do.
	Runs []string `json:"runs,omitempty"`
	// Problem says why it cannot be started, whoever agrees; "" it can.
	Problem string `json:"problem,omitempty"`
}

// File is one file that names something to run.
type File struct {
	Path   string // below the root
	Digest string // of its bytes, or of what is wrong with it
}

// Repository is what a repository can name to run, as it is now.
type Repository struct {
	Files   []File
	Entries []Entry
}

// Digest is over every file and every entry, whatever their order.
func (r Repository) Digest() string {
	files, entries := slices.Clone(r.Files), slices.Clone(r.Entries)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name))
	})
	sum := sha256.New()
	add := func(words ...string) {
		for _, word := range words {
			_, _ = sum.Write([]byte(word + "\x00")) // never fails; no name holds a NUL
		}
	}
	add("mcpx repository 1")
	for _, f := range files {
		add("file", f.Path, f.Digest)
	}
	for _, e := range entries {
		add("entry", string(e.Kind), e.File, e.Name, e.Digest)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Entry finds an entry by kind and name.
func (r Repository) Entry(kind EntryKind, name string) (Entry, bool) {
	i := slices.IndexFunc(r.Entries, func(e Entry) bool { return e.Kind == kind && e.Name == name })
	if i < 0 {
		return Entry{}, false
	}
	return r.Entries[i], true
}

// Trust is what a person has agreed to of the repository of a project.
type Trust struct {
	Project  string    `json:"project_id"`
	Digest   string    `json:"sha256"` // of the repository as it was shown; "" nobody agrees
	Entries  []Entry   `json:"entries"`
	Approval string    `json:"approval_id"` // the decision of the person
	At       time.Time `json:"at"`
}

// State compares what a person agreed to with what is there.
func (t Trust) State(now Repository) TrustState {
	switch t.Digest {
	case "":
		return Untrusted
	case now.Digest():
		return Trusted
	}
	return Changed
}

// Covers says whether a person has agreed to exactly this entry, whatever became of the others.
func (t Trust) Covers(e Entry) bool {
	return slices.ContainsFunc(t.Entries, func(was Entry) bool {
		return was.Kind == e.Kind && was.Name == e.Name && was.File == e.File && was.Digest == e.Digest
	})
}

// Knows says whether a person has agreed to an entry of this kind and name that was another one.
func (t Trust) Knows(e Entry) bool {
	return slices.ContainsFunc(t.Entries, func(was Entry) bool { return was.Kind == e.Kind && was.Name == e.Name })
}

// Servers are the entries of the servers that a person has agreed to, as they are routed.
func (t Trust) Servers(p Project) []catalog.Server {
	var all []catalog.Server
	for _, e := range t.Entries {
		if e.Server != nil && e.Problem == "" {
			all = append(all, e.Routed(p))
		}
	}
	return all
}

// Routed is the server of an entry as the gateway has it: under a name that no path of a client leads to, with an id that
// stays while the entry changes, in the directory of its project. A person has agreed to it.
func (e Entry) Routed(p Project) catalog.Server {
	s := *e.Server
	id := sha256.Sum256([]byte("mcpx server of a project 1\x00" + p.ID + "\x00" + e.Name))
	s.ID, s.Name, s.Project = "srv_"+hex.EncodeToString(id[:13]), p.Name+"/"+e.Name, p.ID
	s.Review, s.Source = catalog.ReviewApproved, "project"
	if s.Stdio != nil {
		stdio := *s.Stdio
		if s.Stdio = &stdio; stdio.Cwd == "" {
			s.Stdio.CwdPolicy = catalog.CwdWorkspace
		}
	}
	return s
}
