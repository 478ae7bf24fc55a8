package fakemcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// tasksExtension is the name of the server-directed form of 2026-07-28.
const tasksExtension = "io.modelcontextprotocol/tasks"

// task is one piece of work that outlives its call. The server's mutex guards all of it.
type task struct {
	id      string
	status  string
	created time.Time
	result  string            // members of the tool result, once completed
	failure string            // error object, once failed
	pending map[string]string // questions that nobody answered yet
}

// taskKinds are the tools that know tasks: optional ones run at once for a client that does not.
var taskKinds = map[string]string{
	"slow_compute": "optional", "protocol_error_job": "optional", "confirm_delete": "optional", "multi_input": "optional",
	"failing_job": "required", "test_tool_with_task": "required",
}

// taskTool answers tools/call for the tools that know tasks; false leaves the call to others.
func (c *call) taskTool() bool {
	name := text(c.msg.params["name"])
	if name == "greet" {
		var who string
		_ = c.msg.arg("name", &who) // nobody
		c.says("Hello, %s!", who)
		return true
	}
	kind, known := taskKinds[name]
	if !known {
		return false
	}
	asked := c.msg.params["task"] != nil // core form: the client decides
	if c.modern {
		asked = c.msg.declares(tasksExtension)
	}
	seconds := 0.0
	_ = c.msg.arg("seconds", &seconds) // at once
	switch {
	case !asked && kind == "required" && c.modern:
		c.fails(-32021, "this tool needs the tasks extension", `{"requiredCapabilities":{"extensions":{"`+tasksExtension+`":{}}}}`)
	case !asked && kind == "required":
		c.fails(-32601, "this tool needs task augmentation", "")
	case !asked:
		time.Sleep(time.Duration(seconds * float64(time.Second)))
		c.says("%s done", name)
	case name == "test_tool_with_task" && c.modern && c.msg.params["inputResponses"] == nil:
		c.result(`"resultType":"input_required","inputRequests":{"user_name":` + elicit("What is your name?") + `},"requestState":"round-1"`)
	default:
		c.create(c.server.start(name, string(c.msg.params["inputResponses"]), seconds))
	}
	return true
}

func elicit(message string) string {
	return `{"method":"elicitation/create","params":{"mode":"form","message":` + quote(message) +
		`,"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`
}

// start makes the task and whatever moves it on.
func (s *Server) start(name, answers string, seconds float64) task {
	t := &task{id: fmt.Sprintf("task-%d", serial.Add(1)), status: "working", created: time.Now(), pending: map[string]string{}}
	done := `"content":[{"type":"text","text":` + quote(name+" done "+answers) + `}]`
	switch name {
	case "failing_job":
		s.later(t, time.Second, func() { t.status, t.result = "completed", `"content":[{"type":"text","text":"failed"}],"isError":true` })
	case "protocol_error_job":
		s.later(t, 0, func() { t.status, t.failure = "failed", `{"code":-32603,"message":"it broke"}` })
	case "confirm_delete":
		t.status, t.pending["confirm"] = "input_required", elicit("Delete it?")
	case "multi_input":
		t.status, t.pending["first"], t.pending["second"] = "input_required", elicit("First?"), elicit("Second?")
	default:
		s.later(t, time.Duration(seconds*float64(time.Second)), func() { t.status, t.result = "completed", done })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[t.id] = t
	return *t
}

// later runs end under the lock after a while, unless the task ended before.
func (s *Server) later(t *task, after time.Duration, end func()) {
	time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.status == "working" {
			end()
		}
	})
}

// create answers the call with the new task, in the shape of the era.
func (c *call) create(t task) {
	if c.modern {
		c.result(`"resultType":"task",` + c.describe(t))
		return
	}
	c.result(`"task":{` + c.describe(t) + `}`)
}

// describe is the members that every shape of a task has.
func (c *call) describe(t task) string {
	at := quote(t.created.UTC().Format(time.RFC3339Nano))
	ttl, poll := "ttl", "pollInterval"
	if c.modern {
		ttl, poll = "ttlMs", "pollIntervalMs"
	}
	return fmt.Sprintf(`"taskId":%q,"status":%q,"createdAt":%s,"lastUpdatedAt":%s,%q:60000,%q:100`, t.id, t.status, at, at, ttl, poll)
}

// taskMethod answers tasks/*.
func (c *call) taskMethod(method string) {
	s := c.server
	if c.modern && method != "tasks/list" && method != "tasks/result" && !c.msg.declares(tasksExtension) {
		c.fails(-32021, "the tasks extension was not declared", `{"requiredCapabilities":{"extensions":{"`+tasksExtension+`":{}}}}`)
		return
	}
	if core := method == "tasks/result" || method == "tasks/list"; c.modern && core || !c.modern && method == "tasks/update" {
		c.fails(-32601, "Method not found", "")
		return
	}
	if method == "tasks/list" {
		c.taskList()
		return
	}
	s.mu.Lock()
	t := s.tasks[text(c.msg.params["taskId"])]
	if t == nil {
		s.mu.Unlock()
		c.fails(-32602, "Unknown task", "")
		return
	}
	switch method {
	case "tasks/cancel":
		if !terminal(t.status) {
			t.status, t.pending = "cancelled", nil
		}
	case "tasks/update":
		s.update(t, c.msg.params["inputResponses"])
	}
	now := *t
	now.pending = maps.Clone(t.pending)
	s.mu.Unlock()
	switch {
	case method == "tasks/get" && c.modern:
		c.result(join(c.describe(now), now.detail()))
	case method == "tasks/get", method == "tasks/cancel" && !c.modern:
		c.result(c.describe(now))
	case method == "tasks/result":
		c.taskResult(t)
	default:
		c.result("") // an acknowledgement is empty
	}
}

// update takes answers; the last one lets the task complete. Call it with the lock held.
func (s *Server) update(t *task, responses json.RawMessage) {
	var got map[string]json.RawMessage
	_ = json.Unmarshal(responses, &got) // nothing usable: nothing changes
	for key := range got {
		delete(t.pending, key)
	}
	if t.status == "input_required" && len(t.pending) == 0 {
		t.status, t.result = "completed", `"content":[{"type":"text","text":"confirmed"}]`
	}
}

func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// detail is what a modern tasks/get adds.
func (t task) detail() string {
	switch t.status {
	case "completed":
		return `"result":{` + t.result + `}`
	case "failed":
		return `"error":` + t.failure
	case "input_required":
		var entries []string
		for _, key := range slices.Sorted(maps.Keys(t.pending)) {
			entries = append(entries, quote(key)+":"+t.pending[key])
		}
		return `"inputRequests":{` + strings.Join(entries, ",") + `}`
	}
	return ""
}

func (c *call) taskList() {
	c.server.mu.Lock()
	var all []string
	for _, id := range slices.Sorted(maps.Keys(c.server.tasks)) {
		all = append(all, "{"+c.describe(*c.server.tasks[id])+"}")
	}
	c.server.mu.Unlock()
	c.result(`"tasks":[` + strings.Join(all, ",") + `]`)
}

// taskResult waits, as the core form wants, until the task has ended.
func (c *call) taskResult(t *task) {
	ctx, stop := context.WithTimeout(c.ctx, time.Minute)
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		c.server.mu.Lock()
		now := *t
		c.server.mu.Unlock()
		switch now.status {
		case "completed":
			c.result(now.result + `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":` + quote(now.id) + `}}`)
			return
		case "failed", "cancelled":
			c.fails(-32603, "the task is "+now.status, "")
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
