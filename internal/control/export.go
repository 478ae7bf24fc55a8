package control

import (
	"context"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// The forms of an export that are no agent's.
const (
	exportOwn   = "mcpx"
	exportPlain = "mcp-servers"
)

// ExportCatalog writes servers as a document. Values of variables and headers stay behind.
func (c *Control) ExportCatalog(ctx context.Context, in api.ExportQuery) (api.Export, error) {
	if err := c.allow(ctx, "catalog.export"); err != nil {
		return api.Export{}, err
	}
	if in.As == exportOwn && in.Routed {
		return api.Export{}, fault.New(fault.Invalid, "export-form").Saying("the export of mcpx holds the servers themselves").
			Hinting("leave --routed out, or use --as mcp-servers")
	}
	servers, err := c.chosen(ctx, in.Names)
	if err != nil {
		return api.Export{}, err
	}
	out := api.Export{As: in.As, Format: "json", Servers: []string{}, Left: []string{}, Notes: []string{}}
	if in.As != exportOwn { // an entry in a file starts something: what a person does not want to run is left out
		servers = slices.DeleteFunc(servers, func(s catalog.Server) bool {
			why := leftOut(s, in.Routed)
			if why != "" {
				out.Left = append(out.Left, s.Name+": "+why)
			}
			return why != ""
		})
	}
	for _, s := range servers {
		out.Servers = append(out.Servers, s.Name)
	}
	var document []byte
	switch in.As {
	case exportOwn:
		document, err = catalog.Export(servers)
	case exportPlain:
		if in.Routed {
			servers = c.routedEntries(servers)
		}
		document, err = catalog.ExportPlain(servers)
	default:
		return c.exportFor(in, servers, out)
	}
	out.Document = string(document)
	return out, err
}

// chosen are the servers with these names, all of them without a name.
func (c *Control) chosen(ctx context.Context, names []string) ([]catalog.Server, error) {
	var servers []catalog.Server
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		if len(names) == 0 {
			var err error
			servers, err = catalog.All(ctx, r)
			return err
		}
		for _, name := range names {
			s, err := c.find(ctx, r, name)
			if err != nil {
				return err
			}
			servers = append(servers, s)
		}
		return nil
	})
	return servers, err
}

// leftOut says why an entry is not written into a file that somebody runs.
func leftOut(s catalog.Server, routed bool) string {
	reasons := catalog.NotRoutable(s)
	if !routed { // a server of one's own needs no route, and its values are put in where it goes
		reasons = slices.DeleteFunc(reasons, func(reason string) bool {
			return reason == catalog.SharedWithNobody || strings.HasPrefix(reason, catalog.BindingUnresolved)
		})
	}
	return strings.Join(reasons, ", ")
}

// routedEntries are entries that lead through mcpx.
func (c *Control) routedEntries(servers []catalog.Server) []catalog.Server {
	out := make([]catalog.Server, 0, len(servers))
	for _, s := range servers {
		out = append(out, catalog.Server{Name: s.Name, HTTP: &catalog.HTTP{URL: c.routeOf(s.Name), Transport: catalog.TransportStreamable}})
	}
	return out
}

// exportFor writes the entries as an agent spells them.
func (c *Control) exportFor(in api.ExportQuery, servers []catalog.Server, out api.Export) (api.Export, error) {
	forms := make([]converge.Form, 0, len(servers))
	for _, s := range servers {
		if in.Routed {
			forms = append(forms, converge.Form{Kind: converge.FormHTTP, Server: s.Name, URL: c.routeOf(s.Name)})
			continue
		}
		form, lost := converge.Direct(in.As, catalog.Named(s))
		forms = append(forms, form)
		for _, text := range lost {
			out.Notes = append(out.Notes, s.Name+": "+text)
		}
	}
	document, format, dropped, err := c.cfg.Spell(in.As, forms)
	if err != nil {
		return api.Export{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(dropped)) {
		out.Notes = append(out.Notes, name+": "+dropped[name])
	}
	out.Document, out.Format = string(document), format
	return out, nil
}
