"""Uses MemdbStore by every operation of a BaseStore, and in a compiled graph where langgraph is installed."""

import asyncio
import sys
from datetime import datetime

from langgraph.store.base import BaseStore, GetOp, Item, PutOp, SearchItem, SearchOp

from store import MemdbStore


def same(what, got, want):
    assert got == want, f"{what}: got {got!r}, want {want!r}"


def keys(items):
    assert all(isinstance(i, SearchItem) and isinstance(i.updated_at, datetime) for i in items)
    return sorted(".".join(i.namespace) + "/" + i.key for i in items)


def operations(store):
    ada, bob, odd = ("py", "ada"), ("py", "bob"), "a/b ?&.é🍵"
    store.put(ada, "drink", {"text": "prefers tea", "cups": 3, "list": [1, {"a": None}]})
    store.put(ada, "drink", {"text": "prefers green tea", "cups": 4})
    store.put(bob, odd, {"text": "\0 日本語"}, index=["text"])
    store.put(bob, "unindexed", {"text": "tea"}, index=False)
    item = store.get(ada, "drink")
    same("get", (type(item), item.value, item.namespace, item.key), (Item, {"text": "prefers green tea", "cups": 4}, ada, "drink"))
    assert item.created_at < item.updated_at and item.updated_at.tzinfo
    same("get", store.get(bob, odd).value, {"text": "\0 日本語"})
    same("get of none", store.get(ada, "nothing"), None)
    same("search", keys(store.search(("py",))), ["py.ada/drink", "py.bob/" + odd, "py.bob/unindexed"])
    same("search by a filter", keys(store.search(("py",), filter={"cups": {"$gt": 3}})), ["py.ada/drink"])
    found = store.search(("py",), query="who drinks tea?", limit=1)
    same("search by a query", (keys(found), type(found[0].score)), (["py.ada/drink"], float))
    same("search by limit and offset", len(store.search(("py",), limit=2, offset=2)), 1)
    same("namespaces", store.list_namespaces(prefix=("py",)), [ada, bob])
    same("namespaces", store.list_namespaces(prefix=("py", "*"), suffix=("bob",), max_depth=1), [("py",)])
    store.delete(ada, "drink")
    store.delete(ada, "drink")
    same("batch", store.batch([PutOp(ada, "k", {"n": 1}), GetOp(ada, "k"), SearchOp(ada), PutOp(ada, "k", {"n": 2})]), [None, None, [], None])
    same("batch", store.get(ada, "k").value, {"n": 2})
    store.batch([PutOp(ada, "k", None)])
    same("search of none", store.search(ada), [])
    store.put(ada, "ttl", {"x": 1}, ttl=0.001)
    try:
        store.put(ada, "ttl", {"x": 1}, ttl=0)
        assert False, "a time to live of 0 is taken"
    except RuntimeError as e:
        assert "ttl" in str(e), e
    try:
        MemdbStore(store.url + "/nowhere").get(ada, "k")
        assert False, "an address without a store is read"
    except RuntimeError:
        pass


async def concurrently(store):
    await asyncio.gather(*(store.aput(("py", "async"), str(i), {"n": i}) for i in range(8)))
    items = await asyncio.gather(*(store.aget(("py", "async"), str(i)) for i in range(9)))
    same("aget", [i and i.value["n"] for i in items], [*range(8), None])


def in_graph(store):
    from typing import TypedDict

    from langgraph.graph import START, StateGraph

    class State(TypedDict):
        said: str

    def node(state: State, *, store: BaseStore):
        store.put(("py", "graph"), "k", {"text": "likes tea"})
        return {"said": store.get(("py", "graph"), "k").value["text"]}

    graph = StateGraph(State).add_node("n", node).add_edge(START, "n").compile(store=store)
    same("in a graph", graph.invoke({"said": ""}), {"said": "likes tea"})


store = MemdbStore(sys.argv[1])
assert isinstance(store, BaseStore)
same("ttl", MemdbStore(ttl={"default_ttl": 5}).ttl_config, {"default_ttl": 5})
operations(store)
asyncio.run(concurrently(store))
if "standin" not in sys.modules[BaseStore.__module__].__file__:
    in_graph(store)
print("ok")
