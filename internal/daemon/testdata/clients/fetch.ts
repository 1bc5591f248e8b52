// Uses the types that openapi-typescript has generated, with openapi-fetch: node fetch.js URL SCOPED-KEY ADMIN-KEY.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/schema";

type Memory = components["schemas"]["Memory"];
type Filter = components["schemas"]["Filter"];

const [baseUrl = "", scopedKey = "", adminKey = ""] = process.argv.slice(2);
const as = (key: string) => createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}`, Accept: "application/json" } });
const scoped = as(scopedKey);
const admin = as(adminKey);

async function main() {
  // Store: 201 for a new memory, 200 for one that is there already.
  const stored = await scoped.POST("/memdb/v1/memories", { body: { id: "first", text: "Ada prefers green tea", kind: "fact", metadata: { topic: "drinks" } } });
  assert.equal(stored.error, undefined);
  assert.equal(stored.response.status, 201);
  const id: string = stored.data.id;
  const again = await scoped.POST("/memdb/v1/memories", { body: { id, text: "Ada prefers green tea", kind: "fact", metadata: { topic: "drinks" } } });
  assert.equal(again.response.status, 200);
  assert.equal(again.data?.stored, false);
  const batch = await scoped.POST("/memdb/v1/memories/batch", {
    body: { memories: Array.from({ length: 24 }, (_, i) => ({ id: `m${i}`, text: `Ada notes the number ${i}`, kind: "message" as const })) },
  });
  assert.deepEqual(batch.data?.results.map((r) => r.stored), Array(24).fill(true));

  // Get, change and history.
  const got = await scoped.GET("/memdb/v1/memories/{id}", { params: { path: { id } } });
  assert.ok(got.data);
  const memory: Memory = got.data;
  assert.equal(memory.type, "memory");
  assert.equal(memory.kind, "fact");
  assert.equal(memory.user, "ada");
  assert.deepEqual(memory.metadata, { topic: "drinks" });
  const changed = await scoped.PATCH("/memdb/v1/memories/{id}", { params: { path: { id } }, body: { text: "Ada prefers black tea", expires_at: null } });
  assert.equal(changed.data?.text, "Ada prefers black tea");
  const history = await scoped.GET("/memdb/v1/memories/{id}/history", { params: { path: { id } } });
  assert.deepEqual(history.data?.items.map((e) => e.event), ["ADD", "UPDATE"]);

  // Pages to the end of a list: each memory once.
  const ids: string[] = [];
  for (let after: string | undefined; ; ) {
    const page = await scoped.GET("/memdb/v1/memories", { params: { query: { limit: 7, after } } });
    assert.ok(page.data, JSON.stringify(page.error));
    assert.equal(page.data.items.length, page.data.count);
    ids.push(...page.data.items.map((m) => m.id));
    after = page.data.next;
    if (!after) break;
  }
  assert.equal(ids.length, 25);
  assert.equal(new Set(ids).size, 25);

  // Recall with a filter as JSON and as text.
  const facts: Filter = { AND: [{ field: "kind", op: "eq", value: "fact" }, { NOT: { field: "metadata.topic", op: "in", value: ["food", "music"] } }] };
  for (const filter of [facts, "kind = fact and metadata.topic = drinks"]) {
    const found = await scoped.POST("/memdb/v1/recall", { body: { query: "tea", limit: 3, filter, explain: true } });
    assert.ok(found.data, JSON.stringify(found.error));
    assert.deepEqual(found.data.hits.map((h) => h.id), [id]);
    const score: number = found.data.hits[0]?.score ?? 0;
    assert.ok(score > 0);
    assert.ok(found.data.plan);
  }
  const listed = await scoped.GET("/memdb/v1/memories", { params: { query: { filter: "kind = fact" } } });
  assert.equal(listed.data?.count, 1);

  // Sessions.
  for (const text of ["Hello", "Good morning"]) {
    const said = await scoped.POST("/memdb/v1/sessions/{run}/messages", { params: { path: { run: "talk" } }, body: { text, channel: "web" } });
    assert.equal(said.data?.session, "talk");
  }
  const sessions = await scoped.GET("/memdb/v1/sessions", { params: { query: { channel: "web" } } });
  assert.deepEqual(sessions.data?.items.map((s) => [s.session, s.messages]), [["talk", 2]]);
  const talk = await scoped.GET("/memdb/v1/sessions/{run}", { params: { path: { run: "talk" } } });
  const texts = talk.data?.items.map((m) => (m.type === "message" ? m.text : m.archive_name));
  assert.deepEqual(texts, ["Hello", "Good morning"]);

  // Values, notes and the graph.
  const put = await scoped.PUT("/memdb/v1/kv/{key}", { params: { path: { key: "a/b" } }, body: { theme: "dark" } });
  assert.deepEqual(put.data?.value, { theme: "dark" });
  const note = await scoped.POST("/memdb/v1/notes", { body: { name: "plan", content: "Buy tea" } });
  assert.equal(note.data?.kind, "note");
  const entity = await scoped.POST("/memdb/v1/graph/entities", { body: { id: "ada", type: "person", name: "Ada", relations: [{ target: "tea", type: "likes" }] } });
  assert.equal(entity.data?.created, true);

  // Errors have their type: of a scoped key, of what is not there, and of a bad filter.
  const missing = await scoped.GET("/memdb/v1/memories/{id}", { params: { path: { id: "nothing" } } });
  assert.equal(missing.response.status, 404);
  assert.equal(missing.error?.error.code, "not_found");
  const refused = await scoped.GET("/memdb/v1/users");
  assert.equal(refused.response.status, 403);
  assert.ok(refused.error && refused.error.error.message.length > 0 && refused.error.error.request_id.length > 0);
  const foreign = await scoped.GET("/memdb/v1/memories", { params: { query: { user: "bob" } } });
  assert.equal(foreign.error?.error.code, "denied");
  const malformed = await scoped.POST("/memdb/v1/recall", { body: { query: "tea", filter: "kind = = fact" } });
  assert.equal(malformed.error?.error.code, "invalid");
  const unknown = await as("none").GET("/memdb/v1/memories");
  assert.equal(unknown.response.status, 401);

  // An administrator.
  const users = await admin.GET("/memdb/v1/users");
  assert.deepEqual(users.data?.items.map((u) => u.user), ["ada"]);
  const stats = await admin.GET("/memdb/v1/stats");
  assert.ok((stats.data?.memories ?? 0) >= 25);
  const groups = await admin.GET("/memdb/v1/groups", { params: { query: { by: "user", all_scopes: true } } });
  assert.equal(groups.data?.items[0]?.user, "ada");
  const log = await admin.GET("/memdb/v1/log", { params: { query: { all_scopes: true, limit: 2 } } });
  assert.equal(log.data?.items.length, 2);
  const dry = await admin.POST("/memdb/v1/evict", { params: { query: { all_scopes: true, dry_run: true } } });
  const last = dry.data?.items.at(-1);
  assert.ok(last && "evicted" in last);

  console.log("openapi-fetch: ok");
}

// What does not fit the document does not compile.
export const wrong = () => [
  // @ts-expect-error a kind is one of a closed set
  scoped.POST("/memdb/v1/memories", { body: { text: "x", kind: "thought" } }),
  // @ts-expect-error a note needs its content
  scoped.POST("/memdb/v1/notes", { body: { name: "x" } }),
  // @ts-expect-error a condition needs a field
  scoped.POST("/memdb/v1/recall", { body: { query: "x", filter: { op: "eq", value: 1 } } }),
  // @ts-expect-error the path needs an ID
  scoped.GET("/memdb/v1/memories/{id}", {}),
];

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
