package control

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/store"
)

// maxImport bounds one import: the configuration of all agents of one person has some dozens of servers.
const maxImport = 500

// ImportServers adds the entries that are new, in one transaction. An entry that is there is never touched, so that
// the same import twice changes nothing.
func (c *Control) ImportServers(ctx context.Context, in api.ImportServers) (api.ImportReport, error) {
	if err := c.allow(ctx, "server.import"); err != nil {
		return api.ImportReport{}, err
	}
	if len(in.Servers) > maxImport {
		return api.ImportReport{}, fault.New(fault.Invalid, "import-too-large").Saying("%d servers in one import, want at most %d", len(in.Servers), maxImport)
	}
	report := api.ImportReport{DryRun: in.DryRun, Entries: []api.ImportEntry{}, Operation: api.OperationOf(ctx)}
	var create []catalog.Server
	plan := func(r catalog.Reader) error {
		report.Entries, create = report.Entries[:0], create[:0]
		names := map[string]bool{}
		for _, s := range in.Servers {
			entry, fresh, err := c.judge(ctx, r, s, names)
			if err != nil {
				return err
			}
			names[s.Name] = true
			report.Entries = append(report.Entries, entry)
			if entry.Outcome == api.ImportCreated {
				create = append(create, fresh)
			}
		}
		return nil
	}
	if in.DryRun {
		err := c.cfg.DB.View(ctx, func(r store.Reader) error { return plan(r) })
		for i := range report.Entries {
			if report.Entries[i].Outcome == api.ImportCreated {
				report.Entries[i].Outcome = api.ImportWouldCreate
			}
		}
		if err != nil {
			return api.ImportReport{}, err
		}
		c.missing(ctx, create, &report)
		return report, nil
	}
	err := c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := plan(tx); err != nil {
			return err
		}
		for _, s := range create {
			if err := tx.PutServer(ctx, catalog.PutServer{Server: s}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return api.ImportReport{}, err
	}
	c.missing(ctx, create, &report)
	return report, nil
}

// missing notes which new entries have a command that cannot be found. They are imported all the same: the file is of
// another program, and the command may be installed later. URLs are not tried, since each may take seconds.
func (c *Control) missing(ctx context.Context, created []catalog.Server, report *api.ImportReport) {
	for _, s := range created {
		if s.Stdio == nil || s.Lifecycle == catalog.Disabled {
			continue
		}
		err := c.cfg.Reach(ctx, s)
		if err == nil {
			continue
		}
		i := slices.IndexFunc(report.Entries, func(e api.ImportEntry) bool { return e.Name == s.Name })
		report.Entries[i].Notes = append(report.Entries[i].Notes, "it cannot be started yet: "+fault.From(err).Error())
	}
}

// judge says what an import does with one entry. Names are those of earlier entries of the same import. The error is
// only about reading the catalog.
func (c *Control) judge(ctx context.Context, r catalog.Reader, s catalog.Server, names map[string]bool) (api.ImportEntry, catalog.Server, error) {
	now := c.cfg.Now()
	s.ID = c.cfg.IDs.New(id.Server)
	s.Review, s.Source = catalog.ReviewApproved, "import" // a person runs the import
	if s.Lifecycle != catalog.Disabled {
		s.Lifecycle = catalog.Enabled
	}
	s.Created, s.Updated = now, now
	if s.Sharing == "" || s.Sharing == catalog.ShareGlobal {
		s.Sharing = catalog.ShareSession // sharing with everybody needs a yes for each server
	}
	entry := api.ImportEntry{Name: s.Name}
	err := valid(s)
	if err == nil {
		err = c.foreign(s)
	}
	if err != nil {
		f := fault.From(err)
		entry.Outcome, entry.Text = api.ImportError, f.Error()
		return entry, s, nil
	}
	if names[s.Name] {
		entry.Outcome, entry.Text = api.ImportConflict, "the name stands twice in the file"
		return entry, s, nil
	}
	old, err := r.ServerByName(ctx, catalog.ServerByName{Name: s.Name})
	switch {
	case fault.KindOf(err) == fault.NotFound:
		entry.Outcome = api.ImportCreated
	case err != nil:
		return entry, s, err
	case sameDefinition(old, s):
		entry.Outcome = api.ImportUnchanged
	default:
		entry.Outcome, entry.Text = api.ImportConflict, "another server has this name: "+api.Server{Server: old}.Definition()
	}
	return entry, s, nil
}

// sameDefinition compares what two entries run or reach. It compares JSON, because there an empty list and an absent
// one are the same.
func sameDefinition(a, b catalog.Server) bool {
	type definition struct {
		Stdio *catalog.Stdio
		HTTP  *catalog.HTTP
	}
	one, errOne := json.Marshal(definition{a.Stdio, a.HTTP})
	two, errTwo := json.Marshal(definition{b.Stdio, b.HTTP})
	return errOne == nil && errTwo == nil && bytes.Equal(one, two)
}
