package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/store"
)

// settle makes the stored plans those that fit what was seen: new ones are stored and asked about, those that fit no
// more count no more, and so do the questions about them.
func (c *Control) settle(ctx context.Context, tx store.Tx, in api.RunAudit, w converge.World, made []converge.Plan, out *api.Audit) error {
	if err := c.expire(ctx, tx); err != nil {
		return err
	}
	stored, err := storedPlans(ctx, tx, made)
	if err != nil {
		return err
	}
	turn := converge.Reconcile(stored, made, w, func(p converge.Plan) bool { return covered(p, in, w) })
	before := map[string]converge.Plan{}
	for _, p := range stored {
		before[p.ID] = p
	}
	for _, p := range turn.Drop {
		if err := c.supersede(ctx, tx, p, turn.Why[p.ID]); err != nil {
			return err
		}
		out.Superseded++
	}
	open := map[string]api.PlanRow{}
	put := func(p converge.Plan, changed bool) error {
		asked, err := c.ask(ctx, tx, &p)
		if err == nil && (asked || changed) {
			err = tx.PutPlan(ctx, converge.PutPlan{Plan: p})
		}
		if err == nil {
			open[p.ID], err = c.row(ctx, tx, p)
		}
		return err
	}
	for _, p := range turn.Put {
		if turn.Fresh[p.ID] {
			out.Made++
			if err := c.tellMade(ctx, tx, p); err != nil {
				return err
			}
			if err := c.tellAuto(ctx, tx, w, p); err != nil {
				return err
			}
		}
		if err := put(p, true); err != nil {
			return err
		}
	}
	for _, p := range turn.Keep {
		changed := !slices.Equal(before[p.ID].Auto, p.Auto)
		if changed {
			if err := c.tellAuto(ctx, tx, w, p); err != nil {
				return err
			}
		}
		switch {
		case isOpen(p): // one that failed is not offered again until something changes
			err = put(p, changed)
		case changed:
			err = tx.PutPlan(ctx, converge.PutPlan{Plan: p})
		}
		if err != nil {
			return err
		}
	}
	for _, p := range made { // in the order in which they were proposed
		if row, is := open[p.ID]; is {
			out.Plans = append(out.Plans, row)
			delete(open, p.ID)
		}
	}
	return nil
}

// storedPlans are all plans that wait, and those that have the id of a sealed one, whatever their state is.
func storedPlans(ctx context.Context, r converge.Reader, made []converge.Plan) ([]converge.Plan, error) {
	var stored []converge.Plan
	seen := map[string]bool{}
	for _, state := range []converge.PlanState{converge.PlanReady, converge.PlanErrored} {
		open, err := converge.AllPlans(ctx, r, converge.ListPlans{State: state})
		if err != nil {
			return nil, err
		}
		for _, p := range open {
			seen[p.ID] = true
			stored = append(stored, p)
		}
	}
	for _, p := range made {
		if seen[p.ID] {
			continue
		}
		seen[p.ID] = true
		old, err := r.PlanByID(ctx, converge.PlanByID{ID: p.ID})
		switch {
		case fault.KindOf(err) == fault.NotFound:
		case err != nil:
			return nil, err
		default:
			stored = append(stored, old)
		}
	}
	return stored, nil
}

// covered says whether an audit would have proposed the plan if it still fitted: its files were looked at, and nobody
// asked for others only.
func covered(p converge.Plan, in api.RunAudit, w converge.World) bool {
	if p.Kind == converge.PlanControlPlane && recordOf(w.Agents, p.Agent).Control == "" {
		return false // asked for by itself; what it was made from is checked when it is applied
	}
	if in.Mounts && p.Kind != converge.PlanAdd && p.Kind != converge.PlanRemove {
		return false
	}
	if in.Agent != "" && p.Agent != in.Agent || in.Entry != "" && p.Entry != in.Entry || in.Path != "" && !touches(p, in.Path) {
		return false
	}
	if len(p.Changes) == 0 { // one that is not offered: its agent was looked at
		return slices.ContainsFunc(w.Files, func(f converge.File) bool { return f.Agent == p.Agent })
	}
	return !slices.ContainsFunc(p.Changes, func(ch converge.Change) bool {
		return !slices.ContainsFunc(w.Files, func(f converge.File) bool { return f.Agent == ch.Agent && f.Path == ch.Path })
	})
}

// supersede writes a plan that counts no more, and ends the questions about it.
func (c *Control) supersede(ctx context.Context, tx store.Tx, p converge.Plan, why []string) error {
	if err := tx.PutPlan(ctx, converge.PutPlan{Plan: p}); err != nil {
		return err
	}
	text := fmt.Sprintf("%s counts no more: %s", p.ID, strings.Join(why, ", "))
	if err := c.tellPlan(ctx, tx, event.PlanSuperseded, p, text, struct {
		Reasons []string `json:"reasons"`
	}{why}); err != nil {
		return err
	}
	return c.revoke(ctx, tx, p.ID, approval.WhyStale)
}

// tellMade tells of a plan that is offered, or that would break something.
func (c *Control) tellMade(ctx context.Context, tx store.Tx, p converge.Plan) error {
	if p.State == converge.PlanErrored {
		return c.tellPlan(ctx, tx, event.PlanErrored, p, p.Summary+": "+problemCodes(p.Problems), planBody(p))
	}
	return c.tellPlan(ctx, tx, event.PlanMade, p, p.Summary, planBody(p))
}

// revoke ends every approval about a plan that still counts.
func (c *Control) revoke(ctx context.Context, tx store.Tx, about, why string) error {
	all, err := approval.All(ctx, tx, approval.ListApprovals{About: about})
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.State.Final() {
			continue
		}
		if a, err = approval.Revoke(a, why); err != nil {
			return err
		}
		if err := tx.PutApproval(ctx, approval.PutApproval{Approval: a}); err != nil {
			return err
		}
		if err := c.tellApproval(ctx, tx, event.ApprovalRevoked, a, a.ID+" counts no more: "+why, nil); err != nil {
			return err
		}
	}
	return nil
}

// expire ends the approvals whose time is over.
func (c *Control) expire(ctx context.Context, tx store.Tx) error {
	for _, state := range []approval.State{approval.Pending, approval.Approved} {
		all, err := approval.All(ctx, tx, approval.ListApprovals{State: state})
		if err != nil {
			return err
		}
		for _, a := range all {
			a, over := approval.Expire(a, c.cfg.Now())
			if !over {
				continue
			}
			if err := tx.PutApproval(ctx, approval.PutApproval{Approval: a}); err != nil {
				return err
			}
			if err := c.tellApproval(ctx, tx, event.ApprovalExpired, a, a.ID+" is over: "+a.Why, nil); err != nil {
				return err
			}
			if err := c.cfg.Holds.Ended(ctx, tx, actorOf(ctx), a); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask makes the question to a person about a plan that needs one and has none that counts. True: the plan names another
// question than before, and has to be written.
func (c *Control) ask(ctx context.Context, tx store.Tx, p *converge.Plan) (bool, error) {
	if !p.Offered() || c.authorized(*p) != "" {
		return false, nil
	}
	if p.Kind == converge.PlanRollback {
		reverted, err := tx.ReceiptByID(ctx, converge.ReceiptByID{ID: p.Reverts})
		if err != nil || !p.NeedsPerson(&reverted) {
			return false, err
		}
	}
	earlier, err := approval.All(ctx, tx, approval.ListApprovals{About: p.ID})
	if err != nil {
		return false, err
	}
	reasons := p.Risk.Reasons
	if len(reasons) == 0 {
		reasons = p.Reasons
	}
	q := approval.Question{Kind: approval.KindPlan, About: p.ID, Subject: p.Subject(), Display: p.Summary, Reasons: reasons, Principal: actorOf(ctx).Principal}
	open, denied := approval.Ask(earlier, q, c.cfg.Now())
	switch {
	case open != nil:
		changed := p.Approval != open.ID
		p.Approval = open.ID
		return changed, nil
	case denied != nil:
		return false, nil // a person said no to exactly this
	}
	a, err := approval.New(c.cfg.IDs.New(id.Approval), q, c.cfg.Now())
	if err != nil {
		return false, err
	}
	if err := tx.PutApproval(ctx, approval.PutApproval{Approval: a}); err != nil {
		return false, err
	}
	p.Approval = a.ID
	return true, c.tellApproval(ctx, tx, event.ApprovalRequested, a, "a person is asked: "+p.Summary, nil)
}

// authorized is the line of the policy that allows a plan without a person; "" there is none, or the plan itself forbids
// it.
func (c *Control) authorized(p converge.Plan) string {
	if len(p.Auto) > 0 {
		return ""
	}
	return c.cfg.Policy().Allows(p.Risk.Class)
}

func (c *Control) tellPlan(ctx context.Context, tx store.Tx, kind event.Kind, p converge.Plan, text string, body any) error {
	refs := event.Refs{event.RefPlan: p.ID, event.RefAgent: p.Agent, event.RefServer: p.Server, event.RefReceipt: p.Receipt}
	if len(p.Changes) > 0 {
		refs[event.RefPath] = p.Changes[0].Path
	}
	return c.tell(ctx, tx, kind, refs, text, body)
}

func (c *Control) tellApproval(ctx context.Context, tx store.Tx, kind event.Kind, a approval.Approval, text string, body any) error {
	if body == nil {
		body = struct {
			State   approval.State `json:"state"`
			Subject string         `json:"subject_sha256"`
			Why     string         `json:"why,omitempty"`
		}{a.State, a.Subject, a.Why}
	}
	return c.tell(ctx, tx, kind, a.Refs(), text, body)
}

// planBody is what the log keeps of a plan: enough to say later what was offered, and no diff.
func planBody(p converge.Plan) any {
	type file struct {
		Path     string            `json:"path"`
		Expected converge.Expected `json:"expected"`
		Result   string            `json:"result_sha256"`
	}
	files := []file{}
	for _, ch := range p.Changes {
		files = append(files, file{ch.Path, ch.Expected, ch.Result})
	}
	return struct {
		Kind     converge.PlanKind  `json:"kind"`
		Entry    string             `json:"entry,omitempty"`
		Reasons  []string           `json:"reasons"`
		Risk     converge.Risk      `json:"risk"`
		Revision string             `json:"catalog_revision"`
		Policy   string             `json:"policy_digest"`
		Subject  string             `json:"subject_sha256"`
		Auto     []string           `json:"auto_refused"`
		Problems []converge.Problem `json:"problems"`
		Files    []file             `json:"files"`
	}{p.Kind, p.Entry, p.Reasons, p.Risk, p.Revision, p.Policy, p.Subject(), p.Auto, p.Problems, files}
}

func problemCodes(problems []converge.Problem) string {
	codes := make([]string, 0, len(problems))
	for _, p := range problems {
		codes = append(codes, p.Code)
	}
	return strings.Join(codes, ", ")
}

// row shows a plan in a list.
func (c *Control) row(ctx context.Context, r store.Reader, p converge.Plan) (api.PlanRow, error) {
	row := api.PlanRow{
		ID: p.ID, Kind: p.Kind, Agent: p.Agent, Server: p.Server, Entry: p.Entry, Summary: p.Summary, Files: []string{}, Risk: p.Risk,
		State: p.State, Needs: filled(p.Needs), Problems: p.Problems, Approval: p.Approval, Receipt: p.Receipt, Made: p.Made,
	}
	for _, ch := range p.Changes {
		row.Files = append(row.Files, ch.Path)
	}
	var err error
	row.Approved, err = c.asked(ctx, r, p)
	row.Waits = p.Waits(row.Approved, c.cfg.Policy())
	return row, err
}

// asked is the state of the latest approval of a plan, "" when there is none. What is over is shown as over, whether it was
// written down or not.
func (c *Control) asked(ctx context.Context, r store.Reader, p converge.Plan) (approval.State, error) {
	if p.Approval == "" {
		return "", nil
	}
	a, err := r.ApprovalByID(ctx, approval.ByID{ID: p.Approval})
	if err != nil {
		return "", err
	}
	a, _ = approval.Expire(a, c.cfg.Now())
	return a.State, nil
}

// Plans lists plans.
func (c *Control) Plans(ctx context.Context, in api.PlansQuery) (api.PlanPage, error) {
	if err := c.allow(ctx, "plan.list"); err != nil {
		return api.PlanPage{}, err
	}
	limit := rows(in.Limit)
	page := api.PlanPage{Plans: []api.PlanRow{}, Next: []string{}}
	wants := func(p converge.Plan) bool { return in.All || in.State != "" || isOpen(p) }
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		list := converge.ListPlans{Before: in.Before, State: converge.PlanState(in.State), Agent: in.Agent}
		if in.Before != "" {
			p, err := r.PlanByID(ctx, converge.PlanByID{ID: in.Before})
			if err != nil {
				return err
			}
			list.Before = p.ID
		}
		for p, err := range converge.EachPlan(ctx, r, list) {
			if err != nil {
				return err
			}
			if !wants(p) {
				continue
			}
			if len(page.Plans) == limit {
				page.More = true
				return nil
			}
			row, err := c.row(ctx, r, p)
			if err != nil {
				return err
			}
			page.Plans = append(page.Plans, row)
		}
		return nil
	})
	page.Next = append(page.Next, nextOfRows(page.Plans)...)
	if len(page.Plans) == 0 {
		page.Next = []string{"mcpx audit run"}
	}
	return page, err
}

// nextOfRows is the command about the plans of a list that is the most urgent one: a yes counts for a short time; what can
// be approved now comes before what something has to be done for.
func nextOfRows(plans []api.PlanRow) []string {
	first := map[converge.Wait]api.PlanRow{}
	approved := 0
	for _, p := range plans {
		if _, ok := first[p.Waits]; !ok {
			first[p.Waits] = p
		}
		if p.Waits == converge.WaitApply && p.Approved == approval.Approved {
			approved++
		}
	}
	for _, w := range []converge.Wait{converge.WaitApply, converge.WaitApproval, converge.WaitNeed, converge.WaitAsk} {
		p, ok := first[w]
		switch {
		case !ok:
		case w == converge.WaitApply && approved > 1:
			return []string{"mcpx apply --all"}
		case w == converge.WaitApply:
			return []string{"mcpx apply " + p.ID}
		case w == converge.WaitAsk:
			return []string{"mcpx audit run"}
		default:
			return []string{"mcpx plan show " + p.ID}
		}
	}
	return nil
}

// rows is how many rows a page may have.
func rows(limit int) int {
	if limit < 1 || limit > api.MaxRows {
		return api.MaxRows
	}
	return limit
}

// cut is a page of what was asked for with one row more than that has, and the number before which the next one goes on; 0: there is
// none.
func cut[T any](found []T, limit int, seq func(T) uint64) (page []T, before int) {
	if len(found) <= limit {
		return found, 0
	}
	return found[:limit], int(seq(found[limit-1]))
}

// Plan shows one plan.
func (c *Control) Plan(ctx context.Context, in api.PlanRef) (api.PlanView, error) {
	if err := c.allow(ctx, "plan.show"); err != nil {
		return api.PlanView{}, err
	}
	var view api.PlanView
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		p, err := r.PlanByID(ctx, converge.PlanByID{ID: in.Plan})
		if err != nil {
			return err
		}
		view, err = c.planView(ctx, r, p)
		return err
	})
	return view, err
}

// planView shows a plan with what became of it.
func (c *Control) planView(ctx context.Context, r store.Reader, p converge.Plan) (api.PlanView, error) {
	view := api.PlanView{Plan: p, Subject: p.Subject(), Next: []string{}}
	if p.Approval != "" {
		a, err := r.ApprovalByID(ctx, approval.ByID{ID: p.Approval})
		if err != nil {
			return view, err
		}
		a, _ = approval.Expire(a, c.cfg.Now())
		view.Asked = &a
	}
	view.Waits = waitsOf(view, c.cfg.Policy())
	if p.Receipt != "" {
		receipt, err := r.ReceiptByID(ctx, converge.ReceiptByID{ID: p.Receipt})
		if err != nil {
			return view, err
		}
		view.Outcome = &receipt
	}
	view.Next = nextOfPlan(view)
	return view, nil
}

// nextOfPlan are the commands that can follow.
func nextOfPlan(v api.PlanView) []string {
	switch v.State {
	case converge.PlanReady:
		return nextOfReady(v)
	case converge.PlanErrored:
		return nextOfErrored(v.Plan)
	case converge.PlanSuperseded, converge.PlanFailed, converge.PlanRolledBack:
		return []string{"mcpx audit run"}
	case converge.PlanApplying:
		return []string{"mcpx plan show " + v.ID}
	case converge.PlanApplied:
		if v.Outcome != nil && v.Outcome.State == converge.ReceiptApplied {
			return []string{"mcpx status", "mcpx rollback " + v.Outcome.ID}
		}
	}
	return []string{}
}

// nextOfErrored is how a plan that is not offered can be asked for again.
func nextOfErrored(p converge.Plan) []string {
	is := func(code string) bool {
		return slices.ContainsFunc(p.Problems, func(problem converge.Problem) bool { return problem.Code == code })
	}
	switch {
	case p.Kind != converge.PlanRollback:
		return []string{"mcpx audit run"}
	case is("backup-damaged"):
		return []string{"mcpx audit verify"}
	case is("changed-since"), is("merge-conflict"):
		return []string{"mcpx rollback " + p.Reverts + " --merge"}
	}
	return []string{"mcpx rollback " + p.Reverts}
}

func waitsOf(v api.PlanView, policy converge.Policy) converge.Wait {
	if v.Asked == nil {
		return v.Plan.Waits("", policy)
	}
	return v.Plan.Waits(v.Asked.State, policy)
}

func nextOfReady(v api.PlanView) []string {
	command := v.Command(v.Waits)
	switch {
	case command == "":
		return []string{"mcpx plan list"}
	case v.Waits == converge.WaitApproval:
		return []string{command, "mcpx approval deny " + v.Approval}
	}
	return []string{command}
}

// Receipts lists receipts.
func (c *Control) Receipts(ctx context.Context, in api.ReceiptsQuery) (api.ReceiptPage, error) {
	if err := c.allow(ctx, "receipt.list"); err != nil {
		return api.ReceiptPage{}, err
	}
	limit := rows(in.Limit)
	page := api.ReceiptPage{Receipts: []converge.Receipt{}, Next: []string{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		list := converge.ListReceipts{State: converge.ReceiptState(in.State), Path: in.Path}
		if in.Plan != "" {
			p, err := r.PlanByID(ctx, converge.PlanByID{ID: in.Plan})
			if err != nil {
				return err
			}
			list.Plan = p.ID
		}
		if in.Before != "" {
			one, err := r.ReceiptByID(ctx, converge.ReceiptByID{ID: in.Before})
			if err != nil {
				return err
			}
			list.Before = one.ID
		}
		for one, err := range converge.EachReceipt(ctx, r, list) {
			if err != nil {
				return err
			}
			if len(page.Receipts) == limit {
				page.More = true
				return nil
			}
			page.Receipts = append(page.Receipts, one)
		}
		return nil
	})
	for _, one := range page.Receipts {
		if one.State == converge.ReceiptApplied {
			page.Next = []string{"mcpx rollback " + one.ID}
			break
		}
	}
	if len(page.Receipts) == 0 {
		page.Next = []string{"mcpx plan list"}
	}
	return page, err
}
