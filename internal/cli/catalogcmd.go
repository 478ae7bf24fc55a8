package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
)

var catalogFlags = []Flag{
	{Name: "tag", Kind: StringFlag, Value: "TAG", Usage: "only servers with this tag"},
	{Name: "profile", Kind: StringFlag, Value: "NAME", Usage: "only servers of this profile"},
	{Name: "review", Kind: StringFlag, Value: "STATE", Usage: "only servers whose review has this state", Choices: []string{"pending", "approved", "rejected", "quarantined"}},
}

var catalogList = Command{
	Path: "catalog list", Short: "List the servers of the catalog with their review and risk", Op: "catalog.list",
	Long: "What each server is (package or URL), whether a person has agreed to it, how much care it needs, and why it is not\n" +
		"routed if it is not; docs/catalog.md explains the codes. Values of variables are not shown. What runs is in\n" +
		"`mcpx server list`.",
	Example: "mcpx catalog list\nmcpx catalog list --review pending --json",
	Flags:   catalogFlags,
	Run:     func(ctx context.Context, e *Env, a Args) error { return e.catalog(ctx, a, nil) },
}

var catalogSearch = Command{
	Path: "catalog search", Short: "Find servers of the catalog by words", Op: "catalog.list", Args: "WORDS...", Min: 1, Max: -1,
	Long: "Each word must stand in the name, an alias, the title, the notes, a tag, a profile, the package, the command, the URL\n" +
		"or the name of a variable. Exit code 1 when nothing fits.",
	Example: "mcpx catalog search github\nmcpx catalog search npm: browser",
	Flags:   catalogFlags,
	Run:     func(ctx context.Context, e *Env, a Args) error { return e.catalog(ctx, a, a.pos) },
}

var catalogShow = Command{
	Path: "catalog show", Short: "Show how a server is governed and where its entry comes from", Op: "catalog.show", Args: "NAME", Min: 1, Max: 1, Complete: serverNames,
	Long: "Review, risk, pins, profiles, why it is not routed if it is not, and who or what has set which field. An entry that\n" +
		"stands in a file of config/catalog is changed there: the file and the line are shown. Values are not shown.",
	Example: "mcpx catalog show github",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		s, err := service.CatalogServer(ctx, api.ServerRef{Name: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(s, func(w io.Writer) { e.printEntry(w, s) })
	},
}

func (e *Env) printEntry(w io.Writer, s api.CatalogEntry) {
	var rows [][2]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, plain(value)})
		}
	}
	add("name", s.Name)
	add("server", s.Definition)
	add("package", packageText(s.Package, ""))
	add("title", s.Title)
	add("notes", s.Notes)
	add("aliases", strings.Join(s.Aliases, ", "))
	add("tags", strings.Join(s.Tags, ", "))
	add("profiles", strings.Join(s.Profiles, ", "))
	add("variables", strings.Join(s.Variables, ", "))
	add("headers", strings.Join(s.Headers, ", "))
	add("sharing", string(s.Sharing))
	add("review", string(s.Review))
	add("life cycle", string(s.Lifecycle))
	add("risk", string(s.Risk))
	add("not routed", strings.Join(s.Reasons, ", "))
	add("pins", fmt.Sprintf("%s, %d tools agreed to, %d held back", s.PinMode, s.Pinned, maskedOf(s.Held)))
	if s.File != "" {
		where := s.File
		if s.Line > 0 {
			where += fmt.Sprintf(", line %d", s.Line)
		}
		add("stands in", where)
	}
	for _, p := range s.Provenance {
		add("comes from", e.originText(p))
	}
	pairs(w, rows)
}

// originText says who or what has set which fields of an entry, and when.
func (e *Env) originText(p catalog.Provenance) string {
	parts := []string{wordsFor(string(p.Source)), p.Ref, p.Agent}
	if !p.At.IsZero() {
		parts = append(parts, age(e.Now().Sub(p.At))+" ago")
	}
	text := strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
	if len(p.Fields) > 0 {
		text += ": " + strings.Join(p.Fields, ", ")
	}
	return text
}

func (e *Env) catalog(ctx context.Context, a Args, words []string) error {
	service, err := e.API(ctx)
	if err != nil {
		return err
	}
	page, err := service.Catalog(ctx, api.CatalogQuery{Words: words, Tag: a.String("tag"), Profile: a.String("profile"), Review: a.String("review")})
	if err != nil {
		return err
	}
	if err := e.Show(page, func(w io.Writer) { e.printCatalog(w, page, words != nil) }); err != nil {
		return err
	}
	if words != nil && len(page.Entries) == 0 {
		return errAnswerNo
	}
	return nil
}

func (e *Env) printCatalog(w io.Writer, page api.CatalogPage, searched bool) {
	if len(page.Entries) == 0 {
		if searched {
			line(w, "No server fits. `%s catalog list` shows all.", e.self())
		} else {
			line(w, "No servers fit. Import a file of an agent with `%s catalog import FILE`, or add one: %s server add NAME -- COMMAND ARGS...", e.self(), e.self())
		}
		return
	}
	rows := make([][]cell, 0, len(page.Entries))
	pending, held := "", ""
	for _, s := range page.Entries {
		why := strings.Join(s.Reasons, ", ")
		if masked := maskedOf(s.Held); masked > 0 {
			why = strings.TrimPrefix(why+fmt.Sprintf(", %d tools held", masked), ", ")
			held = s.Name
		}
		if s.Review == catalog.ReviewPending {
			pending = s.Name
		}
		rows = append(rows, []cell{
			{s.Name, bold},
			reviewCell(s.Review),
			{string(s.Lifecycle), ""},
			riskCell(s.Risk),
			{string(s.Sharing), ""},
			{short(packageText(s.Package, s.Definition), 50), ""},
			{plain(why), yellow},
		})
	}
	e.table(w, []string{"NAME", "REVIEW", "LIFE CYCLE", "RISK", "SHARING", "SERVER", "NOT ROUTED, OR HELD"}, rows)
	switch {
	case pending != "":
		line(w, "\nNext: %s catalog review %s --approve, or --reject", e.self(), pending)
	case held != "":
		line(w, "\nNext: %s catalog review %s --tools shows what has changed", e.self(), held)
	}
}

func maskedOf(held []catalog.Held) (n int) {
	for _, h := range held {
		if h.Masked {
			n++
		}
	}
	return n
}

func reviewCell(r catalog.Review) cell {
	switch r {
	case catalog.ReviewApproved:
		return cell{string(r), green}
	case catalog.ReviewPending:
		return cell{string(r), yellow}
	case catalog.ReviewRejected, catalog.ReviewQuarantined:
	}
	return cell{string(r), red}
}

func riskCell(r catalog.Risk) cell {
	switch r.OrUnknown() {
	case catalog.RiskHigh:
		return cell{string(r), red}
	case catalog.RiskUnknown:
		return cell{string(r), yellow}
	case catalog.RiskLow, catalog.RiskNormal:
	}
	return cell{string(r), ""}
}

// packageText is what runs in few words: kind, name and version of a package, or the definition.
func packageText(p *catalog.Package, definition string) string {
	if p == nil || p.Kind == catalog.PackageURL || p.Kind == catalog.PackageBinary || p.Kind == catalog.PackagePath {
		return plain(definition)
	}
	text := string(p.Kind) + ":" + p.Name
	if p.Version != "" {
		text += "@" + p.Version
	}
	return plain(strings.Join(append([]string{text}, p.Rest...), " "))
}

var catalogCandidates = Command{
	Path: "catalog candidates", Short: "List servers that your agents have and the catalog has not", Op: "catalog.candidates", Args: "[CAND]", Max: 1,
	Long: "Each audit of the agents' files finds them. The same server in five agents is one candidate with five places. With\n" +
		"an id, or the beginning of one, everything that is known of that candidate is shown.",
	Example: "mcpx catalog candidates\nmcpx catalog candidates cand_4f2x\nmcpx catalog candidates --state rejected",
	Flags: []Flag{{
		Name: "state", Kind: StringFlag, Value: "STATE", Usage: "only those in this state; without it those that wait for a decision",
		Choices: []string{"new", "promoted", "rejected", "merged", "gone", "all"},
	}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Candidates(ctx, api.CandidatesQuery{ID: a.Pos(0), State: a.String("state")})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if a.Pos(0) != "" {
				e.printCandidate(w, page.Candidates[0])
				e.printVerdicts(w, page.Candidates[0])
				return
			}
			if len(page.Candidates) == 0 {
				line(w, "No candidates. `%s audit run` looks for servers in your agents' files.", e.self())
				return
			}
			rows := make([][]cell, 0, len(page.Candidates))
			for _, c := range page.Candidates {
				rows = append(rows, []cell{
					{c.ID, ""},
					{plain(c.Name), bold},
					{string(c.State), ""},
					{number(len(c.Sightings)), ""},
					{short(packageText(&c.Package, definitionOf(c)), 50), ""},
					{strings.Join(c.Reasons, ", "), ""},
				})
			}
			e.table(w, []string{"CANDIDATE", "NAME", "STATE", "PLACES", "SERVER", "WHY"}, rows)
			line(w, "\nNext: %s catalog candidates %s", e.self(), page.Candidates[0].ID)
		})
	},
}

// definitionOf is the command line or the URL of a candidate.
func definitionOf(c catalog.Candidate) string {
	if c.Shape.URL != "" {
		return c.Shape.URL
	}
	words := append([]string{c.Shape.Command}, c.Shape.Args...)
	for i, word := range words {
		words[i] = api.ShellWord(word)
	}
	return strings.Join(words, " ")
}

func (e *Env) printCandidate(w io.Writer, c catalog.Candidate) {
	var rows [][2]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, plain(value)})
		}
	}
	add("candidate", c.ID)
	add("name", c.Name)
	add("state", string(c.State))
	add("server", definitionOf(c))
	add("package", packageText(&c.Package, ""))
	if c.Package.Kind != catalog.PackageURL && c.Package.Kind != catalog.PackageBinary && c.Package.Kind != catalog.PackagePath {
		add("version", orElse(c.Package.Version, "(none: what runs is decided at each start)"))
	}
	add("directory", c.Shape.Cwd)
	add("variables", strings.Join(c.Shape.Variables, ", "))
	add("headers", strings.Join(c.Shape.Headers, ", "))
	add("why", strings.Join(c.Reasons, ", "))
	for _, s := range c.Sightings {
		add("seen", fmt.Sprintf("%s, %s, as %s in %s", s.Agent, s.Scope, s.Name, s.File))
	}
	if c.Verdict != nil {
		add("decided", fmt.Sprintf("%s ago by %s over %s", age(e.Now().Sub(c.Verdict.At)), c.Verdict.Principal, c.Verdict.Channel))
		add("note", c.Verdict.Note)
	}
	pairs(w, rows)
}

// printVerdicts names what a person can make of a candidate.
func (e *Env) printVerdicts(w io.Writer, c catalog.Candidate) {
	if c.State != catalog.CandidateNew {
		return
	}
	review := e.self() + " catalog review " + c.ID
	commands, guessed := converge.KeepOut(c.Name, c.ID, c.Shape)
	switch {
	case len(commands) > 0:
		line(w, "\nNext, so that its secret becomes a credential:")
		for _, command := range commands {
			line(w, "  %s", e.typed(plain(command)))
		}
		if guessed {
			line(w, "The name of the variable is a guess: look up from which one the server takes its secret.")
		}
	case c.Shape.Hidden:
		line(w, "\nNext: %s server add %s, with its secret as a variable or header, then", e.self(), plain(c.Name))
		line(w, "      %s --merge %s", review, plain(c.Name))
	default:
		line(w, "\nNext: %s --promote", review)
		line(w, "  or: %s --merge SERVER", review)
	}
	line(w, "  or: %s --reject", review)
}

var catalogExport = Command{
	Path: "catalog export", Short: "Write servers of the catalog as a file", Op: "catalog.export", Args: "[NAME...]", Max: -1, Complete: serverNames,
	Long: "--as mcpx is read by `mcpx catalog import`, mcp-servers is the JSON that most agents and README files use, and the name\n" +
		"of an agent writes the entries in that agent's own way. --direct (the default) writes the servers themselves, --routed\n" +
		"their URLs at mcpx. Values of variables and headers are never written: references stand in their place, and notes say\n" +
		"what an agent cannot be told. The document goes to stdout.",
	Example: "mcpx catalog export --as mcpx > catalog.json\nmcpx catalog export --as codex --routed\nmcpx catalog export memory --as mcp-servers",
	Flags: []Flag{
		{Name: "as", Kind: StringFlag, Default: "mcpx", Value: "FORM", Usage: "mcpx, mcp-servers, or the name of an agent"},
		{Name: "routed", Kind: BoolFlag, Usage: "the URLs of the servers at mcpx"},
		{Name: "direct", Kind: BoolFlag, Usage: "the servers themselves"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.Bool("routed") && a.Bool("direct") {
			return misused("--routed and --direct exclude each other", "catalog export")
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.ExportCatalog(ctx, api.ExportQuery{As: a.String("as"), Routed: a.Bool("routed"), Names: a.pos})
		if err != nil {
			return err
		}
		if !e.json {
			for _, left := range out.Left {
				e.Note("left out: %s", plain(left))
			}
			for _, note := range out.Notes {
				e.Note("note: %s", plain(note))
			}
		}
		return e.Show(out, func(w io.Writer) { _, _ = io.WriteString(w, out.Document) })
	},
}
