package server

import (
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The words of the OpenAPI document: the names of its schemas, the sets of values that are closed, and what each JSON key
// means. A key means the same wherever it is, so it is described once; "Schema.key" describes a key that means something
// else in one schema. Tests verify that nothing lacks a description and that nothing is described in vain.

const apiDescription = `memdb stores what AI agents must remember and finds it again by text, by vector, by owner and by age.

Lists have two forms. Clients that send "Accept: application/json" get one object with items, count and, if another page follows, next, which is the value of the parameter after for that page. All others get JSON lines.

Schemas may gain keys: clients ignore the keys of replies that they do not know. The server refuses parameters and keys of bodies that it does not know.`

// errorSchema is the schema of errors.
const errorSchema = "ErrorReply"

// tags are the groups of routes.
var tags = map[string]string{
	"ageing":   "The policy by which memories age: eviction, consolidation and their undo.",
	"cluster":  "The nodes and shards of a cluster.",
	"database": "The database as a whole: statistics, checks, maintenance and the log of changes.",
	"facts":    "Facts that a language model takes out of conversations.",
	"graph":    "The knowledge graph of an owner: entities, relations and queries.",
	"memories": "Memories: store, list, change and delete them.",
	"notes":    "Notes and archives with names.",
	"owners":   "Users and agents as a whole: list, delete and erase them.",
	"recall":   "Find memories by text, by vector or both.",
	"server":   "The state of the server.",
	"sessions": "Conversations: their messages, summaries and repair.",
	"transfer": "Export and import of everything that an owner has.",
	"usage":    "Model usage (tokens and cost) and budgets.",
	"values":   "JSON values under keys.",
}

// pathWords say what the parameters of paths are.
var pathWords = map[string]string{
	"id": "the ID", "key": "the key", "name": "the name or an alias of the note", "run": "the name of the session, which is its run", "user": "the user",
	"index": "the index", "what": "the grouping",
}

// schemaNames are the names of schemas that are not those of their Go types: of types that share a name, or whose name says
// too little or is a built-in of a language. "sent" begins those of types as clients send them.
var schemaNames = map[string]string{
	"ageing.Evicted": "EvictionReport",
	"ageing.Merge":   "PlannedMerge",
	"ageing.Pruned":  "PlannedPrune",
	"ageing.Victim":  "EvictedMemory",

	"api.MemoryCounted":     "MemoryCount",
	"api.Recalled":          "RecallResult",
	"sent api.MemoryChange": "MemoryChange",
	"sent api.Question":     "RecallRequest",

	"engine.Left":         "RemainingData",
	"engine.Undone":       "UndoReport",
	"engine.MemoryStats":  "RAMStats",
	"engine.MemoryShares": "RAMShares",

	"api.SessionRepairReply": "SessionRepair",

	"entries.Line": "KeyValue",

	"recovery.Problem": "CheckProblem",
	"recovery.Report":  "CheckReport",

	"erasure.Erased": "ErasedCounts",
	"erasure.Kept":   "KeptData",
	"erasure.Report": "EraseReport",

	"exchange.Compacted":    "CompactReport",
	"exchange.Consolidated": "ConsolidationReport",
	"exchange.Deleted":      "DeletedCount",
	"exchange.Had":          "AgentData",
	"exchange.HadUser":      "UserData",
	"exchange.Hit":          "RecallHit",
	"exchange.Imported":     "ImportReport",
	"exchange.Past":         "HistoryEvent",
	"exchange.Rebuilt":      "RebuiltIndex",
	"exchange.Record":       "Memory",
	"exchange.Skipped":      "ImportError",
	"exchange.User":         "UserSummary",
	"sent exchange.Record":  "NewMemory",

	"facts.Degradation": "FactDegradation",
	"facts.Result":      "FactResult",

	"graph.Added":         "EntityAdded",
	"graph.Degree":        "EntityDegree",
	"graph.Deleted":       "GraphDeleted",
	"graph.Duplicate":     "EntityDuplicate",
	"graph.EdgeLine":      "EntityRelation",
	"graph.EntityLine":    "Entity",
	"graph.FoundLine":     "FoundEntity",
	"graph.MatchLine":     "GraphMatch",
	"graph.Merged":        "EntitiesMerged",
	"graph.Related":       "RelationAdded",
	"graph.RelationLine":  "Relation",
	"graph.Stats":         "GraphStats",
	"sent graph.EdgeLine": "NewEntityRelation",
	"sent graph.Given":    "NewEntity",

	"memory.GroupSize": "MemoryGroup",
	"memory.Plan":      "RecallPlan",
	"memory.Signals":   "ScoreParts",
	"memory.Span":      "TextSpan",
	"memory.Stage":     "RecallStage",
	"memory.Trust":     "VectorTrust",
	"memory.Why":       "WhyReport",

	"notes.Line": "Note",

	"policy.Policy": "AgeingPolicy",

	"scope.Scope":      "Scope",
	"sent scope.Scope": "ScopeName",

	"sessions.Appended":    "MessageAppended",
	"sessions.Compacted":   "SessionCompacted",
	"sessions.Deleted":     "SessionDeleted",
	"sessions.MarkerLine":  "SessionMarker",
	"sessions.RepairStats": "SessionRepairStats",
	"sessions.Repaired":    "SessionRepaired",
	"sessions.SessionLine": "Session",

	"usage.AgentLine":  "Agent",
	"usage.Allowance":  "BudgetAllowance",
	"usage.BudgetLine": "Budget",
	"usage.GroupLine":  "UsageGroup",
	"usage.Line":       "UsageRecord",
	"usage.Ranked":     "UsageRank",
	"usage.Totals":     "UsageTotals",

	"wal.ChangeLine": "LogChange",

	"cluster.Member":        "ClusterNode",
	"cluster.State":         "ShardFigures",
	"daemon.drainBody":      "DrainRequest",
	"daemon.drained":        "NodeDrained",
	"daemon.here":           "NodeShards",
	"daemon.moveBody":       "MoveRequest",
	"daemon.moved":          "ShardMoved",
	"daemon.overview":       "ClusterStatus",
	"daemon.verified":       "ShardVerified",
	"sent daemon.drainBody": "DrainRequest",
	"sent daemon.moveBody":  "MoveRequest",

	"api.MessageLine":    "SessionMessage",
	"native.Stats":       "DatabaseStats",
	"native.batchStored": "BatchStored",
	"native.embedded":    "EmbedReport",
	"native.factItem":    "Fact",
	"native.storedOrNot": "BatchResult",

	"sent native.batch":    "MemoryBatch",
	"sent native.factText": "FactText",
	"sent native.manifest": "AgentManifest",
	"sent native.said":     "Conversation",

	"replication.Stats": "ReplicaStats",

	"server.health": "ServerState",
}

// enums are the values of types that have no others. A test compares them with the constants of the types.
var enums = map[string][]string{
	"place.Form":       {"folder", "file", "memory"},
	"facts.Event":      {"ADD", "UPDATE", "DELETE", "NONE"},
	"memory.Event":     {"ADD", "UPDATE", "DELETE"},
	"memory.Kind":      {"message", "fragment", "fact", "note", "archive", "summary"},
	"memory.Profile":   {"best", "text", "vector", "hybrid", "substrate"},
	"memory.Role":      {"user", "assistant", "system", "tool"},
	"memory.Syntax":    {"plain", "operators"},
	"memory.WhyReason": {"found", "deleted", "expired", "filter", "demanded", "no_words", "no_match", "no_vector", "no_candidate", "missed", "min_score", "limit"},
	"policy.Reason":    {"age", "confidence", "cap", "expired", "pruned", "merged", "caller"},
	"usage.Period":     {"", "day", "month"},
}

// constants are the values of the key type, by schema.
var constants = map[string]string{
	"Memory": memory.TypeMemory, "RecallHit": memory.TypeMemory, "HistoryEvent": "history", "KeyValue": "kv", "Note": "note", "Session": "session",
	"SessionMessage": "message", "SessionMarker": "marker", "Entity": "entity", "FoundEntity": "entity", "Relation": "relation",
	"Agent": "agent", "Budget": "budget", "UsageRecord": "usage", "UserSummary": "user",
}

// special are the schemas of types whose JSON reflection does not know.
var special = map[string]object{
	"exchange.Object":  {"type": "object", "additionalProperties": true},
	"exchange.Vector":  {"type": "array", "items": object{"type": "number"}},
	"facts.Message":    ref("ChatMessage"),
	"metrics.Metrics":  {"type": "object", "additionalProperties": true},
	"api.Expiry":       {"type": []string{"string", "null"}, "format": "date-time"},
	"api.FilterJSON":   ref("Filter"),
	"api.SessionItems": {"type": "array", "items": ref("ChatMessage")},
	"policy.Span":      {"type": "integer"},
	"usage.USD":        {"type": "number"},
}

// objectKeys are keys of JSON as it is that is always an object.
var objectKeys = map[string]bool{"metadata": true, "properties": true}

// openSchemas are the schemas that have other keys than those which they name.
var openSchemas = map[string]bool{"SessionMessage": true, "NewMessage": true, "DatabaseStats": true}

// filterSchemas are the schemas of filters, in JSON and as text, and of a message in the usual forms.
func filterSchemas() object {
	var operators []string
	for o := filter.OpEq; o.String() != "unknown"; o++ {
		operators = append(operators, o.String())
	}
	list := func(key, what string) object {
		return object{
			"type": "object", "additionalProperties": false, "required": []string{key}, "description": what,
			"properties": object{key: object{"type": "array", "items": ref("FilterNode"), "description": "The filters that it joins."}},
		}
	}
	scalar := []string{"string", "number", "boolean", "null"}
	condition := object{"field": "kind", "op": "eq", "value": "fact"}
	return object{
		"Filter": object{
			"description": "A filter that chooses memories by their fields, as text or as JSON. The text has conditions such as priority >= 3, joined by and, or, not and parentheses.",
			"oneOf":       []object{{"type": "string", "minLength": 1, "description": "A filter as text."}, ref("FilterNode")},
			"examples":    []any{`kind = fact and (tag in (work, home) or not text icontains "draft")`, condition, object{"AND": []object{condition, {"NOT": object{"field": "pinned", "op": "eq", "value": true}}}}},
		},
		"FilterNode": object{
			"description": "A condition, or other filters joined.",
			"oneOf":       []object{ref("FilterCondition"), ref("FilterAnd"), ref("FilterOr"), ref("FilterNot")},
		},
		"FilterCondition": object{
			"type": "object", "additionalProperties": false, "required": []string{"field", "op"},
			"description": "A condition on one field of a memory.", "examples": []any{condition, object{"field": "metadata.tags", "op": "contains", "value": "work"}, object{"field": "due", "op": "exists"}},
			"properties": object{
				"field": object{"type": "string", "minLength": 1, "description": "The field: id, user, agent, run, role, kind, source, name, aliases, text, pinned, importance, confidence, access_count, created_at, updated_at, event_time, expires_at, last_accessed, or a key of the metadata, as topic or metadata.topic.", "examples": []string{"kind", "metadata.topic"}},
				"op":    object{"type": "string", "enum": operators, "description": "The operator."},
				"value": object{
					"description": "What the field is compared with: a list for in and nin; nothing for exists.",
					"anyOf":       []object{{"type": scalar}, {"type": "array", "items": object{"type": scalar}}},
				},
			},
		},
		"FilterAnd": list("AND", "All of the filters hold."),
		"FilterOr":  list("OR", "One of the filters holds."),
		"FilterNot": object{
			"type": "object", "additionalProperties": false, "required": []string{"NOT"}, "description": "The filter does not hold.",
			"properties": object{"NOT": object{"$ref": "#/components/schemas/FilterNode", "description": "The filter that must not hold."}},
		},
		"ChatMessage": object{
			"type": "object", "additionalProperties": true, "description": "A message in the form of OpenAI, of Anthropic or of memdb.",
			"examples": []any{object{"role": "user", "content": "I prefer tea"}},
			"properties": object{
				"role":    object{"type": "string", "description": "Who wrote the message: user, assistant, system or tool."},
				"content": object{"description": "The text, or a list of parts.", "anyOf": []object{{"type": "string"}, {"type": "array", "items": object{"type": "object", "additionalProperties": true}}, {"type": "null"}}},
			},
		},
	}
}
