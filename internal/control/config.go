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
	seen, servers, err := c.observe(ctx, in)
	if err != nil {
		return api.ConfigReport{}, err
	}
	var links map[string]string
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		links, err = linked(ctx, r)
		return err
	})
	if err != nil {
		return api.ConfigReport{}, err
	}
	absent := func(f converge.File) bool { return f.State == converge.FileAbsent }
	out := api.ConfigReport{
		Files: slices.DeleteFunc(seen.Files, absent), Entries: converge.ClassifyLinked(seen.Entries, servers, links),
		Counts: map[converge.Class]int{}, Revision: catalog.Revision(servers),
	}
	for _, f := range out.Entries {
		out.Counts[f.Class]++
	}
	return out, nil
}

// observe reads the catalog first: an entry is recognised as routed by the names in it.
func (c *Control) observe(ctx context.Context, in api.ConfigQuery) (converge.Observation, []catalog.Server, error) {
	var servers []catalog.Server
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		servers, err = catalog.All(ctx, r)
		return err
	})
	if err != nil {
		return converge.Observation{}, nil, err
	}
	names := map[string]bool{}
	for _, s := range servers {
		names[s.Name] = false
		for _, alias := range s.Aliases {
			names[alias] = true
		}
	}
	seen, err := c.cfg.Observe(ctx, converge.Look{Agent: in.Agent, Home: in.Home, Project: in.Project, Moved: in.Moved, Names: names})
	return seen, servers, err
}
