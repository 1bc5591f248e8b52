// LangGraph's BaseStore over memdbd, with fetch alone.
//
//   const store = new MemdbStore("http://127.0.0.1:7070", key);
//   await store.put(["users", "ada"], "drink", { text: "prefers tea" });
//   await store.search(["users"], { query: "what does she drink?" });

type Value = Record<string, unknown>;
type Item = { namespace: string[]; key: string; value: Value; created_at: string; updated_at: string; score?: number | null };
type Search = { query?: string; filter?: Value; limit?: number; offset?: number };
type Namespaces = { prefix?: string[]; suffix?: string[]; max_depth?: number; limit?: number; offset?: number };

export class MemdbStore {
  url: string;
  key?: string;

  constructor(url = "http://127.0.0.1:7070", key?: string) {
    this.url = url.replace(/\/$/, "");
    this.key = key;
  }

  async call(method: string, path: string, body?: unknown): Promise<any> {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.key) headers["X-Api-Key"] = this.key;
    const reply = await fetch(this.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    if (reply.status === 404 && method === "GET") return null;
    if (!reply.ok) throw new Error(`${method} ${path}: ${(await reply.json()).detail}`);
    return reply.status === 204 ? null : reply.json();
  }

  async put(namespace: string[], key: string, value: Value, index?: false | string[], ttl?: number): Promise<void> {
    await this.call("PUT", "/store/items", { namespace, key, value, index, ttl });
  }

  get(namespace: string[], key: string): Promise<Item | null> {
    return this.call("GET", "/store/items?" + new URLSearchParams({ namespace: namespace.join("."), key }));
  }

  async delete(namespace: string[], key: string): Promise<void> {
    await this.call("DELETE", "/store/items", { namespace, key });
  }

  async search(namespace_prefix: string[], options: Search = {}): Promise<Item[]> {
    return (await this.call("POST", "/store/items/search", { namespace_prefix, ...options })).items;
  }

  async listNamespaces(options: Namespaces = {}): Promise<string[][]> {
    return (await this.call("POST", "/store/namespaces", options)).namespaces;
  }
}

if (process.argv[1]?.endsWith("store.ts")) {
  const store = new MemdbStore(process.argv[2], process.env.MEMDB_KEY);
  await store.put(["users", "ada"], "drink", { text: "prefers tea to coffee", cups: 3 });
  console.log((await store.get(["users", "ada"], "drink"))?.value);
  console.log((await store.search(["users"], { query: "tea or coffee?", filter: { cups: { $gte: 2 } } })).map((i) => i.key));
  console.log(await store.listNamespaces({ prefix: ["users"] }));
  await store.delete(["users", "ada"], "drink");
  console.log(await store.get(["users", "ada"], "drink"));
}
