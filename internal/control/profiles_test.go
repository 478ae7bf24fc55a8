package control

import (
	"slices"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
)

func TestProfiles(t *testing.T) {
	b, ctx := newBench(t)
	for _, name := range []string{"one", "two"} {
		if _, err := b.AddServer(ctx, api.AddServer{Server: catalog.Server{Name: name, Stdio: &catalog.Stdio{Command: "/bin/" + name}}}); err != nil {
			t.Fatal(err)
		}
	}
	b.take(ctx, t, kept("a.toml", "filed"))
	set := func(in api.SetProfile) api.ProfileChange {
		t.Helper()
		in.Profile = "work"
		out, err := b.SetProfile(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	names := func(p api.Profile) []string {
		var all []string
		for _, s := range p.Servers {
			all = append(all, s.Name)
		}
		return all
	}
	out := set(api.SetProfile{Servers: &[]string{"two", "one"}, Agents: &[]string{"codex"}})
	wants(t, "servers", names(out.Profile), []string{"one", "two"})
	if out.State != "set" || !slices.Equal(out.Profile.Agents, []string{"codex"}) {
		t.Errorf("%+v", out)
	}
	again := set(api.SetProfile{Servers: &[]string{"one", "two"}, Agents: &[]string{"codex"}})
	if !again.Already || again.State != "already_set" {
		t.Errorf("the same again: %+v", again)
	}
	wants(t, "one less, and the agents as they were", names(set(api.SetProfile{Drop: []string{"one"}}).Profile), []string{"two"})

	for what, in := range map[string]api.SetProfile{
		"request-invalid": {Profile: "work"},
		"server-invalid":  {Profile: "a b", Add: []string{"one"}},
		"server-unknown":  {Profile: "work", Add: []string{"one", "nobody"}},
		"server-in-file":  {Profile: "work", Add: []string{"one", "filed"}},
		"profile-unknown": {Profile: "wrk", Servers: &[]string{}},
	} {
		if _, err := b.SetProfile(ctx, in); fault.From(err) == nil || fault.From(err).Code != what {
			t.Errorf("%v, want %s", err, what)
		}
	}
	page, err := b.Profiles(ctx, api.None{})
	if err != nil || len(page.Profiles) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	wants(t, "what was refused left nothing", names(page.Profiles[0]), []string{"two"})

	gone := set(api.SetProfile{Servers: &[]string{}, Agents: &[]string{}})
	if gone.State != "removed" {
		t.Errorf("%+v", gone)
	}
	if _, err := b.Profile(ctx, api.ProfileRef{Profile: "work"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it is there: %v", err)
	}
	if n := len(slices.DeleteFunc(b.eventKinds(ctx, t), func(k event.Kind) bool { return k != event.AgentMounted })); n == 0 {
		t.Error("nobody was told")
	}
}
