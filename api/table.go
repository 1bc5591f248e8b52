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
		MemoryStore, MemoryGet, MemoryUpdate, MemoryDelete, MemoriesDelete, MemoryList, MemoryCount, MemoryGroups, MemoryHistory, Recall, Why,
		KVPut, KVGet, KVDelete, KVList,
		UsageAdd, UsageTotal, UsageBy, UsageRank, UsageRollUp, UsageBudgetSet, UsageBudgetList, UsageBudgetRemove, UsageBudgetCheck,
		NoteAdd, NoteGet, NoteWrite, NoteRename, NoteAlias, NoteRemove, NoteList, NoteSearch,
		SessionList, SessionState, SessionOpen, SessionOpenNamed, SessionOpenChannel, SessionClose, SessionArchive, SessionDelete,
		SessionShow, SessionSave, SessionAppend, SessionAppendOne, SessionAppendAll, SessionCompact, SessionRepair,
		GraphAdd, GraphRelate, GraphEnd, GraphGet, GraphList, GraphDelete, GraphQuery, GraphFind, GraphMatch, GraphPath, GraphRank, GraphComponents,
		GraphLink, GraphUnlink, GraphStats, GraphLookup, GraphDegrees, GraphCounts, GraphShow, GraphMerge, GraphUnmerge, GraphDuplicates, GraphExport,
	}
}
