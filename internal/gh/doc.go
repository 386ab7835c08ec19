// Package gh is what a sandbox can have of gh, GitHub's command line: a few verbs, for one
// repository, run by the host with the user's own gh and login.
//
// Inside, the program gh is coffer by another name. It understands the command line with
// the same table that the host has, reads what files the command line names, and sends
// what it understood: a verb, a number, and options by their long names. That is a
// [Request]. It is never a command line, so there is no order of words, no quoting and no
// abbreviation on which the two sides could disagree.
//
// Outside, a request is a stranger's. It is read with bounds and checked against the table:
// a verb or an option that is not in it does not exist, and each value must be of its
// option's kind. Then a command line for gh is made anew, each option as one word
// --name=value, and behind -- at most one number; what is written goes by standard input.
// The repository, and the branch that a pull request is made of, are not asked for: the
// host says them. What can be changed is only a pull request whose branch is the
// sandbox's, which gh is asked about first.
//
// What is not in the table, and why: --repo and names of hosts (it is this repository),
// --web and --editor (they start programs), --body-file and --template (they read files
// of the host's), --search (it can name other repositories), --jq (it can print the
// environment, tokens among it; the program inside has jq do it there), --watch (it does
// not end), --edit-last and --delete-last (the last comment may be the user's own).
package gh
