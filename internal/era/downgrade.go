package era

import (
	"mcpx/internal/rpc"
)

// Ranks below which an element of the downgrade table does not exist.
const (
	since2503 = 1
	since2506 = 2
	since2511 = 3
)

// Downgrade is a response in the newest shape cut to what a legacy session of the version knows (protocol.md section
// 10). Errors and results of other methods pass; so does everything the table does not name. b is never changed.
func Downgrade(method, version string, b []byte) []byte {
	at := rank(version)
	if at < 0 || at >= rank(V20260728) {
		return b
	}
	result := rpc.Find(b, whole(b), "result")
	return splice(b, downgradeResult(method, at, b, result))
}

// DowngradeNotification is a server's notification for a legacy session of the version.
func DowngradeNotification(method, version string, b []byte) []byte {
	if method != "notifications/progress" || version != V20241105 {
		return b
	}
	return splice(b, rpc.EditObject(b, rpc.Find(b, whole(b), "params"), []string{"message"}))
}

func downgradeResult(method string, at int, b []byte, result rpc.Span) []rpc.Edit {
	c := cut{b: b, at: at}
	switch method {
	case "initialize":
		c.initialize(result)
	case "tools/list":
		c.list(rpc.Find(b, result, "tools"), c.tool)
	case "prompts/list":
		c.list(rpc.Find(b, result, "prompts"), c.prompt)
	case "resources/list":
		c.list(rpc.Find(b, result, "resources"), c.resource)
	case "resources/templates/list":
		c.list(rpc.Find(b, result, "resourceTemplates"), c.resource)
	case "tools/call":
		c.call(result)
	case "prompts/get":
		for msg := range rpc.Elements(b, rpc.Find(b, result, "messages")) {
			c.content(rpc.Find(b, msg, "content"))
		}
	}
	return c.edits
}

// cut collects the edits of one message for a revision.
type cut struct {
	b     []byte
	at    int // rank of the revision
	edits []rpc.Edit
}

func (c *cut) edit(obj rpc.Span, remove []string, set ...rpc.Pair) {
	c.edits = append(c.edits, rpc.EditObject(c.b, obj, remove, set...)...)
}

func (c *cut) initialize(result rpc.Span) {
	var remove []string
	if c.at < since2511 {
		remove = append(remove, "icons", "websiteUrl", "description")
	}
	if c.at < since2506 {
		remove = append(remove, "title")
	}
	c.edit(rpc.Find(c.b, result, "serverInfo"), remove)
	if c.at < since2503 {
		c.edit(rpc.Find(c.b, result, "capabilities"), []string{"completions"})
	}
}

// list cuts the entries of a list; more names what a kind of entry loses besides the members all kinds share.
func (c *cut) list(entries rpc.Span, more func(entry rpc.Span) []string) {
	for e := range rpc.Elements(c.b, entries) {
		remove := more(e)
		if c.at < since2511 {
			remove = append(remove, "icons")
		}
		if c.at < since2506 {
			remove = append(remove, "title", "_meta")
		}
		c.edit(e, remove)
	}
}

func (c *cut) tool(tool rpc.Span) []string {
	var remove []string
	if schema := rpc.Find(c.b, tool, "outputSchema"); schema.Ok() {
		if kind, _ := rpc.Unquote(rpc.Find(c.b, schema, "type").Of(c.b)); kind != "object" {
			remove = append(remove, "outputSchema")
		}
	}
	if c.at < since2511 {
		remove = append(remove, "execution")
	}
	if c.at < since2503 {
		remove = append(remove, "annotations")
	}
	return remove
}

func (c *cut) prompt(prompt rpc.Span) []string {
	if c.at < since2506 {
		for arg := range rpc.Elements(c.b, rpc.Find(c.b, prompt, "arguments")) {
			c.edit(arg, []string{"title"})
		}
	}
	return nil
}

func (c *cut) resource(resource rpc.Span) []string {
	c.lastModified(resource)
	return nil
}

func (c *cut) lastModified(annotated rpc.Span) {
	if c.at < since2506 {
		c.edit(rpc.Find(c.b, annotated, "annotations"), []string{"lastModified"})
	}
}

// call cuts the result of a tool: content blocks, and structuredContent that the revision does not know or allows as
// an object only. What is dropped there is kept as text.
func (c *cut) call(result rpc.Span) {
	list := rpc.Find(c.b, result, "content")
	c.content(list)
	data := rpc.Find(c.b, result, "structuredContent")
	if !data.Ok() || isObject(c.b, data) && c.at >= since2506 {
		return
	}
	remove := []string{"structuredContent"}
	if c.spoken(list, data) {
		c.edit(result, remove)
		return
	}
	block := textBlock(string(data.Of(c.b)))
	var last rpc.Span
	for e := range rpc.Elements(c.b, list) {
		last = e
	}
	switch {
	case last.Ok():
		c.edit(result, remove)
		c.edits = append(c.edits, rpc.Edit{At: rpc.Span{From: last.To, To: last.To}, With: append([]byte{','}, block...)})
	case isArray(c.b, list):
		c.edit(result, remove)
		c.edits = append(c.edits, rpc.Edit{At: rpc.Span{From: list.From + 1, To: list.From + 1}, With: block})
	default:
		c.edit(result, remove, rpc.Pair{Key: "content", Value: append(append([]byte{'['}, block...), ']')})
	}
}

// spoken says whether the text blocks already tell what structuredContent holds. Servers repeat an object as text by
// recommendation, so any text block counts; any other value is new to them, so only its very text counts.
func (c *cut) spoken(list, data rpc.Span) bool {
	for e := range rpc.Elements(c.b, list) {
		if kind, _ := rpc.Unquote(rpc.Find(c.b, e, "type").Of(c.b)); kind != "text" {
			continue
		}
		text, _ := rpc.Unquote(rpc.Find(c.b, e, "text").Of(c.b))
		if isObject(c.b, data) || text == string(data.Of(c.b)) {
			return true
		}
	}
	return false
}

// content cuts one content block or a list of them.
func (c *cut) content(at rpc.Span) {
	if isObject(c.b, at) {
		c.block(at)
		return
	}
	for e := range rpc.Elements(c.b, at) {
		c.block(e)
	}
}

func (c *cut) block(at rpc.Span) {
	kind, _ := rpc.Unquote(rpc.Find(c.b, at, "type").Of(c.b))
	switch {
	case kind == "resource_link" && c.at < since2506:
		name, _ := rpc.Unquote(rpc.Find(c.b, at, "name").Of(c.b))
		uri, _ := rpc.Unquote(rpc.Find(c.b, at, "uri").Of(c.b))
		c.edits = append(c.edits, rpc.Edit{At: at, With: textBlock(name + ": " + uri)})
	case kind == "audio" && c.at < since2503:
		mime, ok := rpc.Unquote(rpc.Find(c.b, at, "mimeType").Of(c.b))
		if !ok {
			mime = "unknown type"
		}
		c.edits = append(c.edits, rpc.Edit{At: at, With: textBlock("[audio content of " + mime + " left out: this client's protocol version has no audio]")})
	case kind == "resource_link" && c.at < since2511:
		c.edit(at, []string{"icons"})
	default:
		c.lastModified(at)
	}
}

func textBlock(text string) []byte {
	return append(append([]byte(`{"type":"text","text":`), rpc.Quote(text)...), '}')
}
