package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/policy"
	"mcpx/internal/work"
)

// Policies are what config/policy.toml says.
type Policies struct {
	Plans converge.Policy // which plans need no person
	Work  policy.Policy   // commands and files of agents
	Tools policy.Tools    // tools of other servers
}

// policyFile is config/policy.toml.
type policyFile struct {
	Unknown  string         `toml:"unknown"`
	Auto     []string       `toml:"auto"`
	Commands map[string]any `toml:"commands"`
	Files    map[string]any `toml:"files"`
	Tools    struct {
		Allow []string `toml:"allow"`
	} `toml:"tools"`
}

// projectPolicyFile is what a repository says of itself. It can only tighten.
type projectPolicyFile struct {
	Commands map[string]any `toml:"commands"`
	Files    map[string]any `toml:"files"`
}

// LoadPolicy reads what a person wrote down about plans, commands, files and tools. A file that does not exist is the policy that
// forbids everything that needs a person, and adds nothing to the rules that are shipped.
func LoadPolicy(path string) (Policies, error) {
	data, err := readPlain(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Policies{}, nil
	case err != nil:
		return Policies{}, fault.New(fault.Invalid, "policy-unreadable").Saying("the policy file cannot be read").Because(err).
			Hinting("check its owner and mode")
	case len(data) > maxSettings:
		return Policies{}, fault.New(fault.Invalid, "policy-unreadable").Saying("%s is larger than %d bytes", path, maxSettings)
	}
	var file policyFile
	if err := decodePolicy(path, data, &file); err != nil {
		return Policies{}, err
	}
	p := Policies{Plans: converge.Policy{Unknown: converge.Unlisted(file.Unknown)}}
	for _, class := range file.Auto {
		p.Plans.Auto = append(p.Plans.Auto, converge.RiskClass(class))
	}
	if err := p.Plans.Valid(); err != nil {
		f := fault.From(err)
		return Policies{}, f.Saying("%s: %s", path, f.Message)
	}
	if p.Work, err = policy.ParseUser(sections(file.Commands, file.Files)); err != nil {
		return Policies{}, misplaced(path, data, err)
	}
	if p.Tools, err = policy.ParseTools(file.Tools.Allow); err != nil {
		return Policies{}, policyInvalid(path, err)
	}
	return p, nil
}

// parseProjectPolicy reads the policy file of a project. The warnings tell what is left out, because it would loosen.
func parseProjectPolicy(data []byte) (policy.Policy, []string, error) {
	var file projectPolicyFile
	if err := decodePolicy(work.ProjectPolicy, data, &file); err != nil {
		return policy.Policy{}, nil, err
	}
	p, warnings, err := policy.ParseProject(sections(file.Commands, file.Files))
	if err != nil {
		err = misplaced(work.ProjectPolicy, data, err)
	}
	return p, warnings, err
}

// sections leaves out what the file does not have.
func sections(commands, files map[string]any) map[string]any {
	values := map[string]any{}
	if commands != nil {
		values["commands"] = commands
	}
	if files != nil {
		values["files"] = files
	}
	return values
}

// decodePolicy reads TOML and names line and key of what is wrong.
func decodePolicy(path string, data []byte, into any) error {
	d := toml.NewDecoder(strings.NewReader(string(data))).DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	f := policyInvalid(path, err)
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(missing.Errors) > 0 {
		line, _ := missing.Errors[0].Position()
		return f.Saying("%s, line %d: there is no %s in a policy", path, line, strings.Join(missing.Errors[0].Key(), "."))
	}
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := at.Position()
		what := err.Error()
		if len(at.Key()) > 0 { // what the library says of a value names our types
			what = fmt.Sprintf("%s has a value of another kind than it may have", strings.Join(at.Key(), "."))
		}
		return f.Saying("%s, line %d, column %d: %s", path, line, column, what)
	}
	return f
}

func policyInvalid(path string, err error) *fault.Error {
	return fault.New(fault.Invalid, "policy-invalid").Saying("%s: %v", path, err).
		Hinting("docs/policy.md and docs/governance.md list what the file may say").Retrying(fault.AfterFix)
}

// misplaced adds the line of a key.
func misplaced(path string, data []byte, err error) error {
	f := policyInvalid(path, err)
	if at, ok := errors.AsType[*policy.KeyError](err); ok {
		if line := lineOf(data, at.Key); line > 0 {
			return f.Saying("%s, line %d: %v", path, line, err)
		}
	}
	return f
}

// lineOf is the line of a key such as commands.rule[2].decision, or of what is nearest above it; 0 when nothing is.
func lineOf(data []byte, key string) int {
	var p unstable.Parser
	p.Reset(data)
	l := lines{parser: &p, at: map[string]int{}, counts: map[string]int{}}
	prefix := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind { //nolint:exhaustive // an expression is one of these, or a comment
		case unstable.Table, unstable.ArrayTable:
			var line int
			prefix, line = l.name("", e)
			if e.Kind == unstable.ArrayTable {
				l.counts[prefix]++
				prefix = l.last(prefix)
			}
			l.at[prefix] = line
		case unstable.KeyValue:
			l.keyValue(prefix, e)
		}
	}
	for ; key != "" && key != "."; key = strings.TrimSuffix(key, path.Ext(key)) {
		if line, ok := l.at[key]; ok {
			return line
		}
		if list, _, in := strings.Cut(path.Ext(key), "["); in {
			if line, ok := l.at[strings.TrimSuffix(key, path.Ext(key))+list]; ok {
				return line
			}
		}
		if !strings.Contains(key, ".") {
			break
		}
	}
	return 0
}

// lines collects where keys stand.
type lines struct {
	parser *unstable.Parser
	at     map[string]int
	counts map[string]int // tables of a list so far
}

// last is the table of a list that was begun last; what is no list stays.
func (l *lines) last(name string) string {
	if n := l.counts[name]; n > 0 {
		return fmt.Sprintf("%s[%d]", name, n-1)
	}
	return name
}

// name is the dotted name of an expression below a prefix, and its line.
func (l *lines) name(prefix string, n *unstable.Node) (string, int) {
	line := 0
	for keys := n.Key(); keys.Next(); {
		part := keys.Node()
		if line == 0 {
			line = l.parser.Shape(part.Raw).Start.Line
		}
		if prefix != "" {
			prefix = l.last(prefix) + "."
		}
		prefix += string(part.Data)
	}
	return prefix, line
}

func (l *lines) keyValue(prefix string, n *unstable.Node) (line int) {
	name, line := l.name(prefix, n)
	l.at[name] = line
	l.value(name, n.Value())
	return line
}

func (l *lines) value(name string, n *unstable.Node) {
	switch n.Kind { //nolint:exhaustive // other values hold no keys
	case unstable.InlineTable:
		for all := n.Children(); all.Next(); {
			line := l.keyValue(name, all.Node())
			if _, known := l.at[name]; !known {
				l.at[name] = line // of its first key
			}
		}
	case unstable.Array:
		i := 0
		for all := n.Children(); all.Next(); i++ {
			l.value(fmt.Sprintf("%s[%d]", name, i), all.Node())
		}
	}
}
