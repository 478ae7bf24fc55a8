package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Form tells how a command was given.
type Form string

// The forms.
const (
	FormArgv  Form = "argv"
	FormShell Form = "shell"
)

// Frozen is what a person says yes to: everything that decides what will happen. An approval is bound to its Digest; at
// dispatch the record is made again, and any difference revokes the approval.
type Frozen struct {
	Form     Form            `json:"form"`
	Argv     []string        `json:"argv,omitempty"`
	Shell    string          `json:"shell,omitempty"`
	Dialect  Dialect         `json:"dialect,omitempty"` // of the shell that runs Shell
	Programs []FrozenProgram `json:"programs"`          // sorted by path
	Dir      string          `json:"cwd"`
	Env      []string        `json:"env"`          // names, sorted
	Secrets  []string        `json:"secrets"`      // names, sorted
	Stdin    string          `json:"stdin_sha256"` // hex, "" without a text
	Sandbox  string          `json:"sandbox"`
	Project  string          `json:"project"`
}

// FrozenProgram is one program file by what tells that it is still the same.
type FrozenProgram struct {
	Path     string `json:"path"`
	Identity string `json:"identity"`
}

// Freeze makes the record of a command from the verdict on it.
func Freeze(c Command, v Verdict, p Place) Frozen {
	f := Frozen{
		Form: FormArgv, Argv: slices.Clone(c.Argv), Programs: []FrozenProgram{}, Dir: c.Dir, Env: sorted(c.Env), Secrets: sorted(c.Secrets),
		Sandbox: p.Sandbox.Level, Project: c.Project,
	}
	if len(c.Argv) == 0 {
		f.Form, f.Shell, f.Dialect = FormShell, c.Shell, c.Dialect
		if f.Dialect == "" {
			f.Dialect = Bash
		}
	}
	if f.Dir == "" {
		f.Dir = p.Target
	}
	if f.Sandbox == "" {
		f.Sandbox = SandboxNone
	}
	if c.Stdin != nil {
		sum := sha256.Sum256([]byte(*c.Stdin))
		f.Stdin = hex.EncodeToString(sum[:])
	}
	for _, program := range v.Programs {
		f.Programs = append(f.Programs, FrozenProgram{program.Path, program.Identity})
	}
	return f
}

func sorted(names []string) []string {
	names = append([]string{}, names...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Digest is the SHA-256 of the record in hex.
func (f Frozen) Digest() string {
	record, err := json.Marshal(f)
	if err != nil {
		panic("policy: a record of texts cannot be written: " + err.Error())
	}
	sum := sha256.Sum256(append([]byte("mcpx command 1\n"), record...))
	return hex.EncodeToString(sum[:])
}

// Differences names the fields in which two records differ, in the order of the record.
func (f Frozen) Differences(g Frozen) []string {
	var names []string
	for _, field := range []struct {
		name string
		same bool
	}{
		{"form", f.Form == g.Form},
		{"argv", slices.Equal(f.Argv, g.Argv)},
		{"shell", f.Shell == g.Shell},
		{"dialect", f.Dialect == g.Dialect},
		{"programs", slices.Equal(f.Programs, g.Programs)},
		{"cwd", f.Dir == g.Dir},
		{"env", slices.Equal(f.Env, g.Env)},
		{"secrets", slices.Equal(f.Secrets, g.Secrets)},
		{"stdin_sha256", f.Stdin == g.Stdin},
		{"sandbox", f.Sandbox == g.Sandbox},
		{"project", f.Project == g.Project},
	} {
		if !field.same {
			names = append(names, field.name)
		}
	}
	return names
}
