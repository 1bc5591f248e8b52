"""MemdbStore keeps LangGraph's store in memdbd. It is a BaseStore: pass it to compile() as the store of a graph.

    store = MemdbStore("http://127.0.0.1:7070", key)
    graph = builder.compile(store=store)

It needs langgraph 1.x and nothing else.
"""

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime

from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, PutOp, SearchItem, SearchOp


class MemdbStore(BaseStore):
    """A BaseStore over memdbd.

    url is the address of memdbd, and key an API key: its scope is whose items the store has. ttl is a TTLConfig:
    after how many minutes without a read items expire (default_ttl), and whether reads count (refresh_on_read).
    """

    supports_ttl = True

    def __init__(self, url="http://127.0.0.1:7070", key=None, ttl=None):
        self.url, self.key, self.ttl_config = url.rstrip("/"), key, ttl

    def batch(self, ops):
        """Runs operations as LangGraph's own stores do: reads see the state before the batch, and of puts of one key the
        last counts."""
        ops = list(ops)
        results = [None if isinstance(op, PutOp) else self._run(op) for op in ops]
        for op in {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}.values():
            self._put(op)
        return results

    async def abatch(self, ops):
        """Is batch in a thread of its own."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _run(self, op):
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise ValueError(f"{type(op).__name__} is no operation of a store")

    def _get(self, op):
        query = {"namespace": ".".join(op.namespace), "key": op.key, "refresh_ttl": "true" if op.refresh_ttl else "false"}
        found = self._ask("GET", "/store/items?" + urllib.parse.urlencode(query))
        return found and Item(**_fields(found))

    def _put(self, op):
        item = {"namespace": op.namespace, "key": op.key}
        if op.value is not None:
            self._ask("PUT", "/store/items", item | {"value": op.value, "index": op.index, "ttl": op.ttl})
        else:
            self._ask("DELETE", "/store/items", item)

    def _search(self, op):
        body = {"namespace_prefix": op.namespace_prefix, "filter": op.filter, "limit": op.limit, "offset": op.offset}
        body |= {"query": op.query, "refresh_ttl": op.refresh_ttl}
        items = self._ask("POST", "/store/items/search", body)["items"]
        return [SearchItem(score=i["score"], **_fields(i)) for i in items]

    def _namespaces(self, op):
        body = {"max_depth": op.max_depth, "limit": op.limit, "offset": op.offset}
        for condition in op.match_conditions or ():
            if condition.match_type in body:
                raise ValueError(f"list_namespaces: memdb takes one {condition.match_type}; leave the others out")
            body[condition.match_type] = condition.path
        return [tuple(n) for n in self._ask("POST", "/store/namespaces", body)["namespaces"]]

    def _ask(self, method, path, body=None):
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["X-Api-Key"] = self.key
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                text = reply.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as e:
            try:
                detail = json.load(e)["detail"]
            except (ValueError, KeyError):
                detail = f"{e.code} {e.reason}"
            if detail == "Item not found":
                return None
            raise RuntimeError(f"{method} {path}: {detail}") from None


def _fields(item):
    """Returns the arguments that Item and SearchItem share."""
    return {
        "namespace": tuple(item["namespace"]),
        "key": item["key"],
        "value": item["value"],
        "created_at": datetime.fromisoformat(item["created_at"].replace("Z", "+00:00")),
        "updated_at": datetime.fromisoformat(item["updated_at"].replace("Z", "+00:00")),
    }
