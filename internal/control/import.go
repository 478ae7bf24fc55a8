package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/store"
)

// maxImport bounds one import: the configuration of all agents of one person has some dozens of servers.
const maxImport = 2000

// ImportServers adds the entries that are new, in one transaction. An entry that is there is never touched, whatever was
// decided about it, so that the same import twice changes nothing.
func (c *Control) ImportServers(ctx context.Context, in api.ImportServers) (api.ImportReport, error) {
	if err := c.allow(ctx, "server.import"); err != nil {
		return api.ImportReport{}, err
	}
	if len(in.Servers) > maxImport {
		return api.ImportReport{}, fault.New(fault.Invalid, "import-too-large").Saying("%d servers in one import, want at most %d", len(in.Servers), maxImport)
	}
	if in.From != "" {
		if err := catalog.ValidName(in.From); err != nil {
			return api.ImportReport{}, err
		}
	}
	i := importing{Control: c, in: in}
	var err error
	if in.DryRun {
		err = c.cfg.DB.View(ctx, func(r store.Reader) error { return i.plan(ctx, r) })
	} else {
		err = c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
			if err := i.plan(ctx, tx); err != nil || i.refused() {
				return err
			}
			return i.write(ctx, tx)
		})
	}
	if err != nil {
		return api.ImportReport{}, err
	}
	report := api.ImportReport{DryRun: in.DryRun, Entries: i.entries, Refused: i.refused(), Operation: api.OperationOf(ctx)}
	if in.DryRun || report.Refused {
		would := map[api.ImportOutcome]api.ImportOutcome{api.ImportCreated: api.ImportWouldCreate, api.ImportLinked: api.ImportWouldLink}
		for n, e := range report.Entries {
			if outcome, changes := would[e.Outcome]; changes {
				report.Entries[n].Outcome = outcome
			}
		}
	}
	c.missing(ctx, i.put, &report)
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

// importing is one import on its way.
type importing struct {
	*Control
	in      api.ImportServers
	entries []api.ImportEntry
	put     []catalog.Server // new ones
	linked  []catalog.Server // known ones, with one more origin
}

// refused says that nothing is written, because one entry is bad and all or nothing was asked for.
func (i *importing) refused() bool {
	return i.in.AllOrNothing && (i.in.Unread > 0 || slices.ContainsFunc(i.entries, func(e api.ImportEntry) bool {
		return e.Outcome == api.ImportConflict || e.Outcome == api.ImportError
	}))
}

// plan says what becomes of each entry. It may run twice.
func (i *importing) plan(ctx context.Context, r catalog.Reader) error {
	i.entries, i.put, i.linked = []api.ImportEntry{}, nil, nil
	all, err := catalog.All(ctx, r)
	if err != nil {
		return err
	}
	index := catalog.NewIndex(all)
	names := map[string]bool{}
	for _, s := range i.in.Servers {
		entry := i.judge(index, s, names)
		names[s.Name] = true
		i.entries = append(i.entries, entry)
	}
	return nil
}

// judge says what an import does with one entry. Names are those of earlier entries of the same import.
func (i *importing) judge(index *catalog.Index, s catalog.Server, names map[string]bool) api.ImportEntry {
	s = i.fresh(s)
	entry := api.ImportEntry{Name: s.Name}
	err := valid(s)
	if err == nil {
		err = i.foreign(s)
	}
	if err != nil {
		f := fault.From(err)
		entry.Outcome, entry.Text, entry.Codes = api.ImportError, f.Error(), []string{f.Code}
		return entry
	}
	conflict := func(code, format string, args ...any) api.ImportEntry {
		entry.Outcome, entry.Text, entry.Codes = api.ImportConflict, fmt.Sprintf(format, args...), []string{code}
		return entry
	}
	if names[s.Name] {
		return conflict("import-name", "the name stands twice in the file")
	}
	for _, name := range append([]string{s.Name}, s.Aliases...) {
		old, taken := index.Server(name)
		switch {
		case !taken:
		case sameServer(old, s):
			return i.known(entry, old, s, old.Name == s.Name)
		case old.Name == name:
			entry.Server = old.Name
			return conflict(catalog.ReasonNameConflict, "another server has this name: %s", api.Server{Server: old}.Definition())
		default:
			entry.Server = old.Name
			return conflict(catalog.ReasonAliasConflict, "it is an alias of the server %s: %s", old.Name, api.Server{Server: old}.Definition())
		}
	}
	switch old, several := twin(index, s); {
	case len(several) > 0:
		return conflict(catalog.ReasonSeveral, "it may be each of %s", strings.Join(several, ", "))
	case old != nil:
		return i.known(entry, *old, s, false)
	}
	s = catalog.Attribute(catalog.Server{}, s, i.origin(s))
	i.put = append(i.put, s)
	entry.Outcome, entry.Server = api.ImportCreated, s.Name
	if names := s.Unresolved(); len(names) > 0 {
		entry.Codes = append(entry.Codes, catalog.BindingUnresolved)
	}
	return entry
}

// fresh is an entry as it would come into the catalog.
func (i *importing) fresh(s catalog.Server) catalog.Server {
	now := i.cfg.Now()
	s.ID, s.Source, s.Provenance, s.Created, s.Updated = i.cfg.IDs.New(id.Server), string(catalog.FromImport), nil, now, now
	s.Review = catalog.ReviewApproved // a person runs the import
	if i.in.Pending {
		s.Review = catalog.ReviewPending
		if s.Risk != catalog.RiskHigh { // a file cannot make anybody less careful
			s.Risk = ""
		}
	}
	if s.Lifecycle != catalog.Disabled && s.Lifecycle != catalog.Deprecated {
		s.Lifecycle = catalog.Enabled
	}
	if s.Sharing == "" || s.Sharing == catalog.ShareGlobal {
		s.Sharing = catalog.ShareSession // sharing with everybody needs a yes for each server
	}
	return s
}

// known is the outcome for an entry that the catalog has. It is linked once: then its origin is noted.
func (i *importing) known(entry api.ImportEntry, old, s catalog.Server, byName bool) api.ImportEntry {
	origin := i.origin(s)
	entry.Outcome, entry.Server = api.ImportUnchanged, old.Name
	if byName || old.Known(catalog.FromImport, origin.Digest) || slices.ContainsFunc(i.linked, func(l catalog.Server) bool { return l.ID == old.ID }) {
		return entry
	}
	i.linked = append(i.linked, catalog.Attribute(old, old, origin))
	entry.Outcome, entry.Text = api.ImportLinked, "the catalog has it as "+old.Name
	return entry
}

// origin is where an entry of the import comes from. The digest is of the names and the definition, never of a value.
func (i *importing) origin(s catalog.Server) catalog.Provenance {
	bare := catalog.WithoutValues(s)
	raw, err := json.Marshal([]any{bare.Name, bare.Stdio, bare.HTTP})
	if err != nil {
		panic("control: an entry does not encode: " + err.Error()) // strings, booleans and maps of them always do
	}
	sum := sha256.Sum256(raw)
	return catalog.Provenance{Source: catalog.FromImport, Ref: i.in.Ref, Digest: hex.EncodeToString(sum[:16]), At: i.cfg.Now()}
}

// twin finds the server of the catalog that an entry with another name is without any doubt. Several: there is more than
// one.
func twin(index *catalog.Index, s catalog.Server) (one *catalog.Server, several []string) {
	m := index.Match(catalog.Sight(s))
	var names []string
	for _, c := range m.Candidates {
		clean := c.Confidence == catalog.MatchHigh || c.Confidence == catalog.MatchMedium && !slices.ContainsFunc(c.Reasons, func(reason string) bool {
			return reason != catalog.ReasonSameURL && reason != catalog.ReasonOtherName && reason != catalog.ReasonUnpinned
		})
		if clean {
			names = append(names, c.Server)
		}
	}
	switch len(names) {
	case 0:
		return nil, nil
	case 1:
		found, _ := index.Server(names[0])
		return &found, nil
	}
	return nil, names
}

func (i *importing) write(ctx context.Context, tx store.Tx) error {
	for _, s := range i.put {
		if err := tx.PutServer(ctx, catalog.PutServer{Server: s}); err != nil {
			return err
		}
		err := i.tell(ctx, tx, event.CatalogCreated, event.Refs{event.RefServer: s.ID}, "the server "+s.Name+" came into the catalog", outline(catalog.Server{}, s))
		if err != nil {
			return err
		}
	}
	for _, s := range i.linked {
		if err := tx.PutServer(ctx, catalog.PutServer{Server: s}); err != nil {
			return err
		}
	}
	if len(i.put)+len(i.linked) == 0 {
		return nil
	}
	refs := event.Refs{}
	if i.in.Ref != "" {
		refs[event.RefPath] = i.in.Ref
	}
	counts := map[api.ImportOutcome]int{}
	for _, e := range i.entries {
		counts[e.Outcome]++
	}
	text := fmt.Sprintf("%d servers were imported, %d were known", len(i.put), len(i.linked))
	if err := i.tell(ctx, tx, event.CatalogImported, refs, text, counts); err != nil || i.in.From == "" {
		return err
	}
	return i.tell(ctx, tx, event.CutoverImported, refs, text+" from the hub "+i.in.From, struct {
		From   string                    `json:"from"`
		Counts map[api.ImportOutcome]int `json:"counts"`
	}{i.in.From, counts})
}

// sameServer says whether an import may take old for s: the same definition, and the same names of variables and headers.
// Values count only where both have one: those of a file stay there, and those of the catalog are a person's business.
func sameServer(old, s catalog.Server) bool {
	if (old.Stdio == nil) != (s.Stdio == nil) || (old.HTTP == nil) != (s.HTTP == nil) {
		return false
	}
	agree := func(a, b map[string]catalog.Binding) bool {
		return slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))) &&
			!slices.ContainsFunc(slices.Collect(maps.Keys(a)), func(name string) bool {
				return a[name].Literal != "" && b[name].Literal != "" && a[name] != b[name]
			})
	}
	if old.Stdio != nil {
		a, b := *old.Stdio, *s.Stdio
		if !agree(a.Env, b.Env) {
			return false
		}
		a.Env, b.Env = nil, nil
		return equalJSON(a, b)
	}
	a, b := *old.HTTP, *s.HTTP
	if !agree(a.Headers, b.Headers) {
		return false
	}
	a.Headers, b.Headers = nil, nil
	if a.Transport == catalog.TransportAuto || a.Transport == "" || b.Transport == catalog.TransportAuto || b.Transport == "" {
		a.Transport, b.Transport = "", ""
	}
	return equalJSON(a, b)
}

// sameDefinition compares what two entries run or reach, values included.
func sameDefinition(a, b catalog.Server) bool {
	type definition struct {
		Stdio *catalog.Stdio
		HTTP  *catalog.HTTP
	}
	return equalJSON(definition{a.Stdio, a.HTTP}, definition{b.Stdio, b.HTTP})
}

// equalJSON compares as JSON, where an empty list and an absent one are the same.
func equalJSON(a, b any) bool {
	one, errOne := json.Marshal(a)
	two, errTwo := json.Marshal(b)
	return errOne == nil && errTwo == nil && bytes.Equal(one, two)
}
