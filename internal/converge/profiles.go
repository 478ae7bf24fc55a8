package converge

import (
	"slices"
	"strings"

	"mcpx/internal/catalog"
)

// Follow is the record with the mounts that its profiles ask for, as the catalog says now. What a person decided about a
// single server stays. A server that left the profiles is one that the agent shall not have any more.
func (r AgentRecord) Follow(servers []catalog.Server) AgentRecord {
	from := map[string]string{} // profile, by id of a server
	known := map[string]bool{}
	var wanted []catalog.Server
	for _, s := range servers {
		known[s.ID] = true
		for _, profile := range r.Profiles {
			if from[s.ID] == "" && slices.Contains(s.Profiles, profile) {
				from[s.ID] = profile
				wanted = append(wanted, s)
			}
		}
	}
	var mounts []Mount
	for _, m := range r.Mounts {
		switch {
		case m.Profile == "":
		case !known[m.Server] || from[m.Server] != "": // gone, or asked for below
			continue
		default:
			m.Absent = true
		}
		mounts = append(mounts, m)
	}
	slices.SortFunc(wanted, func(a, b catalog.Server) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range wanted {
		m := Mount{Server: s.ID, Name: s.Name, Profile: from[s.ID]}
		taken := slices.ContainsFunc(mounts, func(own Mount) bool {
			return own.scope() == scopeUser && (own.Server == m.Server || own.Profile == "" && own.Name == m.Name)
		})
		if !taken {
			mounts = append(mounts, m)
		}
	}
	r.Mounts = mounts
	return r
}

// Same says whether two records decide the same.
func (r AgentRecord) Same(other AgentRecord) bool {
	return slices.Equal(canonical(r), canonical(other))
}

// due says whether the agent shall get the server now, if it has not. What a profile asks for waits for a server that nobody
// shall get newly.
func (m Mount) due(s *catalog.Server) bool {
	if m.Absent {
		return false
	}
	return m.Profile == "" || s.Lifecycle == catalog.Enabled && s.Sharing != catalog.ShareNone && s.Review != catalog.ReviewRejected
}
