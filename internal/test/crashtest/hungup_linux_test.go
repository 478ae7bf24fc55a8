package crashtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/test/rig"
)

// TestDW18HungUp: DW-18 with the real binary. A client closes its connection while the daemon is held at a point of its integration. Before
// the dispatch that ends it: nothing has changed, and the same call is carried out for the first time. After it the integration comes
// to its end, and the same call is replayed. Of a client of an older protocol a closed connection says nothing.
func TestDW18HungUp(t *testing.T) {
	for name, c := range map[string]struct {
		at     string
		modern bool
		done   bool
	}{
		"before the dispatch":                  {"op.dispatch.before", true, false},
		"after the dispatch":                   {"op.dispatch.after", true, true},
		"before the dispatch, an older client": {"op.dispatch.before", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold := filepath.Join(t.TempDir(), "hold")
			w := cut(t, "", script{"MCPX_RUNTIME_WORK=true", "MCPX_CRASH_AT=daemon/" + c.at + "#2", "MCPX_CRASH_HOLD=" + hold}, "") // the first is of the workspace
			w.heap()
			w.register()
			before := rig.Tree(t, w.dir)
			handle, dir := w.workspace("create-1")
			after := w.workIn(dir, before)
			args := map[string]any{"handle": handle}
			client := w.sends(t, c.modern, "integrate_agent_workspace", "integrate-1", args)
			rig.Until(t, stepWithin, "the integration is held", func() bool { return there(hold) })
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			rig.Until(t, stepWithin, "the daemon knows that the client has left", func() bool { return !connected(t, w.g.Addr, client.LocalAddr(), c.modern) })
			w.holds("integrate-1", before)
			if err := os.Remove(hold); err != nil {
				t.Fatal(err)
			}
			if c.done {
				rig.Until(t, stepWithin, "it is integrated", func() bool { return maps.Equal(rig.Tree(t, w.dir), after) })
			} else {
				rig.Until(t, stepWithin, "the operation is released", func() bool { return w.hasNone("integrate-1") })
				w.holds("integrate-1", before)
				w.stands(handle, "open")
				w.clean()
			}
			last := w.do("integrate_agent_workspace", "integrate-1", args, nil)
			if !last.OK || last.Operation.Replayed != c.done || last.Operation.Attempts != 1 {
				t.Errorf("the same call: %+v, %s", last, last.code())
			}
			w.holds("integrate-1", after)
			w.stands(handle, "integrated")
		})
	}
}

// TestDW20Undelivered: DW-20, of an answer that nobody has read. A client, of either era, that closes its connection while its command runs
// has not heard of its end: the same command under another id is held up, until distinct_from says that it is meant.
func TestDW20Undelivered(t *testing.T) {
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cut(t, "", commands, allowShell)
			w.register()
			w.write("job.sh", "echo begun >> begun\nuntil [ -e go ]; do sleep 0.05; done\n")
			args := map[string]any{"argv": []string{"sh", "job.sh"}, "wait_ms": 20000}
			client := w.sends(t, modern, "execute_command", "execute-1", args)
			rig.Until(t, stepWithin, "the command runs", func() bool { return w.runs("begun") == 1 })
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			rig.Until(t, stepWithin, "the client has left", func() bool { return !connected(t, w.g.Addr, client.LocalAddr(), modern) })
			if !modern {
				time.Sleep(time.Second) // only the kernel is seen to know; the daemon does a moment later, and answers as ever
			}
			w.write("go", "")
			rig.Until(t, stepWithin, "the operation has ended", func() bool { return w.has("execute-1", "succeeded") })
			again := w.do("execute_command", "execute-2", args, nil)
			if again.code() != "POSSIBLE_DUPLICATE" || !strings.Contains(again.Error.Message, "execute-1") || w.runs("begun") != 1 {
				t.Fatalf("the same command again: %+v, it ran %d times", again, w.runs("begun"))
			}
			args["distinct_from"] = "execute-1"
			if meant := w.do("execute_command", "execute-2", args, nil); !meant.OK || w.runs("begun") != 2 {
				t.Errorf("when it is meant: %+v, it ran %d times", meant, w.runs("begun"))
			}
		})
	}
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// has says whether an operation is in a state.
func (w *worker) has(id, state string) bool {
	w.t.Helper()
	o, err := w.g.API().Operation(w.t.Context(), api.OperationRef{Operation: id})
	return err == nil && string(o.State) == state
}

// hasNone says that the daemon knows no operation of this id.
func (w *worker) hasNone(operation string) bool {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": "operation_status", "arguments": map[string]any{"operation_id": operation}}})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.post(body)
	return err == nil && r.code() == "OPERATION_UNKNOWN"
}

// sends makes a call on a connection of its own, and does not wait for the answer.
func (w *worker) sends(t *testing.T, modern bool, tool, operation string, args map[string]any) net.Conn {
	t.Helper()
	w.ids = append(w.ids, operation)
	body, err := w.body(tool, operation, args)
	if err != nil {
		t.Fatal(err)
	}
	version := "2025-11-25"
	more := ""
	if modern {
		version = "2026-07-28"
		more = fmt.Sprintf("Mcp-Method: tools/call\r\nMcp-Name: %s\r\n", tool)
		body = []byte(strings.Replace(string(body), `"params":{`, `"params":{"_meta":{`+rig.Envelope(`{}`)+`},`, 1))
	}
	c, err := net.Dial("tcp", w.g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it is closed by then
	_, err = fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: %s\r\n%sContent-Length: %d\r\n\r\n%s",
		w.g.Addr, version, more, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// connected says whether the daemon has a connection with a client that has closed it. The kernel knows at once that the client is gone;
// with answered the connection is there until the daemon has answered, which it does when it has noticed.
func connected(t *testing.T, daemon string, client net.Addr, answered bool) bool {
	t.Helper()
	raw, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Skip("skip: this system does not show its connections")
	}
	port := func(addr string) string {
		_, text, err := net.SplitHostPort(addr)
		n, bad := strconv.Atoi(text)
		if err != nil || bad != nil {
			t.Fatalf("%s: %v, %v", addr, err, bad)
		}
		return fmt.Sprintf(":%04X", n)
	}
	const established = "01"
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if strings.HasSuffix(f[1], port(daemon)) && strings.HasSuffix(f[2], port(client.String())) {
			return answered || f[3] == established
		}
	}
	return false
}
