package guest

import (
	"fmt"
	"hash/fnv"

	"golang.org/x/sys/unix"
)

// processors are those that programs run on, nil for all: runtimes count them to size
// themselves. Sandboxes begin at different ones. The limit itself is the control group's, so
// a program may choose others.
func (b *Boot) processors() *unix.CPUSet {
	var all, some unix.CPUSet
	if b.Processors <= 0 || unix.SchedGetaffinity(0, &all) != nil || all.Count() <= b.Processors {
		return nil
	}
	var list []int
	for i := 0; len(list) < all.Count(); i++ {
		if all.IsSet(i) {
			list = append(list, i)
		}
	}
	h := fnv.New32a()
	h.Write([]byte(b.Hostname))
	first := int(h.Sum32() % uint32(len(list)))
	for i := range b.Processors {
		some.Set(list[(first+i)%len(list)])
	}
	return &some
}

// showLimits has programs of the calling thread see the limits as their own: the number of
// processors, and their control group as the topmost one in /proc/self/cgroup.
func (c confinement) showLimits() error {
	if c.Processors != nil {
		if err := unix.SchedSetaffinity(0, c.Processors); err != nil {
			return fmt.Errorf("choose processors: %w", err)
		}
	}
	if c.Grouped {
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
			return fmt.Errorf("make a cgroup namespace: %w", err)
		}
	}
	return nil
}
