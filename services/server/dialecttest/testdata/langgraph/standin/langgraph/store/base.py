"""A stand-in for langgraph.store.base, for machines without langgraph: the names and defaults that a subclass of
BaseStore needs, as the reference of langgraph-checkpoint 4 documents them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple


class GetOp(NamedTuple):
    namespace: tuple
    key: str
    refresh_ttl: bool = True


class SearchOp(NamedTuple):
    namespace_prefix: tuple
    filter: dict | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


class PutOp(NamedTuple):
    namespace: tuple
    key: str
    value: dict | None
    index: Any = None
    ttl: float | None = None


class MatchCondition(NamedTuple):
    match_type: str
    path: tuple


class ListNamespacesOp(NamedTuple):
    match_conditions: tuple | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


@dataclass(kw_only=True)
class Item:
    value: dict
    key: str
    namespace: tuple
    created_at: datetime
    updated_at: datetime


@dataclass(kw_only=True)
class SearchItem(Item):
    score: float | None = None


class BaseStore(ABC):
    supports_ttl = False
    ttl_config: dict | None = None

    @abstractmethod
    def batch(self, ops): ...

    @abstractmethod
    async def abatch(self, ops): ...

    def _refresh(self, asked):
        return (self.ttl_config or {}).get("refresh_on_read", True) if asked is None else asked

    def _conditions(self, prefix, suffix):
        return tuple(MatchCondition(kind, path) for kind, path in (("prefix", prefix), ("suffix", suffix)) if path)

    def get(self, namespace, key, *, refresh_ttl=None):
        return self.batch([GetOp(namespace, str(key), self._refresh(refresh_ttl))])[0]

    def search(self, namespace_prefix, /, *, query=None, filter=None, limit=10, offset=0, refresh_ttl=None):
        return self.batch([SearchOp(namespace_prefix, filter, limit, offset, query, self._refresh(refresh_ttl))])[0]

    def put(self, namespace, key, value, index=None, *, ttl=...):
        if ttl is ...:
            ttl = (self.ttl_config or {}).get("default_ttl")
        elif not self.supports_ttl:
            raise NotImplementedError
        self.batch([PutOp(namespace, str(key), value, index, ttl)])

    def delete(self, namespace, key):
        self.batch([PutOp(namespace, str(key), None)])

    def list_namespaces(self, *, prefix=None, suffix=None, max_depth=None, limit=100, offset=0):
        return self.batch([ListNamespacesOp(self._conditions(prefix, suffix), max_depth, limit, offset)])[0]

    async def aget(self, namespace, key, *, refresh_ttl=None):
        return (await self.abatch([GetOp(namespace, str(key), self._refresh(refresh_ttl))]))[0]

    async def aput(self, namespace, key, value, index=None, *, ttl=None):
        await self.abatch([PutOp(namespace, str(key), value, index, ttl)])
