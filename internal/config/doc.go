// Package config reads what people write down about their sandboxes, and decides how
// much of it may count.
//
// Four files say something, and they are not equals:
//
//	/etc/coffer/policy.toml           the administrator's floor: a different language,
//	                                  that only takes away; see [Floor]
//	$XDG_CONFIG_HOME/coffer/config.toml   the user's own word
//	coffer.toml, coffer.local.toml    at the root of a repository: a stranger's wish,
//	                                  and one that a program in a sandbox can edit
//
// Reading has three steps. A file becomes a tree of nodes that know their place, so that
// everything said about them later can name a line ([parse]). Trees are checked against
// the types of [Config], all mistakes at once. And they are merged, lowest first, each
// value keeping its place: that is its origin.
//
// Then comes trust. Two results are compared: with the repository's files and without.
// Whatever the first gives a program that the second does not is a widening, told in
// plain words ([Loaded.Widens]), and needs the user's yes, once for exactly these words
// ([Trust]). What narrows needs none.
//
// A sandbox keeps a copy of what was agreed to in its record, out of its reach; the
// files are not read again for it.
package config
