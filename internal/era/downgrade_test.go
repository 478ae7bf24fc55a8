package era

import "testing"

// TestDowngrade has one entry for each row of the table in protocol.md section 10; want is by revision, newest first,
// "" for unchanged.
func TestDowngrade(t *testing.T) {
	for name, c := range map[string]struct {
		method, in string
		want       [4]string // 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05
	}{
		"structuredContent array": {
			"tools/call", `{"content":[{"type":"text","text":"x"}],"structuredContent":[1, "a"],"z":1}`,
			four(`{"content":[{"type":"text","text":"x"},{"type":"text","text":"[1, \"a\"]"}],"z":1}`),
		},
		"structuredContent null, said already": {
			"tools/call", `{"structuredContent":null,"content":[{"type":"text","text":"null"}]}`,
			four(`{"content":[{"type":"text","text":"null"}]}`),
		},
		"structuredContent string without content": {
			"tools/call", `{"structuredContent":"s"}`, four(`{"content":[{"type":"text","text":"\"s\""}]}`),
		},
		"structuredContent object": {
			"tools/call", `{"content":[],"structuredContent":{"a":1.0}}`,
			[4]string{"", "", `{"content":[{"type":"text","text":"{\"a\":1.0}"}]}`, `{"content":[{"type":"text","text":"{\"a\":1.0}"}]}`},
		},
		"structuredContent object with text": {
			"tools/call", `{"content":[{"type":"text","text":"t"}],"structuredContent":{"a":1}}`,
			[4]string{"", "", `{"content":[{"type":"text","text":"t"}]}`, `{"content":[{"type":"text","text":"t"}]}`},
		},
		"structuredContent and link": {
			"tools/call", `{"structuredContent":{},"content":[{"type":"resource_link","name":"n","uri":"u:"}]}`,
			[4]string{"", "", `{"content":[{"type":"text","text":"n: u:"},{"type":"text","text":"{}"}]}`, `{"content":[{"type":"text","text":"n: u:"},{"type":"text","text":"{}"}]}`},
		},
		"outputSchema": {
			"tools/list", `{"tools":[{"outputSchema":{"type":"array"},"name":"a"},{"name":"b","outputSchema":{"type":"object"}},{"name":"c","outputSchema":true}]}`,
			four(`{"tools":[{"name":"a"},{"name":"b","outputSchema":{"type":"object"}},{"name":"c"}]}`),
		},
		"resource_link": {
			"tools/call", `{"content":[{"type":"resource_link","icons":[],"name":"n","uri":"u:\u0031"}, {"type":"text","text":""}]}`,
			[4]string{
				"", `{"content":[{"type":"resource_link","name":"n","uri":"u:\u0031"}, {"type":"text","text":""}]}`,
				`{"content":[{"type":"text","text":"n: u:1"}, {"type":"text","text":""}]}`, `{"content":[{"type":"text","text":"n: u:1"}, {"type":"text","text":""}]}`,
			},
		},
		"audio in a tool": {
			"tools/call", `{"content":[{"type":"audio","data":"","mimeType":"audio/wav"}]}`,
			[4]string{"", "", "", `{"content":[{"type":"text","text":"[audio content of audio/wav left out: this client's protocol version has no audio]"}]}`},
		},
		"audio in a prompt": {
			"prompts/get", `{"messages":[{"role":"user","content":{"type":"audio"}},{"role":"user","content":{"type":"image"}}]}`,
			[4]string{"", "", "", `{"messages":[{"role":"user","content":{"type":"text","text":"[audio content of unknown type left out: this client's protocol version has no audio]"}},{"role":"user","content":{"type":"image"}}]}`},
		},
		"title, _meta and annotations of tools": {
			"tools/list", `{"tools":[{"title":"T","name":"a","_meta":{},"annotations":{"title":"x"},"inputSchema":{"title":"S","x-mcp-header":"H"}}],"_meta":{}}`,
			[4]string{
				"", "", `{"tools":[{"name":"a","annotations":{"title":"x"},"inputSchema":{"title":"S","x-mcp-header":"H"}}],"_meta":{}}`,
				`{"tools":[{"name":"a","inputSchema":{"title":"S","x-mcp-header":"H"}}],"_meta":{}}`,
			},
		},
		"title of prompts": {
			"prompts/list", `{"prompts":[{"name":"a","arguments":[{"name":"x","title":"X"}],"title":"T","icons":[]}]}`,
			[4]string{
				"", `{"prompts":[{"name":"a","arguments":[{"name":"x","title":"X"}],"title":"T"}]}`,
				`{"prompts":[{"name":"a","arguments":[{"name":"x"}]}]}`, `{"prompts":[{"name":"a","arguments":[{"name":"x"}]}]}`,
			},
		},
		"lastModified of resources": {
			"resources/list", `{"resources":[{"uri":"u:","annotations":{"lastModified":"x","priority":1},"size":5}]}`,
			[4]string{"", "", `{"resources":[{"uri":"u:","annotations":{"priority":1},"size":5}]}`, `{"resources":[{"uri":"u:","annotations":{"priority":1},"size":5}]}`},
		},
		"templates": {
			"resources/templates/list", `{"resourceTemplates":[{"uriTemplate":"u:","title":"T"}]}`,
			[4]string{"", "", `{"resourceTemplates":[{"uriTemplate":"u:"}]}`, `{"resourceTemplates":[{"uriTemplate":"u:"}]}`},
		},
		"icons and execution": {
			"tools/list", `{"tools":[{"icons":[{}],"execution":{"taskSupport":"optional"},"name":"a"}]}`,
			[4]string{"", `{"tools":[{"name":"a"}]}`, `{"tools":[{"name":"a"}]}`, `{"tools":[{"name":"a"}]}`},
		},
		"unknown content and members": {
			"tools/call", `{"content":[{"type":"hologram","title":"t","icons":1},7],"title":"x","isError":true}`, [4]string{},
		},
		"read": {"resources/read", `{"contents":[{"uri":"u:","_meta":{},"title":"t"}]}`, [4]string{}},
		"other method": {
			"completion/complete", `{"title":"t","icons":[],"structuredContent":[]}`, [4]string{},
		},
		"not what it should be": {"tools/list", `{"tools":{"title":1}}`, [4]string{}},
	} {
		for i, v := range []string{V20251125, V20250618, V20250326, V20241105} {
			want := c.want[i]
			if want == "" {
				want = c.in
			}
			same(t, name+" for "+v, wrap("result", want), string(Downgrade(c.method, v, []byte(wrap("result", c.in)))))
		}
		same(t, name+" for a modern one", wrap("result", c.in), string(Downgrade(c.method, V20260728, []byte(wrap("result", c.in)))))
	}
	same(t, "errors pass", wrap("error", `{"code":1}`), string(Downgrade("tools/call", V20241105, []byte(wrap("error", `{"code":1}`)))))
}

func four(s string) [4]string { return [4]string{s, s, s, s} }

func TestDowngradeNotification(t *testing.T) {
	in := wrap("notifications/progress", `{"progress":1,"message":"m","total":2}`)
	same(t, "24-11", wrap("notifications/progress", `{"progress":1,"total":2}`), string(DowngradeNotification("notifications/progress", V20241105, []byte(in))))
	same(t, "25-03", in, string(DowngradeNotification("notifications/progress", V20250326, []byte(in))))
	log := wrap("notifications/message", `{"message":"m"}`)
	same(t, "another", log, string(DowngradeNotification("notifications/message", V20241105, []byte(log))))
}
