// Package image brings OCI images to this machine, for sandboxes that have their system
// directories from one.
//
// An image is a list of layers, tar archives that lie one over the other, named by the hash
// of what is in them. [Store.Pull] has a [source] tell which they are, fetches those that are
// missing, checks each against its hash, and lays them into one tree of directories. The tree
// is made aside and takes its place by a rename: it is there as a whole or not at all.
//
// Everything that is read here was written by strangers. Names in a layer are looked up by the
// kernel with the tree as the root, and links one by one, so that none leads out of it; what
// could do harm outside of a sandbox (device nodes, set-user-id bits, owners) is left out; all
// has a bound.
//
//	images/<hash>/image.json   what is known of an image
//	images/<hash>/rootfs/      its files, which belong to the user
//	images/refs.json           which name stands for which
//	images/.lock               held while anything changes
//	images/.blobs/<hash>       what was fetched for an image that is not complete
//	images/.new-…, .gone-…     being made, being removed
//
// Names, digests and the login are go-containerregistry's; guard bounds what a registry can
// make it do. What is on this machine is read by hand: the library's layout
// package follows links out of a directory in which a sandbox may write, waits at pipes and
// reads files of any size, and its tarball package compresses each layer to know its digest.
// Credential helpers are started by hand, because a sandbox may have put one on PATH.
package image
