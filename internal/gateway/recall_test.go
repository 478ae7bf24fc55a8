package gateway

import (
	"context"
	"strings"
	"sync"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// TestRecall: what a child said to an earlier daemon comes into the log once and marked, and only when it can be redacted.
func TestRecall(t *testing.T) {
	for _, c := range []struct {
		name  string
		said  string
		knows bool
		want  []string // of the log of the second daemon, in order
	}{
		{"nothing was said", "", true, nil},
		{"it comes back", "listening\nwarning: old\n", true, []string{
			"mcpx: process 1001 said this before, to an earlier daemon; times unknown\n", "listening\n", "warning: old\n", "mcpx: process 1001 goes on\n",
		}},
		{"it may hold what nobody can hide", "my key is hunter22\n", false, []string{
			"mcpx: what process 1001 said to an earlier daemon is only in state/bundles/shim_1/stderr.log: " +
				"not all of its credentials are known, so they could not be hidden here\n",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var (
				mu     sync.Mutex
				log    strings.Builder
				pieces int
			)
			mc := newMachine(t, nil, func(c *child, m Outbound, msg rpc.Message) {
				if m.Kind == rpc.Request {
					c.result(m, msg, `{}`)
				}
			})
			x := initialize(t, mc.s, "2025-11-25", "{}")
			mc.k.newest().said = []byte(c.said)
			mc.cfg = func(cfg *Config) {
				cfg.Learn = func(_ context.Context, s catalog.Server) bool { return c.knows && s.ID == "srv_1" }
				cfg.Output = func(server string, p []byte) {
					mu.Lock()
					defer mu.Unlock()
					if server != "peer" {
						t.Errorf("output of %q", server)
					}
					log.Write(p)
					pieces++
				}
			}
			mc.crash()
			reply(t, send(t, mc.again(x), `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)) // it is adopted
			mu.Lock()
			defer mu.Unlock()
			if got, want := log.String(), strings.Join(c.want, ""); got != want {
				t.Errorf("the log is %q, want %q", got, want)
			}
			if want := min(1, len(c.want)); pieces != want {
				t.Errorf("it came in %d pieces, want %d", pieces, want)
			}
		})
	}
}

// TestLastWordsOfTheLost: the last words of a child that ended alone go to agents, so they have to be redacted as well.
func TestLastWordsOfTheLost(t *testing.T) {
	for _, knows := range []bool{true, false} {
		got := make(chan Outbound, 1)
		mc := newMachine(t, nil, toolCalls(got))
		x := initialize(t, mc.s, "2025-11-25", "{}")
		send(t, x, callBody("7"))
		<-got
		mc.cfg = func(cfg *Config) { cfg.Learn = func(context.Context, catalog.Server) bool { return knows } }
		mc.kill()
		mc.perish()
		mc.start()
		if answer, _ := reply(t, rejoinRaw(t, mc.again(x), "7", 7)); strings.Contains(answer, "out of luck") != knows {
			t.Errorf("credentials known %v: %s", knows, answer)
		}
	}
}
