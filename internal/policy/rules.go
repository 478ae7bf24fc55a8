package policy

import (
	"path"
	"slices"
	"strings"
)

// Rules are what the user and a project add to the rules that are shipped. The zero value adds nothing. They are made by
// Combine.
type Rules struct {
	Files FileRules

	rules       []Rule
	lifts       []string // ids of shipped rules that do not count
	programDirs []string // more directories whose programs are known by their names
	contained   bool     // what no rule matches runs in a sandbox without asking
	broken      string   // why the file of the project does not load
}

// Rule is one rule of the user or of a project.
type Rule struct {
	ID         string
	Decision   Decision
	Program    string   // name, or absolute path of a program outside of the trusted directories
	Subcommand []string // the words that come first
	AllOf      []string // words, "*" stands for any text
	AnyOf      []string
	NoneOf     []string
	Prefix     []string // the words after the subcommand begin with these
	InTarget   bool     // every word that may be a file lies in the target
	Dir        string   // the command starts in this directory of the target or below it; "" anywhere
	Sandbox    string   // at least this level is applied, without gaps; "" any
	Network    string   // "on" or "off"; "" either
	Secrets    []string // an allowing rule: secrets the program may be given
	Project    string   // an allowing rule: the only project it counts for

	project bool // from the file of a project
}

// Broken says why the policy file of the project does not load, "" when it does or when there is none.
func (r Rules) Broken() string { return r.broken }

// lifted tells that the user has lifted a shipped rule.
func (r *Rules) lifted(id string) bool { return slices.Contains(r.lifts, id) }

// userFindings are the rules that tighten.
func (s *script) userFindings(c *call, words []arg) []finding {
	var found []finding
	for i := range s.rules.rules {
		r := &s.rules.rules[i]
		if r.Decision != Allow && s.matchesRule(r, c, words) {
			whose := "a rule of the user"
			if r.project {
				whose = "a rule of the project"
			}
			found = append(found, finding{r.Decision, r.ID, whose})
		}
	}
	return found
}

// defaultDecision is what becomes of a command that no shipped rule knows.
func (s *script) defaultDecision(c *call, words []arg, otherwise finding) finding {
	if !anyDynamic(c.args) {
		for i := range s.rules.rules {
			r := &s.rules.rules[i]
			if r.Decision == Allow && len(r.Secrets) == 0 && s.matchesRule(r, c, words) {
				return allowed(r.ID, "a rule of the user")
			}
		}
	}
	if s.rules.contained && s.place.Sandbox.contains() {
		return allowed("default", "it runs in the sandbox, without a network")
	}
	return otherwise
}

// secretsGiven keeps which secrets of the call a program would get that no rule names.
func (s *script) secretsGiven(c *call, words []arg) {
	for _, secret := range s.cmd.Secrets {
		if !s.receives(secret, c) {
			s.foreign[secret] = quote(c.name())
			if c.args[0].dynamic {
				s.foreign[secret] = "a program that is not known before it runs"
			}
		}
		named := slices.ContainsFunc(s.rules.rules, func(r Rule) bool {
			return r.Decision == Allow && slices.Contains(r.Secrets, secret) && r.Project == s.cmd.Project && s.matchesRule(&r, c, words)
		})
		if !named || anyDynamic(c.args) {
			s.ungiven[secret] = true
		} else {
			s.given[secret] = true
		}
	}
}

// receives tells that a secret is for the program of a command.
func (s *script) receives(secret string, c *call) bool {
	programs := s.cmd.Receivers[secret]
	return len(programs) == 0 || slices.ContainsFunc(programs, func(program string) bool {
		return s.matchesProgram(&Rule{Program: program, Decision: Allow}, c)
	})
}

// matchesRule tells that a rule is about a command. A rule that allows has to match everything, one that tightens only has
// to be possible.
func (s *script) matchesRule(r *Rule, c *call, words []arg) bool {
	if !s.matchesProgram(r, c) || !s.matchesPlace(r, c) {
		return false
	}
	known := make([]string, 0, len(words))
	for _, a := range words[1:] {
		if !a.dynamic {
			known = append(known, a.text)
		}
	}
	rest, ok := afterSubcommand(known, r.Subcommand, r.Decision != Allow)
	if !ok || len(r.Prefix) > len(rest) || !slices.Equal(rest[:len(r.Prefix)], r.Prefix) {
		return false
	}
	holds := func(pattern string) bool {
		return slices.ContainsFunc(known, func(word string) bool { return wildcard(pattern, word) })
	}
	if slices.ContainsFunc(r.NoneOf, holds) || len(r.AnyOf) > 0 && !slices.ContainsFunc(r.AnyOf, holds) {
		return false
	}
	if slices.ContainsFunc(r.AllOf, func(pattern string) bool { return !holds(pattern) }) {
		return false
	}
	return !r.InTarget || s.operandsInTarget(known, c.scope)
}

// matchesProgram compares names. A rule that allows is about the program that the PATH or a trusted directory gives.
func (s *script) matchesProgram(r *Rule, c *call) bool {
	if strings.HasPrefix(r.Program, "/") {
		return path.Clean(c.name()) == r.Program || c.plain() && s.world.Program(c.name()).Path == r.Program
	}
	if c.base() != r.Program {
		return false
	}
	return r.Decision != Allow || c.plain() || s.trustedDir(path.Dir(path.Clean(c.name())))
}

func (s *script) matchesPlace(r *Rule, c *call) bool {
	applied := s.place.Sandbox
	if r.Sandbox != "" && (sandboxRank(applied.Level) < sandboxRank(r.Sandbox) || applied.Gaps) {
		return false
	}
	if r.Network != "" && applied.Network != (r.Network == "on") {
		return false
	}
	if r.Dir == "" {
		return true
	}
	if c.dirs.unknown {
		return r.Decision != Allow
	}
	inside := func(dir string) bool { return within(dir, path.Join(s.place.Target, r.Dir)) }
	if r.Decision == Allow {
		return !slices.ContainsFunc(s.current(c.scope), func(dir string) bool { return !inside(dir) })
	}
	return slices.ContainsFunc(s.current(c.scope), inside)
}

// afterSubcommand gives the words after a subcommand. loose finds it behind options as well, whose values are not known: a
// rule that tightens is not avoided with an option in front.
func afterSubcommand(words, subcommand []string, loose bool) ([]string, bool) {
	if len(subcommand) == 0 {
		return words, true
	}
	for i := range words {
		if len(words)-i >= len(subcommand) && slices.Equal(words[i:i+len(subcommand)], subcommand) {
			return words[i+len(subcommand):], true
		}
		option := strings.HasPrefix(words[i], "-")
		value := i > 0 && strings.HasPrefix(words[i-1], "-")
		if !loose || !option && !value {
			return nil, false
		}
	}
	return nil, false
}

// operandsInTarget tells that every word that may name a file lies in the target or in the temporary directory.
func (s *script) operandsInTarget(words []string, sc scope) bool {
	for _, word := range words {
		for _, file := range possibleFiles(word) {
			names, unresolved := s.absolute(file, sc)
			if unresolved && !strings.HasPrefix(word, "-") {
				return false
			}
			for _, name := range names {
				if s.locate(s.world.File(name).Path) == outside {
					return false
				}
			}
		}
	}
	return true
}

// wildcard matches a word with a pattern in which "*" stands for any text.
func wildcard(pattern, word string) bool {
	first, rest, any := strings.Cut(pattern, "*")
	if !any {
		return pattern == word
	}
	if !strings.HasPrefix(word, first) {
		return false
	}
	word = word[len(first):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(word, part)
		}
		at := strings.Index(word, part)
		if at < 0 {
			return false
		}
		word, rest = word[at+len(part):], after
	}
}
