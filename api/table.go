package api

// A Described operation says what it is and what it takes.
type Described interface {
	// Describe returns what the operation is.
	Describe() *Operation
	// Fields returns the fields of its request.
	Fields() []Field
}

// All returns every operation of the package.
func All() []Described {
	return []Described{
		KVPut, KVGet, KVDelete, KVList,
		UsageAdd, UsageTotal, UsageBy, UsageRank, UsageRollUp, UsageBudgetSet, UsageBudgetList, UsageBudgetRemove, UsageBudgetCheck,
	}
}
