package recovery

import (
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// partChecker is a check of a part's keys.
type partChecker struct {
	part.View
	c    *checker
	name string // of the part
}

func (p *partChecker) Each(kind byte, visit func(key, value []byte) error) error {
	return p.c.scan(kind, func(key, stored []byte) error {
		value, err := layout.Unseal(key, stored)
		if err != nil {
			p.Problem("%s: %v", p.c.kindName(kind), err)
			return nil
		}
		return visit(key, value)
	})
}

func (p *partChecker) EachCounter(kind byte, visit func(owner uint32, n int64)) error {
	return p.Each(layout.KindCounter, func(key, value []byte) error {
		of, owner, ok := layout.ParseCounterKey(key)
		if !ok {
			return layout.BadKey("counter", key)
		}
		if of != kind {
			return nil
		}
		n, err := layout.DecodeCounter(value)
		if err != nil {
			p.Problem("%v", err)
			return nil
		}
		visit(owner, n)
		return nil
	})
}

func (p *partChecker) Problem(format string, args ...any) {
	p.c.report.problem(p.name, "", format, args...)
}

func (p *partChecker) Derived(format string, args ...any) {
	p.c.report.add(remedyRebuild+p.name, p.name, "", format, args...)
}

// parts checks the keys of each part.
func (c *checker) parts() error {
	for _, p := range c.of {
		if err := p.Check(&partChecker{c.Part, c, p.Name()}); err != nil {
			return &fault.Error{Kind: fault.ErrCorrupt, What: "check the " + valid.Short(p.Name()), Cause: err}
		}
	}
	return nil
}

// kindName is what the keys of a kind are, for messages.
func (c *checker) kindName(kind byte) string {
	name, _ := Kept(c.of, kind)
	return name
}
