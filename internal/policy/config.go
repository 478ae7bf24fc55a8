package policy

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
)

// Bounds of a policy file: a project's file comes from a repository, and every rule is tried for every command.
const (
	maxRules     = 500
	maxGlobs     = 500
	maxRuleWords = 64
	maxPattern   = 512 // bytes of one word, glob or path
	maxWarnings  = 20
)

// Policy is one policy file after it was read.
type Policy struct {
	rules       []Rule
	lifts       []string
	programDirs []string
	contained   bool
	globs       globSet
	except      []string
}

// KeyError is what is wrong with one key of a policy file.
type KeyError struct {
	Key  string // commands.rule[2].decision
	Says string
}

func (e *KeyError) Error() string { return e.Key + ": " + e.Says }

// ParseUser reads the decoded values of the user's policy file. The error is a *KeyError.
func ParseUser(values map[string]any) (Policy, error) {
	r := reader{}
	p := r.policy(values)
	if r.err != nil {
		return Policy{}, r.err
	}
	return p, nil
}

// ParseProject reads the decoded values of a project's policy file. What would loosen the rules is left out, and each such
// key is a warning.
func ParseProject(values map[string]any) (Policy, []string, error) {
	r := reader{project: true}
	p := r.policy(values)
	p.globs.project = true
	if r.err != nil {
		return Policy{}, nil, r.err
	}
	return p, r.warnings, nil
}

// Combine puts the file of the user and that of a project together. broken says why the file of the project does not
// load, "" when it does or when there is none: a broken one makes every command of the project confirm.
func Combine(user, project Policy, broken string) Rules {
	return Rules{
		rules: slices.Concat(user.rules, project.rules), lifts: user.lifts, programDirs: user.programDirs, contained: user.contained,
		broken: broken, Files: FileRules{user: user.globs, project: project.globs, except: user.except},
	}
}

// reader reads decoded values and keeps the first error.
type reader struct {
	project  bool
	err      *KeyError
	warnings []string
}

func (r *reader) fail(key, format string, args ...any) {
	if r.err == nil {
		r.err = &KeyError{key, fmt.Sprintf(format, args...)}
	}
}

func (r *reader) warn(format string, args ...any) {
	if len(r.warnings) < maxWarnings {
		r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
	}
}

// loosens tells that a key is the user's only; in the file of a project it is left out.
func (r *reader) loosens(key string) bool {
	if r.project {
		r.warn("%s is left out: a project can only tighten the policy", key)
	}
	return r.project
}

func (r *reader) policy(values map[string]any) Policy {
	var p Policy
	for key, value := range r.table("", values, "commands", "files") {
		table, ok := value.(map[string]any)
		if !ok {
			r.fail(key, "want a table")
			continue
		}
		if key == "commands" {
			r.commands(&p, table)
		} else {
			r.files(&p, table)
		}
	}
	return p
}

// table gives the entries of a table in the order of their keys and refuses keys that are not known.
func (r *reader) table(prefix string, values map[string]any, known ...string) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !slices.Contains(known, key) {
				r.fail(prefix+key, "this key is not known; there are %s", strings.Join(known, ", "))
				return
			}
			if !yield(key, values[key]) {
				return
			}
		}
	}
}

func (r *reader) commands(p *Policy, values map[string]any) {
	const prefix = "commands."
	for key, value := range r.table(prefix, values, "contained", "lift", "program_dirs", "rule") {
		switch key {
		case "contained":
			text := r.oneOf(prefix+key, value, "confirm", "allow")
			if text == "allow" && !r.loosens(prefix+key) {
				p.contained = true
			}
		case "lift":
			ids := r.words(prefix+key, value, maxRules)
			if len(ids) > 0 && r.loosens(prefix+key) {
				continue
			}
			for _, id := range ids {
				if !liftable(id) {
					r.fail(prefix+key, "%q is no rule that can be lifted", id)
				}
			}
			p.lifts = ids
		case "program_dirs":
			dirs := r.words(prefix+key, value, maxRules)
			if len(dirs) > 0 && r.loosens(prefix+key) {
				continue
			}
			for _, dir := range dirs {
				if !strings.HasPrefix(dir, "/") || path.Clean(dir) != dir {
					r.fail(prefix+key, "%q is no clean absolute path", dir)
				}
			}
			p.programDirs = dirs
		case "rule":
			p.rules = r.rules(value)
		}
	}
}

func (r *reader) rules(value any) []Rule {
	const key = "commands.rule"
	list, ok := tables(value)
	if !ok {
		r.fail(key, "want a list of tables")
		return nil
	}
	if len(list) > maxRules {
		r.fail(key, "%d rules, at most %d", len(list), maxRules)
		return nil
	}
	var rules []Rule
	seen := map[string]bool{}
	for i, values := range list {
		rule, ok := r.rule(fmt.Sprintf("%s[%d].", key, i), values)
		if seen[rule.ID] {
			r.fail(key, "the id %q is given twice", rule.ID)
		}
		seen[rule.ID] = true
		if ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

// tables takes a list of tables as decoders give it.
func tables(value any) ([]map[string]any, bool) {
	switch list := value.(type) {
	case []map[string]any:
		return list, true
	case []any:
		out := make([]map[string]any, len(list))
		for i, elem := range list {
			table, ok := elem.(map[string]any)
			if !ok {
				return nil, false
			}
			out[i] = table
		}
		return out, true
	}
	return nil, false
}

// rule reads one rule; false when it is left out.
func (r *reader) rule(prefix string, values map[string]any) (Rule, bool) {
	rule := Rule{project: r.project}
	operands := ""
	for key, value := range r.table(prefix, values, "id", "decision", "program", "subcommand", "args", "operands", "cwd", "when", "secrets", "project") {
		at := prefix + key
		switch key {
		case "id":
			rule.ID = r.text(at, value)
		case "decision":
			rule.Decision = Decision(r.oneOf(at, value, string(Allow), string(Confirm), string(Deny)))
		case "program":
			rule.Program = r.text(at, value)
		case "subcommand":
			rule.Subcommand = strings.Fields(r.text(at, value))
		case "args":
			r.arguments(at, value, &rule)
		case "operands":
			operands = r.oneOf(at, value, "target", "any")
		case "cwd":
			rule.Dir = r.text(at, value)
		case "when":
			r.when(at, value, &rule)
		case "secrets":
			rule.Secrets = r.words(at, value, maxRuleWords)
		case "project":
			rule.Project = r.text(at, value)
		}
	}
	rule.InTarget = operands == "target" || operands == "" && rule.Decision == Allow
	r.checkRule(prefix, &rule)
	if r.err == nil && rule.Decision == Allow && r.loosens(prefix+"decision = \"allow\" (rule "+rule.ID+")") {
		return rule, false
	}
	return rule, r.err == nil
}

func (r *reader) checkRule(prefix string, rule *Rule) {
	switch {
	case !validID(rule.ID):
		r.fail(prefix+"id", "want small letters, digits, \".\", \"_\" and \"-\", at most 64")
	case shipped(rule.ID) || strings.HasPrefix(rule.ID, "file."):
		r.fail(prefix+"id", "%q is the id of a rule that is built in; `lift` lifts it", rule.ID)
	case rule.Decision == "":
		r.fail(prefix+"decision", "want allow, confirm or deny")
	case rule.Program == "":
		r.fail(prefix+"program", "want the name of a program, or an absolute path")
	case !ValidProgram(rule.Program):
		r.fail(prefix+"program", "%q is neither a name nor a clean absolute path", rule.Program)
	case rule.Dir != "" && (strings.HasPrefix(rule.Dir, "/") || path.Clean(rule.Dir) != rule.Dir || strings.HasPrefix(rule.Dir, "..")):
		r.fail(prefix+"cwd", "%q is no clean path below the target", rule.Dir)
	case len(rule.Secrets) > 0 && (rule.Decision != Allow || rule.Project == ""):
		r.fail(prefix+"secrets", "a rule that gives secrets allows, and names the project")
	case rule.Project != "" && len(rule.Secrets) == 0:
		r.fail(prefix+"project", "only a rule that gives secrets names a project")
	}
}

// ValidProgram tells that text can name the program of a rule: by its name, or by a clean absolute path.
func ValidProgram(text string) bool {
	return text != "" && (!strings.Contains(text, "/") || strings.HasPrefix(text, "/") && path.Clean(text) == text)
}

func validID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789._-") == "" && strings.Trim(id, ".-_") != ""
}

func (r *reader) arguments(prefix string, value any, rule *Rule) {
	table, ok := value.(map[string]any)
	if !ok {
		r.fail(prefix, "want a table")
		return
	}
	for key, value := range r.table(prefix+".", table, "all_of", "any_of", "none_of", "prefix") {
		words := r.words(prefix+"."+key, value, maxRuleWords)
		switch key {
		case "all_of":
			rule.AllOf = words
		case "any_of":
			rule.AnyOf = words
		case "none_of":
			rule.NoneOf = words
		case "prefix":
			rule.Prefix = words
		}
	}
}

func (r *reader) when(prefix string, value any, rule *Rule) {
	table, ok := value.(map[string]any)
	if !ok {
		r.fail(prefix, "want a table")
		return
	}
	for key, value := range r.table(prefix+".", table, "sandbox", "network") {
		if key == "sandbox" {
			rule.Sandbox = r.oneOf(prefix+"."+key, value, SandboxNone, SandboxWorkspace, SandboxStrict)
		} else {
			rule.Network = r.oneOf(prefix+"."+key, value, "on", "off")
		}
	}
}

func (r *reader) files(p *Policy, values map[string]any) {
	const prefix = "files."
	for key, value := range r.table(prefix, values, "deny", "read_only", "confirm_write", "except") {
		globs := r.words(prefix+key, value, maxGlobs)
		for _, glob := range globs {
			if why := wrongGlob(glob); why != "" {
				r.fail(prefix+key, "%q %s", glob, why)
			}
		}
		switch key {
		case "deny":
			p.globs.deny = globs
		case "read_only":
			p.globs.readOnly = globs
		case "confirm_write":
			p.globs.confirm = globs
		case "except":
			if len(globs) > 0 && !r.loosens(prefix+key) {
				p.except = globs
			}
		}
	}
}

// wrongGlob says what is wrong with a glob, "" when nothing is.
func wrongGlob(glob string) string {
	for part := range strings.SplitSeq(strings.Trim(glob, "/"), "/") {
		switch _, err := path.Match(part, ""); {
		case err != nil:
			return "is no glob"
		case part == "." || part == ".." || part == "":
			return "is no clean path"
		case strings.Contains(part, "**") && part != "**":
			return "has ** beside other characters: it stands alone between slashes"
		}
	}
	return ""
}

func (r *reader) text(key string, value any) string {
	text, ok := value.(string)
	switch {
	case !ok:
		r.fail(key, "want a text")
	case text == "":
		r.fail(key, "is empty")
	case len(text) > maxPattern:
		r.fail(key, "has %d bytes, at most %d", len(text), maxPattern)
	}
	return text
}

func (r *reader) oneOf(key string, value any, choices ...string) string {
	text, ok := value.(string)
	if !ok || !slices.Contains(choices, text) {
		r.fail(key, "want %s", strings.Join(choices, " or "))
		return ""
	}
	return text
}

func (r *reader) words(key string, value any, most int) []string {
	var words []string
	switch list := value.(type) {
	case []string:
		words = list
	case []any:
		for _, elem := range list {
			words = append(words, r.text(key, elem))
		}
	default:
		r.fail(key, "want a list of texts")
		return nil
	}
	if len(words) > most {
		r.fail(key, "has %d entries, at most %d", len(words), most)
		return nil
	}
	for _, word := range words {
		_ = r.text(key, word)
	}
	return words
}
