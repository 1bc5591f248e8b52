package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// seedCases are the cases of seed D (section 15) and the sentences of the other seeds that
// are the engine's, each with the tests that show it.
var seedCases = []struct{ says, tests string }{
	{"D 5: search with limit", "engine.TestSeedD_05_SearchWithLimit"},
	{"D 6: get by ID", "engine.TestSeedD_06_GetByID"},
	{"D 7: get nonexistent", "engine.TestSeedD_07_GetNonexistent"},
	{"D 8: get all for scope", "engine.TestSeedD_08_GetAllForScope"},
	{"D 9: update overwrites", "engine.TestSeedD_09_UpdateOverwrites"},
	{"D 10: update changes hash", "engine.TestSeedD_10_UpdateChangesHash"},
	{"D 11: delete removes", "engine.TestSeedD_11_DeleteRemoves"},
	{"D 12: delete all for scope", "engine.TestSeedD_12_DeleteAllForScope"},
	{"D 13: reset clears everything", "engine.TestSeedD_13_ResetClearsEverything internal/cli.TestReset"},
	{"D 14: deduplication", "engine.TestDedup"},
	{"D 19: scope isolation", "engine.TestSeedD_19_ScopeIsolation"},
	{"D 20: multi-scope filter", "engine.TestSeedD_20_MultiScopeFilter"},
	{"D 21: missing scope error", "engine.TestSeedD_21_MissingScopeError internal/cli.TestScopeFlags"},
	{"D 22: run isolation", "engine.TestSeedD_22_RunIsolation"},
	{"D 23: add creates history", "engine.TestSeedD_23_AddCreatesHistory"},
	{"D 24: update appends history", "engine.TestSeedD_24_UpdateAppendsHistory"},
	{"D 25: delete marks in history", "engine.TestSeedD_25_DeleteMarksHistory"},
	{"D 26: history ordered by time", "engine.TestSeedD_26_HistoryOrderedByTime"},
	{"D 27: equals filter", "engine.TestSeedD_27_EqualsFilter"},
	{"D 28: in filter", "engine.TestSeedD_28_InFilter"},
	{"D 29: AND composition", "engine.TestSeedD_29_AndComposition"},
	{"D 30: OR composition", "engine.TestSeedD_30_OrComposition"},
	{"D 31: NOT negation", "engine.TestSeedD_31_NotNegation"},
	{"D 32: contains string", "engine.TestSeedD_32_ContainsString"},
	{"D 7.2: semantics of the ten operators", "engine.TestFilterCases engine.TestFilterAgainstNaive"},

	{"B: one store behind all", "engine.TestSeedB_StoresShareOneCommit"},
	{"B: async, without blocking, with ACID", "engine.TestSeedB_ManyAgentsAtOnce engine.TestViewDoesNotWait fuzz.TestKill"},
	{"B: concurrent reads beside a write", "engine.TestSeedB_ReadsBesideAWrite"},
	{"B: a busy timeout of 5 seconds", "engine.TestSeedB_BusyTimeout internal/cli.TestLocked"},
	{"B: deleting an agent cascades", "engine.TestSeedB_DeletingAnAgent"},
	{"B: opening creates what is not there", "engine.TestSeedB_OpenCreates"},
	{"B KV: set and get by agent", "engine.TestSeedB_KVSetAndGet"},
	{"B KV: get is an Option", "engine.TestSeedB_KVGetOfAnAbsentKey"},
	{"B KV: list all keys of an agent", "engine.TestSeedB_KVListsAllKeysOfAnAgent"},
	{"B KV: delete", "engine.TestSeedB_KVDelete"},
	{"B KV: look-up by exact key", "engine.TestSeedB_KVExactKey"},
	{"B KV: state, metrics, overrides", "engine.TestSeedB_KVAgentState"},
	{"B KV: cached results", "engine.TestSeedB_KVCachedResults"},
	{"B KV: JSON, updated_at, primary key, persistent", "engine.TestSeedB_KVSchema"},
	{"B recall: fragments with a source of six", "engine.TestSeedB_StoreWithASource"},
	{"B recall: top 5 of an agent and a source", "engine.TestSeedB_RecallWithAFilter"},
	{"B recall: 1. keyword match score (BM25)", "engine.TestSeedB_RecallByKeywords"},
	{"B recall: 2. recency", "engine.TestSeedB_RecallByRecency"},
	{"B recall: 3. access frequency, decay-based", "engine.TestSeedB_RecallByAccess"},
	{"B recall: all of it by its formula", "engine.TestBestAndSubstrateEqualBruteForce"},
	{"B recall: cosine with all stored vectors", "engine.TestSeedB_RecallWithEmbedding"},
	{"B recall: the fragment's fields and defaults", "engine.TestSeedB_FragmentSchema"},
	{"B embeddings: pluggable drivers, dimensions", "engine.TestSeedB_EmbeddingDriver"},
	{"B embeddings: embed_batch", "engine.TestSeedB_EmbedBatch"},
	{"B embeddings: not required", "engine.TestSeedB_RecallWithoutADriver"},
	{"B embeddings: a cache of the last 10,000", "engine.TestSeedB_EmbeddingCache"},
	{"B export and import of an agent", "exchange.TestSeedB_ExportAndImport exchange.TestExportOfAScope"},
	{"B export and import: one document, any agent, counts", "exchange.TestSeedB_ImportOfADocument exchange.TestImportIntoAgent internal/cli.TestExportAsADocument"},
	{"B agents: manifests, implicit or demanded", "engine.TestStrictAgents exchange.TestImportOfStrictAgents"},
	{"B agents: deleting one cascades to all it has", "engine.TestDeleteAgent engine.TestSeedBGraphGoesWithItsAgent"},
	{"B sessions: created or loaded", "engine.TestSessionSeedGetOrCreate engine.TestSessionSeedTheConversationContinuesWhereItWas"},
	{"B sessions: messages are appended, of any content", "engine.TestSessionAppend engine.TestSessionSeedMessageContentOfSeveralParts"},
	{"B sessions: saved", "engine.TestSessionSeedSaveUpdatesTheMessageHistory engine.TestSessionSeedALongSessionIsSavedAsideAndShownByOneCommit engine.TestSessionSaveLeftHalfWay"},
	{"B sessions: scoped by channel", "engine.TestSessionSeedSessionsAreChannelScoped"},
	{"B sessions: cut at 20, the oldest first", "engine.TestSessionSeedASessionOfMoreThan20MessagesLosesTheOldest"},
	{"B sessions: old ones are archived and exported", "engine.TestSessionSeedOldSessionsAreArchivedAndExported"},
	{"B usage: the record of a call", "engine.TestSeedUsageRecord"},
	{"B usage: every call of a model", "services/meter.TestCount"},
	{"B usage: totals of cost and tokens, rank by cost", "engine.TestSeedUsage"},

	{"A store: session_id updates the session", "engine.TestSessionSeedUpdatesSessionMetadataIfSessionIDProvided"},
	{"A sessions: list of an agent", "engine.TestSessionSeedListsAllSessionsForASpecificAgent engine.TestSessionListOfThePast"},
	{"A compact 1 and 2: threshold 30, keep 10, or given", "engine.TestSessionSeedSplitsIntoMessagesToSummariseAndRecentOnesToKeep engine.TestSessionSeedThresholdAndKeepRecentAreThoseOfTheCall"},
	{"A compact 3: full content from memory", "engine.TestSessionSeedFetchesFullMessageContentFromMemory"},
	{"A compact 4: chunks of 80,000 characters", "engine.TestSessionSeedChunksConversationTextAtMost80KCharsPerChunk"},
	{"A compact 5: by a model", "services/summarize.TestCompact engine.TestSessionSeedACompactionThatFailsChangesNothing"},
	{"A compact 6: a system message of importance 0.9", "engine.TestSessionSeedThresholdAndKeepRecentAreThoseOfTheCall"},
	{"A compact 7: the session has summary and recent", "engine.TestSessionSeedUpdatesTheSessionWithSummaryAndRecentMessages engine.TestSessionSeedTwoCompactionsAtOnceMakeOneArchive engine.TestSessionSeedAnAppendCompactsByItself"},
	{"A repair: each of the phases, and all together", "engine.TestSessionSeedRepairsEachCorruptionByItself engine.TestSessionSeedRepairIsIdempotent"},

	{"C entries: id, name, aliases, content, kind, time", "engine.TestSeedCEntries"},
	{"C names and operations", "engine.TestSeedCNames"},
	{"C search: BM25 of content and name, all matches", "engine.TestSeedCSearch"},
	{"C compaction: archive and marker, any number of times", "engine.TestSeedCCompaction engine.TestSeedCCompactedAnyNumberOfTimes"},
	{"C persistence", "engine.TestSeedCPersistence engine.TestNotesAfterCrashes"},
}

// seedTests are how the names of tests begin that show a case.
var seedTests = []string{"TestSeedB_", "TestSeedC", "TestSeedD_", "TestSeedUsage", "TestSessionSeed"}

// TestSeedCases prints which test shows what. Every test that is named is there, and
// every test of a seed is named.
func TestSeedCases(t *testing.T) {
	there := map[string]bool{}
	for _, pkg := range []string{"engine", "exchange", "fuzz", "internal/cli", "services/meter", "services/summarize"} {
		for _, name := range testsOf(t, filepath.Join("..", filepath.FromSlash(pkg))) {
			there[pkg+"."+name] = true
		}
	}
	var named []string
	for _, c := range seedCases {
		t.Logf("%-48s %s", c.says, c.tests)
		named = append(named, strings.Fields(c.tests)...)
	}
	for _, name := range named {
		if !there[name] {
			t.Errorf("there is no %s", name)
		}
	}
	for name := range there {
		ofASeed := slices.ContainsFunc(seedTests, func(begin string) bool { return strings.Contains(name, "."+begin) })
		if ofASeed && name != "engine.TestSeedCases" && !slices.Contains(named, name) {
			t.Errorf("%s shows none of the cases", name)
		}
	}
}

// testsOf are the tests of a package, read from its files.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || files == nil {
		t.Fatal(dir, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
