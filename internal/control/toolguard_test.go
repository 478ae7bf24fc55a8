package control

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
)

// TestToolGuard: the tools of a server are pinned as they are first seen after a person has agreed to it; what changes is
// held back until the person has seen it, also over a restart.
func TestToolGuard(t *testing.T) {
	b, ctx := newBench(t)
	guard := b.cfg.Tools
	if _, err := b.ImportServers(ctx, api.ImportServers{Servers: []catalog.Server{stdio("fs", "x")}, Pending: true}); err != nil {
		t.Fatal(err)
	}
	done, err := b.Review(ctx, api.Review{Subject: "fs", Verdict: api.Approve, Confirmed: true, Risk: catalog.RiskHigh})
	if err != nil {
		t.Fatal(err)
	}
	id := done.Entry.ID
	tools := []string{`{"name":"read","description":"Reads."}`, `{"name":"write"}`}
	b.gateway.call = func(_, method string, _ []byte) ([]byte, error) {
		if method == "tools/call" {
			return []byte(`{"content":[]}`), nil
		}
		return []byte(`{"tools":[` + strings.Join(tools, ",") + `]}`), nil
	}
	// list is what a client gets of the tools, and runs the news as the gateway would.
	list := func() string {
		t.Helper()
		var page [][]byte
		for _, tool := range tools {
			page = append(page, []byte(tool))
		}
		mask, news := guard.List(id, page)
		if news {
			guard.News(context.WithoutCancel(ctx), id)
		}
		var names []string
		for i, tool := range tools {
			var named struct{ Name string }
			if err := json.Unmarshal([]byte(tool), &named); err != nil {
				t.Fatal(err)
			}
			if mask == nil || !mask[i] {
				names = append(names, named.Name)
			}
		}
		return strings.Join(names, " ")
	}
	held := func() string {
		var names []string
		for name := range guard.Held(id) {
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	quarantined := func() (n int) {
		for _, k := range b.eventKinds(ctx, t) {
			if k == event.CatalogQuarantined {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		name       string
		tools      []string
		list, held string
		events     int
	}{
		{"first", tools, "read write", "", 0},
		{"the same", tools, "read write", "", 0},
		{"changed and new", []string{`{"name":"read","description":"Reads, and tells."}`, `{"name":"write"}`, `{"name":"run"}`}, "write", "read run", 1},
		{"again", []string{`{"name":"read","description":"Reads, and tells."}`, `{"name":"write"}`, `{"name":"run"}`}, "write", "read run", 1},
		{"a page without them", []string{`{"name":"write"}`}, "write", "read run", 1},
		{"changed back", []string{`{"name":"read","description":"Reads."}`, `{"name":"write"}`}, "read write", "run", 1},
		{"with hidden characters", []string{`{"name":"write","description":"a\u200bb"}`}, "", "run write", 2},
	} {
		tools = step.tools
		if got := list(); got != step.list || held() != step.held || quarantined() != step.events {
			t.Errorf("%s: a client gets %q, held %q, %d events; want %q, %q, %d", step.name, got, held(), quarantined(), step.list, step.held, step.events)
		}
	}
	_, err = b.CallTool(ctx, api.CallTool{Name: "fs", Tool: "run"})
	refused(t, err, fault.Conflict, "tool-held", "catalog review fs --tools")
	if _, err := b.CallTool(ctx, api.CallTool{Name: "fs", Tool: "read"}); err != nil {
		t.Error(err)
	}
	page, err := b.Catalog(ctx, api.CatalogQuery{})
	if err != nil || len(page.Entries[0].Held) != 2 || page.Entries[0].Pinned != 2 {
		t.Errorf("%+v, %v", page.Entries, err)
	}

	// Another daemon knows it from the store.
	*guard = ToolGuard{control: b.Control}
	if err := b.Load(ctx); err != nil {
		t.Fatal(err)
	}
	if held() != "run write" {
		t.Errorf("after a restart %q is held", held())
	}
	// With warn only new tools pass.
	if _, err := b.Review(ctx, api.Review{Subject: "fs", Pins: catalog.PinsWarn}); err != nil {
		t.Fatal(err)
	}
	if held() != "write" {
		t.Errorf("with warn %q is held", held())
	}
	found, err := b.ReviewTools(ctx, api.ServerRef{Name: "fs"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.AcceptTools(ctx, api.AcceptTools{Name: "fs", Digest: found.Digest}); err != nil {
		t.Fatal(err)
	}
	if got := list(); got != "write" || held() != "" {
		t.Errorf("after a person has seen it a client gets %q, held %q", got, held())
	}
	if mask, news := guard.List("srv_other", [][]byte{[]byte(tools[0])}); mask != nil || news || guard.Held("srv_other") != nil {
		t.Error("a server that nobody has agreed to with a review is watched")
	}
}
