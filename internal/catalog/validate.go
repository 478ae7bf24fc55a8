package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mcpx/internal/fault"
)

const (
	// maxName bounds names and aliases: clients build tool names of at most 64 characters from them.
	maxName = 64
	// maxAliases, maxArgs, maxBindings and maxText bound one entry to some hundred KiB, so that a page of entries and
	// the environment of a child stay below every limit of the systems we run on.
	maxAliases  = 16
	maxArgs     = 512
	maxBindings = 256
	maxText     = 64 << 10
	maxWords    = 32
	// maxTime bounds the times of an entry: a call that is silent for a day is lost.
	maxTime = 24 * time.Hour
)

// reserved is the name of mcpx's own control server, governance.md section 2.1.
const reserved = "mcp_hub"

// invalid is an error about one field of an entry.
func invalid(field, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "server-invalid").
		Saying("%s: %s", field, fmt.Sprintf(format, args...)).Retrying(fault.AfterFix)
}

// Validate says what is wrong with an entry: a *fault.Error that names the field and the next step, or nil.
func Validate(s Server) error {
	checks := []func(Server) *fault.Error{validNames, validBackend, validModes, validPlace, validPass, validLimits, validTexts, validWords}
	for _, check := range checks {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// ValidName says what is wrong with a name or an alias.
func ValidName(name string) error {
	if err := validName("name", name); err != nil {
		return err
	}
	return nil
}

func validName(field, name string) *fault.Error {
	e := fault.New(fault.Invalid, "server-name").Retrying(fault.AfterFix)
	switch {
	case name == "":
		return e.Saying("%s: empty", field).Hinting("choose a short name such as %q", "github")
	case name == "." || name == "..":
		return e.Saying("%s: %q cannot be part of a URL path", field, name).Hinting("choose a short name such as %q", "github")
	case name == reserved:
		return e.Saying("%s: %q is the name of mcpx's own server", field, name).Hinting("choose another name")
	case len(name) > maxName:
		return e.Saying("%s: %d characters, at most %d are allowed", field, len(name), maxName).
			Hinting("shorten it to %q", name[:16])
	}
	if safe := SafeName(name); safe != name {
		return e.Saying("%s: %q may hold only the letters A-Z and a-z, digits, and . _ -", field, name).
			Hinting("use %q", safe)
	}
	return nil
}

// SafeName is the nearest valid name: other characters become a hyphen. It may still be taken by another entry.
func SafeName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && isNameByte(byte(r)) {
			return r
		}
		return '-'
	}, name)
	safe = safe[:min(len(safe), maxName)]
	if safe != name { // what was repaired does not begin or end with what stands for something else
		safe = strings.Trim(safe, "-.")
	}
	switch {
	case strings.Trim(safe, "-.") == "":
		return "server"
	case safe == reserved:
		return "server-" + safe
	}
	return safe
}

func isNameByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' }

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func validNames(s Server) *fault.Error {
	if err := validName("name", s.Name); err != nil {
		return err
	}
	if len(s.Aliases) > maxAliases {
		return invalid("aliases", "%d of them, at most %d are allowed", len(s.Aliases), maxAliases).Hinting("remove some")
	}
	seen := map[string]bool{s.Name: true}
	for _, a := range s.Aliases {
		if err := validName("alias", a); err != nil {
			return err
		}
		if seen[a] {
			return invalid("aliases", "%q is there twice, or is the name itself", a).Hinting("remove it")
		}
		seen[a] = true
	}
	return nil
}

func validBackend(s Server) *fault.Error {
	switch {
	case s.Stdio == nil && s.HTTP == nil:
		return invalid("backend", "neither a command nor a URL").
			Hinting("add `-- COMMAND ARGS...` or `--url URL`")
	case s.Stdio != nil && s.HTTP != nil:
		return invalid("backend", "both a command and a URL").Hinting("keep one of them; add a second server for the other")
	case s.Stdio != nil:
		return validStdio(*s.Stdio)
	}
	if s.Direct {
		return invalid("supervised", "a server behind a URL has no process to supervise").Hinting("leave --supervised out")
	}
	return validHTTP(*s.HTTP)
}

func validStdio(b Stdio) *fault.Error {
	if err := validCommand(b.Command); err != nil {
		return err
	}
	if len(b.Args) > maxArgs {
		return invalid("args", "%d of them, at most %d are allowed", len(b.Args), maxArgs).Hinting("put them in a file of the server's")
	}
	for i, a := range b.Args {
		if !cleanText(a) {
			return invalid("args", "number %d holds a NUL byte or no valid UTF-8", i+1).Hinting("no program can receive it; correct it")
		}
	}
	if b.Cwd != "" && !isAbs(b.Cwd) {
		return invalid("cwd", "%q is no absolute path", b.Cwd).Hinting("write the whole path, or leave it out to start in your home")
	}
	if err := validDirectory(b); err != nil {
		return err
	}
	if n := len(b.Env) + len(b.EnvPass); n > maxBindings {
		return invalid("env", "%d variables, at most %d are allowed", n, maxBindings).Hinting("put them in a file of the server's")
	}
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		if err := validEnvName("env", name); err != nil {
			return err
		}
		if err := validBinding("env "+name, b.Env[name]); err != nil {
			return err
		}
	}
	for _, name := range b.EnvPass {
		if err := validEnvName("env-pass", name); err != nil {
			return err
		}
		if _, twice := b.Env[name]; twice {
			return invalid("env-pass", "%s has a value in env already", name).Hinting("keep one of them")
		}
	}
	return nil
}

func validCommand(c string) *fault.Error {
	switch {
	case strings.TrimSpace(c) == "":
		return invalid("command", "empty").Hinting("write the program and its arguments after `--`, for example `-- npx -y some-server`")
	case !cleanText(c):
		return invalid("command", "holds a NUL byte or no valid UTF-8").Hinting("correct it")
	}
	// A path may hold spaces; a name that is looked up in PATH never does, so this is a line for a shell.
	if word := strings.Fields(c)[0]; word != c && !strings.ContainsAny(word, `/\`) {
		return invalid("command", "%q is a line for a shell, not a program", c).
			Hinting("put the arguments after the command, unquoted: `-- %s`", c)
	}
	if strings.Contains(c, "/") && !isAbs(c) {
		return invalid("command", "%q is a relative path", c).
			Hinting("write the absolute path, or a bare name that is found in PATH")
	}
	return nil
}

// validDirectory refuses a policy that another field contradicts.
func validDirectory(b Stdio) *fault.Error {
	if err := among("cwd-policy", b.CwdPolicy, "", CwdNone, CwdHome, CwdFixed, CwdWorkspace); err != nil {
		return fault.From(err)
	}
	switch {
	case b.CwdPolicy == CwdFixed && b.Cwd == "":
		return invalid("cwd-policy", "fixed needs a directory").Hinting("name it with --cwd")
	case b.CwdPolicy != "" && b.CwdPolicy != CwdFixed && b.Cwd != "":
		return invalid("cwd-policy", "%s and the directory %q contradict each other", b.CwdPolicy, b.Cwd).
			Hinting("use fixed, or leave the directory out: `--cwd \"\"`")
	}
	return nil
}

// isAbs: no os here, and an entry must mean the same on every system that may read it.
func isAbs(p string) bool {
	return strings.HasPrefix(p, "/") || len(p) > 2 && isAlnum(p[0]) && p[1] == ':' && (p[2] == '\\' || p[2] == '/')
}

func cleanText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func validEnvName(field, name string) *fault.Error {
	bad := name == "" || strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '=' }) >= 0
	if bad || isDigit(name[0]) {
		return invalid(field, "%q is no name of a variable", name).Hinting("write it as NAME=VALUE, with letters, digits and _ in the name")
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func validBinding(field string, b Binding) *fault.Error {
	set := 0
	for _, v := range []string{b.Literal, b.Ref, b.Template} {
		if v != "" {
			set++
		}
		if !cleanText(v) {
			return invalid(field, "holds a NUL byte or no valid UTF-8").Hinting("correct it")
		}
	}
	if b.Unresolved {
		set++
	}
	if set > 1 {
		return invalid(field, "has several of literal, ref, template and unresolved").Hinting("keep one of them")
	}
	if _, err := b.Refs(); err != nil {
		return fault.From(err)
	}
	return nil
}

func validModes(s Server) *fault.Error {
	checks := []func() error{
		func() error { _, err := ParseSharing(string(s.Sharing)); return err },
		func() error { return optional(s.Protocol, ParseProtocol) },
		func() error { return among("id-style", s.IDStyle, "", "int") },
		func() error { return among("on-change", s.OnChange, "", OnChangeReplace, OnChangeKeep) },
		func() error { return among("retry", s.Retry, "", "idempotent") },
		func() error {
			return among("review", s.Review, ReviewPending, ReviewApproved, ReviewRejected, ReviewQuarantined)
		},
		func() error { return among("lifecycle", s.Lifecycle, Enabled, Disabled, Deprecated) },
		func() error { return among("risk", s.Risk, "", RiskLow, RiskNormal, RiskHigh, RiskUnknown) },
		func() error { return among("pins", s.Pins, "", PinsStrict, PinsWarn, PinsOff) },
	}
	if s.HTTP != nil {
		checks = append(checks, func() error { return optional(s.HTTP.Transport, ParseTransport) })
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return fault.From(err)
		}
	}
	return nil
}

// validPlace refuses a directory of one caller for a process of several.
func validPlace(s Server) *fault.Error {
	if s.Directory() != CwdWorkspace || s.Sharing == ShareSession || s.Sharing == ShareWorkspace || s.Sharing == ShareNone {
		return nil
	}
	return invalid("cwd-policy", "sharing %s is one process for callers of many workspaces", s.Sharing).
		Hinting("use --sharing workspace or session, or another directory")
}

// validPass refuses that the credential of the client which comes first serves everybody.
func validPass(s Server) *fault.Error {
	if s.Stdio == nil || len(s.Stdio.EnvPass) == 0 || s.Sharing != ShareAccount && s.Sharing != ShareGlobal {
		return nil
	}
	return invalid("env-pass", "sharing %s is one process for many clients, and each may hand on another value", s.Sharing).
		Hinting("use --sharing session, agent or workspace, or give one value for all with --env-from")
}

// optional lets the empty value pass; it means auto.
func optional[T ~string](v T, parse func(string) (T, error)) error {
	if v == "" {
		return nil
	}
	_, err := parse(string(v))
	return err
}

func among[T ~string](field string, v T, values ...T) error {
	if slices.Contains(values, v) {
		return nil
	}
	_, err := parse(field, string(v), slices.DeleteFunc(values, func(v T) bool { return v == "" })...)
	return err
}

func validLimits(s Server) *fault.Error {
	for _, l := range []struct {
		field string
		d     time.Duration
	}{{"start-timeout", s.Limits.Start}, {"call-timeout", s.Limits.Call}, {"max-timeout", s.Limits.Max}} {
		if l.d < 0 || l.d > maxTime {
			return invalid(l.field, "%s is not between 0 and %s", l.d, maxTime).Hinting("write a duration such as 90s or 5m")
		}
	}
	if s.Limits.Idle > 365*maxTime {
		return invalid("idle-timeout", "%s is too long", s.Limits.Idle).Hinting("use `never` for a server that is not stopped")
	}
	if l := s.Limits.OrDefault(); l.Max < l.Call {
		return invalid("call-timeout", "%s is longer than the %s that one call may take in all", l.Call, l.Max).
			Hinting("shorten it, or raise the maximum too")
	}
	return nil
}

// validWords checks tags and profiles: words that a person types to find and to choose servers.
func validWords(s Server) *fault.Error {
	for _, list := range []struct {
		field string
		words []string
	}{{"tags", s.Tags}, {"profiles", s.Profiles}} {
		if len(list.words) > maxWords {
			return invalid(list.field, "%d of them, at most %d are allowed", len(list.words), maxWords).Hinting("remove some")
		}
		for i, word := range list.words {
			if err := validWord(list.field, word); err != nil {
				return err
			}
			if slices.Contains(list.words[:i], word) {
				return invalid(list.field, "%q is there twice", word).Hinting("remove it")
			}
		}
	}
	return nil
}

func validWord(field, word string) *fault.Error {
	if word == "" || len(word) > maxName || SafeName(word) != word {
		return invalid(field, "%q may hold only the letters A-Z and a-z, digits, and . _ -, at most %d of them", word, maxName).
			Hinting("use %q", SafeName(word))
	}
	return nil
}

// ValidProfile says what is wrong with the name of a profile.
func ValidProfile(name string) error {
	if err := validWord("profile", name); err != nil {
		return err
	}
	return nil
}

func validTexts(s Server) *fault.Error {
	size := len(s.Title) + len(s.Notes)
	if s.Stdio != nil {
		size += len(s.Stdio.Command) + len(strings.Join(s.Stdio.Args, ""))
		for _, b := range s.Stdio.Env {
			size += len(b.Literal) + len(b.Template)
		}
	}
	if size > maxText {
		return invalid("entry", "%d bytes of text, at most %d are allowed", size, maxText).Hinting("shorten the notes, arguments or variables")
	}
	if !cleanText(s.Title) || !cleanText(s.Notes) {
		return invalid("title", "title or notes hold a NUL byte or no valid UTF-8").Hinting("correct it")
	}
	return nil
}
