package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/store"
)

// Review carries out what a person decides about a candidate or a server. Nothing is started.
func (c *Control) Review(ctx context.Context, in api.Review) (api.Reviewed, error) {
	if err := c.allow(ctx, "catalog.review"); err != nil {
		return api.Reviewed{}, err
	}
	if err := asked(in); err != nil {
		return api.Reviewed{}, err
	}
	out := api.Reviewed{Changed: []string{}, Operation: api.OperationOf(ctx)}
	err := c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		switch in.Verdict {
		case api.Promote, api.Merge:
			return c.reviewCandidate(ctx, tx, in, &out)
		case api.Reject:
			if strings.HasPrefix(in.Subject, "cand_") {
				return c.reviewCandidate(ctx, tx, in, &out)
			}
		case api.Approve, api.Deprecate, "":
		}
		return c.reviewServer(ctx, tx, in, &out)
	})
	return out, err
}

// asked refuses a decision that contradicts itself, before anything is looked up.
func asked(in api.Review) error {
	usage := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Invalid, "review-invalid").Saying(format, args...).Hinting("see `mcpx catalog review -h`")
	}
	settings := in.Settings()
	switch in.Verdict {
	case api.Promote:
	case api.Merge:
		if in.With == "" || settings || in.Name != "" {
			return usage("a candidate is merged with one server, and nothing else is set")
		}
	case api.Reject:
		if settings || in.Name != "" || in.With != "" {
			return usage("what is rejected is not changed")
		}
	case api.Approve, api.Deprecate:
		if in.Name != "" || in.With != "" {
			return usage("a name and a server to merge with belong to candidates")
		}
		if strings.HasPrefix(in.Subject, "cand_") {
			return usage("%s is no server yet", in.Subject).Hinting("take it into the catalog with `mcpx catalog review %s --promote`, or say with `--reject` that it is not wanted", in.Subject)
		}
	case "":
		if !settings || in.Name != "" || in.With != "" {
			return usage("no decision is given")
		}
	default:
		return usage("there is no verdict %q", in.Verdict)
	}
	return nil
}

func (c *Control) reviewCandidate(ctx context.Context, tx store.Tx, in api.Review, out *api.Reviewed) error {
	candidate, err := tx.CandidateByID(ctx, catalog.CandidateByID{ID: in.Subject})
	if err != nil {
		return err
	}
	if err := decidable(candidate, in.Verdict); err != nil {
		return err
	}
	verdict := c.verdict(ctx, in.Note)
	refs := event.Refs{event.RefCandidate: candidate.ID}
	var kind event.Kind
	var text string
	switch in.Verdict {
	case api.Promote:
		s, err := c.promote(ctx, tx, candidate, in)
		if err != nil {
			return err
		}
		candidate.State, candidate.Server = catalog.CandidatePromoted, s.ID
		entry := governed(s, catalog.Pins{})
		out.Entry, out.Changed, out.Route = &entry, catalog.Changed(catalog.Server{}, s), c.routeOf(s.Name)
		kind, text, refs[event.RefServer] = event.CandidatePromoted, s.Name+" came into the catalog", s.ID
	case api.Merge:
		s, err := c.find(ctx, tx, in.With)
		if err != nil {
			return err
		}
		merged := s
		for _, seen := range candidate.Sightings {
			merged = catalog.Attribute(merged, merged, catalog.Provenance{
				Source: catalog.FromObserved, Ref: seen.File, Agent: seen.Agent, Digest: candidate.ID, At: c.cfg.Now(),
			})
			if seen.Digest == "" {
				continue
			}
			if err := tx.PutLink(ctx, catalog.PutLink{Link: catalog.Link{Digest: seen.Digest, Observation: seen.Observation, Server: s.ID, Verdict: verdict}}); err != nil {
				return err
			}
		}
		if err := tx.PutServer(ctx, catalog.PutServer{Server: merged}); err != nil {
			return err
		}
		candidate.State, candidate.Server = catalog.CandidateMerged, s.ID
		entry := governed(merged, catalog.Pins{})
		out.Entry = &entry
		kind, text, refs[event.RefServer] = event.CandidateMerged, candidate.Name+" is "+s.Name, s.ID
	case api.Reject:
		candidate.State = catalog.CandidateRejected
		kind, text = event.CandidateRejected, candidate.Name+" is not wanted in the catalog"
	case api.Approve, api.Deprecate, "":
	}
	candidate.Verdict = &verdict
	if err := tx.PutCandidate(ctx, catalog.PutCandidate{Candidate: candidate}); err != nil {
		return err
	}
	out.Candidate = &candidate
	return c.tell(ctx, tx, kind, refs, text, map[string]any{"definition": definitionOf(candidate), "note": in.Note})
}

// decidable refuses a second decision about a candidate whose first one is in force. A rejected one can be promoted or
// merged: the person has changed their mind.
func decidable(candidate catalog.Candidate, verdict api.Verdict) error {
	done := candidate.State == catalog.CandidatePromoted || candidate.State == catalog.CandidateMerged ||
		candidate.State == catalog.CandidateRejected && verdict == api.Reject
	if !done {
		return nil
	}
	return fault.New(fault.Conflict, "candidate-decided").Saying("the candidate %s is %s already", candidate.ID, candidate.State).
		Hinting("`mcpx catalog list` shows the servers; one that you remove is a candidate again at the next audit")
}

func (c *Control) verdict(ctx context.Context, note string) catalog.Verdict {
	actor := actorOf(ctx)
	return catalog.Verdict{Principal: actor.Principal, Channel: actor.Channel, At: c.cfg.Now(), Note: note}
}

// definitionOf is the command line or the URL of a candidate for people.
func definitionOf(candidate catalog.Candidate) string {
	s := candidate.Shape
	if s.URL != "" {
		return s.URL
	}
	words := append([]string{s.Command}, s.Args...)
	for i, w := range words {
		words[i] = api.ShellWord(w)
	}
	return strings.Join(words, " ")
}

func (c *Control) promote(ctx context.Context, tx store.Tx, candidate catalog.Candidate, in api.Review) (catalog.Server, error) {
	if candidate.Shape.Hidden {
		return catalog.Server{}, fault.New(fault.Invalid, "candidate-hidden").
			Saying("an argument or the URL of %s looks like a secret and was never stored, so it cannot be started from what is known", candidate.Name).
			Hinting("add it yourself with `mcpx server add`, the secret as a variable or header, then `mcpx catalog review %s --merge NAME`", candidate.ID)
	}
	if !in.Confirmed {
		return catalog.Server{}, needsYes("%s may be run from now on: %s", candidate.Name, definitionOf(candidate))
	}
	now := c.cfg.Now()
	s := catalog.Server{
		ID: c.cfg.IDs.New(id.Server), Name: candidate.Name, Sharing: catalog.ShareSession, Review: catalog.ReviewApproved,
		Lifecycle: catalog.Enabled, Source: string(catalog.FromObserved), Created: now, Updated: now,
	}
	if in.Name != "" {
		s.Name = in.Name
	}
	unresolved := func(names []string) map[string]catalog.Binding {
		out := make(map[string]catalog.Binding, len(names))
		for _, name := range names {
			out[name] = catalog.Binding{Unresolved: true}
		}
		return out
	}
	switch shape := candidate.Shape; shape.Transport {
	case "stdio":
		s.Stdio = &catalog.Stdio{Command: shape.Command, Args: shape.Args, Cwd: shape.Cwd, Env: unresolved(shape.Variables)}
	default:
		s.HTTP = &catalog.HTTP{URL: shape.URL, Headers: unresolved(slices.DeleteFunc(slices.Clone(shape.Headers), catalog.OwnHeader))}
		if shape.Transport == "sse" {
			s.HTTP.Transport = catalog.TransportSSE
		}
	}
	s, err := reviewed(s, in)
	if err != nil {
		return s, err
	}
	if err := valid(s); err != nil {
		return s, err
	}
	if err := c.foreign(s); err != nil {
		return s, err
	}
	if err := free(ctx, tx, s); err != nil {
		if in.Name == "" {
			return s, fault.From(err).Hinting("give it another name with --name, or say with --merge that it is the same server")
		}
		return s, err
	}
	if err := namesKnown(ctx, tx, s); err != nil {
		return s, err
	}
	origin := catalog.Provenance{Source: catalog.FromObserved, Ref: candidate.ID, At: now}
	if len(candidate.Sightings) > 0 {
		origin.Agent, origin.Digest = candidate.Sightings[0].Agent, candidate.ID
	}
	s = catalog.Attribute(catalog.Server{}, s, origin)
	if err := tx.PutServer(ctx, catalog.PutServer{Server: s}); err != nil {
		return s, err
	}
	if err := tx.PutPins(ctx, catalog.PutPins{Pins: catalog.Pins{Server: s.ID, Wanted: true}}); err != nil {
		return s, err
	}
	return s, c.tell(ctx, tx, event.CatalogCreated, event.Refs{event.RefServer: s.ID, event.RefCandidate: candidate.ID},
		"the server "+s.Name+" came into the catalog", outline(catalog.Server{}, s))
}

func needsYes(format string, args ...any) error {
	return fault.New(fault.NeedsApproval, "review-needs-yes").Saying(format, args...).
		Hinting("a person must agree: repeat the command with --yes")
}

// outline is what an event tells of a change: names, never values.
func outline(old, s catalog.Server) map[string]any {
	return map[string]any{
		"name": s.Name, "definition": api.Server{Server: s}.Definition(), "changed": orEmpty(catalog.Changed(old, s)),
		"review": s.Review, "lifecycle": s.Lifecycle, "risk": s.Risk.OrUnknown(), "sharing": s.Sharing,
	}
}

// reviewed is an entry with what a person has set in a review.
func reviewed(s catalog.Server, in api.Review) (catalog.Server, error) {
	set(&s.Tags, in.Tags)
	set(&s.Profiles, in.Profiles)
	if in.Risk != "" {
		s.Risk = in.Risk
	}
	if in.Pins != "" {
		s.Pins = in.Pins
	}
	if len(in.Bind) == 0 {
		return s, nil
	}
	what, names := "variable", variablesOf(s.Stdio)
	if s.HTTP != nil {
		what, names = "header", headersOf(s.HTTP)
	}
	changes := map[string]*catalog.Binding{}
	for _, name := range slices.Sorted(maps.Keys(in.Bind)) {
		if !slices.Contains(names, name) {
			f := fault.New(fault.NotFound, "binding-unknown").Saying("%s has no %s %s", s.Name, what, name)
			if near := catalog.Nearest(name, names); near != "" {
				return s, f.Hinting("did you mean %s?", near)
			}
			return s, f.Hinting("`mcpx server edit %s` adds one", s.Name)
		}
		b := in.Bind[name]
		changes[name] = &b
	}
	if s.Stdio != nil {
		b := *s.Stdio
		b.Env = rebound(b.Env, changes)
		s.Stdio = &b
	} else {
		b := *s.HTTP
		b.Headers = rebound(b.Headers, changes)
		s.HTTP = &b
	}
	return s, nil
}

func (c *Control) reviewServer(ctx context.Context, tx store.Tx, in api.Review, out *api.Reviewed) error {
	old, err := c.find(ctx, tx, in.Subject)
	if err != nil {
		return err
	}
	if in.Settings() {
		if err := c.inFile(old); err != nil {
			return err
		}
	}
	s, err := reviewed(old, in)
	if err != nil {
		return err
	}
	switch in.Verdict {
	case api.Approve:
		s.Review = catalog.ReviewApproved
	case api.Reject:
		s.Review = catalog.ReviewRejected
	case api.Deprecate:
		s.Lifecycle = catalog.Deprecated
	case api.Promote, api.Merge, "":
	}
	if err := valid(s); err != nil {
		return err
	}
	if !in.Confirmed {
		switch {
		case s.Review == catalog.ReviewApproved && old.Review != catalog.ReviewApproved:
			return needsYes("%s may be run from now on: %s", s.Name, api.Server{Server: s}.Definition())
		case old.Risk.Lowers(s.Risk):
			return needsYes("the risk of %s goes down from %s to %s", s.Name, old.Risk.OrUnknown(), s.Risk)
		case s.Pins == catalog.PinsOff && old.Pins != catalog.PinsOff:
			return needsYes("tools of %s may change without anybody being told", s.Name)
		}
	}
	pins, err := tx.PinsOf(ctx, catalog.PinsOf{Server: s.ID})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	if in.Verdict == api.Approve && fault.KindOf(err) == fault.NotFound { // its tools are taken as they are at the first look
		pins = catalog.Pins{Server: s.ID, Wanted: true}
		if err := tx.PutPins(ctx, catalog.PutPins{Pins: pins}); err != nil {
			return err
		}
	}
	out.Changed, out.Route = orEmpty(catalog.Changed(old, s)), c.routeOf(s.Name)
	if len(out.Changed) > 0 {
		if err := namesKnown(ctx, tx, s); err != nil {
			return err
		}
		s.Updated = c.cfg.Now()
		s = typed(old, s, s.Updated)
		if err := tx.PutServer(ctx, catalog.PutServer{Server: s}); err != nil {
			return err
		}
		body := outline(old, s)
		body["note"] = in.Note
		text := fmt.Sprintf("%s: review %s, %s, risk %s", s.Name, s.Review, s.Lifecycle, s.Risk.OrUnknown())
		if err := c.tell(ctx, tx, event.CatalogReviewed, event.Refs{event.RefServer: s.ID}, text, body); err != nil {
			return err
		}
	}
	entry := governed(s, pins)
	out.Entry = &entry
	return nil
}

// LinkEntry remembers that an entry of a file is a server.
func (c *Control) LinkEntry(ctx context.Context, in api.LinkEntry) (api.Linked, error) {
	if err := c.allow(ctx, "catalog.link"); err != nil {
		return api.Linked{}, err
	}
	out := api.Linked{Operation: api.OperationOf(ctx)}
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		s, err := c.find(ctx, tx, in.Server)
		if err != nil {
			return err
		}
		e, err := observed(ctx, tx, in.Observation)
		if err != nil {
			return err
		}
		out.Server, out.Agent, out.File, out.Entry = s.Name, e.Agent, e.File, e.Name
		links, err := tx.Links(ctx)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(links, func(l catalog.Link) bool { return l.Digest == e.Digest && l.Server == s.ID }); i >= 0 {
			out.Link, out.Already = links[i], true
			return nil
		}
		out.Link = catalog.Link{Digest: e.Digest, Observation: e.ID, Server: s.ID, Verdict: c.verdict(ctx, in.Note)}
		if err := tx.PutLink(ctx, catalog.PutLink{Link: out.Link}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.CatalogReviewed, event.Refs{event.RefServer: s.ID, event.RefAgent: e.Agent, event.RefPath: e.File},
			fmt.Sprintf("the entry %s of %s is the server %s", e.Name, e.Agent, s.Name), out.Link)
	})
	return out, err
}

// observed finds an entry of the latest audit by its id, or by a beginning of it.
func observed(ctx context.Context, r converge.Reader, id string) (converge.Entry, error) {
	files, err := r.FileRecords(ctx, converge.ListFileRecords{})
	if err != nil {
		return converge.Entry{}, err
	}
	var found []converge.Entry
	for _, f := range files {
		for _, e := range f.Entries {
			if e.ID == id && e.Digest != "" {
				return e, nil
			}
			if id != "" && strings.HasPrefix(e.ID, id) && e.Digest != "" {
				found = append(found, e)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return converge.Entry{}, fault.New(fault.Invalid, "observation-ambiguous").Saying("%d entries have an id that begins with %q", len(found), id).
			Hinting("write more of it; `mcpx config inspect --json` shows the ids")
	}
	return converge.Entry{}, fault.New(fault.NotFound, "observation-unknown").Saying("no entry of an agent's file has the id %q", id).
		Hinting("run `mcpx audit run`, then `mcpx config inspect --json` shows the ids")
}

// typed notes a change of an entry that a person has typed.
func typed(old, changed catalog.Server, at time.Time) catalog.Server {
	return catalog.Attribute(old, changed, catalog.Provenance{Source: catalog.FromOperator, At: at})
}
