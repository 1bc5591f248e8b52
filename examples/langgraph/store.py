"""LangGraph's BaseStore over memdbd, with Python's standard library alone.

    store = MemdbStore("http://127.0.0.1:7070", key)
    store.put(("users", "ada"), "drink", {"text": "prefers tea"})
    store.search(("users",), query="what does she drink?")
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request


class MemdbStore:
    def __init__(self, url="http://127.0.0.1:7070", key=None):
        self.url, self.key = url.rstrip("/"), key

    def _call(self, method, path, body=None):
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
            if e.code == 404 and method == "GET":
                return None
            raise RuntimeError(f"{method} {path}: {json.load(e)['detail']}") from None

    def put(self, namespace, key, value, index=None, ttl=None):
        self._call("PUT", "/store/items", {"namespace": namespace, "key": key, "value": value, "index": index, "ttl": ttl})

    def get(self, namespace, key):
        query = urllib.parse.urlencode({"namespace": ".".join(namespace), "key": key})
        return self._call("GET", "/store/items?" + query)

    def delete(self, namespace, key):
        self._call("DELETE", "/store/items", {"namespace": namespace, "key": key})

    def search(self, namespace_prefix, query=None, filter=None, limit=10, offset=0):
        body = {"namespace_prefix": namespace_prefix, "query": query, "filter": filter, "limit": limit, "offset": offset}
        return self._call("POST", "/store/items/search", body)["items"]

    def list_namespaces(self, prefix=(), suffix=(), max_depth=None, limit=100, offset=0):
        body = {"prefix": prefix, "suffix": suffix, "max_depth": max_depth, "limit": limit, "offset": offset}
        return [tuple(n) for n in self._call("POST", "/store/namespaces", body)["namespaces"]]


if __name__ == "__main__":
    store = MemdbStore(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7070", os.environ.get("MEMDB_KEY"))
    store.put(("users", "ada"), "drink", {"text": "prefers tea to coffee", "cups": 3})
    print(store.get(("users", "ada"), "drink")["value"])
    print([i["key"] for i in store.search(("users",), query="tea or coffee?", filter={"cups": {"$gte": 2}})])
    print(store.list_namespaces(("users",)))
    store.delete(("users", "ada"), "drink")
    print(store.get(("users", "ada"), "drink"))
