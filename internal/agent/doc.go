// Package agent knows coding agents: how to find each on this machine, how to start it
// with its questions switched off, what it reads and remembers, and how it logs in.
//
// Each agent is one file with one struct literal: facts, and the few words in which it
// wants to be spoken to. Nothing else in Coffer knows an agent by name. One that is
// missing here can be described in a config file, see [Custom].
//
// What an agent is given goes three ways, none of which is the repository:
//
//   - arguments and variables, new at every start;
//   - files in [Managed], below the home inside, written anew at every start: the text
//     that tells the agent where it is, and settings that it is pointed to;
//   - the agent's own files in the home inside: what it must find there to ask nothing,
//     and its credentials.
//
// The home inside belongs to the sandbox, which may have put anything there. So all
// access from this side goes through [Home], which leads nowhere else.
//
// Credentials are kept in a [Store] on the host, one for each agent. A sandbox gets a
// copy. When the agent renews its token, the copy changes, and the store follows if the
// new one is what the old one was with other tokens: see [Store.Renew].
package agent
