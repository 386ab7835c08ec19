package model

import (
	"encoding/json"
	"strings"
)

// responses speaks the Responses protocol.
func (t *talk) responses(body []byte) error {
	var q object
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	var c conversation
	if s, ok := q["input"].(string); ok {
		c.user(s)
	}
	tools := list(q["tools"])
	for _, item := range list(q["input"]) {
		switch kind := word(item, "type"); {
		case strings.HasSuffix(kind, "_call_output"):
			c.result(text(field(item, "output")))
		case kind == "additional_tools":
			tools = append(tools, list(field(item, "tools"))...)
		case word(item, "role") == "user":
			c.user(text(field(item, "content")))
		}
	}
	var names []string
	schemas := map[string]object{}
	for _, tool := range tools {
		if word(tool, "type") == "function" {
			names = append(names, word(tool, "name"))
			schemas[word(tool, "name")], _ = field(tool, "parameters").(object)
		}
	}
	run, say := c.next()
	tool, args := shell(names, func(name string) map[string]any { return schemas[name] })
	item := object{
		"id": id("msg_"), "type": "message", "role": "assistant", "status": "completed",
		"content": []any{object{"type": "output_text", "text": say, "annotations": []any{}}},
	}
	if run != "" && tool != "" {
		input, _ := json.Marshal(args(run))
		item = object{"id": id("fc_"), "type": "function_call", "status": "completed", "call_id": id("call_"), "name": tool, "arguments": string(input)}
	}
	response := object{
		"id": id("resp_"), "object": "response", "created_at": 1, "model": q["model"], "status": "completed", "output": []any{item},
		"usage": object{"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}},
	}
	if q["stream"] != true {
		writeJSON(t.w, response)
		return nil
	}
	begun := object{"id": response["id"], "object": "response", "created_at": 1, "model": q["model"], "status": "in_progress", "output": []any{}}
	t.event("response.created", object{"type": "response.created", "sequence_number": 0, "response": begun})
	t.event("response.output_item.added", object{"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item})
	if run == "" {
		t.event("response.output_text.delta", object{"type": "response.output_text.delta", "sequence_number": 2, "item_id": item["id"], "output_index": 0, "content_index": 0, "delta": say})
	}
	t.event("response.output_item.done", object{"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": item})
	t.event("response.completed", object{"type": "response.completed", "sequence_number": 4, "response": response})
	return nil
}

// completions speaks the Chat Completions protocol.
func (t *talk) completions(body []byte) error {
	var q object
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	var c conversation
	for _, m := range list(q["messages"]) {
		switch word(m, "role") {
		case "user":
			c.user(text(field(m, "content")))
		case "tool":
			c.result(text(field(m, "content")))
		}
	}
	var names []string
	schemas := map[string]object{}
	for _, tool := range list(q["tools"]) {
		f := field(tool, "function")
		names = append(names, word(f, "name"))
		schemas[word(f, "name")], _ = field(f, "parameters").(object)
	}
	run, say := c.next()
	tool, args := shell(names, func(name string) map[string]any { return schemas[name] })
	message, finish := object{"role": "assistant", "content": say}, "stop"
	if run != "" && tool != "" {
		input, _ := json.Marshal(args(run))
		call := object{"index": 0, "id": id("call_"), "type": "function", "function": object{"name": tool, "arguments": string(input)}}
		message, finish = object{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls"
	}
	usage := object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	chunk := func(kind, name string, v object, finish any) object {
		return object{"id": "chatcmpl-1", "object": kind, "created": 1, "model": q["model"], "choices": []any{object{"index": 0, name: v, "finish_reason": finish}}}
	}
	if q["stream"] != true {
		answer := chunk("chat.completion", "message", message, finish)
		answer["usage"] = usage
		writeJSON(t.w, answer)
		return nil
	}
	t.event("", chunk("chat.completion.chunk", "delta", message, nil))
	last := chunk("chat.completion.chunk", "delta", object{}, finish)
	last["usage"] = usage
	t.event("", last)
	t.event("", "[DONE]")
	return nil
}
