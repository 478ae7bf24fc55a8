package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The two eras: every test below runs in both.
var revisions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

func connect(t *testing.T, revision string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	server, err := New("1.2.3").Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).
		Connect(t.Context(), near, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close() // the far end may have gone first
		_ = server.Wait()
	})
	if got := client.InitializeResult().ProtocolVersion; got != revision {
		t.Fatalf("negotiated %s, want %s", got, revision)
	}
	return client
}

func call(t *testing.T, c *mcp.ClientSession, tool string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return res
}

func textOf(t *testing.T, res *mcp.CallToolResult) string {
	t.Helper()
	if len(res.Content) == 0 {
		t.Fatal("no content")
	}
	block, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("first content is %T, want text", res.Content[0])
	}
	return block.Text
}

func TestTools(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			c := connect(t, revision, nil)
			list, err := c.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			if diff := cmp.Diff([]string{"add", "ask", "echo", "image", "slow", "weather"}, names); diff != "" {
				t.Errorf("tools (-want +got)\n%s", diff)
			}
			if got := textOf(t, call(t, c, "add", map[string]any{"a": 2, "b": 3.5})); got != "5.5" {
				t.Errorf("add: %q, want 5.5", got)
			}
			if got := textOf(t, call(t, c, "echo", map[string]any{"text": "<é\n\u2028>"})); got != "<é\n\u2028>" {
				t.Errorf("echo: %q", got)
			}
			report := call(t, c, "weather", map[string]any{"city": "Oslo"})
			got, ok := report.StructuredContent.(map[string]any)
			if !ok || got["city"] != "Oslo" || len(got["forecast"].([]any)) != 3 {
				t.Errorf("weather: structured content %v", report.StructuredContent)
			}
			again := call(t, c, "weather", map[string]any{"city": "Oslo"})
			if diff := cmp.Diff(report.StructuredContent, again.StructuredContent); diff != "" {
				t.Errorf("two reports for one city differ:\n%s", diff)
			}
		})
	}
}

func TestImage(t *testing.T) {
	c := connect(t, "2026-07-28", nil)
	res := call(t, c, "image", map[string]any{"size": 32})
	if len(res.Content) != 2 {
		t.Fatalf("%d content blocks, want 2", len(res.Content))
	}
	block, ok := res.Content[1].(*mcp.ImageContent)
	if !ok || block.MIMEType != "image/png" {
		t.Fatalf("second block: %#v", res.Content[1])
	}
	img, err := png.Decode(bytes.NewReader(block.Data))
	if err != nil {
		t.Fatal(err)
	}
	if got := img.Bounds().Dx(); got != 32 {
		t.Errorf("width %d, want 32", got)
	}
	for _, size := range []int{-1, 513} {
		if res := call(t, c, "image", map[string]any{"size": size}); !res.IsError {
			t.Errorf("size %d was accepted", size)
		}
	}
}

func TestSlowReportsProgress(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			reports := make(chan float64, 64)
			c := connect(t, revision, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
					reports <- req.Params.Progress
				},
			})
			params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"seconds": 0.05}}
			params.SetProgressToken("p1")
			res, err := c.CallTool(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := textOf(t, res), "worked for 50ms"; got != want {
				t.Errorf("result %q, want %q", got, want)
			}
			last := 0.0
			for range 10 {
				next := <-reports // the ten reports were sent before the result
				if next <= last {
					t.Errorf("progress went from %v to %v", last, next)
				}
				last = next
			}
			if last != 0.05 {
				t.Errorf("last progress %v, want 0.05", last)
			}
		})
	}
}

func TestSlowBounds(t *testing.T) {
	c := connect(t, "2025-11-25", nil)
	for _, seconds := range []float64{-1, maxSeconds + 1} {
		if res := call(t, c, "slow", map[string]any{"seconds": seconds}); !res.IsError {
			t.Errorf("seconds %v was accepted", seconds)
		}
	}
}

func TestSlowIsCancelled(t *testing.T) {
	c := connect(t, "2025-11-25", nil)
	ctx, cancel := context.WithCancel(t.Context())
	params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"seconds": maxSeconds}}
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, params)
		done <- err
	}()
	cancel()
	if err := <-done; err == nil {
		t.Fatal("a cancelled call had a result")
	}
	// The server still answers: the cancelled call does not hold the session.
	if got := textOf(t, call(t, c, "echo", map[string]any{"text": "alive"})); got != "alive" {
		t.Errorf("echo after cancel: %q", got)
	}
}

func TestAsk(t *testing.T) {
	tests := map[string]struct {
		answer *mcp.ElicitResult
		want   string
	}{
		"accept":  {&mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, "Hello, Ada!"},
		"decline": {&mcp.ElicitResult{Action: "decline"}, `no name was given: the answer was "decline"`},
		"cancel":  {&mcp.ElicitResult{Action: "cancel"}, `no name was given: the answer was "cancel"`},
	}
	for _, revision := range revisions {
		for name, tt := range tests {
			t.Run(revision+"/"+name, func(t *testing.T) {
				var asked atomic.Value
				c := connect(t, revision, &mcp.ClientOptions{
					ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						asked.Store(req.Params.Message)
						return tt.answer, nil
					},
				})
				if got := textOf(t, call(t, c, "ask", map[string]any{"question": "Who?"})); got != tt.want {
					t.Errorf("result %q, want %q", got, tt.want)
				}
				if asked.Load() != "Who?" {
					t.Errorf("the user was asked %v, want Who?", asked.Load())
				}
			})
		}
	}
}

func TestAskWithoutCapability(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			res := call(t, connect(t, revision, nil), "ask", nil)
			if !res.IsError || !strings.Contains(textOf(t, res), "elicitation capability") {
				t.Errorf("result %v, want an error that names the capability", textOf(t, res))
			}
		})
	}
}

func TestResourceAndPrompt(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			c := connect(t, revision, nil)
			read, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: aboutURI})
			if err != nil {
				t.Fatal(err)
			}
			if read.Contents[0].Text != about || read.Contents[0].MIMEType != "text/markdown" {
				t.Errorf("resource: %+v", read.Contents[0])
			}
			for city, want := range map[string]string{"": "Oslo", "Lima": "Lima"} {
				got, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{
					Name: "tour", Arguments: map[string]string{"city": city},
				})
				if err != nil {
					t.Fatal(err)
				}
				if prompt := got.Messages[0].Content.(*mcp.TextContent).Text; !strings.Contains(prompt, want) {
					t.Errorf("prompt for %q does not name %s: %s", city, want, prompt)
				}
			}
		})
	}
}

// Run is what the hidden command calls: lines in, lines out, and the end of input is a clean end.
func TestRunSpeaksLines(t *testing.T) {
	in, write := io.Pipe()
	read, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), "1.2.3", in, out)
		_ = out.Close()
	}()
	if _, err := io.WriteString(write, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05",`+
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(read).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		ID     int `json:"id"`
		Result struct {
			ProtocolVersion string `json:"protocolVersion"`
			ServerInfo      struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"serverInfo"`
		} `json:"result"`
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.ID != 1 || answer.Result.ProtocolVersion != "2024-11-05" || answer.Result.ServerInfo.Name != Name ||
		answer.Result.ServerInfo.Version != "1.2.3" {
		t.Errorf("answer %s", line)
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v, want a clean end", err)
	}
}
