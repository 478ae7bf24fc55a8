package certify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// This file is the loop of governance as a person types it: every line is a command of mcpx in the scratch home.

// mcpx runs one command and reads its answer as JSON; answer may be nil.
func (t *trial) mcpx(ctx context.Context, answer any, args ...string) (output, error) {
	argv := slices.Concat([]string{t.Mcpx}, args, []string{"--json"})
	if i := slices.Index(args, "--"); i >= 0 {
		argv = slices.Concat([]string{t.Mcpx}, args[:i], []string{"--json"}, args[i:])
	}
	out, err := run(ctx, t.agent.project, t.environ, argv)
	t.agent.record.add(argv, out)
	if err != nil {
		return out, err
	}
	if out.code != 0 {
		return out, fault.New(fault.Unavailable, "certify-mcpx-failed").Saying("`mcpx %s` ended with %d: %s", strings.Join(args, " "), out.code, tail(out.text))
	}
	if answer == nil {
		return out, nil
	}
	if err := json.Unmarshal([]byte(out.stdout), answer); err != nil {
		return out, fault.New(fault.Internal, "certify-answer").Saying("the answer of `mcpx %s` was not understood", strings.Join(args, " ")).Because(err)
	}
	return out, nil
}

func (t *trial) start(ctx context.Context) error {
	_, err := t.mcpx(ctx, nil, "daemon", "start", "--listen", t.addr)
	return err
}

// kill ends the daemon as the kernel would.
func (t *trial) kill(ctx context.Context) error {
	var s api.Status
	if _, err := t.mcpx(ctx, &s, "status"); err != nil {
		return err
	}
	id, err := process.Identify(s.Daemon.Pid)
	if err == nil && !process.Kill(id) {
		err = process.ErrUnknown
	}
	if err != nil {
		return fault.New(fault.Unavailable, "certify-not-killed").Saying("the daemon %d cannot be killed", s.Daemon.Pid).Because(err)
	}
	return nil
}

func (t *trial) requests(ctx context.Context) (uint64, error) {
	var s api.Status
	_, err := t.mcpx(ctx, &s, "status")
	return s.Counters.Requests, err
}

// entries are those of the agent's own file.
func (t *trial) entries(ctx context.Context) ([]converge.Finding, error) {
	var report api.ConfigReport
	if _, err := t.mcpx(ctx, &report, "config", "inspect", t.Agent); err != nil {
		return nil, err
	}
	var found []converge.Finding
	for _, e := range report.Entries {
		if e.File == t.config && slices.Contains(t.names(), e.Name) {
			found = append(found, e)
		}
	}
	if len(found) != len(t.servers) {
		return nil, fault.New(fault.Unavailable, "certify-not-observed").Saying("mcpx sees %d of %d entries in %s", len(found), len(t.servers), t.cert.Config.Path)
	}
	return found, nil
}

// in says whether all entries are of one class.
func in(entries []converge.Finding, class converge.Class) error {
	for _, e := range entries {
		if e.Class != class {
			return fault.New(fault.Unavailable, "certify-class").Saying("%s is %s, not %s: %s", e.Name, e.Class, class, strings.Join(e.Reasons, ", "))
		}
	}
	return nil
}

func (t *trial) observe(ctx context.Context) (string, error) {
	if err := t.start(ctx); err != nil {
		return "", err
	}
	for _, s := range t.servers {
		args := []string{"server", "add", s.Name}
		if s.URL != "" {
			args = append(args, "--url", s.URL)
		} else {
			args = slices.Concat(args, []string{"--"}, s.Command)
		}
		if _, err := t.mcpx(ctx, nil, args...); err != nil {
			return "", err
		}
	}
	found, err := t.entries(ctx)
	if err != nil {
		return "", err
	}
	t.digests = map[string]string{}
	for _, e := range found {
		t.digests[e.Name] = e.Digest
	}
	t.cert.Level = LevelParsed
	return "both go around mcpx", in(found, converge.Bypass)
}

// waiting are the plans that can be approved.
func (t *trial) waiting(ctx context.Context) ([]api.PlanRow, error) {
	var audit api.Audit
	if _, err := t.mcpx(ctx, &audit, "audit", "run", "--agent", t.Agent); err != nil {
		return nil, err
	}
	for _, p := range audit.Plans {
		if p.State != converge.PlanReady || p.Approval == "" {
			return nil, fault.New(fault.Unavailable, "certify-plan").Saying("the plan for %s is %s: %v", p.Entry, p.State, p.Problems)
		}
	}
	return audit.Plans, nil
}

func (t *trial) plan(ctx context.Context) (string, error) {
	plans, err := t.waiting(ctx)
	if err != nil {
		return "", err
	}
	if len(plans) != len(t.servers) {
		return "", fault.New(fault.Unavailable, "certify-plan").Saying("there are %d plans for %d entries", len(plans), len(t.servers))
	}
	var view api.PlanView
	if _, err := t.mcpx(ctx, &view, "plan", "show", plans[0].ID); err != nil {
		return "", err
	}
	t.cert.Adapter = view.Adapter
	return fmt.Sprintf("%d plans", len(plans)), nil
}

// approve asks the person, by the command that they use for their own files, on their terminal.
func (t *trial) approve(ctx context.Context, approval string) error {
	argv := []string{t.Mcpx, "approval", "approve", approval}
	status, err := process.Foreground(ctx, process.Command{File: t.Mcpx, Argv: argv, Dir: t.agent.project, Env: t.environ}, t.Terminal, t.Terminal)
	if err == nil && (status.Code != 0 || status.Signal != 0) {
		err = fault.New(fault.NeedsApproval, "certify-not-approved").Saying("`mcpx approval approve` ended with %s", status)
	}
	return err
}

func (t *trial) apply(ctx context.Context) (string, error) {
	before, err := digest(t.config)
	if err != nil {
		return "", err
	}
	t.receipts = nil
	for len(t.receipts) < len(t.servers) { // each apply changes the file that the other plans were made from
		plans, err := t.waiting(ctx)
		if err != nil {
			return "", err
		}
		if len(plans) == 0 {
			return "", fault.New(fault.Unavailable, "certify-plan").Saying("there are %d plans for %d entries", len(t.receipts), len(t.servers))
		}
		if err := t.approve(ctx, plans[0].Approval); err != nil {
			return "", err
		}
		if err := t.carryOut(ctx, plans[0].ID); err != nil {
			return "", err
		}
	}
	after, err := digest(t.config)
	if err != nil {
		return "", err
	}
	t.cert.Config.Before, t.cert.Config.Applied = before, after
	found, err := t.entries(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d plans", len(t.receipts)), in(found, converge.Compliant)
}

func (t *trial) carryOut(ctx context.Context, plan string) error {
	var done api.PlanOutcome
	if _, err := t.mcpx(ctx, &done, "apply", plan); err != nil {
		return err
	}
	if done.State != "applied" {
		return fault.New(fault.Unavailable, "certify-not-applied").Saying("the plan is %s", done.State)
	}
	t.receipts = append(t.receipts, done.Receipt.ID)
	return nil
}

// revert takes the receipts back, the last one first.
func (t *trial) revert(ctx context.Context) error {
	receipts := t.receipts
	slices.Reverse(receipts)
	for _, receipt := range receipts {
		var view api.PlanView
		if _, err := t.mcpx(ctx, &view, "rollback", receipt); err != nil {
			return err
		}
		if view.Asked == nil {
			return fault.New(fault.Unavailable, "certify-plan").Saying("nobody is asked about the rollback: %v", view.Problems)
		}
		if err := t.approve(ctx, view.Asked.ID); err != nil {
			return err
		}
		if err := t.carryOut(ctx, view.ID); err != nil {
			return err
		}
	}
	return nil
}
