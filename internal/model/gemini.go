package model

import (
	"encoding/json"
	"strings"
)

// gemini speaks generateContent.
func (t *talk) gemini(body []byte) error {
	var q object
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	var c conversation
	for _, m := range list(q["contents"]) {
		for _, part := range list(field(m, "parts")) {
			if r := field(part, "functionResponse"); r != nil {
				c.result(text(field(r, "response")))
			} else if word(m, "role") == "user" {
				c.user(word(part, "text"))
			}
		}
	}
	var names []string
	schemas := map[string]object{}
	for _, tool := range list(q["tools"]) {
		for _, f := range list(field(tool, "functionDeclarations")) {
			names = append(names, word(f, "name"))
			schemas[word(f, "name")], _ = field(f, "parametersJsonSchema").(object)
			if s, ok := field(f, "parameters").(object); ok {
				schemas[word(f, "name")] = s
			}
		}
	}
	run, say := c.next()
	// A question that wants JSON is one of the agent's own, about how to go on.
	if config := field(q, "generationConfig"); strings.Contains(word(config, "responseMimeType"), "json") {
		run, say = "", `{"reasoning":"fits","model_choice":"flash","complexity_reasoning":"fits","complexity_score":1,"next_speaker":"user"}`
	}
	tool, args := shell(names, func(name string) map[string]any { return schemas[name] })
	part := object{"text": say}
	if run != "" && tool != "" {
		part = object{"functionCall": object{"id": id("call_"), "name": tool, "args": args(run)}}
	}
	answer := object{
		"candidates":    []any{object{"index": 0, "finishReason": "STOP", "content": object{"role": "model", "parts": []any{part}}}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "fake",
	}
	if !t.stream {
		writeJSON(t.w, answer)
		return nil
	}
	t.event("", answer)
	return nil
}
