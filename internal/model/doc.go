// Package model is a language model for tests: it does what the prompt says.
//
// A prompt may have lines that begin with "RUN: ". The model has the agent run what
// follows, one command after the other, with whatever tool for that the agent offers,
// and then says "DONE" and the end of the last command's output. To anything else it says
// "OK". It remembers nothing: what is to be done next it sees from the conversation that
// the agent sends, so agents can be killed, resumed and run side by side.
//
// It speaks the four protocols that coding agents use: Anthropic's Messages, OpenAI's
// Responses and Chat Completions, and Gemini's generateContent, as streams or not. What it
// was asked is kept, so that a test can see what an agent was told.
package model
