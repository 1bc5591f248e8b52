package engine

import (
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/host"
)

const defaultBudgetMost = 2 << 30

// defaultBudget is a quarter of the machine's memory, at most 2 GiB.
func defaultBudget() int64 {
	m := host.Memory() / 4
	if m == 0 {
		m = defaultBudgetMost
	}
	return min(m, defaultBudgetMost)
}

// rowsShare is what float32 vectors that searches have read get of the memory budget.
func (db *DB) rowsShare() int64 {
	if db.limits.rows != 0 {
		return max(db.limits.rows, 0)
	}
	return db.budget / 8
}

// embeddingShare is what the vectors of texts that were embedded last get.
func (db *DB) embeddingShare() int64 { return db.budget / 16 }

// codesShare is what the codes of a space's vectors get of the memory budget; what
// is beyond lies in a file. A small database shall do without one.
func (db *DB) codesShare() int64 {
	if db.limits.codes != 0 {
		return db.limits.codes
	}
	return max(db.budget/4, minCodes)
}

const minCodes = 64 << 20

// scopesShare is what remembered scopes get.
func (db *DB) scopesShare() int64 { return db.budget / 32 }

// textShare is what the pages of the text index get of the memory budget.
func (db *DB) textShare() int64 { return db.budget / 4 }

func holder(now time.Time) fsys.Holder {
	pid, program, machine := host.Process()
	return fsys.Holder{PID: pid, Program: program, Host: machine, Since: now}
}
