// Package birth starts the guest agent, in namespaces of its own.
package birth

// Name is the name under which the binary is the guest agent.
const Name = "coffer-guest"

// Network is the agent's argument that asks for a link.
const Network = "network"
