//go:build linux || darwin

package work

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/operation"
)

// TestRT62Races: an editor saves a file while edit_files changes it, by rename and in place. Whoever comes first, what the
// editor saved is in the file afterwards, or kept. MCPX_TEST_FULL makes it 3,000 races.
func TestRT62Races(t *testing.T) {
	races := 120
	if os.Getenv("MCPX_TEST_FULL") != "" {
		races = 3000
	}
	s := newShop(t)
	path := filepath.Join(s.root, "src/raced.txt")
	r := rand.New(rand.NewPCG(1, 62))
	ends, lost := map[string]int{}, 0
	for n := range races {
		before := fmt.Sprintf("base %d\n", n)
		s.save(t, "src/raced.txt", before)
		users := fmt.Sprintf("user %d\n%s", n, strings.Repeat("what a person wrote\n", 200))
		inPlace, early := n%2 == 0, time.Duration(r.IntN(25_000))*time.Microsecond
		saved := make(chan error, 1)
		go func() {
			time.Sleep(early)
			saved <- saveAs(path, users, inPlace)
		}()
		a := s.do(t, "edit_files", `"operation_id":"race-%05d","edits":[{"path":"src/raced.txt","expect_sha256":%q,"append":"of the agent\n"}]`, n, digest([]byte(before)))
		if err := <-saved; err != nil {
			t.Fatal(err)
		}
		end := "applied"
		if a.Refusal != nil {
			end = string(a.Refusal.Code)
		}
		ends[end]++
		switch {
		case s.file(t, "src/raced.txt") == users:
		case kept(t, s.state, users):
			ends["kept apart"]++
			if a.Refusal == nil || a.Refusal.Code != operation.Contested {
				ends["kept apart, and not told as contested"]++
			}
		default:
			lost += len(users)
			t.Errorf("race %d (%s, in place %v): what the editor saved is nowhere; the file is %.40q", n, end, inPlace, s.file(t, "src/raced.txt"))
		}
	}
	t.Logf("%d races, %d bytes of the user lost; ends: %v", races, lost, ends)
	if ends["applied"] == 0 || ends["applied"] == races {
		t.Errorf("no race: %v", ends)
	}
}

// saveAs saves as editors do: a new file in place of the old one, or the same file, emptied and written in pieces.
func saveAs(path, content string, inPlace bool) error {
	if !inPlace {
		if err := os.WriteFile(path+"~", []byte(content), 0o644); err != nil {
			return err
		}
		return os.Rename(path+"~", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	for rest := content; rest != ""; {
		n := min(len(rest), 1000)
		if _, err := f.WriteString(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return f.Close()
}

// kept says whether bytes are in a file of the area.
func kept(t *testing.T, state, content string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || found || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		found = string(raw) == content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestDW39Races: DW-39. An editor saves a file by rename while an integration replaces it. Whoever comes first, what the editor saved is in the
// file afterwards, or kept and named in CONTESTED. MCPX_TEST_FULL makes it 3,000 races.
func TestDW39Races(t *testing.T) {
	races := 60
	if os.Getenv("MCPX_TEST_FULL") != "" {
		races = 3000
	}
	s := newShop(t)
	path := filepath.Join(s.root, "src/raced.txt")
	s.save(t, "src/raced.txt", "base\n")
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["src"]`)
	r := rand.New(rand.NewPCG(1, 39))
	ends, lost := map[string]int{}, 0
	for n := range races {
		before, err := os.ReadFile(filepath.Join(w.Path, "src/raced.txt"))
		if err != nil {
			t.Fatal(err)
		}
		s.save(t, "src/raced.txt", string(before))
		w.write(t, "src/raced.txt", fmt.Sprintf("agent %d\n", n))
		users := fmt.Sprintf("user %d\n%s", n, strings.Repeat("what a person wrote\n", 200))
		early := time.Duration(r.IntN(50_000)) * time.Microsecond
		saved := make(chan error, 1)
		go func() {
			time.Sleep(early)
			saved <- saveAs(path, users, false)
		}()
		a := s.do(t, "integrate_agent_workspace", `"handle":%q,"keep_open":true,"operation_id":"race-%05d"`, handle, n)
		if err := <-saved; err != nil {
			t.Fatal(err)
		}
		end := "applied"
		if a.Refusal != nil {
			end = string(a.Refusal.Code)
			w.write(t, "src/raced.txt", string(before)) // the next race begins where this one did
		}
		ends[end]++
		switch end {
		case "applied", "CANONICAL_MOVED", "CONFLICTS", "CONTESTED":
		default:
			t.Errorf("race %d ended as %s", n, end)
		}
		if end == "CONTESTED" {
			read[resolved](t, s.call(t, "resolve_operation", `{"target":"race-%05d","verdict":"abandon","operation_id":"abandon-%05d"}`, n, n))
		}
		if s.file(t, "src/raced.txt") != users && (end != "CONTESTED" || !kept(t, s.state, users)) {
			lost++
			t.Errorf("race %d (%s): what the editor saved is nowhere; the file is %.40q", n, end, s.file(t, "src/raced.txt"))
		}
		status := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q,"diff":"none"`, w.ID))
		handle = fmt.Sprintf("%s@%d", w.ID, status.Rev)
	}
	t.Logf("%d races, %d saves of the user lost; ends: %v", races, lost, ends)
	if ends["applied"] == 0 || ends["applied"] == races {
		t.Errorf("no race: %v", ends)
	}
}
