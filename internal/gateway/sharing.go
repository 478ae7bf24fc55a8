package gateway

import "mcpx/internal/catalog"

// laneKey says which lane serves a caller: the sharing mode of the entry, or the stricter session mode when the
// caller lacks the identity that the mode needs (governance.md section 2.3). An empty key is a lane of its own.
func (s *Server) laneKey(c Caller) string {
	e := s.def.Load()
	switch e.Sharing {
	case catalog.ShareGlobal:
		return "global"
	case catalog.ShareAgent:
		if c.Agent != "" {
			return "agent:" + c.Agent
		}
	case catalog.ShareWorkspace:
		if c.Workspace != "" {
			return "workspace:" + c.Workspace
		}
	case catalog.ShareAccount:
		if hasRefs(e) {
			return "account:" + c.Principal
		}
	case catalog.ShareSession, catalog.ShareNone, "": // none is not routed at all
		return ""
	}
	s.narrowed.Store(true)
	return ""
}

// soloKey names the lane of requests without a session: one for each running mcpx connect, one for each person over
// HTTP, where nothing tells two modern clients apart.
func soloKey(c Caller) string {
	if c.Instance != "" {
		return instancePrefix + c.Instance
	}
	return "principal:" + c.Principal
}

// sessionPrefix begins the keys of lanes that belong to one session.
const sessionPrefix = "session:"

// instancePrefix marks lanes of one mcpx connect; their slots are forgotten when they are empty.
const instancePrefix = "instance:"

// hasRefs reports whether the entry binds any credential.
func hasRefs(e *catalog.Server) bool {
	bound := func(all map[string]catalog.Binding) bool {
		for _, b := range all {
			if b.Ref != "" || b.Template != "" {
				return true
			}
		}
		return false
	}
	return e.Stdio != nil && bound(e.Stdio.Env) || e.HTTP != nil && bound(e.HTTP.Headers)
}
