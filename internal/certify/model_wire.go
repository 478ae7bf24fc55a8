package certify

import (
	"encoding/json"
	"strings"
)

// messageID is the id of every message: an agent has one turn at a time.
const messageID = "msg_stub"

func (m *Model) anthropic(reply replier, body []byte) {
	var in struct {
		Stream   bool
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	_ = json.Unmarshal(body, &in) // what it cannot read offers nothing, which the agent's output shows
	var tools []offered
	for _, t := range in.Tools {
		tools = append(tools, offered{full: t.Name, name: t.Name})
	}
	var results []string
	for _, msg := range in.Messages {
		var parts []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(msg.Content, &parts) // a plain text holds no result
		for _, p := range parts {
			if p.Type == "tool_result" {
				results = append(results, plain(p.Content))
			}
		}
	}
	d := m.decide(tools, results)
	content, start, delta, stop := object{"type": "text", "text": d.text}, object{"type": "text", "text": ""}, object{"type": "text_delta", "text": d.text}, "end_turn"
	if d.call != nil {
		content = object{"type": "tool_use", "id": d.id, "name": d.call.name, "input": d.args}
		start = object{"type": "tool_use", "id": d.id, "name": d.call.name, "input": object{}}
		delta, stop = object{"type": "input_json_delta", "partial_json": string(d.args)}, "tool_use"
	}
	message := object{
		"id": messageID, "type": "message", "role": "assistant", "model": modelName, "content": []object{}, "stop_reason": nil,
		"stop_sequence": nil, "usage": object{"input_tokens": 10, "output_tokens": 1},
	}
	if !in.Stream {
		message["content"], message["stop_reason"] = []object{content}, stop
		reply.json(message)
		return
	}
	reply.stream()
	reply.event("message_start", object{"message": message})
	reply.event("content_block_start", object{"index": 0, "content_block": start})
	reply.event("content_block_delta", object{"index": 0, "delta": delta})
	reply.event("content_block_stop", object{"index": 0})
	reply.event("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 5}})
	reply.event("message_stop", object{})
}

func (m *Model) responses(reply replier, body []byte) {
	var in struct {
		Stream bool
		Tools  []struct {
			Type, Name string
			Tools      []struct{ Name string }
		}
		Input json.RawMessage
	}
	_ = json.Unmarshal(body, &in) // what it cannot read offers nothing, which the agent's output shows
	var tools []offered
	for _, t := range in.Tools {
		if t.Type == "namespace" { // one for each MCP server
			for _, sub := range t.Tools {
				tools = append(tools, offered{full: strings.TrimRight(t.Name, "_") + "__" + sub.Name, name: sub.Name, group: t.Name})
			}
			continue
		}
		tools = append(tools, offered{full: t.Name, name: t.Name})
	}
	var items []struct {
		Type   string
		Output json.RawMessage
	}
	_ = json.Unmarshal(in.Input, &items) // a plain text holds no result
	var results []string
	for _, item := range items {
		if strings.HasSuffix(item.Type, "_output") {
			results = append(results, plain(item.Output))
		}
	}
	d := m.decide(tools, results)
	item := object{
		"type": "message", "id": messageID, "role": "assistant", "status": "completed",
		"content": []object{{"type": "output_text", "text": d.text, "annotations": []object{}}},
	}
	if d.call != nil {
		item = object{"type": "function_call", "id": messageID, "call_id": d.id, "name": d.call.name, "arguments": string(d.args), "status": "completed"}
		if d.call.group != "" {
			item["namespace"] = d.call.group
		}
	}
	response := func(status string, output ...object) object {
		return object{
			"id": "resp_stub", "object": "response", "created_at": 1, "status": status, "model": modelName, "output": output,
			"usage": object{
				"input_tokens": 10, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 5,
				"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 15,
			},
		}
	}
	if !in.Stream {
		reply.json(response("completed", item))
		return
	}
	reply.stream()
	reply.event("response.created", object{"sequence_number": 0, "response": response("in_progress")})
	reply.event("response.output_item.added", object{"sequence_number": 1, "output_index": 0, "item": item})
	if d.call != nil {
		reply.event("response.function_call_arguments.done", object{"sequence_number": 2, "item_id": messageID, "output_index": 0, "arguments": string(d.args)})
	} else {
		reply.event("response.output_text.delta", object{"sequence_number": 2, "item_id": messageID, "output_index": 0, "content_index": 0, "delta": d.text})
	}
	reply.event("response.output_item.done", object{"sequence_number": 3, "output_index": 0, "item": item})
	reply.event("response.completed", object{"sequence_number": 4, "response": response("completed", item)})
}

func (m *Model) chat(reply replier, body []byte) {
	var in struct {
		Stream bool
		Tools  []struct{ Function struct{ Name string } }

		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &in) // what it cannot read offers nothing, which the agent's output shows
	var tools []offered
	for _, t := range in.Tools {
		tools = append(tools, offered{full: t.Function.Name, name: t.Function.Name})
	}
	var results []string
	for _, msg := range in.Messages {
		if msg.Role == "tool" {
			results = append(results, plain(msg.Content))
		}
	}
	d := m.decide(tools, results)
	message, finish := object{"role": "assistant", "content": d.text}, "stop"
	if d.call != nil {
		call := object{"index": 0, "id": d.id, "type": "function", "function": object{"name": d.call.name, "arguments": string(d.args)}}
		message, finish = object{"role": "assistant", "content": nil, "tool_calls": []object{call}}, "tool_calls"
	}
	answer := func(kind string, choices ...object) object {
		return object{"id": "chatcmpl_stub", "created": 1, "model": modelName, "object": kind, "choices": choices}
	}
	usage := object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	if !in.Stream {
		whole := answer("chat.completion", object{"index": 0, "message": message, "finish_reason": finish})
		whole["usage"] = usage
		reply.json(whole)
		return
	}
	reply.stream()
	const chunk = "chat.completion.chunk"
	reply.data(answer(chunk, object{"index": 0, "delta": message, "finish_reason": nil}))
	last := answer(chunk, object{"index": 0, "delta": object{}, "finish_reason": finish})
	last["usage"] = usage // a chunk with it counts as the last one for Continue
	reply.data(last)
	reply.line("[DONE]")
}

func (m *Model) gemini(reply replier, body []byte, stream bool) {
	var in struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct {
				FunctionResponse *struct{ Response json.RawMessage }
			}
		}
	}
	_ = json.Unmarshal(body, &in) // what it cannot read offers nothing, which the agent's output shows
	var tools []offered
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			tools = append(tools, offered{full: f.Name, name: f.Name})
		}
	}
	var results []string
	for _, c := range in.Contents {
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				results = append(results, plain(p.FunctionResponse.Response))
			}
		}
	}
	d := m.decide(tools, results)
	part := object{"text": d.text}
	if d.call != nil {
		part = object{"functionCall": object{"name": d.call.name, "args": d.args, "id": d.id}}
	}
	answer := object{
		"candidates":    []object{{"content": object{"role": "model", "parts": []object{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "stub", "responseId": "r_stub",
	}
	if !stream {
		reply.json(answer)
		return
	}
	reply.stream()
	reply.data(answer)
}
