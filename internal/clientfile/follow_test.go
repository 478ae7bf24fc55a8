package clientfile

import (
	"slices"
	"strings"
	"testing"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// TestFollow: plans of one file, all made from the file as it was, are applied by one order.
func TestFollow(t *testing.T) {
	set := func(name string) converge.Step {
		return converge.Step{Op: converge.StepSet, Name: name, Want: &converge.Form{Kind: converge.FormHTTP, Server: "gw", URL: testURL}}
	}
	remove := func(name string) converge.Step { return converge.Step{Op: converge.StepRemove, Name: name} }
	for name, tc := range map[string]struct {
		agent         Agent
		file          string
		before, after string
		steps         []converge.Step
	}{
		"json": {
			Gemini, geminiFile, "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"},\n    \"b\": {\"command\": \"y\"} // why\n  }\n}\n",
			"{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"type\": \"http\", \"url\": \"URL\"},\n    \"b\": {\"type\": \"http\", \"url\": \"URL\"} // why\n  }\n}\n",
			[]converge.Step{set("a"), set("b")},
		},
		"two new ones, and one goes": {
			Gemini, geminiFile, "{\"mcpServers\": {\"x\": {\"command\": \"x\"}}}",
			"{\"mcpServers\": {\"a\": {\"type\": \"http\", \"url\": \"URL\"}, \"b\": {\"type\": \"http\", \"url\": \"URL\"}}}",
			[]converge.Step{set("a"), set("b"), remove("x")},
		},
		"where there was none": {
			Gemini, geminiFile, "{}\n", "{\n  \"mcpServers\": {\n    \"a\": {\n      \"type\": \"http\",\n      \"url\": \"URL\"\n    },\n    \"b\": {\n      \"type\": \"http\",\n      \"url\": \"URL\"\n    }\n  }\n}\n",
			[]converge.Step{set("a"), set("b")},
		},
		"bound by entry": {
			Claude, claudeFile, "{\"mcpServers\": {}}", "{\"mcpServers\": {\"a\": {\"type\": \"http\", \"url\": \"URL\"}, \"b\": {\"type\": \"http\", \"url\": \"URL\"}}}",
			[]converge.Step{set("a"), set("b")},
		},
		"toml": {
			Codex, ".codex/config.toml", "[mcp_servers.a]\ncommand = \"x\" # why\n\n[mcp_servers.b]\ncommand = \"y\"\n\n[tui]\n",
			"[mcp_servers.a]\nurl = \"URL\"\n\n[tui]\n",
			[]converge.Step{remove("b"), set("a")},
		},
		"numbers of a list": {
			Continue, ".continue/config.yaml", "mcpServers:\n  - name: a\n    command: x\n  - name: b\n    command: y\n    timeout: 1\n",
			"mcpServers:\n  - name: b\n    timeout: 1\n    type: streamable-http\n    url: URL\n",
			[]converge.Step{remove("a"), set("b")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.write(tc.file, tc.before)
			changes := make([]converge.Change, 0, len(tc.steps))
			for _, s := range tc.steps {
				changes = append(changes, h.draft(tc.agent, tc.file, s))
			}
			var own []converge.Receipt
			for i, c := range changes {
				id := "rcp_" + string(rune('1'+i))
				if i > 0 && tc.agent != Claude {
					if _, err := h.files.Apply(t.Context(), h.look, "rcp_0", []converge.Change{c}, nil); fault.KindOf(err) != fault.Stale {
						t.Errorf("by another order: %v", err)
					}
				}
				written, err := h.files.Apply(t.Context(), h.look, id, []converge.Change{c}, own)
				if err != nil {
					t.Fatalf("%d: %v", i, err)
				}
				if i > 0 && (written[0].Before.SHA256 != own[i-1].Files[0].After.SHA256 || !slices.ContainsFunc(written[0].Notes, func(n converge.Note) bool { return n.Code == "plans-together" })) {
					t.Errorf("%d: %+v", i, written[0])
				}
				own = append(own, converge.Receipt{ID: id, Files: written})
			}
			if want := strings.ReplaceAll(tc.after, "URL", testURL); h.read(tc.file) != want {
				t.Errorf("got\n%s\nwant\n%s", h.read(tc.file), want)
			}
			for i, r := range slices.Backward(own) { // each is taken back for itself
				c, err := h.files.Read(h.look).Draft(t.Context(), converge.Drafting{
					Agent: string(tc.agent), Path: h.path(tc.file), Reverts: &r.Files[0], Steps: []converge.Step{{Op: converge.StepRevert, Receipt: r.ID}},
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := h.files.Apply(t.Context(), h.look, "rcp_back"+string(rune('1'+i)), []converge.Change{c}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if h.read(tc.file) != tc.before {
				t.Errorf("taken back it is\n%s", h.read(tc.file))
			}
		})
	}
}

// TestFollowRefuses: nothing but our own receipts of the same order may lie between the plan and the file.
func TestFollowRefuses(t *testing.T) {
	const before = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"},\n    \"b\": {\"command\": \"y\"}\n  }\n}\n"
	set := func(name string) converge.Step {
		return converge.Step{Op: converge.StepSet, Name: name, Want: &converge.Form{Kind: converge.FormHTTP, Server: "gw", URL: testURL}}
	}
	for name, spoil := range map[string]func(h *house, c *converge.Change, own *[]converge.Receipt){
		"somebody wrote the file": func(h *house, _ *converge.Change, _ *[]converge.Receipt) {
			h.write(geminiFile, h.read(geminiFile)+"\n")
		},
		"somebody took ours back": func(h *house, _ *converge.Change, _ *[]converge.Receipt) {
			h.write(geminiFile, strings.Replace(before, "\"y\"", "\"z\"", 1))
		},
		"the plan was made from another file": func(_ *house, c *converge.Change, _ *[]converge.Receipt) {
			c.Expected.SHA256 = hashOf([]byte("another"))
		},
		"the plan would write something else": func(_ *house, c *converge.Change, _ *[]converge.Receipt) { c.Result = hashOf([]byte("another")) },
		"both are about one entry":            func(h *house, c *converge.Change, _ *[]converge.Receipt) { c.Steps = []converge.Step{set("a")} },
		"a receipt is missing in between": func(_ *house, _ *converge.Change, own *[]converge.Receipt) {
			other := (*own)[0]
			other.Files = slices.Clone(other.Files)
			other.Files[0].Before.SHA256 = hashOf([]byte("in between"))
			*own = append(*own, other)
		},
		"the receipt is of another file": func(h *house, _ *converge.Change, own *[]converge.Receipt) {
			(*own)[0].Files[0].Real = h.path("other")
		},
		"the backup is gone": func(_ *house, _ *converge.Change, own *[]converge.Receipt) { (*own)[0].ID = "rcp_none" },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.write(geminiFile, before)
			first, second := h.draft(Gemini, geminiFile, set("a")), h.draft(Gemini, geminiFile, set("b"))
			written, err := h.apply(first)
			if err != nil {
				t.Fatal(err)
			}
			own := []converge.Receipt{{ID: testReceipt, Files: written}}
			spoil(h, &second, &own)
			now := h.read(geminiFile)
			_, err = h.files.Apply(t.Context(), h.look, "rcp_2", []converge.Change{second}, own)
			if want := map[bool]string{true: "backup-damaged", false: "plan-stale"}[own[0].ID == "rcp_none"]; codeOf(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
			if h.read(geminiFile) != now {
				t.Errorf("it was written: %s", h.read(geminiFile))
			}
		})
	}
}
