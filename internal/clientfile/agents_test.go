package clientfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEntries: how each agent of the second wave understands an entry. The lines are those of summary.
func TestEntries(t *testing.T) {
	for name, tc := range map[string]struct {
		agent Agent
		doc   string
		want  string
	}{
		"kilo": {
			Kilo, "\xef\xbb\xbf{ // c\n" + `"mcp": {"servers": {"a": {"type": "local", "command": ["x"], "disabled": true}}, "b": {"type": "remote", "url": "http://h", "odd": 1,},},}`,
			"a off stdio none complete\nb on http none extra unknown-field:odd",
		},
		"qwen": {
			Qwen, "\xef\xbb\xbf{ // c\n" + `"mcp": {"excluded": ["off"]}, "mcpServers": {
				"url": {"url": "http://h/sse", "type": "http"}, "sse": {"url": "http://h/sse", "type": "sse"},
				"both": {"url": "http://h/sse", "httpUrl": "http://h/mcp"}, "off": {"command": "x", "disabled": false, "discoveryTimeoutMs": 5},
				"none": {"timeout": 5}, "odd": {"command": "x", "cwd": "/", "strange": {}}}}`,
			`url on sse none extra ineffective-field:type
sse on sse none complete
both on http none complete
off off stdio none extra ineffective-field:disabled
none on  none broken missing-field:command
odd on stdio none extra unknown-field:strange`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := read(tc.agent, tc.doc)
			if len(o.Problems) > 0 {
				t.Errorf("problems %v", o.Problems)
			}
			if d := cmp.Diff(tc.want, summary(o)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestQwenApprovals: a project's server counts after the user agreed to exactly this definition. The hash was computed
// with Qwen Code's own method.
func TestQwenApprovals(t *testing.T) {
	h := newHome(t)
	h.env["V"] = "v"
	entry := `{"httpUrl": "http://h/$V", "description": "x", "headers": {"b": "<&>é\u0001\t", "a": "2"}, "timeout": 7000, "trust": true, "args": ["${UNSET}", "z"]}`
	h.write("home/src/app/sub/.qwen/settings.json", `{"mcpServers": {"yes": `+entry+`, "changed": {"command": "y"}, "unasked": `+entry+`}}`)
	h.write("home/src/app/sub/.mcp.json", `{"mcpServers": {"no": `+entry+`}}`)
	h.write("home/src/app/.mcp.json", named(claudeDoc, "not the working directory"))
	h.write("home/.qwen/settings.json", named(claudeDoc, "user"))
	h.write("home/.qwen/mcpApprovals.json", `{
		"`+h.path("home/src/app/sub")+`": {
			"yes": {"hash": "7ff4e51ba6a7a28a", "status": "approved"}, "no": {"hash": "7ff4e51ba6a7a28a", "status": "rejected"},
			"changed": {"hash": "7ff4e51ba6a7a28a", "status": "approved"}},
		"/elsewhere": {"unasked": {"hash": "7ff4e51ba6a7a28a", "status": "approved"}}}`)
	h.env["CLAUDE_CONFIG_DIR"] = h.path("none")
	h.expect(`
		claude_code home/src/app/.mcp.json project shared -not the working directory!approval-pending
		claude_code home/src/app/sub/.mcp.json project shared -no!missing-field!approval-pending
		qwen home/.qwen/settings.json user +user
		qwen home/src/app/sub/.mcp.json project shared -no
		qwen home/src/app/sub/.qwen/settings.json project shared +yes -changed!approval-pending -unasked!approval-pending`)
}
