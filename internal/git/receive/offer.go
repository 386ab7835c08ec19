package receive

import (
	"bufio"
	"io"
	"strings"
)

// Offer is the server's side of git fetch where all objects are at the client's already: it
// says which refs there are, and that is all. head is the name of the ref that HEAD stands
// for, or "".
func Offer(w io.Writer, format string, refs []Ref, head string) error {
	line(w, "# service=git-upload-pack\n")
	flush(w)
	return OfferPlain(w, format, refs, head)
}

// OfferPlain is Offer for a client that is not at the other end of HTTP.
func OfferPlain(w io.Writer, format string, refs []Ref, head string) error {
	out := bufio.NewWriter(w)
	// A client that wants no more than this asks for it anyway, see Want.
	caps := "\x00multi_ack_detailed thin-pack side-band-64k ofs-delta object-format=" + format + " agent=coffer"
	say := func(id, name string) {
		line(out, id+" "+name+caps+"\n")
		caps = ""
	}
	for _, r := range refs {
		if r.Name == head {
			caps = strings.Replace(caps, " agent=", " symref=HEAD:"+head+" agent=", 1)
			say(r.ID, "HEAD")
		}
	}
	for _, r := range refs {
		say(r.ID, r.Name)
		if r.Peeled != "" {
			say(r.Peeled, r.Name+"^{}")
		}
	}
	if caps != "" {
		say(strings.Repeat("0", size(format)), "capabilities^{}")
	}
	flush(out)
	return out.Flush()
}

// NoObjects is what [Want] says.
const NoObjects = "objects are not sent here: fetch with 'git fetch upstream' in the repository of the sandbox"

// Want answers a client that wants objects sent, which nobody needs who has those of the
// host: git prints why.
func Want(w io.Writer, why string) { line(w, "ERR "+clean(why)+"\n") }
