package neo4j

import "maps"

// statement is one of those that are sent: the name of a constant text, and how many columns
// its rows have. All values of rows are texts.
type statement struct {
	name, text string
	columns    int
}

// selected holds for the nodes n of a selection.
const selected = `n.space = $space AND ($all OR ($exact AND n.user = $user AND n.agent = $agent AND n.run = $run) ` +
	`OR (NOT $exact AND ($user = '' OR n.user = $user) AND ($agent = '' OR n.agent = $agent) AND ($run = '' OR n.run = $run)))`

// Each entity and each fact is one node; names are found by their first words. The schema is
// made before the first change; a user who may not make it works without, more slowly.
var schema = []statement{
	{"schema of entities", `CREATE CONSTRAINT memdb_entity IF NOT EXISTS FOR (n:MemdbEntity) REQUIRE n.key IS UNIQUE`, 0},
	{"schema of facts", `CREATE CONSTRAINT memdb_fact IF NOT EXISTS FOR (n:MemdbFact) REQUIRE n.key IS UNIQUE`, 0},
	{"schema of names", `CREATE INDEX memdb_name IF NOT EXISTS FOR (n:MemdbEntity) ON (n.space, n.first)`, 0},
}

var (
	putEntities = statement{"put entities", `UNWIND $entities AS x MERGE (n:MemdbEntity {key: x.key}) ` +
		`SET n.space = $space, n.user = $user, n.agent = $agent, n.run = $run, n.name = x.name, n.words = x.words, n.first = x.first, n.type = x.type, n.description = x.description`, 0}
	putLinks = statement{"put links", `UNWIND $links AS x MATCH (n:MemdbEntity {key: x.entity}) MERGE (f:MemdbFact {key: x.fact}) ` +
		`SET f.space = $space, f.user = $user, f.agent = $agent, f.run = x.run, f.id = x.id MERGE (n)-[:MEMDB_TOLD_BY]->(f)`, 0}
	putRelations = statement{"put relations", `UNWIND $relations AS x MATCH (a:MemdbEntity {key: x.from}) MATCH (b:MemdbEntity {key: x.to}) ` +
		`MERGE (a)-[:MEMDB_RELATION {type: x.type}]->(b) RETURN x.place AS place`, 1}
	dropLinks    = statement{"drop links", `UNWIND $links AS x MATCH (:MemdbEntity {key: x.entity})-[t:MEMDB_TOLD_BY]->(:MemdbFact {key: x.fact}) DELETE t`, 0}
	dropFacts    = statement{"drop facts", `MATCH (f:MemdbFact) WHERE f.key IN $facts DETACH DELETE f`, 0}
	dropLoose    = statement{"drop loose entities", `MATCH (n:MemdbEntity) WHERE n.key IN $entities AND NOT (n)-[:MEMDB_TOLD_BY]->() DETACH DELETE n`, 0}
	dropEntities = statement{"drop entities of a selection", `MATCH (n:MemdbEntity) WHERE ` + selected + ` DETACH DELETE n`, 0}
	dropFactsOf  = statement{"drop facts of a selection", `MATCH (n:MemdbFact) WHERE ` + selected + ` DETACH DELETE n`, 0}
	readLinks    = statement{"read links", `MATCH (n:MemdbEntity)-[:MEMDB_TOLD_BY]->(f:MemdbFact) WHERE f.key IN $facts RETURN f.key AS fact, n.key AS entity, n.name AS name`, 3}
	readNamed    = statement{"read named entities", `MATCH (n:MemdbEntity) WHERE n.first IN $words AND $text CONTAINS n.words AND ` + selected +
		` RETURN n.key AS key, n.name AS name ORDER BY name, key LIMIT $limit`, 2}
	readBeside = statement{"read entities beside", `MATCH (a:MemdbEntity)-[:MEMDB_RELATION]-(n:MemdbEntity) WHERE a.key IN $keys AND ` + selected +
		` RETURN DISTINCT n.key AS key, n.name AS name ORDER BY name, key LIMIT $limit`, 2}
	readBetween = statement{"read relations between", `MATCH (a:MemdbEntity)-[r:MEMDB_RELATION]->(b:MemdbEntity) WHERE a.key IN $keys AND b.key IN $keys ` +
		`RETURN a.name AS source, r.type AS relation, b.name AS target ORDER BY source, relation, target LIMIT $limit`, 3}
	readFacts = statement{"read facts", `MATCH (n:MemdbEntity)-[:MEMDB_TOLD_BY]->(f:MemdbFact) WHERE n.key IN $keys RETURN DISTINCT f.id AS id ORDER BY id LIMIT $limit`, 1}
)

// statements are all that are sent, by their names.
var statements = func() map[string]string {
	all := map[string]string{}
	for _, s := range append(schema, putEntities, putLinks, putRelations, dropLinks, dropFacts, dropLoose, dropEntities, dropFactsOf, readLinks, readNamed, readBeside, readBetween, readFacts) {
		all[s.name] = s.text
	}
	return all
}()

// Statements are all statements that a Store sends, by names: for administrators who decide
// what a user may do, and for stand-ins in tests.
func Statements() map[string]string { return maps.Clone(statements) }
