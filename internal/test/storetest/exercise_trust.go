package storetest

import (
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

func trust(project string) session.Trust {
	return session.Trust{
		Project: project, Digest: "ab", Approval: "apr_1", At: uneven, Entries: []session.Entry{{
			Kind: session.EntryServer, Name: "words", File: ".mcp.json", Digest: "cd", Problem: "none",
			Server: &catalog.Server{Name: "words", Stdio: &catalog.Stdio{Command: "ü", Env: map[string]catalog.Binding{"A": {Ref: "env:A"}}}},
		}},
	}
}

// storedTrust is a trust as it is read.
func storedTrust(project string) session.Trust {
	v := trust(project)
	v.At = store.CutTime(v.At)
	return v
}

func putTrusts(t *testing.T, p Pair, all ...session.Trust) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutTrust(t.Context(), session.PutTrust{Trust: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func readTrust(t *testing.T, p Pair, project string) session.Trust {
	t.Helper()
	return read(t, p.Read, func(r store.Reader) (session.Trust, error) {
		return r.TrustOf(t.Context(), session.TrustOf{Project: project})
	})
}

func allTrusts(t *testing.T, p Pair) {
	putTrusts(t, p, trust("proj_b"), trust("proj_a"))
	all := read(t, p.Read, func(r store.Reader) ([]session.Trust, error) { return r.AllTrusts(t.Context()) })
	same(t, "all", []session.Trust{storedTrust("proj_a"), storedTrust("proj_b")}, all)
}

func trustOf(t *testing.T, p Pair) {
	putTrusts(t, p, trust("proj_a"))
	same(t, "its own", storedTrust("proj_a"), readTrust(t, p, "proj_a"))
	same(t, "of nobody", session.Trust{}, readTrust(t, p, "proj_"))
}

func putTrust(t *testing.T, p Pair) {
	putTrusts(t, p, trust("proj_a"))
	gone := session.Trust{Project: "proj_a"}
	putTrusts(t, p, gone)
	same(t, "taken back", gone, readTrust(t, p, "proj_a"))
}
