package rootfs

import (
	"encoding/base64"
	"errors"
	"math"

	"github.com/cofferhq/coffer/internal/pack"
)

// A plan is a hundred steps, and both ends of every start wait for it to be written and
// read: as JSON that takes half a millisecond. So it travels packed; within JSON, as a text.

// maxSteps is far more than any view has.
const maxSteps = 1 << 16

// MarshalText packs the plan for JSON.
func (p *Plan) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, p.Pack(make([]byte, 0, 8<<10))), nil
}

// Pack appends the plan.
func (p *Plan) Pack(b []byte) []byte {
	b = pack.Flags(b, p.Volatile, p.Owned)
	b = pack.Texts(b, p.System)
	b = pack.Texts(b, p.Writable)
	b = pack.Number(b, uint64(len(p.Steps)))
	for i := range p.Steps {
		s := &p.Steps[i]
		b = pack.Text(b, s.Do)
		b = pack.Flags(b, s.ReadOnly, s.Device, s.Shared, s.Optional, s.Mine, s.Create, s.Exec)
		b = pack.Text(b, s.Source)
		b = pack.Text(b, s.Target)
		b = pack.Text(b, s.Data)
		b = pack.Number(b, s.Dev)
		b = pack.Number(b, s.Ino)
		b = pack.Number(b, uint64(s.FD))
	}
	return b
}

// UnmarshalText is MarshalText's counterpart.
func (p *Plan) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return err
	}
	r := pack.NewReader(b)
	if p.Unpack(r); !r.Done() {
		return errors.New("the plan is damaged")
	}
	return nil
}

// Unpack is Pack's counterpart.
func (p *Plan) Unpack(r *pack.Reader) {
	*p = Plan{}
	r.Flags(&p.Volatile, &p.Owned)
	p.System, p.Writable = r.Strings(maxSteps), r.Strings(maxSteps)
	p.Steps = make([]Step, r.Count(maxSteps))
	for i := range p.Steps {
		s := &p.Steps[i]
		s.Do = string(r.Text())
		r.Flags(&s.ReadOnly, &s.Device, &s.Shared, &s.Optional, &s.Mine, &s.Create, &s.Exec)
		s.Source, s.Target, s.Data = string(r.Text()), string(r.Text()), string(r.Text())
		s.Dev, s.Ino, s.FD = r.Number(math.MaxUint64), r.Number(math.MaxUint64), int(r.Number(maxSteps))
	}
}
