package control

import (
	"context"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/store"
)

// ConfigFiles lists the places where agents look for servers.
func (c *Control) ConfigFiles(ctx context.Context, in api.ConfigQuery) (api.ConfigFiles, error) {
	if err := c.allow(ctx, "config.discover"); err != nil {
		return api.ConfigFiles{}, err
	}
	seen, _, err := c.observe(ctx, in)
	if err != nil {
		return api.ConfigFiles{}, err
	}
	return api.ConfigFiles{Files: seen.Files}, nil
}

// InspectConfig compares every entry with the catalog. What `mcpx up` offers for its own run is not the catalog: it is
// made of these entries.
func (c *Control) InspectConfig(ctx context.Context, in api.ConfigQuery) (api.ConfigReport, error) {
	if err := c.allow(ctx, "config.inspect"); err != nil {
		return api.ConfigReport{}, err
	}
	seen, k, err := c.observe(ctx, in)
	if err != nil {
		return api.ConfigReport{}, err
	}
	absent := func(f converge.File) bool { return f.State == converge.FileAbsent }
	out := api.ConfigReport{
		Files: slices.DeleteFunc(seen.Files, absent), Entries: converge.Classify(seen.Entries, k.servers, k.links),
		Counts: map[converge.Class]int{}, Revision: catalog.Revision(k.servers),
	}
	for _, f := range out.Entries {
		out.Counts[f.Class]++
	}
	return out, nil
}

// observe reads the catalog first: an entry is recognised as routed by the names in it. What is known are the servers, and
// what a person has said about single entries.
func (c *Control) observe(ctx context.Context, in api.ConfigQuery) (converge.Observation, known, error) {
	var k known
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		if k.servers, err = catalog.All(ctx, r); err != nil {
			return err
		}
		k.links, err = linked(ctx, r)
		return err
	})
	if err != nil {
		return converge.Observation{}, known{}, err
	}
	seen, err := c.cfg.Observe(ctx, converge.Look{Agent: in.Agent, Home: in.Home, Project: in.Project, Moved: in.Moved, Names: namesOf(k.servers)})
	return seen, k, err
}
