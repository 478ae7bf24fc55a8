package gateway

import (
	"bytes"
	"maps"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// notified takes a notification of the backend and gives it to whoever it belongs to. What belongs to nobody is
// dropped and counted.
func (l *lane) notified(in Inbound, m rpc.Message) {
	method := m.MethodOf(in.Body)
	switch method {
	case "notifications/progress":
		l.progress(in, m)
		return
	case "notifications/cancelled":
		l.cancelledByServer(in, m)
		return
	case "notifications/tools/list_changed":
		l.forgetSchemas()
	}
	if m.Subscription.Ok() {
		if c := l.callByID(m.Subscription.Of(in.Body)); c != nil && c.isListen {
			if t, ok := c.owner.(notifiable); ok {
				t.tell(c, method, in.Body, m)
				return
			}
		}
		l.srv.dropped.Add(1)
		return
	}
	if in.Via != 0 {
		l.mu.Lock()
		c := l.byRef[in.Via]
		l.mu.Unlock()
		if c != nil {
			if t, ok := c.owner.(notifiable); ok {
				t.tell(c, method, in.Body, m)
			}
			return
		}
	}
	if l.era == era.Legacy && l.shared && strings.HasSuffix(method, "/list_changed") {
		l.coalesce(method, in.Body, m)
		return
	}
	for _, t := range l.audience(method, in.Body, m) {
		t.to.tell(t.via, method, in.Body, m)
	}
}

// coalesceFor gathers the changes of a list on a shared lane: every session hears of a burst once.
const coalesceFor = 200 * time.Millisecond

func (l *lane) coalesce(method string, body []byte, m rpc.Message) {
	l.mu.Lock()
	if l.changes == nil {
		l.changes = map[string]bool{}
	}
	again := l.changes[method]
	l.changes[method] = true
	l.mu.Unlock()
	if again {
		return
	}
	time.AfterFunc(coalesceFor, func() {
		l.mu.Lock()
		delete(l.changes, method)
		l.mu.Unlock()
		for _, t := range l.audience(method, body, m) {
			t.to.tell(t.via, method, body, m)
		}
	})
}

// notifiable is an owner that can be told something.
type notifiable interface {
	owner
	// tell gives the owner one notification; via is the call it belongs to, nil when unknown.
	tell(via *call, method string, body []byte, m rpc.Message)
}

type listener struct {
	to  notifiable
	via *call
}

// audience says who hears a notification that no stream and no token attributes.
func (l *lane) audience(method string, body []byte, m rpc.Message) []listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.taskOwnerLocked(body, m); o != nil {
		if t, ok := o.(notifiable); ok {
			return []listener{{to: t}}
		}
	}
	var all []listener
	switch {
	case l.era == era.Modern:
		if c := l.soleListenerLocked(method); c != nil {
			return []listener{{to: c.owner.(notifiable), via: c}}
		}
		l.srv.dropped.Add(1)
		return nil
	case method == "notifications/message":
		if o := l.soleOwnerLocked(); o != nil {
			if t, ok := o.(notifiable); ok {
				return []listener{{to: t}}
			}
		}
	}
	for x := range l.sessions {
		all = append(all, listener{to: x})
	}
	for b := range l.listens {
		all = append(all, listener{to: b})
	}
	if len(all) == 0 {
		l.srv.dropped.Add(1)
	}
	return all
}

// soleListenerLocked is the only call in flight that a message without any correlation can belong to. Log messages go to
// the only one that asked for them (protocol.md section 6.5), others to the only one there is.
func (l *lane) soleListenerLocked(method string) *call {
	var sole *call
	for _, c := range l.calls {
		if _, ok := c.owner.(notifiable); !ok || c.isListen || method == "notifications/message" && !c.logs {
			continue
		}
		if sole != nil {
			return nil
		}
		sole = c
	}
	return sole
}

// progress restores the client's token. The token dies with the answer: late progress is dropped and counted.
func (l *lane) progress(in Inbound, m rpc.Message) {
	tokKey, ok := rpc.IDKey(m.ProgressToken.Of(in.Body))
	l.mu.Lock()
	c := l.tokens[tokKey]
	l.mu.Unlock()
	if !ok || c == nil || c.ended.Load() {
		l.srv.dropped.Add(1)
		return
	}
	c.progressed(l.srv.g.now())
	t, ok := c.owner.(notifiable)
	if !ok {
		return
	}
	body := in.Body
	if string(m.ProgressToken.Of(body)) != string(c.token) {
		body = rpc.Splice(body, rpc.Edit{At: m.ProgressToken, With: c.token})
		m = mustScan(body)
	}
	t.tell(c, "notifications/progress", body, m)
}

// cancelledByServer handles the two things a server may cancel: its own question, and a listen.
func (l *lane) cancelledByServer(in Inbound, m rpc.Message) {
	idKey, ok := rpc.IDKey(m.RequestID.Of(in.Body))
	if !ok {
		return
	}
	l.mu.Lock()
	a := l.asks[idKey]
	c := l.calls[idKey]
	l.mu.Unlock()
	switch {
	case a != nil:
		a.lost()
	case c != nil && c.isListen:
		if t, ok := c.owner.(notifiable); ok {
			body := rpc.Splice(in.Body, rpc.Edit{At: m.RequestID, With: c.id})
			t.tell(c, "notifications/cancelled", body, mustScan(body))
		}
	default:
		l.srv.dropped.Add(1)
	}
}

func (l *lane) callByID(raw []byte) *call {
	idKey, ok := rpc.IDKey(raw)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[idKey]
}

const relatedTask = "io.modelcontextprotocol/related-task"

// taskOwnerLocked finds the owner of the task that a message names in its related-task metadata or as params.taskId.
func (l *lane) taskOwnerLocked(body []byte, m rpc.Message) owner {
	if len(l.tasks) == 0 {
		return nil
	}
	raw := m.TaskID
	if m.Meta.Ok() {
		if rel := rpc.Find(body, m.Meta, relatedTask); rel.Ok() && body[rel.From] == '{' {
			raw = rpc.Find(body, rel, "taskId")
		}
	}
	if !raw.Ok() {
		return nil
	}
	id, _ := rpc.Unquote(raw.Of(body))
	return l.tasks[id].owner
}

// maxTasks bounds the ids of live tasks that a lane remembers; above it attribution falls back to the other rules.
const maxTasks = 4096

// trackTaskLocked remembers the task that an answer created, and forgets one that an answer shows as finished. It
// reads only results of calls that can carry a task.
func (l *lane) trackTaskLocked(c *call, body []byte, m rpc.Message) {
	if !m.Result.Ok() {
		return
	}
	var task rpc.Span
	switch c.method {
	case "tools/call":
		if !l.hasTasks() {
			return
		}
		if task = rpc.Find(body, m.Result, "task"); !task.Ok() && m.ResultType.Ok() && string(m.ResultType.Of(body)) == `"task"` {
			task = m.Result
		}
	case "tasks/get", "tasks/cancel", "tasks/update":
		task = m.Result
	}
	if !task.Ok() || body[task.From] != '{' {
		return
	}
	id, ok := rpc.Unquote(rpc.Find(body, task, "taskId").Of(body))
	if !ok {
		return
	}
	switch status, _ := rpc.Unquote(rpc.Find(body, task, "status").Of(body)); status {
	case "completed", "failed", "cancelled":
		delete(l.tasks, id)
	default:
		if c.method == "tools/call" && len(l.tasks) < maxTasks {
			if l.tasks == nil {
				l.tasks = map[string]liveTask{}
			}
			l.tasks[id] = liveTask{owner: c.owner, until: l.srv.g.now().Add(taskTTL(body, task))}
		}
	}
}

// liveTask is a task that was created and not yet seen to end.
type liveTask struct {
	owner owner
	until time.Time // its time to live: after that it keeps no lane running
}

// maxTaskTTL bounds how long a task without a time to live, or with a very long one, keeps its lane.
const maxTaskTTL = time.Hour

// taskTTL reads the time to live of a task, in milliseconds: ttl in 2025-11-25, ttlMs in the extension of 2026-07-28.
func taskTTL(body []byte, task rpc.Span) time.Duration {
	for _, name := range []string{"ttl", "ttlMs"} {
		if ms, err := strconv.ParseInt(string(rpc.Find(body, task, name).Of(body)), 10, 64); err == nil && ms >= 0 {
			return min(time.Duration(min(ms, maxTaskTTL.Milliseconds()))*time.Millisecond, maxTaskTTL)
		}
	}
	return maxTaskTTL
}

// hasTasks reports whether the backend's handshake, which is over, speaks of tasks at all. Results are searched for them only then: a
// large result costs time.
func (l *lane) hasTasks() bool {
	l.tasksOnce.Do(func() { l.tasksSeen = bytes.Contains(l.result, []byte("tasks")) })
	return l.tasksSeen
}

// liveTasksLocked forgets tasks whose time is over, and reports whether any is left.
func (l *lane) liveTasksLocked() bool {
	now := l.srv.g.now()
	maps.DeleteFunc(l.tasks, func(_ string, t liveTask) bool { return now.After(t.until) })
	return len(l.tasks) > 0
}
