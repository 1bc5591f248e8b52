package usage

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Rolled is what a roll-up has made of records: one for each day and model of a time.
type Rolled struct {
	Since clock.Instant `json:"since"` // the first millisecond
	Until clock.Instant `json:"until"` // the last one
}

// Reserved is a part of a budget that was reserved for a call.
type Reserved struct {
	Cost    *USD          `json:"cost_usd,omitempty"` // nil where it was given back
	Expires clock.Instant `json:"expires_at"`
}

var _ part.Teller = Part{}

// Tell reads a change of usage out of the log, which holds what was stored.
func (Part) Tell(op part.Op, body *codec.Reader) part.Telling {
	owner := body.Uint32()
	switch op {
	case opAdd:
		key, value := body.Bytes(), body.Bytes()
		return func(v part.View, _ part.Commit) ([]part.Told, error) { return tellRecord(v, owner, key, value) }
	case opDeleteAll:
		return func(part.View, part.Commit) ([]part.Told, error) {
			return []part.Told{{Op: "usage_delete_all", Owner: owner}}, nil
		}
	case opBudget:
		per := body.Bytes()
		value := readRemovable(body, budgetVersion)
		return func(v part.View, _ part.Commit) ([]part.Told, error) { return tellBudget(v, owner, per, value) }
	case opReserve:
		key := body.Bytes()
		value := readRemovable(body, reservationVersion)
		return func(part.View, part.Commit) ([]part.Told, error) { return tellReservation(owner, key, value) }
	case opRollUp:
		since, until := codec.NewReader(body.Bytes()), codec.NewReader(body.Bytes())
		l := Rolled{instant(since.Uvarint()), instant(until.Uvarint())}
		return func(part.View, part.Commit) ([]part.Told, error) {
			return []part.Told{{Op: "usage_roll_up", Owner: owner, After: l}}, nil
		}
	case opAgent:
		value := body.Bytes()
		return func(part.View, part.Commit) ([]part.Told, error) {
			a, err := decodeAgent(value)
			return []part.Told{{Op: "agent_put", Owner: owner, ID: a.ID, After: NewAgentLine(a)}}, err
		}
	}
	return nil
}

// readRemovable reads what was stored, nil where it was removed: then an empty value stands there,
// or, as up to layout 7, nothing.
func readRemovable(body *codec.Reader, version byte) []byte {
	rest := body.Rest()
	switch {
	case len(rest) == 0:
		return nil
	case rest[0] == 0:
		body.Byte()
		return nil
	case len(rest) > int(rest[0]) && rest[1] == version: // it is never longer than a byte says
		return body.Bytes()
	}
	return nil
}

func instant(ms uint64) clock.Instant { return clock.Instant{Time: clock.FromMillis(int64(ms))} }

// ownerNamed is the owner of a number.
func ownerNamed(v part.View, owner uint32) (scope.Owner, error) {
	h, known, err := homeOf(v, owner)
	if err == nil && !known {
		h.owner, _, err = v.OwnerOf(owner)
	}
	return h.owner, err
}

func tellRecord(v part.View, owner uint32, key, value []byte) ([]part.Told, error) {
	if len(key) != 16 {
		return nil, damaged("a record of the log", nil)
	}
	r, err := decodeRecord(binary.BigEndian.Uint64(key), binary.BigEndian.Uint64(key[8:]), value)
	if err == nil {
		r.Owner, err = ownerNamed(v, owner)
	}
	return []part.Told{{Op: "usage_add", Owner: owner, After: NewLine(r)}}, err
}

func tellBudget(v part.View, owner uint32, per, value []byte) ([]part.Told, error) {
	if len(per) != 1 || int(per[0]) >= len(periods) {
		return nil, damaged("a budget of the log", nil)
	}
	o, err := ownerNamed(v, owner)
	if err != nil {
		return nil, err
	}
	l := BudgetLine{Type: TypeBudget, User: o.User, Agent: o.Agent, Per: periods[per[0]]}
	if value == nil {
		return []part.Told{{Op: "budget_delete", Owner: owner, ID: string(l.Per), Before: l}}, nil
	}
	l.Limit = new(usdFrom(value[1:]))
	return []part.Told{{Op: "budget_put", Owner: owner, ID: string(l.Per), After: l}}, nil
}

func tellReservation(owner uint32, key, value []byte) ([]part.Told, error) {
	if len(key) != 17 {
		return nil, damaged("a reservation of the log", nil)
	}
	r := Reserved{Expires: instant(binary.BigEndian.Uint64(key[1:]))}
	if value == nil {
		return []part.Told{{Op: "budget_release", Owner: owner, Before: r}}, nil
	}
	r.Cost = new(usdFrom(value[1:]))
	return []part.Told{{Op: "budget_reserve", Owner: owner, After: r}}, nil
}
