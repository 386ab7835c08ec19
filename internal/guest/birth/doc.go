// Package birth starts the guest agent, in namespaces of its own.
//
// For a plain `coffer run` it does so while the program is being initialised. Making the
// namespaces and starting the agent takes a third of a start, and nothing has to be known
// for it: the agent waits for its orders. So that happens at the side of all that the
// command does first: initialising its other packages, reading its arguments and the
// config, making the sandbox's folder. An agent that is not needed after all, because the
// arguments were wrong, ends with the command, see [Discard].
//
// Go initialises packages in the order of their dependencies, then of their paths. This
// one depends on as little as can be, on nothing that needs package unicode, so that it comes
// among the first: a processor has nothing else to do then.
package birth

// Name is the name under which the binary is the guest agent.
const Name = "coffer-guest"

// Network is the agent's argument that asks for a link.
const Network = "network"

// Slack is the agent's variable with the timer slack that its programs are to have.
const Slack = "COFFER_TIMER_SLACK"
