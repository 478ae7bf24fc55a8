package converge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/approval"
	"mcpx/internal/catalog"
)

// codes are the troubles as code, severity and entry.
func codes(all []Trouble) []string {
	var out []string
	for _, t := range all {
		out = append(out, t.Code+" "+string(t.Severity)+" "+t.Subject)
	}
	return out
}

func TestDrift(t *testing.T) {
	mount := Mount{Server: "srv_files", Name: "files", Tools: &Tools{Allow: []string{"read"}}}
	for _, c := range []struct {
		name   string
		world  World
		change func(*World)
		want   []string
	}{
		{"as it should be", testWorld(routedTo("files", RoutedHere)), func(*World) {}, nil},
		{"direct in a managed agent", testWorld(stdio("files", "npx files@1")), func(*World) {}, []string{"active-bypass blocker claude_code:files"}},
		{"direct in an observed agent", testWorld(stdio("files", "npx files@1")), func(w *World) { w.Agents = nil }, []string{"bypass warning claude_code:files"}},
		{"unknown, and the policy blocks", testWorld(stdio("new", "npx new")), func(w *World) { w.Policy.Unknown = UnlistedBlock }, []string{"unknown-server blocker claude_code:new"}},
		{"rejected", testWorld(stdio("new", "npx new")), func(w *World) { w.Staged = map[string]Staged{w.Findings[0].ID: {ID: "cand_1", Rejected: true}} }, []string{"candidate-rejected notice claude_code:new"}},
		{"stale port", testWorld(routedTo("files", RoutedStalePort)), func(*World) {}, []string{"stale-port warning claude_code:files"}},
		{"spelling", testWorld(routedTo("files", RoutedSpelling)), func(*World) {}, []string{"routed-spelling notice claude_code:files"}},
		{"off", testWorld(but(stdio("files", "npx files@1"), func(e *Entry) { e.Enabled = false })), func(*World) {}, []string{"dormant notice claude_code:files"}},
		{"unsafe", testWorld(http("x", "http://example.com/")), func(*World) {}, []string{"unsafe-endpoint blocker claude_code:x"}},
		{"a secret", testWorld(but(routedTo("files", RoutedHere), func(e *Entry) { e.Problems = []Problem{{Code: "raw-secret", Field: "env.T"}} })), func(*World) {}, []string{"raw-secret warning claude_code:files"}},
		{
			"a secret that others get", testWorld(but(but(routedTo("files", RoutedHere), in("/p/.mcp.json", "project")), func(e *Entry) { e.Problems = []Problem{{Code: "raw-secret", Field: "env.T"}} })),
			func(*World) {},
			[]string{"raw-secret-shared-file blocker claude_code:files"},
		},
		{"missing", withID(testWorld()), func(w *World) { w.Agents[0].Mounts = []Mount{mount} }, []string{"missing warning claude_code:files"}},
		{"changed", withID(testWorld(stdio("files", "npx new"))), func(w *World) { w.Agents[0].Mounts = []Mount{mount} }, []string{"changed warning claude_code:files", "name-conflict warning claude_code:files"}},
		{"filter lost", withID(testWorld(routedTo("files", RoutedHere))), func(w *World) { w.Agents[0].Mounts = []Mount{mount} }, []string{"tool-filter-lost warning claude_code:files"}},
		{
			"filter kept", withID(testWorld(but(routedTo("files", RoutedHere), func(e *Entry) { e.Tools = &Tools{Allow: []string{"read"}} }))),
			func(w *World) { w.Agents[0].Mounts = []Mount{mount} }, nil,
		},
		{"extra", testWorld(routedTo("files", RoutedHere)), func(w *World) { w.Agents[0].Only = true }, []string{"extra warning claude_code:files"}},
		{"unwanted", testWorld(routedTo("files", RoutedHere)), func(w *World) { w.Agents[0].Mounts = []Mount{{Name: "files", Absent: true}} }, []string{"unwanted warning claude_code:files"}},
		{"broken", testWorld(Entry{Name: "x", Enabled: true, Parse: "broken", Problems: []Problem{{Code: "missing-field", Field: "command"}}}), func(*World) {}, []string{"missing-field warning claude_code:x"}},
		{"unsupported", testWorld(but(http("x", "wss://example.com/"), func(e *Entry) { e.Transport = "ws" })), func(*World) {}, []string{"websocket warning claude_code:x"}},
		{"led to a server that is off", testWorld(routedTo("old", RoutedHere)), func(*World) {}, []string{"server-not-routable warning claude_code:old"}},
		{"duplicate", testWorld(routedTo("files", RoutedHere), routedTo("fs", RoutedAlias)), func(*World) {}, []string{"duplicate warning claude_code:files", "duplicate warning claude_code:fs"}},
		{"no control plane", testWorld(), func(w *World) { w.Agents[0].Control = "helper" }, []string{"control-plane-missing warning claude_code:mcp_hub"}},
		{"control plane", testWorld(routedTo(HubName, RoutedHere)), func(w *World) { w.Agents[0].Control = "helper" }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change(&c.world)
			all := Drift(c.world)
			if d := cmp.Diff(c.want, codes(all)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			for _, trouble := range all {
				if trouble.Text == "" || trouble.Hint == "" || !trouble.Since.Equal(testNow) || trouble.Path == "" {
					t.Errorf("%+v", trouble)
				}
			}
		})
	}
}

// TestSinceSurvives: what is still wrong keeps its time over observations, and begins anew when it was right in between.
func TestSinceSurvives(t *testing.T) {
	since := func(w World, records []FileRecord, at time.Time) (time.Time, []FileRecord) {
		w.Records, w.Now = records, at
		all := Findings(w, Vitals{Audited: at})
		records = Records(w, all)
		for _, trouble := range all {
			if trouble.Code == "active-bypass" {
				return trouble.Since, records
			}
		}
		return time.Time{}, records
	}
	wrong, right := testWorld(stdio("files", "npx files@1")), testWorld(routedTo("files", RoutedHere))
	first, records := since(wrong, nil, testNow)
	second, records := since(wrong, records, testNow.Add(time.Hour))
	none, records := since(right, records, testNow.Add(2*time.Hour))
	again, _ := since(wrong, records, testNow.Add(3*time.Hour))
	got := []time.Time{first, second, none, again}
	if d := cmp.Diff([]time.Time{testNow, testNow, {}, testNow.Add(3 * time.Hour)}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestRecord(t *testing.T) {
	file := File{Agent: "claude_code", Path: "/h/.claude.json"}
	entry := func(name string) Entry { return Entry{Name: name, At: []string{"mcpServers", name}} }
	one := Record(FileRecord{}, file, []Entry{entry("a"), entry("b")}, nil, testNow)
	two := Record(one, file, []Entry{entry("b")}, nil, testNow.Add(time.Minute))
	three := Record(two, file, []Entry{}, nil, testNow.Add(2*time.Minute))
	back := Record(three, file, []Entry{entry("a")}, nil, testNow.Add(3*time.Minute))
	gone := func(r FileRecord) []string {
		out := []string{}
		for _, g := range r.Gone {
			out = append(out, g.Name+" "+g.LastSeen.Sub(testNow).String())
		}
		return out
	}
	want := [][]string{{}, {"a 0s"}, {"b 1m0s", "a 0s"}, {"b 1m0s"}}
	if d := cmp.Diff(want, [][]string{gone(one), gone(two), gone(three), gone(back)}); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if !two.Same(Record(two, file, []Entry{entry("b")}, nil, testNow.Add(time.Hour))) || two.Same(three) {
		t.Error("two records that say the same differ, or two that do not are the same")
	}
	many := FileRecord{Seen: testNow}
	for i := range 3 * maxGone {
		many.Entries = append(many.Entries, entry(strings.Repeat("x", i+1)))
	}
	if r := Record(many, file, nil, nil, testNow); len(r.Gone) != maxGone {
		t.Errorf("%d entries are remembered, want at most %d", len(r.Gone), maxGone)
	}
}

func TestFindings(t *testing.T) {
	fine := testWorld(routedTo("files", RoutedHere))
	fine.Files = fine.Files[:2]
	ok := Vitals{Audited: testNow.Add(-time.Minute)}
	applied := Receipt{ID: "rcp_1", Agent: "claude_code", Entry: "files", State: ReceiptApplied, Started: testNow, Ended: testNow}
	for _, c := range []struct {
		name   string
		world  func(*World)
		vitals func(*Vitals)
		want   []string
	}{
		{"well", nil, nil, nil},
		{"never audited", nil, func(v *Vitals) { v.Audited = time.Time{} }, []string{"never-audited blocker audit"}},
		{"audited long ago", nil, func(v *Vitals) { v.Audited = testNow.Add(-25 * time.Hour) }, []string{"audit-stale blocker audit"}},
		{"down, and nothing else is known", func(w *World) { w.Findings = nil }, func(v *Vitals) { v.DaemonDown, v.Audited = true, time.Time{} }, []string{"daemon-down blocker daemon"}},
		{"foreign port, broken log, no keyring", nil, func(v *Vitals) { v.PortTaken, v.ChainBroken, v.Keyring = "nginx", 7, "no session bus" }, []string{"chain-broken blocker log", "port-not-ours blocker listener", "keyring-unavailable warning keyring"}},
		{"more than can be watched", nil, func(v *Vitals) { v.Watching = Watching{Dirs: 5, Polled: 1, Why: "full", Left: 2, Most: 64} }, []string{"projects-left-out notice watching", "watch-polled notice watching"}},
		{"an observed agent", func(w *World) { w.Agents = nil }, nil, []string{"unmanaged-agent notice claude_code"}},
		{"a broken file", func(w *World) { w.Files[1].Problems = []Problem{{Code: "config-broken"}} }, nil, []string{"config-broken warning claude_code:/p/.mcp.json"}},
		{"no file of a managed agent", func(w *World) {
			w.Files = append(w.Files, File{Agent: "codex", Path: "/c", Scope: "user", State: FileAbsent}, File{Agent: "codex", Path: "/d", Scope: "user", State: FileAbsent})
			w.Agents = append(w.Agents, AgentRecord{Agent: "codex", Level: LevelManaged})
		}, nil, []string{"config-absent notice codex"}},
		{"credentials", nil, func(v *Vitals) {
			v.Credentials = []CredentialFact{{Name: "a", Ready: "missing", Active: true}, {Name: "b", Ready: "locked"}, {Name: "c", Ready: "ready", Active: true}, {Name: "d", Ready: "unchecked", Active: true}}
		}, []string{"credential-missing-active blocker a", "credential-missing notice b"}},
		{"tools", nil, func(v *Vitals) {
			v.Held = map[string][]catalog.Held{
				"files": {{Name: "read", Why: catalog.ToolChanged, Masked: true}, {Name: "new", Why: catalog.ToolNew}, {Name: "odd", Why: catalog.ToolHidden, Masked: true}},
				"docs":  {{Name: "read", Why: catalog.ToolChanged, Masked: true}}, // no agent has it
			}
		}, []string{"hidden-characters blocker files", "quarantined-tools-changed blocker files"}},
		{"names", nil, func(v *Vitals) {
			v.Tools = map[string][]string{"files": {strings.Repeat("x", 52), strings.Repeat("y", 53)}}
		}, []string{"name-too-long warning files"}},
		{"unpinned", func(w *World) {
			w.Servers = slices.Clone(w.Servers)
			w.Servers[0].Stdio = &catalog.Stdio{Command: "npx", Args: []string{"files"}}
		}, nil, []string{"unpinned warning files"}},
		{"tokens", nil, func(v *Vitals) {
			v.Tokens = []TokenFact{{Agent: "codex", Open: true, Unset: true, Made: testNow.Add(-91 * 24 * time.Hour)}, {Agent: "cline", Used: testNow, Made: testNow.Add(-100 * 24 * time.Hour)}}
		}, []string{"control-plane-unauthenticated blocker codex", "token-env-unset warning codex", "token-unused-90d warning codex"}},
		{"clients", func(w *World) { w.Receipts = []Receipt{applied} }, func(v *Vitals) {
			v.Clients = []ClientFact{{Agent: "claude_code", Changed: "1"}, {Agent: "codex"}}
			v.Tokens = []TokenFact{{Agent: "claude_code", Used: testNow.Add(-time.Hour)}}
		}, []string{"client-version-changed warning claude_code", "reload-needed notice claude_code"}},
		{"a client that has come back", func(w *World) { w.Receipts = []Receipt{applied} }, func(v *Vitals) {
			v.Clients = []ClientFact{{Agent: "claude_code"}}
			v.Tokens = []TokenFact{{Agent: "claude_code", Used: testNow.Add(time.Second)}}
		}, []string{"client-uncertified warning claude_code"}},
		{"a client of which nobody knows when it came", func(w *World) { w.Receipts = []Receipt{applied} }, func(v *Vitals) {
			v.Clients = []ClientFact{{Agent: "claude_code", Certified: true}}
		}, nil},
		{"plans", nil, func(v *Vitals) {
			v.Plans = []Plan{{ID: "plan_1", Agent: "claude_code", Entry: "files", State: PlanReady, Approval: "apr_1", Auto: []string{autoFight}, Changes: []Change{{Notes: []Note{{Code: "lossy-comment"}}}}}}
			v.Asked = map[string]approval.State{"plan_1": approval.Pending}
		}, []string{"fighting-writer warning claude_code:files", "lossy-comment notice plan_1", "plan-waiting notice plan_1"}},
		{"what plans wait for", nil, func(v *Vitals) {
			plan := func(id string, needs ...string) Plan {
				return Plan{ID: id, State: PlanReady, Approval: "apr", Auto: []string{"agent-not-auto"}, Needs: needs}
			}
			v.Plans = []Plan{plan("plan_1"), plan("plan_2"), plan("plan_3"), plan("plan_4"), plan("plan_5", "mcpx catalog review c --promote")}
			v.Asked = map[string]approval.State{"plan_1": approval.Pending, "plan_2": approval.Approved, "plan_3": approval.Denied, "plan_4": approval.Expired}
		}, []string{"plan-approved notice plan_2", "plan-needs notice plan_5", "plan-unasked notice plan_4", "plan-waiting notice plan_1"}},
		{"somebody else wrote", func(w *World) {
			r := applied
			r.State, r.Problems = ReceiptUndone, []Problem{{Code: "third-party-edit"}}
			w.Receipts = []Receipt{r}
		}, nil, []string{"third-party-edit warning rcp_1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, v := fine, ok
			w.Files, w.Agents = slices.Clone(fine.Files), slices.Clone(fine.Agents)
			if c.world != nil {
				c.world(&w)
			}
			if c.vitals != nil {
				c.vitals(&v)
			}
			all := Findings(w, v)
			if d := cmp.Diff(c.want, codes(all)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			for _, trouble := range all {
				if trouble.Text == "" || trouble.Hint == "" || strings.Contains(trouble.Text, "%!") {
					t.Errorf("%+v", trouble)
				}
				if _, explained := Explain(trouble.Code); !explained {
					t.Errorf("%s is not explained", trouble.Code)
				}
			}
		})
	}
}
