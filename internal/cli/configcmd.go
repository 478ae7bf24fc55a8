package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/daemon"
	"mcpx/internal/fault"
)

var projectFlag = Flag{Name: "project", Kind: StringFlag, Value: "DIR", Usage: "whose project files count (default: the current directory)"}

var configDiscover = Command{
	Path: "config discover", Short: "List the configuration files of your agents", Op: "config.discover",
	Long: "Where each agent looks for MCP servers, by which rule (default, or the variable that moves the file), how many\n" +
		"entries the file has, and whether it can be read. A broken file is one that its own agent refuses; line and column\n" +
		"say where. Nothing is written. Exit code 0 whatever was found.",
	Example: "mcpx config discover\nmcpx config discover --all --project ~/src/app",
	Flags:   []Flag{projectFlag, {Name: "all", Kind: BoolFlag, Usage: "also the places without a file"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, query, err := e.configQuery(ctx, a)
		if err != nil {
			return err
		}
		found, err := service.ConfigFiles(ctx, query)
		if err != nil {
			return err
		}
		if !a.Bool("all") {
			found.Files = slices.DeleteFunc(found.Files, func(f converge.File) bool { return f.State == converge.FileAbsent })
		}
		return e.Show(found, func(w io.Writer) {
			if len(found.Files) == 0 {
				line(w, "No configuration of an agent was found. `%s config discover --all` shows where it would be.", e.self())
				return
			}
			e.printFiles(w, found.Files)
			line(w, "\nNext: %s config inspect", e.self())
		})
	},
}

var configInspect = Command{
	Path: "config inspect", Short: "Compare the servers in your agents' configuration with the catalog", Op: "config.inspect", Args: "[AGENT]", Max: 1,
	Long: "Every entry of every file as its agent understands it, with its class (does it go through mcpx, around it, is it\n" +
		"unknown?), the server of the catalog that it matches, and codes that say why; docs/findings.md explains them, and\n" +
		"so does the end of the output. AGENT is one of the names that `mcpx config discover` shows. Values of variables and\n" +
		"headers are never shown. Nothing is written. Exit code 0 whatever was found.",
	Example: "mcpx config inspect\nmcpx config inspect codex --json",
	Flags:   []Flag{projectFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, query, err := e.configQuery(ctx, a)
		if err != nil {
			return err
		}
		report, err := service.InspectConfig(ctx, query)
		if err != nil {
			return err
		}
		return e.Show(report, func(w io.Writer) { e.printReport(w, report) })
	},
}

// wholePath is a path as the daemon needs it.
func wholePath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fault.New(fault.Invalid, "usage").Saying("%s is no path", path).Because(err).Hinting("give an absolute path")
	}
	return abs, nil
}

// pathGiven is the absolute path that a flag --path names; "" it was not given.
func pathGiven(a Args) (string, error) {
	path := a.String("path")
	if path == "" {
		return "", nil
	}
	return wholePath(path)
}

// configQuery asks about the files that the agents would read if they were started where this command was.
func (e *Env) configQuery(ctx context.Context, a Args) (api.Service, api.ConfigQuery, error) {
	project, err := agentProject(a.String("project"))
	if err != nil {
		return nil, api.ConfigQuery{}, err
	}
	if info, err := os.Stat(project); a.Given("project") && (err != nil || !info.IsDir()) {
		return nil, api.ConfigQuery{}, fault.New(fault.Invalid, "project-unknown").Saying("%s is no directory", project).
			Hinting("give --project the directory in which the agent is started")
	}
	service, err := e.API(ctx)
	home := e.Getenv("HOME")
	return service, api.ConfigQuery{Agent: a.Pos(0), Home: home, Project: project, Moved: daemon.Moves(e.Getenv, home, project)}, err
}

func (e *Env) printFiles(w io.Writer, files []converge.File) {
	rows := make([][]cell, 0, len(files))
	for _, f := range files {
		state := cell{string(f.State), ""}
		switch f.State {
		case converge.FileBroken, converge.FileUnreadable:
			state.color = red
		case converge.FileAbsent:
			state.color = dim
		case converge.FileReadable:
		}
		scope := f.Scope
		if f.Shared {
			scope += ", shared"
		}
		rows = append(rows, []cell{{f.Agent, bold}, {scope, ""}, state, {number(f.Entries), ""}, {f.Rule, ""}, {plain(f.Path), ""}})
	}
	e.table(w, []string{"AGENT", "SCOPE", "STATE", "ENTRIES", "FOUND BY", "FILE"}, rows)
	e.printProblems(w, files)
}

func (e *Env) printProblems(w io.Writer, files []converge.File) {
	for _, f := range files {
		for _, p := range f.Problems {
			where := ""
			if p.Line > 0 {
				where = fmt.Sprintf(":%d:%d", p.Line, p.Column)
			}
			text := p.Text
			if c, ok := converge.Explain(p.Code); ok && text == "" {
				text = c.Means
			}
			line(w, "%s%s: %s: %s", plain(f.Path), where, p.Code, plain(text))
		}
	}
}

func (e *Env) printReport(w io.Writer, report api.ConfigReport) {
	if len(report.Entries) == 0 {
		line(w, "No agent has a server configured here. `%s config discover --all` shows where it was looked.", e.self())
		e.printProblems(w, report.Files)
		return
	}
	rows := make([][]cell, 0, len(report.Entries))
	codes := map[string]bool{}
	for _, f := range report.Entries {
		match := string(f.Match.Confidence)
		switch {
		case f.Match.Server != "":
			match += ": " + f.Match.Server
		case f.Match.Confidence == catalog.MatchAmbiguous:
			match += ": " + strings.Join(converge.Likely(f.Match), " or ")
		}
		why := reasons(f)
		codes[string(f.Class)] = true
		for _, code := range why {
			codes[code] = true
		}
		rows = append(rows, []cell{
			{f.Agent, ""},
			{short(f.Name, 40), bold},
			{f.Scope, ""},
			{string(f.Class), weightColor(f.Weight)},
			{match, ""},
			{strings.Join(why, ", "), ""},
		})
	}
	e.table(w, []string{"AGENT", "NAME", "SCOPE", "CLASS", "MATCH", "WHY"}, rows)
	e.printProblems(w, report.Files)
	line(w, "")
	var meanings [][2]string
	for _, c := range converge.Codes {
		if codes[c.Code] {
			text := c.Means
			if c.Next != "" {
				text += " Next: " + c.Next + "."
			}
			meanings = append(meanings, [2]string{c.Code, text})
			delete(codes, c.Code) // a word that is a class and a reason is explained once
		}
	}
	pairs(w, meanings)
	line(w, "")
	var counts []string
	for _, class := range slices.Sorted(maps.Keys(report.Counts)) {
		counts = append(counts, fmt.Sprintf("%d %s", report.Counts[class], class))
	}
	line(w, "%s", strings.Join(counts, ", "))
	e.next(w, linkable(report.Entries))
}

// maxLinkable bounds the commands that a report names.
const maxLinkable = 3

// linkable are the commands that say of an entry which server it is, where the catalog has one that may be it.
func linkable(all []converge.Finding) []string {
	var next []string
	for _, f := range all {
		unsure := f.Match.Confidence == catalog.MatchAmbiguous || f.Match.Confidence == catalog.MatchWeak
		if unsure && f.Routed == nil && f.Class != converge.Dormant && len(next) < maxLinkable {
			next = append(next, converge.LinkCommand(f))
		}
	}
	return next
}

// reasons are those of the class and then those of the match, without what the columns before them say.
func reasons(f converge.Finding) []string {
	why := slices.Clone(f.Reasons)
	if f.Class == converge.Broken {
		return why
	}
	for _, reason := range f.Match.Reasons {
		if reason != catalog.ReasonRouted && reason != catalog.ReasonSameName && !slices.Contains(why, reason) {
			why = append(why, reason)
		}
	}
	return why
}

func weightColor(weight converge.Weight) string {
	switch weight {
	case converge.WeightOK:
		return green
	case converge.WeightWarning:
		return yellow
	case converge.WeightBlocker:
		return red
	case converge.WeightNotice:
	}
	return ""
}
