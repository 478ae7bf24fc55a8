package fakemcp

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
)

// newestLegacy is the last revision with an initialize handshake.
const newestLegacy = "2025-11-25"

// call is one request on its way to an answer.
type call struct {
	server *Server
	msg    message
	modern bool
	ctx    context.Context
	send   func(line []byte) // one message towards the client
}

var legacyVersions = map[string]bool{"2024-11-05": true, "2025-03-26": true, "2025-06-18": true, newestLegacy: true}

// raw sends one line with its holes filled.
func (c *call) raw(line string) { c.send(c.msg.fill(line)) }

// result answers with the members of a result object, without braces. Modern results say that they are complete.
func (c *call) result(members string) {
	if c.modern && !strings.Contains(members, `"resultType"`) {
		members = join(`"resultType":"complete"`, members)
	}
	c.raw(`{"jsonrpc":"2.0","id":@ID@,"result":{` + members + `}}`)
}

// list answers a list or a read, which is cacheable in the modern era.
func (c *call) list(members string) {
	if c.modern {
		members = join(members, `"ttlMs":0,"cacheScope":"private"`)
	}
	c.result(members)
}

// says answers a tool call with one block of text.
func (c *call) says(format string, args ...any) {
	c.result(`"content":[{"type":"text","text":` + quote(fmt.Sprintf(format, args...)) + `}]`)
}

func (c *call) fails(code int, message, data string) {
	if data != "" {
		data = `,"data":` + data
	}
	c.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":@ID@,"error":{"code":%d,"message":%s%s}}`, code, quote(message), data))
}

func join(members ...string) string {
	var some []string
	for _, m := range members {
		if m != "" {
			some = append(some, m)
		}
	}
	return strings.Join(some, ",")
}

// answer handles every method but the blocking tools.
func (c *call) answer(method string) {
	o := c.server.opt
	info := `{"name":` + quote(o.Name) + `,"version":"1.0.0","vendorInfo":{"zeta":1,"alpha":2}}`
	switch method {
	case "initialize":
		if o.Era == Modern || c.modern {
			c.fails(-32601, "Method not found", "")
			return
		}
		version := text(c.msg.params["protocolVersion"])
		if !legacyVersions[version] {
			version = newestLegacy
		}
		c.result(`"protocolVersion":` + quote(version) + `,"capabilities":` + c.capabilities() + `,"serverInfo":` + info +
			`,"instructions":"a fixture","vendorMember":{"big":9007199254740993}`)
	case "server/discover":
		if o.SilentProbe {
			return
		}
		if o.Era == Legacy {
			c.fails(-32601, "Method not found", "")
			return
		}
		c.list(`"supportedVersions":["2026-07-28"],"capabilities":` + c.capabilities() + `,"instructions":"a fixture","_meta":{"io.modelcontextprotocol/serverInfo":` + info + `}`)
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		if c.modern {
			c.fails(-32601, "Method not found", "")
			return
		}
		c.result("")
	case "tools/list":
		c.list(`"tools":` + toolList)
	case "prompts/list":
		c.list(`"prompts":[{"name":"greet","description":"a prompt","arguments":[{"name":"who","required":true}]}]`)
	case "prompts/get":
		c.result(`"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]`)
	case "resources/list":
		c.list(`"resources":[{"uri":"fake://one","name":"one","mimeType":"text/plain"}]`)
	case "resources/templates/list":
		c.list(`"resourceTemplates":[{"uriTemplate":"fake://{name}","name":"any"}]`)
	case "resources/read":
		c.read()
	case "completion/complete":
		c.result(`"completion":{"values":["alpha","beta"],"total":2,"hasMore":false}`)
	case "tools/call":
		c.tool()
	case "subscriptions/listen":
		c.listen()
	case "vendor/echo":
		c.result(`"echoed":` + orNull(string(c.msg.top["params"])))
	default:
		if c.server.opt.Tasks && strings.HasPrefix(method, "tasks/") {
			c.taskMethod(method)
			return
		}
		c.fails(-32601, "Method not found", "")
	}
}

func (c *call) read() {
	if uri := text(c.msg.params["uri"]); uri != "fake://one" {
		code := -32002
		if c.modern {
			code = -32602
		}
		c.fails(code, "Resource not found", `{"uri":`+quote(uri)+`}`)
		return
	}
	c.list(`"contents":[{"uri":"fake://one","mimeType":"text/plain","text":"one"}]`)
}

// listen acknowledges a modern subscription with what it asked for, and sends one change at once.
func (c *call) listen() {
	if !c.modern {
		c.fails(-32601, "Method not found", "")
		return
	}
	meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":@ID@}`
	c.raw(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":` +
		orNull(string(c.msg.params["notifications"])) + `,` + meta + `}}`)
	c.raw(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{` + meta + `}}`)
	if c.server.out == nil {
		<-c.ctx.Done() // HTTP: the stream is the subscription
	}
}

func (c *call) capabilities() string {
	tasks := ""
	if c.server.opt.Tasks {
		tasks = `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
		if c.msg.method() == "server/discover" {
			tasks = `,"extensions":{"io.modelcontextprotocol/tasks":{}}`
		}
	}
	return `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},` +
		`"completions":{},"logging":{},"experimental":{"vendor/x":{"zeta":1,"alpha":9007199254740993}}` + tasks + `}`
}

func orNull(raw string) string {
	if raw == "" {
		return "null"
	}
	return raw
}

// serial numbers what one process mints.
var serial atomic.Int64
