package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// odd is a time that a store has to cut.
var odd = time.Date(2026, 11, 29, 12, 30, 1, 123456789, time.FixedZone("east", 3600))

func question(id, about string, state approval.State) approval.Approval {
	return approval.Approval{
		ID: id, Kind: approval.KindPlan, About: about, Subject: "5f", Display: "a\n<b> \u2028", Reasons: []string{"r1", "r2"}, Principal: "owner",
		Requested: odd, Expires: odd.Add(time.Hour), State: state, Why: "w", Consumer: "rcp_1", Used: odd,
		Full: "r_1", Claim: "c", Project: "proj_1", Session: "rs_1", Operation: "op-1",
		Decision: &approval.Decision{Principal: "owner", Channel: "cli", Terminal: "/dev/pts/1", At: odd, Note: "n", Digest: "5f"},
	}
}

func storedQuestion(a approval.Approval) approval.Approval {
	a.Requested, a.Expires, a.Used = store.CutTime(a.Requested), store.CutTime(a.Expires), store.CutTime(a.Used)
	d := *a.Decision
	d.At = store.CutTime(d.At)
	a.Decision = &d
	return a
}

func putApprovals(t *testing.T, db store.DB, all ...approval.Approval) {
	t.Helper()
	change(t, db, func(tx store.Tx) error {
		for _, a := range all {
			if err := tx.PutApproval(t.Context(), approval.PutApproval{Approval: a}); err != nil {
				return err
			}
		}
		return nil
	})
}

func approvals(t *testing.T, p Pair) {
	putApprovals(t, p.Write,
		question("apr_3", "plan_a", approval.Pending), question("apr_1", "plan_a", approval.Denied),
		question("apr_2", "plan_b", approval.Pending), question("apr_4", "plan_b", approval.Consumed))
	list := func(l approval.ListApprovals) (ids []string) {
		for _, a := range read(t, p.Read, func(r store.Reader) ([]approval.Approval, error) { return r.Approvals(t.Context(), l) }) {
			ids = append(ids, a.ID)
		}
		return ids
	}
	for what, tc := range map[string]struct {
		list approval.ListApprovals
		want []string
	}{
		"all":              {approval.ListApprovals{}, []string{"apr_1", "apr_2", "apr_3", "apr_4"}},
		"first page":       {approval.ListApprovals{Limit: 2}, []string{"apr_1", "apr_2"}},
		"second page":      {approval.ListApprovals{After: "apr_2", Limit: 2}, []string{"apr_3", "apr_4"}},
		"state":            {approval.ListApprovals{State: approval.Pending}, []string{"apr_2", "apr_3"}},
		"state, next page": {approval.ListApprovals{State: approval.Pending, After: "apr_2"}, []string{"apr_3"}},
		"about":            {approval.ListApprovals{About: "plan_a"}, []string{"apr_1", "apr_3"}},
		"about, next page": {approval.ListApprovals{About: "plan_a", After: "apr_1"}, []string{"apr_3"}},
		"about and state":  {approval.ListApprovals{About: "plan_b", State: approval.Consumed}, []string{"apr_4"}},
		"none":             {approval.ListApprovals{State: approval.Revoked}, nil},
	} {
		same(t, what, tc.want, list(tc.list))
	}
	// A page stays where it is when an approval before it changes its state.
	putApprovals(t, p.Write, question("apr_2", "plan_b", approval.Approved))
	same(t, "state, after a change", []string{"apr_3"}, list(approval.ListApprovals{State: approval.Pending}))
	same(t, "second page, after a change", []string{"apr_3", "apr_4"}, list(approval.ListApprovals{After: "apr_2", Limit: 2}))

	var many []approval.Approval
	for i := range approval.MaxApprovalPage {
		many = append(many, question(fmt.Sprintf("apr_x%04d", i), "plan_c", approval.Pending))
	}
	putApprovals(t, p.Write, many...)
	if n := len(list(approval.ListApprovals{Limit: 1 << 30})); n != approval.MaxApprovalPage {
		t.Errorf("a page holds %d approvals, want at most %d", n, approval.MaxApprovalPage)
	}
}

func approvalByID(t *testing.T, p Pair) {
	want := question("apr_01A", "plan_a", approval.Approved)
	putApprovals(t, p.Write, want, question("apr_01B", "plan_a", approval.Pending))
	wantPrefixes(t, p.Read, storedQuestion(want), []string{"apr_01A"}, []string{"", "plan_a", "apr_01C", "apr_01AB", "apr_01a", "%"}, []string{"apr_0", "apr_01"},
		"approval", func(r store.Reader, id string) (approval.Approval, error) {
			return r.ApprovalByID(t.Context(), approval.ByID{ID: id})
		})
}

// wantPrefixes checks how an id is looked up.
func wantPrefixes[T any](t *testing.T, db store.DB, want T, good, unknown, several []string, noun string, get func(store.Reader, string) (T, error)) {
	t.Helper()
	for _, id := range good {
		same(t, id, want, read(t, db, func(r store.Reader) (T, error) { return get(r, id) }))
	}
	fails := func(id string, kind fault.Kind, code string) {
		t.Helper()
		wantFault(t, db.View(t.Context(), func(r store.Reader) error {
			_, err := get(r, id)
			return err
		}), kind, code)
	}
	for _, id := range unknown {
		fails(id, fault.NotFound, noun+"-unknown")
	}
	for _, id := range several {
		fails(id, fault.Conflict, noun+"-ambiguous")
	}
}

func putApproval(t *testing.T, p Pair) {
	get := func(id string) approval.Approval {
		return read(t, p.Read, func(r store.Reader) (approval.Approval, error) {
			return r.ApprovalByID(t.Context(), approval.ByID{ID: id})
		})
	}
	a := question("apr_1", "plan_a", approval.Pending)
	bare := approval.Approval{ID: "apr_0", State: approval.Pending}
	putApprovals(t, p.Write, a, bare)
	same(t, "first put", storedQuestion(a), get("apr_1"))
	same(t, "nothing set", bare, get("apr_0"))
	a.Decision.Note = "changed later"
	same(t, "note", "n", get("apr_1").Decision.Note)

	for _, next := range []approval.State{approval.Approved, approval.Consumed} {
		a.State = next
		putApprovals(t, p.Write, a)
		same(t, "state", next, get("apr_1").State)
	}
	for _, final := range []approval.State{approval.Denied, approval.Expired, approval.Revoked, approval.Consumed} {
		id := "apr_" + string(final)
		putApprovals(t, p.Write, question(id, "plan_a", final))
		for _, next := range []approval.State{approval.Pending, approval.Approved, final, approval.Consumed} {
			wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error {
				return tx.PutApproval(t.Context(), approval.PutApproval{Approval: question(id, "plan_a", next)})
			}), fault.Conflict, "approval-final")
		}
		same(t, "after the refused puts", final, get(id).State)
	}
}

// aPlan is a plan with every field set to something that a careless store would lose.
func aPlan(id, agent string, state converge.PlanState) converge.Plan {
	return converge.Plan{
		ID: id, Kind: converge.PlanRoute, Agent: agent, Server: "git", Entry: "g<h>", Summary: "\u2028 ü", Reasons: []string{"r"}, Revision: "rev",
		Policy: "pol", Adapter: "3", Look: converge.Look{Home: "/h", Project: "/p", Moved: []string{"A=/x"}},
		Changes: []converge.Change{{
			Agent: agent, Path: "/h/.c", Real: "/r/c", Scope: "user", Expected: converge.Expected{SHA256: "aa", Identity: "1:2", Mode: 0o600},
			Steps: []converge.Step{{Op: converge.StepSet, At: []string{"mcpServers", "a.b"}, Want: &converge.Form{Kind: converge.FormHTTP, URL: "http://x/?a&b"}}},
			Edits: []converge.Edit{{Start: 1, End: 9, Kind: "replace", SHA256: "bb"}}, Result: "cc", Diff: "-a\r\n+b\n", Notes: []converge.Note{{Code: "c", Text: "t"}},
		}},
		Match: catalog.Match{Confidence: catalog.MatchHigh}, Risk: converge.Risk{Class: converge.RiskHigh, Reasons: []string{"x"}},
		Effects: []string{"e"}, Needs: []string{"n"}, Problems: []converge.Problem{{Code: "p", Line: 3}}, Reverts: "rcp_0",
		State: state, Auto: []string{"off"}, Approval: "apr_1", Receipt: "rcp_1", Made: odd,
	}
}

func storedPlan(v converge.Plan) converge.Plan {
	v.Made = store.CutTime(v.Made)
	return v
}

func planPut(id string) converge.PutPlan {
	return converge.PutPlan{Plan: aPlan(id, "codex", converge.PlanReady)}
}

func putPlans(t *testing.T, db store.DB, all ...converge.Plan) {
	t.Helper()
	change(t, db, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutPlan(t.Context(), converge.PutPlan{Plan: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

var listAllPlans = converge.ListPlans{}

func planIDs(t *testing.T, db store.DB, l converge.ListPlans) (ids []string) {
	t.Helper()
	for _, v := range read(t, db, func(r store.Reader) ([]converge.Plan, error) { return r.Plans(t.Context(), l) }) {
		ids = append(ids, v.ID)
	}
	return ids
}

func plans(t *testing.T, p Pair) {
	putPlans(t, p.Write,
		aPlan("plan_z", "codex", converge.PlanReady), aPlan("plan_m", "cline", converge.PlanReady),
		aPlan("plan_a", "codex", converge.PlanApplied), aPlan("plan_q", "codex", converge.PlanReady))
	for what, tc := range map[string]struct {
		list converge.ListPlans
		want []string
	}{
		"all":              {converge.ListPlans{}, []string{"plan_q", "plan_a", "plan_m", "plan_z"}},
		"first page":       {converge.ListPlans{Limit: 2}, []string{"plan_q", "plan_a"}},
		"second page":      {converge.ListPlans{Before: "plan_a", Limit: 2}, []string{"plan_m", "plan_z"}},
		"after the last":   {converge.ListPlans{Before: "plan_z"}, nil},
		"state":            {converge.ListPlans{State: converge.PlanReady}, []string{"plan_q", "plan_m", "plan_z"}},
		"state, next page": {converge.ListPlans{State: converge.PlanReady, Before: "plan_a"}, []string{"plan_m", "plan_z"}},
		"agent":            {converge.ListPlans{Agent: "codex"}, []string{"plan_q", "plan_a", "plan_z"}},
		"agent, next page": {converge.ListPlans{Agent: "codex", Before: "plan_m"}, []string{"plan_z"}},
		"agent and state":  {converge.ListPlans{Agent: "codex", State: converge.PlanReady, Limit: 1}, []string{"plan_q"}},
		"none":             {converge.ListPlans{Agent: "nobody"}, nil},
	} {
		same(t, what, tc.want, planIDs(t, p.Read, tc.list))
	}
	// Neither a new plan nor another state of an old one moves a page.
	putPlans(t, p.Write, aPlan("plan_n", "codex", converge.PlanReady), aPlan("plan_z", "codex", converge.PlanSuperseded))
	same(t, "second page, later", []string{"plan_m", "plan_z"}, planIDs(t, p.Read, converge.ListPlans{Before: "plan_a", Limit: 2}))
	same(t, "first page, later", []string{"plan_n", "plan_q"}, planIDs(t, p.Read, converge.ListPlans{Limit: 2}))
	wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
		_, err := r.Plans(t.Context(), converge.ListPlans{Before: "plan_x"})
		return err
	}), fault.NotFound, "plan-unknown")

	var many []converge.Plan
	for i := range converge.MaxPlanPage {
		many = append(many, aPlan(fmt.Sprintf("plan_x%04d", i), "codex", converge.PlanReady))
	}
	putPlans(t, p.Write, many...)
	if n := len(planIDs(t, p.Read, converge.ListPlans{Limit: 1 << 30})); n != converge.MaxPlanPage {
		t.Errorf("a page holds %d plans, want at most %d", n, converge.MaxPlanPage)
	}
}

func planByID(t *testing.T, p Pair) {
	want := aPlan("plan_ab2", "codex", converge.PlanReady)
	putPlans(t, p.Write, want, aPlan("plan_ac", "codex", converge.PlanReady), aPlan("plan_acd", "codex", converge.PlanReady))
	wantPrefixes(t, p.Read, storedPlan(want), []string{"plan_ab2", "plan_ab"}, []string{"", "plan_b", "plan_ab22", "%", "ab2"}, []string{"plan_a", "plan"},
		"plan", func(r store.Reader, id string) (converge.Plan, error) {
			return r.PlanByID(t.Context(), converge.PlanByID{ID: id})
		})
	same(t, "an id that another begins with", "plan_ac", read(t, p.Read, func(r store.Reader) (converge.Plan, error) {
		return r.PlanByID(t.Context(), converge.PlanByID{ID: "plan_ac"})
	}).ID)
}

func putPlan(t *testing.T, p Pair) {
	get := func(id string) converge.Plan {
		return read(t, p.Read, func(r store.Reader) (converge.Plan, error) {
			return r.PlanByID(t.Context(), converge.PlanByID{ID: id})
		})
	}
	v := aPlan("plan_a", "codex", converge.PlanReady)
	bare := converge.Plan{ID: "plan_0"}
	putPlans(t, p.Write, v, bare)
	same(t, "first put", storedPlan(v), get("plan_a"))
	same(t, "nothing set", bare, get("plan_0"))
	v.Changes[0].Steps[0].At[0] = "changed later"
	same(t, "at", "mcpServers", get("plan_a").Changes[0].Steps[0].At[0])

	again := aPlan("plan_a", "codex", converge.PlanApplied)
	again.Receipt = "rcp_9"
	putPlans(t, p.Write, again)
	same(t, "second put", storedPlan(again), get("plan_a"))
}

func aReceipt(id, plan string, state converge.ReceiptState, paths ...string) converge.Receipt {
	v := converge.Receipt{
		ID: id, Plan: plan, Kind: converge.PlanRoute, Agent: "codex", Server: "git", Entry: "g", Approval: "apr_1", Authorized: "line", State: state,
		Problems: []converge.Problem{{Code: "p"}}, Reverts: "rcp_0", RolledBackBy: "rcp_9", Started: odd, Ended: odd.Add(time.Second),
	}
	for i, path := range paths {
		v.Files = append(v.Files, converge.Written{
			Path: "/link" + path, Real: path, Before: converge.Expected{SHA256: "aa", Mode: 0o644}, After: converge.Expected{Absent: true},
			Backup: fmt.Sprint(i), Edits: []converge.Edit{{Start: 1}}, Diff: "-<a>\n", Exchange: "exchange", Verified: "parsed",
		})
	}
	return v
}

func storedReceipt(v converge.Receipt) converge.Receipt {
	v.Started, v.Ended = store.CutTime(v.Started), store.CutTime(v.Ended)
	return v
}

func putReceipts(t *testing.T, db store.DB, all ...converge.Receipt) {
	t.Helper()
	change(t, db, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutReceipt(t.Context(), converge.PutReceipt{Receipt: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func receiptIDs(t *testing.T, db store.DB, l converge.ListReceipts) (ids []string) {
	t.Helper()
	for _, v := range read(t, db, func(r store.Reader) ([]converge.Receipt, error) { return r.Receipts(t.Context(), l) }) {
		ids = append(ids, v.ID)
	}
	return ids
}

func receipts(t *testing.T, p Pair) {
	putReceipts(t, p.Write,
		aReceipt("rcp_2", "plan_a", converge.ReceiptApplied, "/a", "/b"), aReceipt("rcp_1", "plan_b", converge.ReceiptApplied, "/a"),
		aReceipt("rcp_4", "plan_a", converge.ReceiptApplying), aReceipt("rcp_3", "plan_a", converge.ReceiptUndone, "/a"))
	for what, tc := range map[string]struct {
		list converge.ListReceipts
		want []string
	}{
		"all":                 {converge.ListReceipts{}, []string{"rcp_3", "rcp_4", "rcp_1", "rcp_2"}},
		"first page":          {converge.ListReceipts{Limit: 1}, []string{"rcp_3"}},
		"second page":         {converge.ListReceipts{Before: "rcp_3", Limit: 2}, []string{"rcp_4", "rcp_1"}},
		"state":               {converge.ListReceipts{State: converge.ReceiptApplied}, []string{"rcp_1", "rcp_2"}},
		"state, next page":    {converge.ListReceipts{State: converge.ReceiptApplied, Before: "rcp_1"}, []string{"rcp_2"}},
		"plan":                {converge.ListReceipts{Plan: "plan_a"}, []string{"rcp_3", "rcp_4", "rcp_2"}},
		"plan, next page":     {converge.ListReceipts{Plan: "plan_a", Before: "rcp_3", Limit: 1}, []string{"rcp_4"}},
		"plan and state":      {converge.ListReceipts{Plan: "plan_a", State: converge.ReceiptApplied}, []string{"rcp_2"}},
		"path":                {converge.ListReceipts{Path: "/a"}, []string{"rcp_3", "rcp_1", "rcp_2"}},
		"path, next page":     {converge.ListReceipts{Path: "/a", Before: "rcp_3", Limit: 1}, []string{"rcp_1"}},
		"path, state, plan":   {converge.ListReceipts{Path: "/a", State: converge.ReceiptApplied, Plan: "plan_a"}, []string{"rcp_2"}},
		"the path of a link":  {converge.ListReceipts{Path: "/link/a"}, nil},
		"path of one receipt": {converge.ListReceipts{Path: "/b"}, []string{"rcp_2"}},
	} {
		same(t, what, tc.want, receiptIDs(t, p.Read, tc.list))
	}
	wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
		_, err := r.Receipts(t.Context(), converge.ListReceipts{Before: "rcp_x"})
		return err
	}), fault.NotFound, "receipt-unknown")
	var many []converge.Receipt
	for i := range converge.MaxPlanPage {
		many = append(many, aReceipt(fmt.Sprintf("rcp_x%04d", i), "plan_c", converge.ReceiptApplied, "/a"))
	}
	putReceipts(t, p.Write, many...)
	if n := len(receiptIDs(t, p.Read, converge.ListReceipts{Limit: 1 << 30})); n != converge.MaxPlanPage {
		t.Errorf("a page holds %d receipts, want at most %d", n, converge.MaxPlanPage)
	}
}

func receiptByID(t *testing.T, p Pair) {
	want := aReceipt("rcp_01A", "plan_a", converge.ReceiptApplied, "/a")
	putReceipts(t, p.Write, want, aReceipt("rcp_01B", "plan_a", converge.ReceiptApplied))
	wantPrefixes(t, p.Read, storedReceipt(want), []string{"rcp_01A"}, []string{"", "rcp_2", "rcp_01AA", "plan_a"}, []string{"rcp_0", "rcp"},
		"receipt", func(r store.Reader, id string) (converge.Receipt, error) {
			return r.ReceiptByID(t.Context(), converge.ReceiptByID{ID: id})
		})
}

func putReceipt(t *testing.T, p Pair) {
	get := func(id string) converge.Receipt {
		return read(t, p.Read, func(r store.Reader) (converge.Receipt, error) {
			return r.ReceiptByID(t.Context(), converge.ReceiptByID{ID: id})
		})
	}
	// The same file twice: a receipt of a plan that changes it in two steps.
	v := aReceipt("rcp_1", "plan_a", converge.ReceiptApplying, "/a", "/b", "/a")
	v.Ended = time.Time{}
	putReceipts(t, p.Write, v, aReceipt("rcp_2", "plan_b", converge.ReceiptApplied))
	same(t, "first put", storedReceipt(v), get("rcp_1"))

	again := aReceipt("rcp_1", "plan_a", converge.ReceiptApplied, "/b", "/c")
	putReceipts(t, p.Write, again)
	same(t, "second put", storedReceipt(again), get("rcp_1"))
	same(t, "order", []string{"rcp_2", "rcp_1"}, receiptIDs(t, p.Read, converge.ListReceipts{}))
	for path, want := range map[string][]string{"/a": nil, "/b": {"rcp_1"}, "/c": {"rcp_1"}} {
		same(t, "found by "+path, want, receiptIDs(t, p.Read, converge.ListReceipts{Path: path}))
	}
}

func allAgents(t *testing.T, db store.DB) []converge.AgentRecord {
	t.Helper()
	return read(t, db, func(r store.Reader) ([]converge.AgentRecord, error) { return r.AgentRecords(t.Context()) })
}

func putAgents(t *testing.T, db store.DB, all ...converge.AgentRecord) {
	t.Helper()
	change(t, db, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutAgentRecord(t.Context(), converge.PutAgentRecord{Record: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func agentRecords(t *testing.T, p Pair) {
	same(t, "none", nil, allAgents(t, p.Read))
	putAgents(t, p.Write, converge.AgentRecord{Agent: "codex"}, converge.AgentRecord{Agent: "cline"}, converge.AgentRecord{Agent: "zed"})
	var names []string
	for _, a := range allAgents(t, p.Read) {
		names = append(names, a.Agent)
	}
	same(t, "by name", []string{"cline", "codex", "zed"}, names)
}

func putAgentRecord(t *testing.T, p Pair) {
	a := converge.AgentRecord{
		Agent: "codex", Level: converge.LevelManaged, Mounts: []converge.Mount{{Server: "srv_1", Name: "git", Scope: "user", Profile: "work"}}, Profiles: []string{"work"}, Since: odd, Control: "helper",
	}
	putAgents(t, p.Write, a)
	a.Since = store.CutTime(odd)
	same(t, "first put", []converge.AgentRecord{a}, allAgents(t, p.Read))
	a.Level, a.Mounts = converge.LevelAuto, nil
	putAgents(t, p.Write, a)
	same(t, "second put", []converge.AgentRecord{a}, allAgents(t, p.Read))
}

func aFile(agent, path string) converge.FileRecord {
	return converge.FileRecord{
		File: converge.File{
			Agent: agent, Path: path, Scope: "user", Rule: "default", Format: "json", Shared: true, State: converge.FileReadable, Entries: 1,
			Problems: []converge.Problem{{Code: "c", Field: "f", Line: 1, Column: 2, Text: "<t>"}}, Evidence: "doc", Real: "/r" + path,
			Size: 1 << 40, SHA256: "aa", Identity: "1:2", Mode: 0o600,
		},
		Entries: []converge.Entry{{
			Agent: agent, Name: "g", File: path, Scope: "user", Project: "/p", At: []string{"mcpServers", "g"}, Enabled: true, Transport: "stdio",
			Command: "uvx", Args: []string{"a&b"}, Variables: []string{"T"}, Headers: []string{"H"}, Auth: "none",
			Package: &catalog.Package{Name: "n"}, Routed: &converge.Routed{State: converge.RoutedAlias, Server: "s", Form: "http"},
			Parse: "extra", Extra: []string{"x"}, ID: "obs_1", Digest: "bb",
		}},
		Seen: odd, Gone: []converge.Tombstone{{Name: "old", At: []string{"a"}, LastSeen: odd}},
	}
}

func storedFile(v converge.FileRecord) converge.FileRecord {
	v.Seen, v.Gone = store.CutTime(v.Seen), slices.Clone(v.Gone)
	for i := range v.Gone {
		v.Gone[i].LastSeen = store.CutTime(v.Gone[i].LastSeen)
	}
	return v
}

func putFiles(t *testing.T, db store.DB, all ...converge.FileRecord) {
	t.Helper()
	change(t, db, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutFileRecord(t.Context(), converge.PutFileRecord{Record: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func listFiles(t *testing.T, db store.DB, agent string) []converge.FileRecord {
	t.Helper()
	return read(t, db, func(r store.Reader) ([]converge.FileRecord, error) {
		return r.FileRecords(t.Context(), converge.ListFileRecords{Agent: agent})
	})
}

func filePaths(t *testing.T, db store.DB, agent string) (out []string) {
	t.Helper()
	for _, v := range listFiles(t, db, agent) {
		out = append(out, v.File.Agent+":"+v.File.Path)
	}
	return out
}

func fileRecords(t *testing.T, p Pair) {
	putFiles(t, p.Write, aFile("codex", "/b"), aFile("cline", "/z"), aFile("codex", "/a"))
	same(t, "all", []string{"cline:/z", "codex:/a", "codex:/b"}, filePaths(t, p.Read, ""))
	same(t, "of one agent", []string{"codex:/a", "codex:/b"}, filePaths(t, p.Read, "codex"))
	same(t, "of nobody", nil, filePaths(t, p.Read, "cod"))
}

func putFileRecord(t *testing.T, p Pair) {
	v := aFile("codex", "/a")
	// What only the classification needs is not kept.
	withFacts := aFile("codex", "/a")
	withFacts.Entries[0].Facts = converge.Facts{Shadowed: true}
	putFiles(t, p.Write, withFacts)
	same(t, "first put", []converge.FileRecord{storedFile(v)}, listFiles(t, p.Read, ""))
	same(t, "the time of the caller", odd, withFacts.Gone[0].LastSeen)
	v.Entries, v.Gone, v.File.State = nil, nil, converge.FileAbsent
	putFiles(t, p.Write, v)
	same(t, "second put", []converge.FileRecord{storedFile(v)}, listFiles(t, p.Read, ""))
}

func deleteFileRecord(t *testing.T, p Pair) {
	putFiles(t, p.Write, aFile("codex", "/a"), aFile("cline", "/a"))
	for range 2 { // forgetting it twice is no error: two audits may see that it is gone
		change(t, p.Write, func(tx store.Tx) error {
			return tx.DeleteFileRecord(t.Context(), converge.DeleteFileRecord{Agent: "codex", Path: "/a"})
		})
		same(t, "left", []string{"cline:/a"}, filePaths(t, p.Read, ""))
	}
}
