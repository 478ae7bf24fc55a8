package crashtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
)

// ends are the points that a daemon passes while it carries an operation of an earlier one to its end. No record has them
// before the start of a daemon: a run without a kill leaves nothing to carry on.
var ends = []string{"op.record.before", "op.record.after"}

// worked is what an agent does at /mcp: it opens a session and changes files in batches, and repeats the identical call
// until it has an answer. After every kill, and before it asks again, a batch is there as a whole or not at all.
func (p *play) worked() {
	w := &worker{play: p, dir: filepath.Join(p.t.TempDir(), "shop"), is: map[string]string{}}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	w.register()
	w.edit("edit-create-1", map[string]string{"a.txt": "one\n", "b.txt": "two\n", "c.txt": "three\n"},
		edit{"op": "create", "path": "a.txt", "content": "one\n"}, edit{"op": "create", "path": "b.txt", "content": "two\n"}, edit{"op": "create", "path": "c.txt", "content": "three\n"})
	w.edit("edit-change-1", map[string]string{"a.txt": "one\nmore\n", "b.txt": "2\n", "d.txt": "three\n"},
		edit{"path": "a.txt", "expect_sha256": w.sum("a.txt"), "append": "more\n"},
		edit{"path": "b.txt", "expect_sha256": w.sum("b.txt"), "replacements": []edit{{"old": "two", "new": "2"}}},
		edit{"op": "rename", "path": "c.txt", "to": "d.txt", "expect_sha256": w.sum("c.txt")})
	w.busy()
	w.looked()
}

type edit = map[string]any

// worker is the agent of a play.
type worker struct {
	*play
	dir     string
	session string
	is      map[string]string // files of the project as they are after the last batch that was acknowledged
	ids     []string          // of the operations
	failed  string            // id of the one that has to fail
}

// register makes the directory a project, and opens a session on it.
func (w *worker) register() {
	w.t.Helper()
	w.change("", func(ctx context.Context, c *api.Client) error {
		_, err := c.AddProject(ctx, api.AddProject{Path: w.dir})
		if err != nil {
			page, known := c.Projects(ctx, api.ProjectsQuery{})
			if known == nil && len(page.Projects) == 1 { // it was added, and its answer was lost
				return nil
			}
		}
		return err
	})
	opened := w.do("session", "open-shop-1", map[string]any{"action": "open", "project": "shop"}, nil)
	var session struct {
		Session struct {
			ID string `json:"remote_session_id"`
		} `json:"session"`
	}
	if err := json.Unmarshal(opened.Data, &session); err != nil || session.Session.ID == "" {
		w.t.Fatalf("open: %s (%v)", opened.Data, err)
	}
	w.session = session.Session.ID
}

// result is what the agent reads of an answer.
type result struct {
	OK     bool            `json:"ok"`
	Status string          `json:"status"`
	Handle string          `json:"handle"`
	Data   json.RawMessage `json:"data"`
	Error  *struct {
		Code    string      `json:"code"`
		Message string      `json:"message"`
		Retry   fault.Retry `json:"retry"`
		Details struct {
			Paths []struct {
				Path string `json:"path"`
			} `json:"paths"`
		} `json:"details"`
	} `json:"error"`
	Operation struct {
		Replayed  bool `json:"replayed"`
		Recovered bool `json:"recovered"`
		Attempts  int  `json:"attempts"`
	} `json:"operation"`

	upstream json.RawMessage // the result of another server's tool, beside which this stands
}

// do makes one call, identically again and again, until its operation has ended. between is called after each attempt that
// brought no end, when there is a daemon again.
func (w *worker) do(tool, operation string, args map[string]any, between func()) (last result) {
	w.t.Helper()
	w.ids = append(w.ids, operation)
	body, err := w.body(tool, operation, args)
	if err != nil {
		w.t.Fatal(err)
	}
	var why error
	for deadline := time.Now().Add(stepWithin); time.Now().Before(deadline); time.Sleep(pollEvery) {
		if last, why = w.post(body); why == nil && last.Status != "in_progress" && (last.Error == nil || last.Error.Code != "STORE_DEGRADED") {
			return last
		}
		if between != nil && w.g.Listens() {
			between()
		}
	}
	w.t.Fatalf("%s has no end: %v, %+v", operation, why, last)
	return last
}

// body is a call as it is sent, each time the same.
func (w *worker) body(tool, operation string, args map[string]any) ([]byte, error) {
	args = maps.Clone(args)
	args["operation_id"] = operation
	if w.session != "" {
		args["remote_session_id"] = w.session
	}
	return json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}})
}

func (w *worker) post(body []byte) (r result, err error) {
	ctx, stop := context.WithTimeout(w.t.Context(), stepWithin)
	defer stop()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.g.Addr+"/mcp", bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	q.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	q.Close = true // the next daemon is another one
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return r, err
	}
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	var own struct {
		Structured *result `json:"structuredContent"`
		Meta       struct {
			Beside *result `json:"mcpx/operation"`
		} `json:"_meta"`
	}
	if json.Unmarshal(raw, &m) == nil && json.Unmarshal(m.Result, &own) == nil {
		if own.Meta.Beside != nil {
			own.Structured, own.Meta.Beside.upstream = own.Meta.Beside, m.Result
		}
		if own.Structured != nil {
			return *own.Structured, nil
		}
	}
	return r, fmt.Errorf("answer %d: %s", answer.StatusCode, raw)
}

// edit makes a batch that has to succeed. want is what is different afterwards.
func (w *worker) edit(operation string, want map[string]string, edits ...edit) {
	w.t.Helper()
	after := maps.Clone(w.is)
	for _, e := range edits {
		if e["op"] == "rename" {
			delete(after, e["path"].(string))
		}
	}
	maps.Copy(after, want)
	last := w.do("edit_files", operation, map[string]any{"edits": edits}, func() { w.whole(operation, w.is, after) })
	if !last.OK {
		w.t.Fatalf("%s: %+v", operation, last)
	}
	w.is = after
	w.whole(operation, after)
}

// busy makes a batch whose last file is open for writing elsewhere, so that what was done of it is taken back.
func (w *worker) busy() {
	w.t.Helper()
	held, err := os.OpenFile(filepath.Join(w.dir, "d.txt"), os.O_WRONLY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer held.Close()
	w.failed = "edit-busy-1"
	last := w.do("edit_files", w.failed, map[string]any{"edits": []edit{
		{"path": "a.txt", "expect_sha256": w.sum("a.txt"), "content": "lost\n"}, {"path": "d.txt", "expect_sha256": w.sum("d.txt"), "content": "lost\n"},
	}}, func() { w.whole(w.failed, w.is) })
	if last.OK || last.Error == nil || last.Error.Code != "FILE_BUSY" && last.Error.Code != "CANONICAL_MOVED" {
		w.t.Errorf("a batch with a busy file: %+v", last)
	}
	w.whole(w.failed, w.is)
}

// whole fails unless the project holds exactly one of the sets of files.
func (w *worker) whole(operation string, sets ...map[string]string) {
	w.t.Helper()
	now := map[string]string{}
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(w.dir, e.Name()))
		if err != nil {
			w.t.Fatal(err)
		}
		now[e.Name()] = string(raw)
	}
	if !slices.ContainsFunc(sets, func(s map[string]string) bool { return maps.Equal(s, now) }) {
		w.t.Errorf("%s: the project holds %q, want one of %q", operation, now, sets)
	}
}

func (w *worker) sum(name string) string {
	w.t.Helper()
	h := sha256.Sum256([]byte(w.is[name]))
	return hex.EncodeToString(h[:])
}

// looked reads the record: each operation has ended once, as its caller was told.
func (w *worker) looked() {
	w.t.Helper()
	ended := map[string][]string{}
	w.change("", func(ctx context.Context, c *api.Client) error {
		clear(ended)
		verified, err := c.VerifyEvents(ctx, api.VerifyEvents{})
		if err == nil && !verified.OK {
			w.t.Errorf("the log: %s", verified.Text)
		}
		if err != nil {
			return err
		}
		return c.Events(ctx, api.EventsQuery{Kind: string(event.OperationEnded)}, func(e event.Event) error {
			id := e.Refs[event.RefOperation]
			ended[id] = append(ended[id], e.Summary)
			return nil
		})
	})
	for _, id := range w.ids {
		want := "succeeded"
		if id == w.failed {
			want = "failed"
		}
		if how := ended[id]; len(how) != 1 || !strings.HasSuffix(how[0], want) {
			w.t.Errorf("%s ended as %q, want once as %s", id, how, want)
		}
	}
}
