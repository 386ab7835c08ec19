// Package config reads config files, merges them, and decides how much of them counts.
//
//	/etc/coffer/policy.toml               the administrator's floor, with keys of its own,
//	                                      which only take away; see [Floor]
//	$XDG_CONFIG_HOME/coffer/config.toml   the user's config
//	coffer.toml, coffer.local.toml        the repository's, which a stranger may have
//	                                      written, or a program in a sandbox
//
// Each file is decoded into [Config], which finds what is wrong with it, and becomes a tree of
// values with their places. The trees are merged, lowest first: the place of a value is its
// origin. The merged tree is decoded again.
//
// Then comes trust. The configs with and without the repository's files are compared. If the
// first gives a program anything that the second does not ([Loaded.Widens]), the user has to
// agree to the files as they are, once ([Trust]). A change that narrows needs no consent.
//
// A sandbox keeps what was agreed to in its record; the files are not read again for it.
package config
