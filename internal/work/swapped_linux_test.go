package work

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcpx/internal/atomicfile"
	"mcpx/internal/operation"
)

// TestDW29Swapped: DW-29. While somebody exchanges a directory in the scope with a link to a directory outside, again and again, files
// are made below it, workspaces are made of it, edited and integrated: nothing out there is changed, none of its bytes come in, and
// every refusal has a code that is explained. Without MCPX_TEST_FULL it is some of the rounds.
func TestDW29Swapped(t *testing.T) {
	rounds := 12
	if os.Getenv("MCPX_TEST_FULL") != "" {
		rounds = 10_000
	}
	s := newShop(t)
	const secret = "canary-of-elsewhere"
	outside := t.TempDir()
	plant(t, map[string]string{filepath.Join(outside, "a.txt"): secret + "\n", filepath.Join(s.root, "docs/sub/a.txt"): "a\n"})
	before := files(t, outside)
	beside := filepath.Join(filepath.Dir(s.root), "beside")
	if err := os.Symlink(outside, beside); err != nil {
		t.Fatal(err)
	}
	in, out := opened(t, filepath.Join(s.root, "docs")), opened(t, filepath.Dir(s.root))
	stop := make(chan struct{})
	var racer sync.WaitGroup
	swaps := 0
	racer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := atomicfile.ExchangeAt(in, "sub", out, "beside"); err != nil {
				t.Errorf("exchange: %v", err)
				return
			}
			swaps++
		}
	})
	done := 0
	told := func(what string, a operation.Answer) operation.Answer {
		if raw := fmt.Sprintf("%s %+v", a.Data, a.Refusal); strings.Contains(raw, secret) {
			t.Errorf("an answer has what is elsewhere: %s", raw)
		}
		if a.Refusal != nil && !slices.Contains(swappedCodes, a.Refusal.Code) {
			t.Errorf("%s: refused with %v", what, a.Refusal)
		}
		if a.OK {
			done++
		}
		return a
	}
	for n := 0; n < rounds || done == 0 && n < 100*rounds; n++ { // most are refused
		told("edit", s.do(t, "edit_files", `"operation_id":"edit-%06d","edits":[{"op":"create","path":"docs/sub/e%d.txt","content":"e\n"}]`, n, n))
		told("read", s.do(t, "read_file", `"path":"docs/sub/a.txt"`))
		made := told("create", s.do(t, "create_agent_workspace", `"purpose":"work %d","mutable":["docs"],"operation_id":"create-%06d"`, n, n))
		if !made.OK {
			continue
		}
		handle := made.Handle
		if edited := told("edit within", s.do(t, "edit_files", `"handle":%q,"operation_id":"within-%06d","edits":[{"op":"create","path":"docs/sub/w%d.txt","content":"w\n"}]`, handle, n, n)); edited.OK {
			handle = edited.Handle
		}
		if brought := told("integrate", s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-%06d"`, handle, n)); brought.OK {
			handle = brought.Handle
		}
		told("remove", s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-%06d"`, handle, n))
	}
	close(stop)
	racer.Wait()
	if now := files(t, outside); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("elsewhere there is %v, there was %v", now, before)
	}
	err := filepath.WalkDir(s.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), secret) {
			t.Errorf("%s has what is elsewhere", path)
		}
		return err
	})
	t.Logf("%d exchanges, %d calls succeeded", swaps, done)
	if err != nil || swaps == 0 || done == 0 {
		t.Errorf("%d exchanges, %d calls succeeded, %v", swaps, done, err)
	}
}

// swappedCodes are the refusals that are explained for a path that is another one in between.
var swappedCodes = []operation.Code{
	"SCOPE_OUTSIDE_PROJECT", "PATH_ALIAS", "LINK_ESCAPE", "NOT_A_FILE", "NOT_A_DIRECTORY", "NOT_FOUND", "EXISTS", "CANONICAL_MOVED", "CONTESTED", "CONFLICTS",
	"TREE_MOVED_DURING_COPY", "FILE_BUSY", "STALE_REVISION", "WORKSPACE_STATE", "STALE_HANDLE", "SCOPE_OVERLAP", "OUT_OF_SCOPE_CHANGES", "OUTCOME_UNKNOWN", "FS_UNSUPPORTED",
	"OPERATION_IN_PROGRESS",
}

func opened(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
