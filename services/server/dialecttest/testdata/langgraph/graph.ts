// Uses MemdbStore in a compiled graph, and compares it with LangGraph's InMemoryStore.
import { Annotation, BaseStore, InMemoryStore, START, StateGraph } from "@langchain/langgraph";
import type { LangGraphRunnableConfig } from "@langchain/langgraph";
import { MemdbStore } from "./store.js";

declare const process: { argv: string[] };
const url = process.argv[2]!;

// JSON with the keys of objects in their order.
const json = (v: unknown) => JSON.stringify(v, (_, x) => (x && typeof x === "object" && !Array.isArray(x) ? Object.fromEntries(Object.entries(x).sort()) : x));

function same(what: string, got: unknown, want: unknown) {
  const [g, w] = [json(got), json(want)];
  if (g !== w) throw new Error(`${what}: got ${g}, want ${w}`);
}

const State = Annotation.Root({ said: Annotation<string> });

async function inGraph(store: BaseStore) {
  const node = async (_: typeof State.State, config: LangGraphRunnableConfig) => {
    const s = config.store!;
    await s.put(["in", "graph"], "k", { text: "likes tea" });
    const [item, found] = await Promise.all([s.get(["in", "graph"], "k"), s.search(["in"], { filter: { text: "likes tea" } })]);
    await s.delete(["in", "graph"], "k");
    return { said: `${item?.value.text}, ${found.length} found, then ${await s.get(["in", "graph"], "k")}` };
  };
  const graph = new StateGraph(State).addNode("n", node).addEdge(START, "n").compile({ store });
  return graph.invoke({ said: "" });
}

// Everything that the operations of a store answer, but for times and the order of a search without a query.
async function operations(store: BaseStore) {
  const byKey = (items: { namespace: string[]; key: string; value: unknown }[]) =>
    items.map(({ namespace, key, value }) => ({ namespace, key, value })).sort((a, b) => (a.namespace + a.key < b.namespace + b.key ? -1 : 1));
  for (const [namespace, key, value] of [
    [["users", "ada"], "drink", { text: "prefers tea", cups: 3, list: [1, { a: null }] }],
    [["users", "ada", "work"], "drink", { text: "coffee at work", cups: 5 }],
    [["users", "bob"], "a/b ?&.é🍵", { text: "\u0000 \u2028 quotes \" and 日本語", cups: 1.5 }],
    [["users", "bob"], "drink", { cups: true }],
    [["other"], "drink", {}],
  ] as [string[], string, Record<string, any>][]) await store.put(namespace, key, value);
  await store.put(["users", "ada"], "drink", { text: "prefers green tea", cups: 4 });
  const out: unknown[] = [];
  for (const [namespace, key] of [[["users", "ada"], "drink"], [["users", "bob"], "a/b ?&.é🍵"], [["users"], "drink"], [["nobody"], "drink"]] as [string[], string][])
    out.push(byKey([(await store.get(namespace, key)) ?? { namespace, key, value: null }]));
  for (const options of [{}, { filter: { cups: 5 } }, { filter: { cups: { $gte: 2, $lt: 5 } } }, { filter: { cups: { $ne: 5 } } }, { limit: 100, offset: 0 }])
    for (const prefix of [[], ["users"], ["users", "bob"], ["nobody"]]) out.push(byKey(await store.search(prefix, options)));
  out.push((await store.search(["users"], { limit: 2 })).length, (await store.search(["users"], { limit: 2, offset: 3 })).length);
  for (const options of [{}, { prefix: ["users"] }, { suffix: ["work"] }, { prefix: ["users"], maxDepth: 2 }, { prefix: ["users", "*", "work"] }])
    out.push((await store.listNamespaces(options)).map(String).sort());
  out.push(await store.batch([
    { namespace: ["batch"], key: "k", value: { n: 1 } },
    { namespacePrefix: ["batch"], limit: 10, offset: 0 },
    { namespace: ["batch"], key: "k", value: null },
  ]).then(([put, found, gone]) => [put ?? null, byKey(found as never), gone ?? null]));
  for (const [namespace, key] of [[["users", "ada"], "drink"], [["users", "ada"], "drink"]] as [string[], string][]) await store.delete(namespace, key);
  out.push(await store.get(["users", "ada"], "drink"), (await store.search([])).length);
  for (const namespace of [[], ["a.b"], [""], ["langgraph", "x"]]) out.push(await store.put(namespace, "k", {}).then(() => "stored", (e: Error) => e.name));
  return out;
}

const memdb = new MemdbStore(url), memory = new InMemoryStore();
if (!(memdb instanceof BaseStore)) throw new Error("MemdbStore is no BaseStore");
for (const store of [memdb, new InMemoryStore()]) same("in a graph", await inGraph(store), { said: "likes tea, 1 found, then null" });
const [got, want] = [await operations(memdb), await operations(memory)];
want.forEach((w, i) => same(`answer ${i}`, got[i], w));

await memdb.put(["query"], "a", { text: "keeps bees" });
await memdb.put(["query"], "b", { text: "plays the viola" });
const [hit] = await memdb.search(["query"], { query: "bees" });
same("search by a query", [hit?.key, typeof hit?.score, hit?.updatedAt instanceof Date], ["a", "number", true]);
const failed = await memdb.put(["users"], "", {}).then(() => "stored", (e: Error) => e.message);
if (!failed.includes("key: give one of 1 to")) throw new Error(`an empty key: ${failed}`);
const gone = await new MemdbStore(url + "/nowhere").get(["a"], "k").then(() => "read", () => "failed");
same("an address without a store", gone, "failed");
console.log("ok");
