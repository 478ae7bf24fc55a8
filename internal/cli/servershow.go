package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
)

var serverShow = Command{
	Path: "server show", Short: "Show everything about a server", Op: "server.show", Args: "NAME", Min: 1, Max: 1, Complete: serverNames,
	Example: "mcpx server show memory",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		s, err := service.Server(ctx, api.ServerRef{Name: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(s, func(w io.Writer) { e.printServer(w, s) })
	},
}

func (e *Env) printServer(w io.Writer, s api.Server) {
	limits := s.Limits.OrDefault()
	idle := age(limits.Idle)
	if limits.Idle < 0 {
		idle = "never"
	}
	rows := [][2]string{{"name", s.Name}, {"url", s.Route}, {"state", stateOf(s)}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, plain(value)})
		}
	}
	for _, reason := range s.Reasons {
		if reason != "lifecycle-disabled" { // the state says that
			add("reason", wordsFor(reason))
		}
	}
	add("title", s.Title)
	add("notes", s.Notes)
	add("aliases", strings.Join(s.Aliases, ", "))
	if s.Stdio != nil {
		add("command", s.Definition())
		add("directory", directoryText(s.Server))
		add("environment", bindingLines(s.Stdio.Env))
		add("passed on", strings.Join(s.Stdio.EnvPass, ", "))
		if s.Direct {
			add("supervised", "no: it ends with the daemon")
		}
	}
	if s.HTTP != nil {
		add("remote", s.HTTP.URL)
		add("headers", bindingLines(s.HTTP.Headers))
		add("transport", string(s.HTTP.Transport))
		signInRows(add, s.SignIn, e.Now())
	}
	add("sharing", string(s.Sharing))
	add("protocol", string(s.Protocol))
	add("on change", string(s.OnChange))
	add("timeouts", fmt.Sprintf("start %s, call %s (at most %s), idle %s", age(limits.Start), age(limits.Call), age(limits.Max), idle))
	add("review", string(s.Review))
	add("risk", string(s.Risk))
	add("tags", strings.Join(s.Tags, ", "))
	add("profiles", strings.Join(s.Profiles, ", "))
	switch {
	case s.Overlay && s.Notes == builtInNotes:
		add("source", "built in; gone when `mcpx up` ends")
	case s.Overlay:
		add("source", "the configuration of an agent; gone when `mcpx up` ends")
	default:
		add("source", wordsFor(s.Source))
		add("file", s.File)
	}
	add("sessions", number(s.Status.Sessions))
	add("in flight", number(s.Status.InFlight))
	add("restarts", number(s.Status.Restarts))
	if s.Status.LastError != "" {
		add("last error", fmt.Sprintf("%s ago: %s", age(e.Now().Sub(s.Status.ErrorAt)), s.Status.LastError))
	}
	for _, lane := range s.Status.Lanes {
		what := string(lane.State)
		if lane.Link.Pid > 0 {
			what += fmt.Sprintf(", pid %d", lane.Link.Pid)
		}
		if lane.Version != "" {
			what += ", protocol " + lane.Version
		}
		add("process", what)
	}
	for _, note := range s.Status.Notes {
		add("note", wordsFor(note))
	}
	for _, text := range s.Advice {
		add("advice", text)
	}
	pairs(w, rows)
}

// directoryText says where a program starts.
func directoryText(s catalog.Server) string {
	switch s.Directory() {
	case catalog.CwdFixed:
		return s.Stdio.Cwd
	case catalog.CwdNone:
		return "(an empty one of its own)"
	case catalog.CwdWorkspace:
		return "(the project of the caller)"
	case catalog.CwdHome:
	}
	return "(your home)"
}

// wordsFor replaces a word for programs by one for people.
func wordsFor(word string) string {
	people, ok := map[string]string{
		"operator": "you added it", "import": "imported from a file", "observed": "the configuration of an agent", "file": "a file of the catalog",
		"review-pending": "nobody has agreed to it yet", "review-rejected": "it was rejected", catalog.ToolsChanged: "it is in quarantine",
		catalog.SharedWithNobody: "agents keep entries of their own", catalog.BackendUnsafe: "its URL is not safe",
		"sharing-narrowed": "some callers have a process of their own, because their agent, project or account is not known",
		"asks":             "it asks questions that do not say which call they belong to, so calls of different clients run one after the other",
	}[word]
	if !ok {
		return word
	}
	return people
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func bindingLines(bindings map[string]catalog.Binding) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(bindings)) {
		b := bindings[name]
		switch {
		case b.Ref != "":
			lines = append(lines, name+" from "+b.Ref)
		case b.Template != "":
			lines = append(lines, name+" = "+b.Template)
		case catalog.SecretName(name) || catalog.SecretValue(b.Literal):
			lines = append(lines, name+" = (looks like a secret, not shown; --json shows it)")
		default:
			lines = append(lines, name+" = "+b.Literal)
		}
	}
	return strings.Join(lines, "\n")
}
