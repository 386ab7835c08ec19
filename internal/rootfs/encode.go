package rootfs

import "encoding/json"

// A path need not be UTF-8, and a JSON string would change one that is not: paths travel as
// bytes, or a mask would be placed elsewhere.

type bareStep Step

type stepBytes struct {
	*bareStep
	Source []byte `json:"source,omitempty"`
	Target []byte `json:"target"`
	Data   []byte `json:"data,omitempty"`
}

// MarshalJSON encodes the step.
func (s Step) MarshalJSON() ([]byte, error) {
	bare := bareStep(s)
	return json.Marshal(stepBytes{&bare, []byte(s.Source), []byte(s.Target), []byte(s.Data)})
}

// UnmarshalJSON decodes what MarshalJSON wrote.
func (s *Step) UnmarshalJSON(text []byte) error {
	b := stepBytes{bareStep: &bareStep{}}
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	*s = Step(*b.bareStep)
	s.Source, s.Target, s.Data = string(b.Source), string(b.Target), string(b.Data)
	return nil
}

// Paths are a list of paths.
type Paths []string

// MarshalJSON encodes the paths.
func (p Paths) MarshalJSON() ([]byte, error) {
	all := make([][]byte, len(p))
	for i, path := range p {
		all[i] = []byte(path)
	}
	return json.Marshal(all)
}

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Paths) UnmarshalJSON(text []byte) error {
	var all [][]byte
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*p = nil
	for _, path := range all {
		*p = append(*p, string(path))
	}
	return nil
}
