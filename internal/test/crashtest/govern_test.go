package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/creack/pty"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
)

// decideVerb makes this test binary a person: it says yes to one approval, on a terminal that the test gave it. The
// program itself would start a daemon when it finds none.
const decideVerb = "run-decide"

// decide asks for the approval, and decides about exactly what it was shown.
func decide(socket, id string) int {
	ctx, stop := context.WithTimeout(api.Under(context.Background(), "op_person"), stepWithin)
	defer stop()
	client := api.NewClient(socket)
	view, err := client.Approval(ctx, api.ApprovalRef{Approval: id})
	if err == nil && view.State == approval.Pending {
		_, err = client.Decide(ctx, api.Decide{Approval: id, Approve: true, Digest: view.Subject})
	}
	if err != nil {
		fmt.Println(fault.From(err).Code, err)
		return 1
	}
	return 0
}

// agents are the files that the scenario changes and takes back: one that binds its entries, and one that is bound whole.
var agents = map[string]string{
	".claude.json":       "{\n\t\"numStartups\": 7,\n\t\"mcpServers\": {\"alpha\": %s},\n\t\"tips\": []\n}\n",
	".codex/config.toml": "# mine\nmodel = \"x\"\n\n[mcp_servers.alpha] # here\n%s\n[tui]\nx = 1\n",
}

// governed plans, approves, applies and takes back a change of two files of agents, and audits in between.
func (p *play) governed() {
	p.add("alpha")
	p.open()
	p.call(0)
	before := p.configure()
	for _, agent := range []string{"claude_code", "codex"} {
		p.carryOut(func(ctx context.Context, c *api.Client) (string, error) {
			out, err := c.RunAudit(ctx, api.RunAudit{Agent: agent})
			if err != nil || len(out.Plans) == 0 {
				return "", err
			}
			return out.Plans[0].ID, nil
		})
	}
	p.files(func(name, content string) {
		if content == before[name] || !strings.Contains(content, "/servers/alpha/mcp") {
			p.t.Errorf("%s was applied and is\n%s", name, content)
		}
	})
	p.restart() // what a killed supervisor left is swept, and the next daemon knows the receipts
	p.call(0)
	before[".codex/config.toml"] = p.foreign(".codex/config.toml", before)
	for _, receipt := range p.applied() {
		p.carryOut(func(ctx context.Context, c *api.Client) (string, error) {
			view, err := c.RollBack(ctx, api.RollBack{Receipt: receipt, Merge: true})
			if f := fault.From(err); f != nil && (f.Code == "receipt-not-applied" || f.Code == "rollback-done") {
				return "", nil
			}
			return view.ID, err
		})
	}
	p.files(func(name, content string) {
		if content != before[name] {
			p.t.Errorf("%s was taken back and is\n%s\nwant\n%s", name, content, before[name])
		}
	})
	p.decided()
	p.call(0)
}

// configure writes the files of the agents, with a direct entry of the server alpha each.
func (p *play) configure() map[string]string {
	p.t.Helper()
	stdio := p.server("alpha").Stdio
	args, err := json.Marshal(stdio.Args)
	if err != nil {
		p.t.Fatal(err)
	}
	entry := map[string]string{
		".claude.json":       fmt.Sprintf(`{"command": %q, "args": %s}`, stdio.Command, args),
		".codex/config.toml": fmt.Sprintf("command = %q\nargs = %s\n", stdio.Command, args),
	}
	before := map[string]string{}
	for name, form := range agents {
		before[name] = fmt.Sprintf(form, entry[name])
		path := p.home(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(before[name]), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return before
}

// foreign writes a field into the entry of a file, as its agent might. It gives what the file shall be after the rollback.
func (p *play) foreign(name string, before map[string]string) string {
	p.t.Helper()
	write := func(content string) string {
		return strings.Replace(content, "# here\n", "# here\ntool_timeout_sec = 9\n", 1)
	}
	content, err := os.ReadFile(p.home(name))
	if err == nil {
		err = os.WriteFile(p.home(name), []byte(write(string(content))), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return write(before[name])
}

func (p *play) home(name string) string {
	return filepath.Join(p.g.Home, "user", filepath.FromSlash(name))
}

// files looks at the files of the agents.
func (p *play) files(look func(name, content string)) {
	p.t.Helper()
	for name := range agents {
		data, err := os.ReadFile(p.home(name))
		if err != nil {
			p.t.Error(err)
		}
		look(name, string(data))
	}
}

// carryOut makes a plan, says yes to it and applies it, from the beginning as often as it takes: an apply that was cut
// off and undone is offered again. plan gives "" when there is nothing left to do.
func (p *play) carryOut(plan func(ctx context.Context, c *api.Client) (string, error)) {
	p.t.Helper()
	var why error
	for deadline := time.Now().Add(stepWithin); time.Now().Before(deadline); time.Sleep(pollEvery) {
		ctx, stop := context.WithDeadline(p.t.Context(), deadline)
		done, err := p.once(ctx, plan)
		stop()
		if done {
			return
		}
		why = err
	}
	p.t.Fatalf("a plan is not carried out: %v", why)
}

func (p *play) once(ctx context.Context, plan func(ctx context.Context, c *api.Client) (string, error)) (done bool, err error) {
	client := p.g.API()
	id, err := plan(ctx, client)
	if err != nil || id == "" {
		return err == nil, err
	}
	view, err := client.Plan(ctx, api.PlanRef{Plan: id})
	if err != nil {
		return false, err
	}
	if view.Asked != nil && view.Asked.State == approval.Pending {
		if err := p.sayYes(view.Asked.ID); err != nil {
			return false, err
		}
	}
	_, err = client.ApplyPlan(ctx, api.ApplyPlan{Plan: id})
	return err == nil, err
}

// sayYes is a person at a terminal.
func (p *play) sayYes(id string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, decideVerb, filepath.Join(p.g.Home, "run", "daemon.sock"), id)
	terminal, err := pty.Start(cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	var said strings.Builder
	chunk := make([]byte, 1024)
	for {
		n, err := terminal.Read(chunk)
		said.Write(chunk[:n])
		if err != nil { // the system tells the end of the other side by an error
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("the person: %w: %s", err, said.String())
	}
	return nil
}

// applied lists the receipts that can be taken back.
func (p *play) applied() (ids []string) {
	p.t.Helper()
	p.change("", func(ctx context.Context, c *api.Client) error {
		page, err := c.Receipts(ctx, api.ReceiptsQuery{State: string(converge.ReceiptApplied)})
		ids = nil
		for _, r := range page.Receipts {
			ids = append(ids, r.ID)
		}
		return err
	})
	if len(ids) != len(agents) {
		p.t.Errorf("%d receipts are applied, want %d", len(ids), len(agents))
	}
	return ids
}

// decided checks that nothing is left undecided: no receipt is open, no yes was used twice, the log and the backups are
// whole, and nothing of an apply lies beside the files.
func (p *play) decided() {
	p.t.Helper()
	var receipts []converge.Receipt
	var verified api.Verified
	used := map[string]int{}
	p.change("", func(ctx context.Context, c *api.Client) error {
		page, err := c.Receipts(ctx, api.ReceiptsQuery{})
		if err != nil {
			return err
		}
		receipts = page.Receipts
		if verified, err = c.VerifyEvents(ctx, api.VerifyEvents{}); err != nil {
			return err
		}
		clear(used)
		return c.Events(ctx, api.EventsQuery{Kind: string(event.ApprovalConsumed)}, func(e event.Event) error {
			used[e.Refs[event.RefApproval]]++
			return nil
		})
	})
	for _, r := range receipts {
		if r.State == converge.ReceiptApplying {
			p.t.Errorf("%s is undecided", r.ID)
		}
	}
	if !verified.OK {
		p.t.Errorf("the log: %s %+v", verified.Text, verified.Backups)
	}
	for id, n := range used {
		if n > 1 {
			p.t.Errorf("the yes of %s was used %d times", id, n)
		}
	}
	for _, dir := range []string{p.home("."), p.home(".codex")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			p.t.Error(err)
		}
		for _, e := range entries {
			if name := e.Name(); name != ".claude.json" && name != ".codex" && name != "config.toml" {
				p.t.Errorf("%s was left in %s", name, dir)
			}
		}
	}
}
