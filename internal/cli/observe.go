package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/event"
)

const (
	// shownLines is how many lines of an output or a difference are shown without --full.
	shownLines = 50
	// maxOpenCalls bounds the calls that are held until they end: beyond it the oldest is shown as it stands.
	maxOpenCalls = 1000
	// observeIndent is where the lines below the head of a block begin.
	observeIndent = "          "
)

// observer shows events as blocks, one for each call.
type observer struct {
	w       io.Writer
	looks   looks
	columns int    // 0: any width
	diff    string // none, summary, full
	full    bool
	output  func(job string) (api.JobView, error)

	calls  []*observed  // that have not ended, the oldest first
	last   string       // the line that was shown last, when it may be folded
	folded int          // how often it came again
	pruned event.Ranges // events without the body that they had
}

// observed is a call, as far as its events have come.
type observed struct {
	id    string // principal and operation
	first event.Event
	verb  string
	what  string
	begun bool // the head was shown already, as somebody is asked
	job   string
	lines []cell
}

// add adds a line; color "" is plain. Nothing in it controls the terminal.
func (c *observed) add(color, text string) { c.lines = append(c.lines, cell{plain(text), color}) }

// add takes the next event.
func (o *observer) add(e event.Event) error {
	if e.Pruned() {
		o.pruned = o.pruned.Add(e.Seq)
	} else {
		o.sayPruned()
	}
	id := e.Actor.Principal + "\x00" + e.Refs[event.RefOperation]
	known := slices.ContainsFunc(o.calls, func(c *observed) bool { return c.id == id })
	if e.Refs[event.RefOperation] == "" || e.Actor.Channel == "cli" && !known { // what a person typed is told by one event
		o.single(e)
		return nil
	}
	c := o.call(e, id)
	switch kind := string(e.Kind); {
	case e.Kind == event.OperationEnded:
		o.ended(c, e)
		o.show(c)
	case e.Kind == event.JobEnded && c.verb == "": // its operation has ended before
		c.verb, c.what = "job", c.job
		o.command(c, e)
		o.show(c)
	case e.Kind == event.ApprovalRequested:
		c.add(yellow, "waits: "+e.Summary)
		c.add("", "mcpx approval show "+e.Refs[event.RefApproval])
		o.block(c)
	case strings.HasPrefix(kind, "activity."):
		c.add(dim, e.Summary)
	default:
		o.detail(c, e)
	}
	if len(o.calls) > maxOpenCalls {
		o.show(o.calls[0])
	}
	return nil
}

// call finds the call of an event, or begins it.
func (o *observer) call(e event.Event, id string) *observed {
	i := slices.IndexFunc(o.calls, func(c *observed) bool { return c.id == id })
	if i < 0 {
		i = len(o.calls)
		o.calls = append(o.calls, &observed{id: id, first: e})
	}
	c := o.calls[i]
	if job := e.Refs[event.RefJob]; job != "" {
		c.job = job
	}
	var told struct {
		Tool      string                     `json:"tool"`
		Arguments map[string]json.RawMessage `json:"arguments"`
	}
	if !strings.HasPrefix(string(e.Kind), "operation.") {
		return c
	}
	if json.Unmarshal(e.Body, &told) != nil || told.Tool == "" {
		told.Tool, _, _ = strings.Cut(e.Summary, " ")
	}
	c.verb = told.Tool
	if what := target(told.Arguments); what != "" {
		c.what = what
	}
	return c
}

// target is what a call is about, by its arguments.
func target(args map[string]json.RawMessage) string {
	var parts []string
	for _, name := range []string{"action", "shell", "argv", "edits", "paths", "targets", "path", "id", "manifest_id", "job_id", "project", "title"} {
		raw := args[name]
		var text string
		var words []string
		var files []struct {
			Path string `json:"path"`
		}
		switch {
		case len(raw) == 0:
		case json.Unmarshal(raw, &text) == nil:
			parts = append(parts, text)
		case json.Unmarshal(raw, &words) == nil:
			parts = append(parts, strings.Join(words, " "))
		case json.Unmarshal(raw, &files) == nil:
			for _, f := range files {
				parts = append(parts, f.Path)
			}
		}
	}
	return strings.Join(parts, " ")
}

// detail adds what an event in the middle of a call tells.
func (o *observer) detail(c *observed, e event.Event) {
	switch e.Kind { //nolint:exhaustive // all others are told alike
	case event.OperationClaimed, event.OperationDispatched, event.OperationProgress:
	case event.PolicyDecided:
		var ruling struct {
			Decision string   `json:"decision"`
			Reasons  []string `json:"reasons"`
		}
		_ = json.Unmarshal(e.Body, &ruling) // a body that is gone leaves nothing to say
		switch {
		case ruling.Decision == "deny": // it never begins
			c.verb, c.what, _ = strings.Cut(e.Summary, ": ")
			c.add(red, "refused")
			o.show(c)
		case len(ruling.Reasons) > 0:
			c.add("", ruling.Decision+": "+strings.Join(ruling.Reasons, "; "))
		}
	case event.FileChanged:
		o.file(c, e)
	case event.JobEnded:
		o.command(c, e)
	default:
		c.add("", string(e.Kind)+"  "+e.Summary)
	}
}

// file adds a file that was changed.
func (o *observer) file(c *observed, e event.Event) {
	if o.diff == "none" {
		return
	}
	var f struct {
		Added, Removed int
		Diff           string
	}
	_ = json.Unmarshal(e.Body, &f) // a body that is gone leaves the summary
	c.add("", fmt.Sprintf("%s  +%d -%d", e.Summary, f.Added, f.Removed))
	if o.diff == "full" {
		o.numbered(c, f.Diff)
	}
}

// command adds how a command ended, and what it wrote.
func (o *observer) command(c *observed, e event.Event) {
	color := red
	var end struct {
		Code *int `json:"exit_code"`
	}
	if json.Unmarshal(e.Body, &end) == nil && end.Code != nil {
		if *end.Code == 0 {
			color = green
		}
		c.add(color, fmt.Sprintf("%s  exit code %d", e.Summary, *end.Code))
	} else {
		c.add(color, e.Summary)
	}
	job, err := o.output(c.job)
	if err != nil {
		return // its output is not kept any more, or nobody is there to ask
	}
	for _, s := range []struct {
		name string
		*api.JobStream
	}{{"stdout", job.Stdout}, {"stderr", job.Stderr}} {
		if s.JobStream != nil && s.Bytes > 0 {
			c.add("", s.name)
			o.numbered(c, s.Text)
		}
	}
}

// numbered adds the lines of a text, the first of them unless all are wanted.
func (o *observer) numbered(c *observed, text string) {
	if text == "" {
		return
	}
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	shown := all
	if !o.full && len(all) > shownLines {
		shown = all[:shownLines]
	}
	for i, one := range shown {
		c.add("", fmt.Sprintf("%5d  %s", i+1, strings.ReplaceAll(one, "\t", "    ")))
	}
	if left := len(all) - len(shown); left > 0 {
		c.add("", fmt.Sprintf("       %d more lines; --full shows them", left))
	}
}

// ended adds how a call ended.
func (o *observer) ended(c *observed, e event.Event) {
	var end struct {
		State   string          `json:"state"`
		OK      bool            `json:"ok"`
		Code    string          `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if json.Unmarshal(e.Body, &end) != nil {
		c.add("", e.Summary)
		return
	}
	switch {
	case end.State != "succeeded":
		c.add(red, strings.TrimSpace(end.State+" "+end.Code+"  "+end.Message))
	case !end.OK:
		c.add(yellow, "succeeded, and what it did has failed")
	default:
		c.add(green, "succeeded")
	}
	var pretty bytes.Buffer
	if o.full && len(end.Data) > 0 && json.Indent(&pretty, end.Data, "", "  ") == nil {
		o.numbered(c, pretty.String())
	}
}

// show shows a call for the last time.
func (o *observer) show(c *observed) {
	o.block(c)
	o.calls = slices.DeleteFunc(o.calls, func(one *observed) bool { return one == c })
}

// block shows what has come of a call since it was shown last.
func (o *observer) block(c *observed) {
	o.unfold()
	who := c.first.Actor.Principal
	if c.first.Actor.Client != "" {
		who += "/" + c.first.Actor.Client
	}
	verb := c.verb
	if c.begun {
		verb += " (goes on)"
	}
	c.begun = true
	head := c.first.At.Local().Format("15:04:05") + "  " + verb
	tail := plain(who) + "  " + plain(c.first.Refs[event.RefOperation])
	what := short(c.what, 200)
	if o.columns > 0 {
		what = fit(what, max(8, o.columns-width(head)-width(tail)-4))
	}
	line(o.w, "%s  %s  %s", o.looks.paint(bold, head), what, o.looks.paint(dim, tail))
	for _, one := range c.lines {
		for part := range strings.SplitSeq(one.text, "\n") {
			if o.columns > 0 {
				part = fit(part, max(8, o.columns-len(observeIndent)))
			}
			line(o.w, "%s%s", observeIndent, o.looks.paint(one.color, part))
		}
	}
	c.lines = nil
}

// single shows an event that belongs to no call. The same one again, as when an agent reads and says the same about it, is
// counted; one that tells of a failure never is.
func (o *observer) single(e event.Event) {
	who := plain(e.Actor.Principal)
	text := fmt.Sprintf("%s  %s  %s", e.Kind, who, plain(e.Summary))
	if path := e.Refs[event.RefPath]; path != "" && !strings.Contains(e.Summary, path) {
		text += "  " + plain(filepath.Clean(path))
	}
	if text == o.last && foldable(e.Kind) {
		o.folded++
		return
	}
	o.unfold()
	o.last = text
	shown := fit(e.At.Local().Format("15:04:05")+"  "+strings.ReplaceAll(text, "\n", " "), o.columns)
	if strings.HasPrefix(string(e.Kind), "activity.") {
		shown = o.looks.paint(dim, shown)
	}
	line(o.w, "%s", shown)
}

// foldable kinds tell of looking only.
func foldable(k event.Kind) bool {
	return strings.HasPrefix(string(k), "activity.") || k == event.SessionAttached || k == event.ConfigObserved
}

// unfold says how often the last line came again.
func (o *observer) unfold() {
	if o.folded > 0 {
		line(o.w, "%s%s", observeIndent, o.looks.paint(dim, fmt.Sprintf("the same again: %d times", o.folded)))
	}
	o.last, o.folded = "", 0
}

// sayPruned says which events had bodies that are not kept any more.
func (o *observer) sayPruned() {
	for _, r := range o.pruned {
		o.unfold()
		line(o.w, "%s", o.looks.paint(dim, prunedText(r)))
	}
	o.pruned = nil
}

// flush shows what has not ended.
func (o *observer) flush() {
	o.sayPruned()
	for len(o.calls) > 0 {
		c := o.calls[0]
		c.add("", "has not ended yet")
		o.show(c)
	}
	o.unfold()
}
