package catalog

import (
	"testing"
	"time"
)

// TestProcess: what changes the process of an entry changes its digest, and nothing else does.
func TestProcess(t *testing.T) {
	base := func() Server {
		return Server{
			ID: "srv_1", Name: "a", Sharing: ShareSession, Review: ReviewApproved, Lifecycle: Enabled,
			Stdio: &Stdio{Command: "c", Args: []string{"x", "y"}, Env: map[string]Binding{"B": {Literal: "2"}, "A": {Ref: "env:A"}}},
		}
	}
	for name, c := range map[string]struct {
		edit func(*Server)
		same bool
	}{
		"nothing":      {func(*Server) {}, true},
		"limits":       {func(s *Server) { s.Limits.Call = time.Second }, true},
		"title":        {func(s *Server) { s.Title, s.Notes, s.Aliases = "t", "n", []string{"b"} }, true},
		"on change":    {func(s *Server) { s.OnChange = OnChangeKeep }, true},
		"stateful":     {func(s *Server) { s.Stateful, s.Retry = true, "idempotent" }, true},
		"empty lists":  {func(s *Server) { s.Stdio.EnvPass = []string{} }, true},
		"time":         {func(s *Server) { s.Updated = time.Now() }, true},
		"name":         {func(s *Server) { s.Name = "b" }, false},
		"command":      {func(s *Server) { s.Stdio.Command = "d" }, false},
		"arguments":    {func(s *Server) { s.Stdio.Args = []string{"x y"} }, false},
		"directory":    {func(s *Server) { s.Stdio.Cwd = "/" }, false},
		"variable":     {func(s *Server) { s.Stdio.Env["A"] = Binding{Literal: "env:A"} }, false},
		"passed":       {func(s *Server) { s.Stdio.EnvPass = []string{"P"} }, false},
		"remote":       {func(s *Server) { s.Stdio, s.HTTP = nil, &HTTP{URL: "http://h/"} }, false},
		"direct":       {func(s *Server) { s.Direct = true }, false},
		"sharing":      {func(s *Server) { s.Sharing = ShareGlobal }, false},
		"protocol":     {func(s *Server) { s.Protocol = ProtocolLegacy }, false},
		"ids":          {func(s *Server) { s.IDStyle = "int" }, false},
		"disabled":     {func(s *Server) { s.Lifecycle = Disabled }, false},
		"under review": {func(s *Server) { s.Review = ReviewPending }, false},
	} {
		e := base()
		c.edit(&e)
		if got := e.Process() == base().Process(); got != c.same {
			t.Errorf("%s: same process is %v, want %v", name, got, c.same)
		}
	}
}
