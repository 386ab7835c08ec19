package gitbridge

import (
	"context"
	"fmt"
)

// Ahead counts the commits on the sandbox's branch since it began.
func (b *Bridge) Ahead(ctx context.Context) (n int, err error) {
	out, err := b.refs().run(ctx, "", "rev-list", "--count", b.Base+".."+b.branchRef())
	if err == nil {
		_, err = fmt.Sscan(out, &n)
	}
	return n, err
}
