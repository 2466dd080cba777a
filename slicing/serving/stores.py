"""The store of a URL."""

from __future__ import annotations

from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.serving.store import Store


def store_of(given: str | Store) -> Store:
    """Return the store of a URL; a store itself is returned. Raises InvalidType and InvalidValue."""
    if not isinstance(given, str):
        if all(hasattr(given, name) for name in ("put", "publish", "read", "remove")):
            return given
        raise InvalidType(f"a store is a URL, or has the methods of `Store`; got {excerpt(given)}. {_EXAMPLES}")
    scheme = given.partition("://")[0]
    if scheme == "sqlite":
        from slicing.serving.sqlite import SqliteStore

        return SqliteStore(given)
    if scheme in ("postgresql", "postgres"):
        from slicing.serving.postgresql import PostgresStore

        return PostgresStore(given)
    if scheme in ("redis", "rediss"):
        from slicing.serving.redis import RedisStore

        return RedisStore(given)
    raise InvalidValue(f"the URL of a store begins with its kind; got {excerpt(given)}. {_EXAMPLES}")


_EXAMPLES = 'Write for example "sqlite:///features.db", "postgresql://host/database" or "redis://host:6379/0".'
