package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// misused is the error of flags that do not go together.
func misused(what, command string) error {
	return fault.New(fault.Invalid, "usage").Saying("%s", what).Hinting("see `mcpx %s -h`", command)
}

// verdicts are the flags of catalog review that decide; at most one can be given.
var verdicts = []struct {
	flag    string
	verdict api.Verdict
}{
	{"promote", api.Promote},
	{"merge", api.Merge},
	{"approve", api.Approve},
	{"reject", api.Reject},
	{"deprecate", api.Deprecate},
}

var catalogReview = Command{
	Path: "catalog review", Short: "Decide about a candidate or a server", Op: "catalog.review", Args: "CAND|NAME|OBS [NAME]", Min: 1, Max: 2,
	Long: "A candidate: --promote makes it a server, --merge SERVER says that it is one of the catalog, --reject is remembered\n" +
		"when it is seen again. A server: --approve, --reject, --deprecate (it is routed, and nobody gets it newly), --risk.\n" +
		"--bind says where the value of a variable or header comes from: a reference such as env:TOKEN or file:/PATH#KEY, or a\n" +
		"text with references, \"Bearer {env:TOKEN}\". --tools shows what the tools of a server tell a model now, word by word\n" +
		"beside what was agreed to, and asks whether that is all right. --link OBS SERVER says which server an entry of an\n" +
		"agent's file is, until the entry changes. What is trusted more than before asks for a yes. Nothing is started, except\n" +
		"by --tools.",
	Example: "mcpx catalog review cand_4f2x --promote --name github --bind GITHUB_TOKEN=env:GITHUB_TOKEN\nmcpx catalog review cand_4f2x --merge github\n" +
		"mcpx catalog review github --approve --risk normal\nmcpx catalog review github --tools\nmcpx catalog review --link obs_7ad3 github",
	Flags: []Flag{
		{Name: "promote", Kind: BoolFlag, Usage: "make a candidate a server"},
		{Name: "name", Kind: StringFlag, Value: "N", Usage: "with --promote: name the server N"},
		{Name: "merge", Kind: StringFlag, Value: "SERVER", Usage: "the candidate is this SERVER"},
		{Name: "approve", Kind: BoolFlag, Usage: "agree to a server"},
		{Name: "reject", Kind: BoolFlag, Usage: "refuse a candidate or a server"},
		{Name: "deprecate", Kind: BoolFlag, Usage: "route a server on, and give it to nobody newly"},
		{Name: "bind", Kind: StringsFlag, Value: "NAME=REF", Usage: "take the value of a variable or header from a reference: NAME=REF; may be repeated"},
		{Name: "risk", Kind: StringFlag, Usage: "how much harm the server could do", Choices: []string{"low", "normal", "high", "unknown"}},
		{Name: "pins", Kind: StringFlag, Usage: "what happens to tools that change: strict holds new and changed ones back, warn only changed ones", Choices: []string{"strict", "warn", "off"}},
		{Name: "tag", Kind: StringsFlag, Value: "TAG", Usage: "give the server this tag; repeated for all that it shall have"},
		{Name: "profile", Kind: StringsFlag, Value: "P", Usage: "put the server into the profile P; repeated for all that it shall be in"},
		{Name: "tools", Kind: BoolFlag, Usage: "compare the tools that a server offers now with those that were agreed to"},
		{Name: "link", Kind: BoolFlag, Usage: "the entry OBS of an agent's file is the server NAME"},
		{Name: "note", Kind: StringFlag, Usage: "why; kept with the decision"},
		{Name: "yes", Kind: BoolFlag, Usage: "a person agrees; for use without a terminal"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		switch {
		case a.Bool("link"):
			return e.linkEntry(ctx, a)
		case a.Len() > 1:
			return misused("two names belong to --link", "catalog review")
		case a.Bool("tools"):
			return e.reviewTools(ctx, a)
		}
		in, err := reviewOf(a)
		if err != nil {
			return err
		}
		return e.review(ctx, a, in)
	},
}

func reviewOf(a Args) (api.Review, error) {
	in := api.Review{
		Subject: a.Pos(0), Name: a.String("name"), With: a.String("merge"), Risk: catalog.Risk(a.String("risk")),
		Pins: catalog.PinMode(a.String("pins")), Note: a.String("note"), Confirmed: a.Bool("yes"),
	}
	for _, v := range verdicts {
		given := a.Given(v.flag)
		if v.flag != "merge" {
			given = a.Bool(v.flag)
		}
		if !given {
			continue
		}
		if in.Verdict != "" {
			return in, misused(fmt.Sprintf("--%s and --%s exclude each other", in.Verdict, v.flag), "catalog review")
		}
		in.Verdict = v.verdict
	}
	if a.Given("tag") {
		tags := a.Strings("tag")
		in.Tags = &tags
	}
	if a.Given("profile") {
		profiles := a.Strings("profile")
		in.Profiles = &profiles
	}
	for _, pair := range a.Strings("bind") {
		name, ref, ok := strings.Cut(pair, "=")
		if !ok || name == "" || ref == "" {
			return in, fault.New(fault.Invalid, "usage").Saying("--bind %q is not NAME=REF", name).
				Hinting("for example --bind GITHUB_TOKEN=env:GITHUB_TOKEN")
		}
		if in.Bind == nil {
			in.Bind = map[string]catalog.Binding{}
		}
		if strings.Contains(ref, "{") {
			in.Bind[name] = catalog.Binding{Template: ref}
		} else {
			in.Bind[name] = catalog.Binding{Ref: ref}
		}
	}
	return in, nil
}

// review sends a decision. When a person has to agree, what they agree to is shown first.
func (e *Env) review(ctx context.Context, a Args, in api.Review) error {
	service, err := e.API(ctx)
	if err != nil {
		return err
	}
	out, err := service.Review(e.operation(ctx), in)
	if f := fault.From(err); f != nil && f.Code == "review-needs-yes" {
		if in.Verdict == api.Promote {
			page, err := service.Candidates(ctx, api.CandidatesQuery{ID: in.Subject})
			if err != nil {
				return err
			}
			e.printCandidate(e.Err, page.Candidates[0])
			e.Note("risk: %s; nothing is started now", orElse(string(in.Risk), "unknown"))
		}
		yes, err := e.Confirm(ctx, f.Message+". Do you agree?", "--yes")
		if err != nil {
			return err
		}
		if !yes {
			return fault.New(fault.NeedsApproval, "answered-no").Saying("nothing was changed")
		}
		in.Confirmed = true
		out, err = service.Review(e.operation(ctx), in)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return e.Show(out, func(w io.Writer) { e.printReviewed(w, in, out) })
}

func (e *Env) printReviewed(w io.Writer, in api.Review, out api.Reviewed) {
	switch {
	case in.Verdict == api.Merge:
		line(w, "%s is the server %s.", out.Candidate.ID, out.Entry.Name)
		line(w, "\nNext: %s audit run", e.self())
		return
	case in.Verdict == api.Reject && out.Candidate != nil:
		line(w, "%s (%s) is rejected, also when it is seen again.", out.Candidate.ID, plain(out.Candidate.Name))
		return
	case in.Verdict == api.Promote:
		line(w, "%s is a server of the catalog now. Agents reach it at %s", out.Entry.Name, out.Route)
	case len(out.Changed) == 0:
		line(w, "%s: nothing to change, it was so already.", out.Entry.Name)
	default:
		line(w, "%s: changed %s.", out.Entry.Name, strings.Join(out.Changed, ", "))
	}
	s := out.Entry
	if s.Routable {
		line(w, "It is routed: %s", out.Route)
		if in.Verdict == api.Promote {
			line(w, "\nNext: %s audit run", e.self())
		}
		return
	}
	line(w, "It is not routed: %s.", strings.Join(s.Reasons, ", "))
	for _, reason := range s.Reasons {
		if name, ok := strings.CutPrefix(reason, catalog.BindingUnresolved+":"); ok {
			line(w, "\nNext: %s catalog review %s --bind %s=env:%s", e.self(), s.Name, name, catalog.VariableFor(name))
			return
		}
	}
}

func (e *Env) linkEntry(ctx context.Context, a Args) error {
	if a.Len() != 2 {
		return misused("--link needs the id of an entry and the name of a server", "catalog review")
	}
	if slices.ContainsFunc(verdicts, func(v struct {
		flag    string
		verdict api.Verdict
	},
	) bool {
		return a.Given(v.flag)
	}) {
		return misused("--link decides nothing else", "catalog review")
	}
	service, err := e.API(ctx)
	if err != nil {
		return err
	}
	out, err := service.LinkEntry(e.operation(ctx), api.LinkEntry{Observation: a.Pos(0), Server: a.Pos(1), Note: a.String("note")})
	if err != nil {
		return err
	}
	return e.Show(out, func(w io.Writer) {
		line(w, "The entry %s of %s in %s is the server %s, until the entry changes.", plain(out.Entry), out.Agent, plain(out.File), out.Server)
		line(w, "\nNext: %s audit run", e.self())
	})
}

func (e *Env) reviewTools(ctx context.Context, a Args) error {
	service, err := e.API(ctx)
	if err != nil {
		return err
	}
	done := e.waiting("waiting for %s to start and answer; `mcpx server logs -f %s` shows what it says ...", a.Pos(0), a.Pos(0))
	found, err := service.ReviewTools(ctx, api.ServerRef{Name: a.Pos(0)})
	done()
	if err != nil {
		return err
	}
	differs := len(found.Tools) > 0 || found.Taken.IsZero()
	if a.Bool("yes") && differs {
		found, err = service.AcceptTools(e.operation(ctx), api.AcceptTools{Name: a.Pos(0), Digest: found.Digest, Note: a.String("note")})
		if err != nil {
			return err
		}
	}
	if err := e.Show(found, func(w io.Writer) { e.printTools(w, found) }); err != nil || !differs || found.Accepted {
		return err
	}
	if !e.asks || e.json {
		if !e.json {
			line(e.Out, "\nNext: %s catalog review %s --tools --yes agrees to exactly this", e.self(), found.Server)
		}
		return errAnswerNo
	}
	yes, err := e.Confirm(ctx, "Agree to these tools?", "--yes")
	if err != nil {
		return err
	}
	if !yes {
		return fault.New(fault.NeedsApproval, "answered-no").Saying("nothing was changed")
	}
	found, err = service.AcceptTools(e.operation(ctx), api.AcceptTools{Name: a.Pos(0), Digest: found.Digest, Note: a.String("note")})
	if err != nil {
		return err
	}
	line(e.Out, "The tools of %s are agreed to.", found.Server)
	return nil
}

func (e *Env) printTools(w io.Writer, found api.ToolsReview) {
	for _, t := range found.Tools {
		state := "clients get it"
		if t.Masked {
			state = "held back from clients"
		}
		line(w, "%s: %s (%s)", e.paint(bold, plain(t.Name)), t.Why, state)
		if len(t.Hidden) > 0 {
			line(w, "  hidden characters: %s", strings.Join(t.Hidden, " "))
		}
		line(w, "%s\n", e.wordDiff(t.Diff))
	}
	what := "agreed to"
	if found.Taken.IsZero() {
		what = "known; nobody has agreed to the tools of this server yet"
	}
	line(w, "%s: %d tools differ, %d are as %s (pins %s).", found.Server, len(found.Tools), found.Same, what, found.PinMode)
	if found.Accepted {
		line(w, "These tools are agreed to now.")
	}
}

// contextRunes bounds what is shown at each end of a part that is the same on both sides.
const contextRunes = 120

// wordDiff shows removed words as [-so-] and added ones as {+so+}, with colours on a terminal. Characters that nobody sees
// are written out.
func (e *Env) wordDiff(parts []catalog.DiffPart) string {
	var b strings.Builder
	for i, p := range parts {
		text := visible(p.Text)
		switch p.Op {
		case catalog.DiffKeep:
			runes := []rune(text)
			if len(runes) > 2*contextRunes {
				head, tail := string(runes[:contextRunes]), string(runes[len(runes)-contextRunes:])
				if i == 0 {
					head = ""
				}
				if i == len(parts)-1 {
					tail = ""
				}
				text = head + " … " + tail
			}
			b.WriteString(text)
		case catalog.DiffRemove:
			b.WriteString(e.paint(red, "[-"+text+"-]"))
		case catalog.DiffAdd:
			b.WriteString(e.paint(green, "{+"+text+"+}"))
		}
	}
	return "  " + below(b.String(), 2)
}

// visible writes characters that nobody sees as <U+XXXX>.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if len(catalog.HiddenCharacters([]byte(string(r)))) > 0 {
			fmt.Fprintf(&b, "<%U>", r)
			continue
		}
		b.WriteRune(r)
	}
	return plain(b.String())
}
