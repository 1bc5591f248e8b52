// MemdbStore keeps LangGraph's store in memdbd. It is a BaseStore: pass it to compile() as the store of a graph.
//
//   const store = new MemdbStore("http://127.0.0.1:7070", process.env.MEMDB_KEY);
//   const graph = new StateGraph(State).addNode("n", n).addEdge(START, "n").compile({ store });
//
// It needs @langchain/langgraph 1.x and a runtime with fetch: Node.js 18 or later, Deno, Bun or a browser.

import { BaseStore } from "@langchain/langgraph";
import type { Item, ListNamespacesOperation, Operation, OperationResults, PutOperation, SearchOperation } from "@langchain/langgraph";

/** The time to live of the items of a MemdbStore. */
export interface TTLOptions {
  /** After how many minutes without a read an item expires. Default: never. */
  ttl?: number;
  /** Whether reads start the time to live of an item again. Default: true. */
  refreshTTL?: boolean;
}

type Wire = { namespace: string[]; key: string; value: Record<string, any>; created_at: string; updated_at: string; score?: number | null };

export class MemdbStore extends BaseStore {
  private readonly url: string;
  private readonly key?: string;
  private readonly options: TTLOptions;

  /** url is the address of memdbd, and key an API key: its scope is whose items the store has. */
  constructor(url = "http://127.0.0.1:7070", key?: string, options: TTLOptions = {}) {
    super();
    this.url = url.replace(/\/$/, "");
    this.key = key;
    this.options = options;
  }

  /** Runs operations as LangGraph's own stores do: reads see the state before the batch, and of puts of one key the last counts. */
  async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const results: unknown[] = [];
    const puts = new Map<string, PutOperation>();
    for (const operation of operations) {
      if ("value" in operation) puts.set(JSON.stringify([operation.namespace, operation.key]), operation);
      results.push("value" in operation ? undefined : await this.run(operation));
    }
    for (const put of puts.values()) await this.write(put);
    return results as OperationResults<Op>;
  }

  private run(operation: Exclude<Operation, PutOperation>): Promise<unknown> {
    if ("namespacePrefix" in operation) return this.find(operation);
    if ("key" in operation) return this.read(operation.namespace, operation.key);
    return this.list(operation);
  }

  private async read(namespace: string[], key: string): Promise<Item | null> {
    const query = new URLSearchParams({ namespace: namespace.join("."), key, refresh_ttl: String(this.options.refreshTTL ?? true) });
    const found = (await this.ask("GET", "/store/items?" + query)) as Wire | null;
    return found && itemOf(found);
  }

  private async write({ namespace, key, value, index }: PutOperation): Promise<void> {
    if (value === null) {
      await this.ask("DELETE", "/store/items", { namespace, key });
      return;
    }
    await this.ask("PUT", "/store/items", { namespace, key, value, index, ttl: this.options.ttl });
  }

  private async find({ namespacePrefix, ...search }: SearchOperation): Promise<Item[]> {
    const body = { namespace_prefix: namespacePrefix, refresh_ttl: this.options.refreshTTL ?? true, ...search };
    const { items } = (await this.ask("POST", "/store/items/search", body)) as { items: Wire[] };
    return items.map((i) => ({ ...itemOf(i), score: i.score ?? undefined }));
  }

  private async list({ matchConditions = [], maxDepth, limit, offset }: ListNamespacesOperation): Promise<string[][]> {
    const body: Record<string, unknown> = { max_depth: maxDepth, limit, offset };
    for (const { matchType, path } of matchConditions) {
      if (matchType in body) throw new Error(`listNamespaces: memdb takes one ${matchType}; leave the others out`);
      body[matchType] = path;
    }
    const { namespaces } = (await this.ask("POST", "/store/namespaces", body)) as { namespaces: string[][] };
    return namespaces;
  }

  private async ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.key) headers["X-Api-Key"] = this.key;
    const reply = await fetch(this.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    if (reply.ok) return reply.status === 204 ? null : reply.json();
    const detail = await reply.json().then((b) => String(b.detail), () => `${reply.status} ${reply.statusText}`);
    if (detail === "Item not found") return null;
    throw new Error(`${method} ${path}: ${detail}`);
  }
}

function itemOf({ namespace, key, value, created_at, updated_at }: Wire): Item {
  return { namespace, key, value, createdAt: new Date(created_at), updatedAt: new Date(updated_at) };
}
