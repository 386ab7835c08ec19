package gitbridge

import "slices"

// refused are the tips of branches that were too much to be fetched together. To find that
// out takes gigabytes, and every command would take them again. So who asks for all of them
// once more, and perhaps for others besides, is refused at once; until one of them has moved,
// or somebody else supervises the sandbox.
type refused []string

// maxRefused bounds what is remembered: who has more branches than that is asked again.
const maxRefused = 256

func refusedTips(ids []string) refused {
	if len(ids) > maxRefused {
		return nil
	}
	return slices.Clone(ids)
}

// has says whether all of them are among these.
func (r refused) has(ids []string) bool {
	if len(r) == 0 {
		return false
	}
	there := map[string]bool{}
	for _, id := range ids {
		there[id] = true
	}
	return !slices.ContainsFunc(r, func(id string) bool { return !there[id] })
}
