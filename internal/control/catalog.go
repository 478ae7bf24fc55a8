package control

import (
	"context"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/store"
)

// Catalog lists the entries that fit the query. What `mcpx up` offers for its own run is not the catalog.
func (c *Control) Catalog(ctx context.Context, in api.CatalogQuery) (api.CatalogPage, error) {
	if err := c.allow(ctx, "catalog.list"); err != nil {
		return api.CatalogPage{}, err
	}
	page := api.CatalogPage{Entries: []api.CatalogEntry{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		all, err := catalog.All(ctx, r)
		if err != nil {
			return err
		}
		pins, err := pinsByServer(ctx, r)
		if err != nil {
			return err
		}
		page.Revision = catalog.Revision(all)
		for _, s := range all {
			if e := c.placed(governed(s, pins[s.ID])); fits(e, in) {
				page.Entries = append(page.Entries, e)
			}
		}
		return nil
	})
	return page, err
}

// CatalogServer shows one entry.
func (c *Control) CatalogServer(ctx context.Context, in api.ServerRef) (api.CatalogEntry, error) {
	if err := c.allow(ctx, "catalog.show"); err != nil {
		return api.CatalogEntry{}, err
	}
	var e api.CatalogEntry
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		s, err := c.find(ctx, r, in.Name)
		if err != nil {
			return err
		}
		pins, err := pinsOf(ctx, r, s.ID)
		e = c.placed(governed(s, pins))
		return err
	})
	return e, err
}

// placed adds where in its file an entry stands.
func (c *Control) placed(e api.CatalogEntry) api.CatalogEntry {
	if e.File != "" {
		e.Line = c.filedNow().lines[e.ID]
	}
	return e
}

func pinsByServer(ctx context.Context, r catalog.PinReader) (map[string]catalog.Pins, error) {
	all, err := r.AllPins(ctx)
	out := make(map[string]catalog.Pins, len(all))
	for _, p := range all {
		out[p.Server] = p
	}
	return out, err
}

// governed is an entry without its values.
func governed(s catalog.Server, pins catalog.Pins) api.CatalogEntry {
	e := api.CatalogEntry{
		ID: s.ID, Name: s.Name, Aliases: s.Aliases, Title: s.Title, Notes: s.Notes, Tags: s.Tags, Profiles: s.Profiles,
		Definition: api.Server{Server: s}.Definition(), Variables: variablesOf(s.Stdio), Headers: headersOf(s.HTTP),
		Sharing: s.Sharing, Review: s.Review, Lifecycle: s.Lifecycle, Risk: s.Risk.OrUnknown(),
		Reasons: catalog.NotRoutable(s), PinMode: s.PinMode(), Pinned: len(pins.Tools), Held: pins.Held, Provenance: s.Origins(), File: s.File,
	}
	if p, ok := catalog.Identify(catalog.WithoutValues(s)); ok {
		e.Package = &p
	}
	e.Routable = len(e.Reasons) == 0
	e.Variables, e.Headers = orEmpty(e.Variables), orEmpty(e.Headers)
	e.Reasons, e.Held, e.Provenance = orEmpty(e.Reasons), orEmpty(e.Held), orEmpty(e.Provenance)
	return e
}

// orEmpty is a list that is [] in JSON and never null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func fits(e api.CatalogEntry, in api.CatalogQuery) bool {
	if in.Tag != "" && !slices.Contains(e.Tags, in.Tag) ||
		in.Profile != "" && !slices.Contains(e.Profiles, in.Profile) ||
		in.Review != "" && string(e.Review) != in.Review {
		return false
	}
	texts := []string{e.ID, e.Name, e.Title, e.Notes, e.Definition}
	texts = append(append(append(append(texts, e.Aliases...), e.Tags...), e.Profiles...), e.Variables...)
	if e.Package != nil {
		texts = append(texts, string(e.Package.Kind)+":"+e.Package.Name)
	}
	text := strings.ToLower(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(in.Words, func(word string) bool { return !strings.Contains(text, strings.ToLower(word)) })
}

// Candidates lists the servers that were seen and are not in the catalog.
func (c *Control) Candidates(ctx context.Context, in api.CandidatesQuery) (api.CandidatePage, error) {
	if err := c.allow(ctx, "catalog.candidates"); err != nil {
		return api.CandidatePage{}, err
	}
	page := api.CandidatePage{Candidates: []catalog.Candidate{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		if in.ID != "" {
			one, err := r.CandidateByID(ctx, catalog.CandidateByID{ID: in.ID})
			if err == nil {
				page.Candidates = append(page.Candidates, one)
			}
			return err
		}
		all, err := catalog.AllCandidates(ctx, r)
		for _, candidate := range all {
			if state := candidate.State; in.State == "all" || string(state) == in.State || in.State == "" && state == catalog.CandidateNew {
				page.Candidates = append(page.Candidates, candidate)
			}
		}
		return err
	})
	return page, err
}
