// Package config reads what people write down about their sandboxes, and decides how
// much of it counts.
//
// Four files say something, and they are not equals:
//
//	/etc/coffer/policy.toml           the administrator's floor: a different language,
//	                                  that only takes away; see [Floor]
//	$XDG_CONFIG_HOME/coffer/config.toml   the user's own word
//	coffer.toml, coffer.local.toml    at the root of a repository: a stranger's wish,
//	                                  and one that a program in a sandbox can edit
//
// Each file is decoded into [Config], which finds what is wrong with it, and becomes a tree of
// values with their places. The trees are merged, lowest first: the place of a value is its
// origin. The merged tree is decoded again.
//
// Then comes trust. Two results are compared: with the repository's files and without. If the
// first gives a program anything that the second does not ([Loaded.Widens]), the user has to
// agree to the files as they are, once ([Trust]). What narrows needs no yes.
//
// A sandbox keeps a copy of what was agreed to in its record, out of its reach; the
// files are not read again for it.
package config
