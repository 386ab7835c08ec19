package model

import "encoding/json"

// anthropic speaks the Messages protocol.
func (t *talk) anthropic(body []byte) error {
	var q object
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	var c conversation
	for _, m := range list(q["messages"]) {
		if s, ok := field(m, "content").(string); ok && word(m, "role") == "user" {
			c.user(s)
		}
		for _, part := range list(field(m, "content")) {
			switch {
			case word(part, "type") == "tool_result":
				c.result(text(field(part, "content")))
			case word(part, "type") == "text" && word(m, "role") == "user":
				c.user(word(part, "text"))
			}
		}
	}
	var names []string
	schemas := map[string]object{}
	for _, tool := range list(q["tools"]) {
		names = append(names, word(tool, "name"))
		schemas[word(tool, "name")], _ = field(tool, "input_schema").(object)
	}
	run, say := c.next()
	tool, args := shell(names, func(name string) map[string]any { return schemas[name] })
	block, stop := object{"type": "text", "text": say}, "end_turn"
	if run != "" && tool != "" {
		block, stop = object{"type": "tool_use", "id": id("toolu_"), "name": tool, "input": args(run)}, "tool_use"
	}
	usage := object{"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
	message := object{
		"id": id("msg_"), "type": "message", "role": "assistant", "model": q["model"],
		"content": []any{block}, "stop_reason": stop, "stop_sequence": nil, "usage": usage,
	}
	if q["stream"] != true {
		writeJSON(t.w, message)
		return nil
	}
	message["content"], message["stop_reason"] = []any{}, nil
	t.event("message_start", object{"type": "message_start", "message": message})
	delta := object{"type": "text_delta", "text": say}
	start := object{"type": "text", "text": ""}
	if stop == "tool_use" {
		input, _ := json.Marshal(block["input"])
		delta = object{"type": "input_json_delta", "partial_json": string(input)}
		start = object{"type": "tool_use", "id": block["id"], "name": tool, "input": object{}}
	}
	t.event("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": start})
	t.event("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta})
	t.event("content_block_stop", object{"type": "content_block_stop", "index": 0})
	t.event("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
	t.event("message_stop", object{"type": "message_stop"})
	return nil
}
