package rootfs

// A Cache is a directory of the host that the sandbox sees at Target and changes only for
// itself: an overlay, whose upper layer is the sandbox's own. So no sandbox can plant a
// package for another one, or for the user.
type Cache struct {
	Name           string // of the layer
	Source, Target string
}

// caches lays the overlays. Each takes a millisecond or so.
func (p *Plan) caches(v View) {
	for _, c := range v.Caches {
		lower := Own + "/caches/" + c.Name
		p.add(
			Step{Do: Bind, Source: c.Source, Target: lower, Mine: true, ReadOnly: true},
			Step{Do: Overlay, Source: lower, Target: c.Target, Data: "caches/" + c.Name},
		)
	}
}
