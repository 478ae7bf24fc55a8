package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/converge"
)

// looks is how text looks where it is shown: on stdout, or on the terminal of a person.
type looks struct{ color bool }

func (l looks) paint(code, text string) string {
	if !l.color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// planText shows a plan whole: what it is, the diff of the real bytes, what it means, what is known about it.
func (e *Env) planText(w io.Writer, l looks, v api.PlanView) {
	rows := [][2]string{
		{"plan", l.paint(bold, v.ID)},
		{"does", plain(v.Summary)},
		{"state", planState(v)},
	}
	if v.Agent != "" {
		rows = append(rows, [2]string{"agent", v.Agent})
	}
	rows = append(rows, [2]string{"risk", coded(string(v.Risk.Class), v.Risk.Reasons)})
	if v.Match.Server != "" {
		rows = append(rows, [2]string{"match", coded(string(v.Match.Confidence)+" "+v.Match.Server, v.Match.Reasons)})
	}
	if len(v.Reasons) > 0 {
		rows = append(rows, [2]string{"because of", strings.Join(v.Reasons, ", ")})
	}
	if v.Reverts != "" {
		rows = append(rows, [2]string{"takes back", v.Reverts})
	}
	if a := v.Asked; a != nil {
		rows = append(rows, [2]string{"approval", e.approvalWords(*a)})
	}
	if r := v.Outcome; r != nil {
		rows = append(rows, [2]string{"receipt", r.ID + " " + string(r.State)})
	}
	pairs(w, rows)
	for _, c := range v.Changes {
		e.changeText(w, l, c)
	}
	for _, p := range v.Problems {
		line(w, "problem: %s: %s", p.Code, plain(meaning(p.Code, p.Text)))
	}
	conflictText(w, v.Conflicts)
	list(w, "Before it can be applied:", v.Needs)
	list(w, "To know:", v.Effects)
	e.explain(w, codesOf(v))
}

func planState(v api.PlanView) string {
	switch v.State {
	case converge.PlanReady:
		switch v.Waits {
		case converge.WaitNeed:
			return "needs: something has to be done before it can be approved, see below"
		case converge.WaitApproval:
			return "ready: it waits for your yes"
		case converge.WaitApply:
			return "ready: it waits to be applied"
		case converge.WaitAsk:
			return "ready: the question to you is over, and has to be asked again"
		case converge.WaitDenied:
			return "ready: you said no to it"
		}
		return "ready: nothing of it is done yet"
	case converge.PlanErrored:
		return "errored: it would break something and is not offered"
	case converge.PlanSuperseded:
		return "superseded: what it was made from has changed"
	case converge.PlanApplying:
		return "applying: it is being carried out"
	case converge.PlanApplied:
		return "applied"
	case converge.PlanFailed:
		return "failed: nothing of it is in the files"
	case converge.PlanRolledBack:
		return "rolled-back: it was applied and taken back"
	}
	return string(v.State)
}

func coded(text string, codes []string) string {
	if len(codes) == 0 {
		return text
	}
	return text + ": " + strings.Join(codes, ", ")
}

// changeText shows what happens to one file.
func (e *Env) changeText(w io.Writer, l looks, c converge.Change) {
	line(w, "")
	name := plain(c.Path)
	if c.Real != "" && c.Real != c.Path {
		name += " (a link to " + plain(c.Real) + ")"
	}
	line(w, "file        %s", name)
	if len(c.Bound) > 0 {
		line(w, "            its agent rewrites this file: only the entry has to be what it was, the lines around it may move")
	}
	if c.Diff != "" {
		line(w, "")
		diffText(w, l, c.Diff)
	}
	for _, n := range c.Notes {
		line(w, "note: %s: %s", n.Code, plain(n.Text))
	}
}

// conflictText shows the three contents of each place that a rollback could not join.
func conflictText(w io.Writer, all []converge.Conflict) {
	value := func(text string) string {
		if text == "" {
			return "nothing"
		}
		return plain(text)
	}
	for _, c := range all {
		line(w, "")
		line(w, "conflict    %s in %s", plain(strings.Join(c.At, ".")), plain(c.Path))
		pairs(w, [][2]string{{"  before", value(c.Before)}, {"  applied", value(c.Applied)}, {"  now", value(c.Now)}})
	}
	if len(all) > 0 {
		line(w, "\nIn each of these places write what is behind \"before\" or \"applied\", or leave the file as it is.")
	}
}

func diffText(w io.Writer, l looks, diff string) {
	for text := range strings.Lines(diff) {
		text = plain(strings.TrimSuffix(text, "\n"))
		switch {
		case strings.HasPrefix(text, "+++") || strings.HasPrefix(text, "---"):
			text = l.paint(bold, text)
		case strings.HasPrefix(text, "+"):
			text = l.paint(green, text)
		case strings.HasPrefix(text, "-"):
			text = l.paint(red, text)
		case strings.HasPrefix(text, "@@"):
			text = l.paint(dim, text)
		}
		line(w, "%s", text)
	}
}

func list(w io.Writer, title string, items []string) {
	if len(items) == 0 {
		return
	}
	line(w, "")
	line(w, "%s", title)
	for _, item := range items {
		line(w, "- %s", plain(item))
	}
}

// codesOf are the codes of a plan that a person may not know.
func codesOf(v api.PlanView) []string {
	return slices.Concat(v.Reasons, v.Risk.Reasons, v.Match.Reasons)
}

// explain says what codes mean, each once, in the order of the registry.
func (e *Env) explain(w io.Writer, codes []string) {
	var rows [][2]string
	told := map[string]bool{}
	for _, c := range converge.Codes {
		if slices.Contains(codes, c.Code) && !told[c.Code] {
			told[c.Code] = true
			rows = append(rows, [2]string{c.Code, c.Means})
		}
	}
	if len(rows) > 0 {
		line(w, "")
		pairs(w, rows)
	}
}

// meaning is the text of a finding, or what its code means.
func meaning(code, text string) string {
	if c, ok := converge.Explain(code); ok && text == "" {
		return c.Means
	}
	return text
}

// next ends an output: the commands that can follow.
func (e *Env) next(w io.Writer, commands []string) {
	if len(commands) == 0 {
		return
	}
	line(w, "")
	for i, command := range commands {
		word := "Next:"
		if i > 0 {
			word = "  or:"
		}
		line(w, "%s %s", word, e.typed(command))
	}
}

// typed is a command as it is typed here.
func (e *Env) typed(command string) string {
	if rest, ok := strings.CutPrefix(command, "mcpx "); ok {
		return e.self() + " " + rest
	}
	return command
}

// approvalWords is one approval on one line.
func (e *Env) approvalWords(a approval.Approval) string {
	text := a.ID + " " + string(a.State)
	switch a.State {
	case approval.Pending:
		text += ", expires in " + age(a.Expires.Sub(e.Now()))
	case approval.Approved:
		text += ", has to be used within " + age(a.Expires.Sub(e.Now()))
	case approval.Expired, approval.Revoked:
		if a.Why != "" {
			text += ": " + a.Why
		}
	case approval.Denied, approval.Consumed:
	}
	if d := a.Decision; d != nil {
		text += fmt.Sprintf(" (%s on %s", d.Principal, dash(d.Terminal))
		if d.Note != "" {
			text += ": " + short(d.Note, 80)
		}
		text += ")"
	}
	return text
}
