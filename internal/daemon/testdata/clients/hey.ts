// Uses the client that @hey-api/openapi-ts has generated: node hey.js URL SCOPED-KEY ADMIN-KEY.
import assert from "node:assert/strict";
import { createClient } from "./generated/hey/client";
import { getMemdbV1Memories, getMemdbV1MemoriesId, getMemdbV1SessionsRun, getMemdbV1Users, postMemdbV1Memories, postMemdbV1Recall, postMemdbV1SessionsRunMessages } from "./generated/hey";
import type { FilterNode, Memory } from "./generated/hey";

const [baseUrl = "", scopedKey = "", adminKey = ""] = process.argv.slice(2);
const as = (auth: string) => createClient({ baseUrl, auth, headers: { Accept: "application/json" } });
const client = as(scopedKey);

async function main() {
  for (let i = 0; i < 5; i++) {
    const stored = await postMemdbV1Memories({ client, body: { id: `hey${i}`, text: `Hey likes the number ${i}`, kind: "fact", run: "hey" } });
    assert.equal(stored.response?.status, 201);
  }
  const memories: Memory[] = [];
  for (let after: string | undefined; ; ) {
    const page = await getMemdbV1Memories({ client, query: { run: "hey", limit: 2, after }, throwOnError: true });
    memories.push(...page.data.items);
    after = page.data.next;
    if (!after) break;
  }
  assert.deepEqual(memories.map((m) => m.id), ["hey0", "hey1", "hey2", "hey3", "hey4"]);

  const filter: FilterNode = { OR: [{ field: "id", op: "eq", value: "hey3" }, { field: "pinned", op: "eq", value: true }] };
  const found = await postMemdbV1Recall({ client, body: { query: "number", run: "hey", filter }, throwOnError: true });
  assert.deepEqual(found.data.hits.map((h) => h.id), ["hey3"]);

  await postMemdbV1SessionsRunMessages({ client, path: { run: "hey talk" }, body: { text: "Hello" }, throwOnError: true });
  const talk = await getMemdbV1SessionsRun({ client, path: { run: "hey talk" }, throwOnError: true });
  assert.equal(talk.data.count, 1);

  const missing = await getMemdbV1MemoriesId({ client, path: { id: "nothing" } });
  assert.equal(missing.error?.error.code, "not_found");
  const refused = await getMemdbV1Users({ client });
  assert.equal(refused.error?.error.code, "denied");
  const users = await getMemdbV1Users({ client: as(adminKey), throwOnError: true });
  assert.deepEqual(users.data.items.map((u) => u.user), ["ada"]);

  console.log("@hey-api/openapi-ts: ok");
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
