package usage

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Damage changes keys of an owner behind the back of the part.
type Damage struct {
	Says  string // a part of what Check says of it
	write func(t part.Tx, owner uint32) error
}

// Damages are those that Check finds.
var Damages = []Damage{
	{"malformed key", func(t part.Tx, _ uint32) error { return t.Set(t.Key(kindHome, 0), nil) }},
	{"malformed record key", func(t part.Tx, _ uint32) error { return t.Set(t.Key(kindRecord, 0), nil) }},
	{"malformed sum key", func(t part.Tx, _ uint32) error { return t.Set(t.Key(kindSum, 0), nil) }},
	{"it is not known who that is", func(t part.Tx, owner uint32) error { return t.Delete(homeKey(t, owner)) }},
	{"a number that was not given", func(t part.Tx, owner uint32) error {
		return t.Set(recordKey(t, owner, 5, 99), (&Record{Model: "small"}).encode())
	}},
	{"names an owner with the number", func(t part.Tx, owner uint32) error {
		h := home{owner: scope.Owner{User: "bob"}, last: 1}
		return t.Set(homeKey(t, owner), h.encode())
	}},
	{"and its counter says", func(t part.Tx, owner uint32) error { return t.Count(kindAgent, owner, 1) }},
	{"budgets, and its counter", func(t part.Tx, owner uint32) error { return t.Count(kindHome, owner, 1) }},
	{"it belongs to", func(t part.Tx, owner uint32) error { return t.Set(agentKey(t, owner), (&Agent{ID: "bob"}).encode()) }},
	{"lies under a key that is not its own", func(t part.Tx, owner uint32) error {
		return t.Set(modelKey(t, owner, modelOf("small")), []byte("large"))
	}},
	{"the sum", func(t part.Tx, owner uint32) error {
		return t.Set(sumKey(t, owner, forever, model{}, 0), (&Totals{Records: 7}).encode())
	}},
	{"damaged", func(t part.Tx, owner uint32) error { return t.Set(agentKey(t, owner), []byte{99}) }},
	{"malformed identity", func(t part.Tx, owner uint32) error { return t.Set(identityKey(t, owner, 1, nil, 1), []byte{99}) }},
	{"malformed identity", func(t part.Tx, owner uint32) error {
		return t.Set(identitiesKey(t, owner, 0), []byte{identityVersion, 1})
	}},
	{"damaged", func(t part.Tx, owner uint32) error { return t.Set(homeKey(t, owner), []byte{99}) }},
	{"damaged", func(t part.Tx, owner uint32) error { return t.Set(recordKey(t, owner, 5, 1), []byte{99}) }},
	{"damaged", func(t part.Tx, owner uint32) error { return t.Set(sumKey(t, owner, forever, model{}, 0), []byte{99}) }},
	{"damaged", func(t part.Tx, owner uint32) error { return t.Set(budgetKey(t, owner, 1), []byte{99}) }},
	{"damaged", func(t part.Tx, owner uint32) error { return t.Set(reservationKey(t, owner, 1, 1), []byte{99}) }},
}

// Do does the damage to what an owner has.
func (d Damage) Do(ctx context.Context, u Usage, o scope.Owner) error {
	return u.run.Update(ctx, "damage", func(t part.Tx) error {
		owner, _, err := t.Owner(o)
		if err != nil {
			return err
		}
		t.Log(opBudget, nil)
		return d.write(t, owner)
	})
}
