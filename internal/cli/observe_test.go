package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
)

// seen shows events of one agent as observe does.
func seen(t *testing.T, o observer, all ...event.Event) string {
	t.Helper()
	var out strings.Builder
	o.w = &out
	if o.output == nil {
		o.output = func(string) (api.JobView, error) { return api.JobView{}, errors.New("nobody is there to ask") }
	}
	for i, e := range all {
		e.Seq, e.At, e.Actor = uint64(i+1), time.Date(2026, 11, 30, 12, 0, i, 0, time.Local), event.Actor{Principal: "owner", Client: "codex", Channel: "mcp"}
		if err := o.add(e); err != nil {
			t.Fatal(err)
		}
	}
	o.flush()
	return out.String()
}

func happened(kind event.Kind, operation, summary string, body any) event.Event {
	e := event.Event{Kind: kind, Summary: summary, Refs: event.Refs{}}
	if operation != "" {
		e.Refs[event.RefOperation] = operation
	}
	if body != nil {
		e.Body, _ = json.Marshal(body)
		e.BodySHA256 = "it has one"
	}
	return e
}

type fields map[string]any

// TestRT141Observe: RT-141. One block for each call; claims are marked, what controls a terminal is not carried out, wide
// characters are counted as such.
func TestRT141Observe(t *testing.T) {
	events := []event.Event{
		happened(event.ActivityIntent, "op-1", "claims intent: clean up \x1b[2J", nil),
		happened(event.OperationClaimed, "op-1", "edit_files claimed", fields{"tool": "edit_files", "arguments": fields{"edits": []fields{{"path": "日本語.txt"}}}}),
		happened(event.PolicyDecided, "op-1", "edit_files: confirm", fields{"decision": "confirm", "reasons": []string{"it acts"}}),
		happened(event.OperationDispatched, "op-1", "edit_files begun", nil),
		happened(event.FileChanged, "op-1", "update 日本語.txt", fields{"added": 2, "removed": 1, "diff": "+\x1b]0;owned\x07\n"}),
		happened(event.OperationEnded, "op-1", "edit_files succeeded", fields{"tool": "edit_files", "state": "succeeded", "ok": true}),
	}
	const plainly = `12:00:00  edit_files  日本語.txt  owner/codex  op-1
          claims intent: clean up �[2J
          confirm: it acts
          update 日本語.txt  +2 -1
              1  +�]0;owned�
          succeeded
`
	if got := seen(t, observer{diff: "full"}, events...); got != plainly {
		t.Errorf("shown is\n%s", got)
	}
	colored := seen(t, observer{diff: "none", looks: looks{true}}, events...)
	if !strings.Contains(colored, "\x1b["+dim+"mclaims intent") || strings.Contains(colored, "[2J") && strings.Contains(colored, "\x1b[2J") || strings.Contains(colored, "update") {
		t.Errorf("with colours and without files it is %q", colored)
	}
	narrow := seen(t, observer{diff: "full", columns: 40}, events...)
	for one := range strings.SplitSeq(strings.TrimSuffix(narrow, "\n"), "\n") {
		if width(one) > 50 { // the head names who and what, however narrow it is
			t.Errorf("%q takes %d cells", one, width(one))
		}
	}
}

// TestRT141Fold: RT-141. What only looks and comes again is counted; a failure is shown each time.
func TestRT141Fold(t *testing.T) {
	look := happened(event.ActivityStatus, "", "claims status: reading a.go", nil)
	failed := happened(event.OperationEnded, "op-2", "edit_files failed", fields{"tool": "edit_files", "state": "failed", "code": "STALE_REVISION", "message": "it has changed"})
	got := seen(t, observer{}, look, look, look, failed, failed, look)
	if strings.Count(got, "claims status") != 2 || strings.Count(got, "the same again: 2 times") != 1 || strings.Count(got, "failed STALE_REVISION  it has changed") != 2 {
		t.Errorf("shown is\n%s", got)
	}
}

// TestObserveOutput: an output has numbered lines, 50 of them unless all are wanted, and what is pruned is said.
func TestObserveOutput(t *testing.T) {
	var text strings.Builder
	for n := range 60 {
		fmt.Fprintln(&text, "line", n+1)
	}
	end := happened(event.JobEnded, "op-3", "a command is exited: seq", fields{"exit_code": 0})
	end.Refs[event.RefJob] = "job_1"
	gone := happened(event.ConfigDrift, "", "codex: drift", fields{})
	gone.Body = nil
	for full, want := range map[bool]string{false: "   50  line 50\n                 10 more lines; --full shows them\n", true: "   60  line 60\n"} {
		got := seen(t, observer{full: full, output: func(job string) (api.JobView, error) {
			return api.JobView{Stdout: &api.JobStream{Text: text.String(), Bytes: int64(text.Len())}}, nil
		}}, end, gone)
		if !strings.Contains(got, want) || !strings.Contains(got, "pruned: what the events 2 to 2 told is not kept any more") || !strings.Contains(got, "exit code 0") {
			t.Errorf("full %t:\n%s", full, got)
		}
	}
}
