// Package policy decides which destinations a sandbox may reach. It is rules and
// answers, nothing else: it reads no file, asks no clock and opens no connection.
//
// # From what people write to an answer
//
// A [Source] is one layer of policy as people write it: a built-in mode, a config
// file, the changes made to a running sandbox. [Compile] turns layers into a [Set], or
// into the list of everything that is wrong with them. A Set answers one [Query] after
// the other as a flow becomes known:
//
//	Name     a program looks up a name      could anything there be reached at all?
//	Connect  it opens a TCP connection      which protocols could be allowed?
//	Decide   the first bytes are there      may this flow, this request, pass?
//	Address  the name was resolved outside  may this address be dialled?
//
// # Which rule decides
//
// Layers add up, and only the order of these ranks counts, never the order of rules:
//
//	deny rules > grants (the user's live allow) > ask rules > allow rules > default
//
// So a layer can always take away, whatever the others say. Among rules of one rank,
// the one that says more about the destination is named in the answer.
//
// # What a rule matches
//
// A name matches the rules for names: itself, "*.example.com" for everything below it
// (never example.com), "*" for everything. A bare address matches the rules for
// addresses, and "*". There is one spelling of a destination, made by [Canonical], and
// what has none is refused; a rule for http paths sees the path as [NormalPath] makes
// it, and one that cannot be made matches every deny and no allow.
//
// A rule without a protocol means TCP and what runs over it. It means UDP as well if it
// denies; to allow UDP a rule has to name it.
//
// # Addresses that have to be named
//
// A name may resolve to an address of the host's own network, by accident or because
// whoever owns the name wants it to. [Set.Address] therefore refuses every address
// that is not plainly on the internet unless a rule names it: a rule for an address or
// range that lies inside the special range. "*" and 0.0.0.0/0 name nothing. Cloud
// metadata services and the host's own addresses must be named one by one.
//
// Where a rule denies a name, "*" and the default allow no bare address ([Set.bare]): it could
// be that of the name.
package policy
