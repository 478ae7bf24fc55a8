package fakemcp

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// toolList is fixed text: tests compare the bytes. It has schemas whose keys are out of order, keywords that no
// version of MCP names, a tool without a schema, and one whose argument travels as a header.
const toolList = `[` +
	`{"name":"raw","description":"prints lines","inputSchema":{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"integer"}},"x-unknown":[1,2.50,1e3]}},` +
	`{"name":"echo","title":"Echo","description":"says <it> & \u2028 back","inputSchema":{"$defs":{"m":{"type":"string"}},"type":"object","properties":{"message":{"$ref":"#/$defs/m"}}},"annotations":{"readOnlyHint":true,"vendorHint":1},"vendor":{"b":1,"a":2}},` +
	`{"name":"counter","inputSchema":{"type":"object"}},{"name":"pid","inputSchema":{"type":"object"}},` +
	`{"name":"sleep","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"exit","inputSchema":{"type":"object"}},` +
	`{"name":"ask","inputSchema":{"type":"object"}},{"name":"flood","inputSchema":{"type":"object"}},{"name":"grandchild","inputSchema":{"type":"object"}},` +
	`{"name":"close_stdout","inputSchema":{"type":"object"}},{"name":"progress","inputSchema":{"type":"object"}},` +
	`{"name":"headers","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"count":{"type":"integer","x-mcp-header":"Count"}}}},` +
	`{"name":"weiß/日本","inputSchema":{"type":"object"}},{"name":"no schema at all"},` +
	`{"name":"greet","inputSchema":{"type":"object"}},{"name":"slow_compute","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},` +
	`{"name":"failing_job","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"protocol_error_job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},` +
	`{"name":"confirm_delete","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},{"name":"multi_input","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},` +
	`{"name":"test_tool_with_task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]`

// blocking are the tools that may take long; the reader goes on meanwhile.
var blocking = map[string]bool{"sleep": true, "hang": true, "ask": true, "flood": true, "raw": true, "progress": true, "slow_compute": true, "work": true, "burst": true, "die": true}

// tool answers tools/call.
func (c *call) tool() {
	if c.server.opt.Tasks && c.taskTool() {
		return
	}
	name := text(c.msg.params["name"])
	switch name {
	case "raw":
		c.rawLines()
	case "echo", "weiß/日本", "no schema at all", "headers":
		var message string
		_ = c.msg.arg("message", &message) // no message: an empty echo
		c.says("Echo: %s", message)
	case "counter":
		c.server.mu.Lock()
		c.server.counter++
		n := c.server.counter
		c.server.mu.Unlock()
		c.says("%d", n)
	case "pid":
		c.says("%d", os.Getpid())
	case "sleep":
		c.sleep()
	case "hang":
		<-c.ctx.Done() // cancelled: the sender is not owed an answer
	case "exit":
		var last string
		_ = c.msg.arg("stderr", &last) // nothing to say
		fmt.Fprintln(os.Stderr, last)
		os.Exit(7)
	case "ask":
		c.ask()
	case "flood":
		c.flood()
	case "progress":
		c.progress()
	case "grandchild":
		c.grandchild()
	case "work":
		c.work()
	case "burst":
		c.burst()
	case "die":
		c.die()
	case "close_stdout":
		if f, ok := c.server.out.(*os.File); ok {
			_ = f.Close() // the point: alive, but mute
		}
	default:
		c.fails(-32602, "Unknown tool: "+name, "")
	}
}

// rawLines prints arguments.lines, each with its holes filled and a line feed after it. A line that ends in @CUT@ gets
// none, so that the next one continues it. With arguments.exit the fixture ends after the last line.
func (c *call) rawLines() {
	var lines []string
	var pause int
	var exit bool
	if err := c.msg.arg("lines", &lines); err != nil {
		c.fails(-32602, err.Error(), "")
		return
	}
	_ = c.msg.arg("pause_ms", &pause) // none
	_ = c.msg.arg("exit", &exit)      // no
	for _, line := range lines {
		line, cut := strings.CutSuffix(line, "@CUT@")
		filled := c.msg.fill(line)
		if c.server.out == nil {
			c.send(filled)
			continue
		}
		if !cut {
			filled = append(filled, '\n')
		}
		c.server.print(filled)
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
	if exit {
		os.Exit(0)
	}
}

func (c *call) sleep() {
	ms := 100
	_ = c.msg.arg("ms", &ms) // the default
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		c.says("slept %d ms", ms)
	case <-c.ctx.Done():
	}
}

// progress sends steps progress notifications, then the answer.
func (c *call) progress() {
	steps := 3
	_ = c.msg.arg("steps", &steps) // the default
	for i := range steps {
		if c.msg.token() != "" {
			c.raw(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":@TOKEN@,"progress":%d,"total":%d,"message":"step"}}`, i+1, steps))
		}
	}
	c.says("%d steps", steps)
}

// flood prints per_second log messages for ms milliseconds, then the answer. It ends early when cancelled.
func (c *call) flood() {
	perSecond, ms := 10_000, 1000
	_ = c.msg.arg("per_second", &perSecond) // the defaults
	_ = c.msg.arg("ms", &ms)
	const batches = 100 // a second is sent in so many bursts
	burst := bytes.Repeat([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"flood"}}`+"\n"), perSecond/batches)
	tick := time.NewTicker(time.Second / batches)
	defer tick.Stop()
	for end := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(end); {
		select {
		case <-tick.C:
			c.server.print(burst)
		case <-c.ctx.Done():
			return
		}
	}
	c.says("flooded")
}

// grandchild starts a program in the fixture's process group that outlives it, and answers with its pid. It holds the
// fixture's stdout when asked to.
func (c *call) grandchild() {
	var hold bool
	_ = c.msg.arg("hold_stdout", &hold) // no
	cmd := exec.Command("sleep", "600")
	if hold {
		cmd.Stdout = os.Stdout
	}
	if err := cmd.Start(); err != nil {
		c.fails(-32603, err.Error(), "")
		return
	}
	c.says("%d", cmd.Process.Pid)
}
