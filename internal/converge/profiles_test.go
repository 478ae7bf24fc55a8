package converge

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpx/internal/catalog"
)

func inProfiles(name string, profiles ...string) catalog.Server {
	return catalog.Server{ID: "srv_" + name, Name: name, Profiles: profiles, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled, Sharing: catalog.ShareSession}
}

func TestFollow(t *testing.T) {
	a, b, c := inProfiles("a", "work"), inProfiles("b", "work", "home"), inProfiles("c", "other")
	r := AgentRecord{Agent: "codex", Profiles: []string{"home", "work"}, Mounts: []Mount{{Server: "srv_c", Name: "sea"}}}
	r = r.Follow([]catalog.Server{b, a, c})
	want := []Mount{{Server: "srv_c", Name: "sea"}, {Server: "srv_a", Name: "a", Profile: "work"}, {Server: "srv_b", Name: "b", Profile: "home"}}
	if diff := cmp.Diff(want, r.Mounts); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	// What a person decides about one server counts for more, whatever the profile says, and under the name that they gave.
	r.Mounts = append(r.Mounts[:1:1], Mount{Server: "srv_a", Name: "a", Absent: true}, Mount{Server: "srv_b", Name: "bee"})
	if now := r.Follow([]catalog.Server{b, a, c}); !now.Same(r) {
		t.Errorf("own decisions: %+v", now.Mounts)
	}
	// A server that leaves is not wanted any more, one that comes back is, and one that left the catalog is forgotten.
	r = AgentRecord{Agent: "codex", Profiles: []string{"work"}}.Follow([]catalog.Server{a, b})
	a.Profiles = nil
	r = r.Follow([]catalog.Server{a, b})
	want = []Mount{{Server: "srv_a", Name: "a", Absent: true, Profile: "work"}, {Server: "srv_b", Name: "b", Profile: "work"}}
	if diff := cmp.Diff(want, r.Mounts); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	a.Profiles = []string{"work"}
	r = r.Follow([]catalog.Server{a})
	if diff := cmp.Diff([]Mount{{Server: "srv_a", Name: "a", Profile: "work"}}, r.Mounts); diff != "" {
		t.Errorf("came back, gone (-want +got):\n%s", diff)
	}
	r.Profiles = nil
	if now := r.Follow([]catalog.Server{a}); len(now.Mounts) != 1 || !now.Mounts[0].Absent {
		t.Errorf("without profiles: %+v", now.Mounts)
	}
}

// TestFollowSettles: following twice is following once, every server of a profile is decided about, and no decision of a
// person is touched.
func TestFollowSettles(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	profiles := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"p", "q"}), rapid.ID[string])
	rapid.Check(t, func(t *rapid.T) {
		var servers []catalog.Server
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(t, "servers") {
			servers = append(servers, inProfiles(name, profiles.Draw(t, "profiles of "+name)...))
		}
		r := AgentRecord{Agent: "codex", Profiles: profiles.Draw(t, "profiles")}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(t, "mounts") {
			r.Mounts = append(r.Mounts, Mount{Server: "srv_" + name, Name: name, Absent: rapid.Bool().Draw(t, "absent"), Profile: rapid.SampledFrom([]string{"", "p"}).Draw(t, "by")})
		}
		once := r.Follow(servers)
		if !once.Follow(servers).Same(once) {
			t.Fatalf("it does not settle: %+v, then %+v", once.Mounts, once.Follow(servers).Mounts)
		}
		for _, m := range r.Mounts {
			if m.Profile == "" && !slices.Contains(once.Mounts, m) {
				t.Fatalf("the decision %+v is gone: %+v", m, once.Mounts)
			}
		}
		for _, s := range servers {
			i := slices.IndexFunc(once.Mounts, func(m Mount) bool { return m.Server == s.ID })
			asked := slices.ContainsFunc(r.Profiles, func(p string) bool { return slices.Contains(s.Profiles, p) })
			if asked && (i < 0 || once.Mounts[i].Profile != "" && once.Mounts[i].Absent) || !asked && i >= 0 && once.Mounts[i].Profile != "" && !once.Mounts[i].Absent {
				t.Fatalf("%s is asked for: %v, mounts %+v", s.Name, asked, once.Mounts)
			}
		}
	})
}

// TestProfileWaits: what a profile asks for is not offered while nobody shall get the server newly; who says it about the one
// server is told why not.
func TestProfileWaits(t *testing.T) {
	for what, spoil := range map[string]func(s *catalog.Server){
		"disabled":   func(s *catalog.Server) { s.Lifecycle = catalog.Disabled },
		"deprecated": func(s *catalog.Server) { s.Lifecycle = catalog.Deprecated },
		"rejected":   func(s *catalog.Server) { s.Review = catalog.ReviewRejected },
		"not shared": func(s *catalog.Server) { s.Sharing = catalog.ShareNone },
		"":           func(*catalog.Server) {},
	} {
		s := inProfiles("a", "work")
		s.Stdio = &catalog.Stdio{Command: "/bin/a"}
		spoil(&s)
		for _, profile := range []string{"work", ""} {
			w := World{
				Servers: []catalog.Server{s}, Port: "1", Program: "/bin/mcpx",
				Files:  []File{{Agent: "codex", Path: "/h/.codex/config.toml", Scope: scopeUser, State: FileReadable}},
				Agents: []AgentRecord{{Agent: "codex", Level: LevelManaged, Mounts: []Mount{{Server: s.ID, Name: "a", Profile: profile}}}},
			}
			want := profile == "" || what == ""
			if got := len(Propose(w)) > 0; got != want {
				t.Errorf("%q, by profile %q: proposed %v", what, profile, got)
			}
			missing := slices.ContainsFunc(Drift(w), func(t Trouble) bool { return t.Code == reasonMissing })
			if missing != want {
				t.Errorf("%q, by profile %q: told as missing %v", what, profile, missing)
			}
		}
	}
}
