package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/approval"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/retention"
	"mcpx/internal/store"
)

// governance is the part of the state that plans, approvals and the log are in.
type governance struct {
	events    []event.Event // appended to, or copied, so that clones may share it
	approvals map[string]approval.Approval
	plans     ordered[converge.Plan]
	receipts  ordered[converge.Receipt]
	agents    map[string]converge.AgentRecord
	files     map[fileKey]converge.FileRecord
	kept      retention.State
}

type fileKey struct{ agent, path string }

// ordered is a set of values with ids, in order of the first put.
type ordered[T any] struct {
	ids  []string
	byID map[string]T
}

func (o *ordered[T]) put(id string, v T) {
	if _, ok := o.byID[id]; !ok {
		o.ids = append(o.ids, id)
	}
	o.byID[id] = v
}

func (o *ordered[T]) clone() ordered[T] {
	return ordered[T]{ids: slices.Clip(o.ids), byID: maps.Clone(o.byID)}
}

// page is the newest values before the id before, that fit.
func (o *ordered[T]) page(before string, limit int, unknown func(string) *fault.Error, fits func(T) bool) (page []T, err error) {
	end := len(o.ids)
	if before != "" {
		if end = slices.Index(o.ids, before); end < 0 {
			return nil, unknown(before)
		}
	}
	for _, id := range slices.Backward(o.ids[:end]) {
		if v := o.byID[id]; fits(v) && len(page) < limit {
			page = append(page, deep(v))
		}
	}
	return page, nil
}

// find gives the value whose id is the argument or the only one that begins with it.
func find[T any](all map[string]T, id string, unknown, several func(string) *fault.Error) (T, error) {
	var none T
	if v, ok := all[id]; ok && id != "" {
		return deep(v), nil
	}
	var found []T
	for have, v := range all {
		if id != "" && strings.HasPrefix(have, id) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 0:
		return none, unknown(id)
	case 1:
		return deep(found[0]), nil
	}
	return none, several(id)
}

// deep is a copy that shares nothing, as a store gives it back.
func deep[T any](v T) (out T) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic("storetest: " + err.Error())
	}
	return out
}

func newGovernance() governance {
	return governance{
		approvals: map[string]approval.Approval{},
		plans:     ordered[converge.Plan]{byID: map[string]converge.Plan{}},
		receipts:  ordered[converge.Receipt]{byID: map[string]converge.Receipt{}},
		agents:    map[string]converge.AgentRecord{},
		files:     map[fileKey]converge.FileRecord{},
	}
}

func (g *governance) clone() governance {
	return governance{
		events: slices.Clip(g.events), approvals: maps.Clone(g.approvals), plans: g.plans.clone(), receipts: g.receipts.clone(),
		agents: maps.Clone(g.agents), files: maps.Clone(g.files), kept: g.kept,
	}
}

func (g *governance) EventHead(context.Context) (event.Event, error) {
	if len(g.events) == 0 {
		return event.Event{}, nil
	}
	return deep(g.events[len(g.events)-1]), nil
}

func (g *governance) Events(_ context.Context, p event.ListEvents) (page []event.Event, err error) {
	all := g.events
	if p.Before > 0 {
		all = slices.Clone(all)
		slices.Reverse(all)
	}
	for _, e := range all {
		fits := (p.Before > 0 && e.Seq < p.Before || p.Before == 0 && e.Seq > p.After) && !e.At.Before(store.CutTime(p.Since)) &&
			(p.Kind == "" || string(e.Kind) == p.Kind || strings.HasPrefix(string(e.Kind), p.Kind+"."))
		for name, value := range p.Refs {
			fits = fits && e.Refs[name] == value
		}
		if fits && len(page) < p.PageLimit() {
			page = append(page, deep(e))
		}
	}
	return page, nil
}

func (g *governance) AppendEvent(ctx context.Context, d event.Draft) (event.Event, error) {
	prev, err := g.EventHead(ctx)
	if err != nil {
		return event.Event{}, err
	}
	e, err := event.Seal(prev, d)
	if err != nil {
		return event.Event{}, err
	}
	g.events = append(g.events, deep(e))
	return e, nil
}

func (g *governance) Bodies(_ context.Context, p event.ListBodies) (page []event.Stored, err error) {
	for _, e := range g.events {
		if e.Seq > p.After && e.Body != nil && e.At.Before(store.CutTime(p.Before)) && len(page) < p.PageLimit() {
			s := event.Stored{Event: deep(e), Size: int64(len(e.Body))}
			s.Body = nil
			page = append(page, s)
		}
	}
	return page, nil
}

func (g *governance) DropBodies(_ context.Context, p event.DropBodies) error {
	g.events = slices.Clone(g.events)
	for i := range g.events {
		if slices.Contains(p.Seqs, g.events[i].Seq) {
			g.events[i].Body = nil
		}
	}
	return nil
}

func (g *governance) RetentionState(context.Context) (retention.State, error) {
	return deep(g.kept), nil
}

func (g *governance) PutRetentionState(_ context.Context, p retention.PutState) error {
	p.State.Last.At = store.CutTime(p.State.Last.At)
	g.kept = deep(p.State)
	return nil
}

func (g *governance) Approvals(_ context.Context, p approval.ListApprovals) (page []approval.Approval, err error) {
	for _, id := range slices.Sorted(maps.Keys(g.approvals)) {
		a := g.approvals[id]
		if id > p.After && (p.State == "" || a.State == p.State) && (p.About == "" || a.About == p.About) && len(page) < p.PageLimit() {
			page = append(page, deep(a))
		}
	}
	return page, nil
}

func (g *governance) ApprovalByID(_ context.Context, p approval.ByID) (approval.Approval, error) {
	return find(g.approvals, p.ID, approval.Unknown, approval.Ambiguous)
}

func (g *governance) PutApproval(_ context.Context, p approval.PutApproval) error {
	a := deep(p.Approval)
	if old, ok := g.approvals[a.ID]; ok && old.State.Final() {
		return approval.Final(a.ID)
	}
	a.Requested, a.Expires, a.Used = store.CutTime(a.Requested), store.CutTime(a.Expires), store.CutTime(a.Used)
	if a.Decision != nil {
		a.Decision.At = store.CutTime(a.Decision.At)
	}
	g.approvals[a.ID] = a
	return nil
}

func (g *governance) Plans(_ context.Context, p converge.ListPlans) ([]converge.Plan, error) {
	return g.plans.page(p.Before, p.PageLimit(), converge.PlanUnknown, func(v converge.Plan) bool {
		return (p.State == "" || v.State == p.State) && (p.Agent == "" || v.Agent == p.Agent)
	})
}

func (g *governance) PlanByID(_ context.Context, p converge.PlanByID) (converge.Plan, error) {
	return find(g.plans.byID, p.ID, converge.PlanUnknown, converge.PlanAmbiguous)
}

func (g *governance) PutPlan(_ context.Context, p converge.PutPlan) error {
	v := deep(p.Plan)
	v.Made = store.CutTime(v.Made)
	g.plans.put(v.ID, v)
	return nil
}

func (g *governance) Receipts(_ context.Context, p converge.ListReceipts) ([]converge.Receipt, error) {
	return g.receipts.page(p.Before, p.PageLimit(), converge.ReceiptUnknown, func(v converge.Receipt) bool {
		return (p.State == "" || v.State == p.State) && (p.Plan == "" || v.Plan == p.Plan) &&
			(p.Path == "" || slices.ContainsFunc(v.Files, func(w converge.Written) bool { return w.Real == p.Path }))
	})
}

func (g *governance) ReceiptByID(_ context.Context, p converge.ReceiptByID) (converge.Receipt, error) {
	return find(g.receipts.byID, p.ID, converge.ReceiptUnknown, converge.ReceiptAmbiguous)
}

func (g *governance) PutReceipt(_ context.Context, p converge.PutReceipt) error {
	v := deep(p.Receipt)
	v.Started, v.Ended = store.CutTime(v.Started), store.CutTime(v.Ended)
	g.receipts.put(v.ID, v)
	return nil
}

func (g *governance) AgentRecords(context.Context) (all []converge.AgentRecord, err error) {
	for _, agent := range slices.Sorted(maps.Keys(g.agents)) {
		all = append(all, deep(g.agents[agent]))
	}
	return all, nil
}

func (g *governance) PutAgentRecord(_ context.Context, p converge.PutAgentRecord) error {
	v := deep(p.Record)
	v.Since = store.CutTime(v.Since)
	g.agents[v.Agent] = v
	return nil
}

func (g *governance) FileRecords(_ context.Context, p converge.ListFileRecords) (all []converge.FileRecord, err error) {
	for _, v := range g.files {
		if p.Agent == "" || v.File.Agent == p.Agent {
			all = append(all, deep(v))
		}
	}
	slices.SortFunc(all, func(a, b converge.FileRecord) int {
		return cmp.Or(cmp.Compare(a.File.Agent, b.File.Agent), cmp.Compare(a.File.Path, b.File.Path))
	})
	return all, nil
}

func (g *governance) PutFileRecord(_ context.Context, p converge.PutFileRecord) error {
	v := deep(p.Record)
	v.Seen = store.CutTime(v.Seen)
	for i := range v.Gone {
		v.Gone[i].LastSeen = store.CutTime(v.Gone[i].LastSeen)
	}
	g.files[fileKey{v.File.Agent, v.File.Path}] = v
	return nil
}

func (g *governance) DeleteFileRecord(_ context.Context, p converge.DeleteFileRecord) error {
	delete(g.files, fileKey{p.Agent, p.Path})
	return nil
}
