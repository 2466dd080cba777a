"""Slices packed into values of Redis, by redis-py: one value for each key and level, so that a read is one round trip.

::

    head:{set}:{key}            the slices of a key
    tail:{level}:{set}:{key}    its steps of a tail
    ends:{level}:{set}          sorted set: the names of these values by the end of their first row
    manifest:{set}              progress:{set}

    value     count   directory, a row after another                           partials
              u4      start i8, end i8, epoch i4, revision i8, length i4       bytes

A tail is not stored as combined suffixes of windows: these change for every key whenever a step ends, also for keys
without new records, and answer no window that was not declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

import numpy as np

from slicing.errors import InvalidValue
from slicing.serving.drivers import driver
from slicing.serving.levels import Range
from slicing.serving.store import Found, Row

_COUNT = 4
_ENTRY = np.dtype([("start", "<i8"), ("end", "<i8"), ("epoch", "<i4"), ("revision", "<i8"), ("length", "<i4")])
_AT_ONCE = 100
"""Redis answers nobody else while it writes or removes so many rows."""
_PUT = """
for i = 1, #KEYS, 2 do
    local entry, partial = ARGV[i], ARGV[i + 1]
    local value = redis.call('GET', KEYS[i]) or '\\0\\0\\0\\0'
    local count, width = struct.unpack('<I4', value), #entry
    local start, finish, epoch, revision = struct.unpack('<i8i8i4i8', entry)
    -- The rows before this one, and the last bytes of their partials and of the partial that it replaces.
    local before, low, high, replaced, newer = count, #value, #value, 0, true
    while before > 0 do
        local own, _, of_epoch, of_revision, length = struct.unpack('<i8i8i4i8i4', value, 5 + (before - 1) * width)
        if own < start then break end
        before, low = before - 1, low - length
        if own == start then
            replaced, newer = 1, epoch > of_epoch or (epoch == of_epoch and revision > of_revision)
            break
        end
        high = low
    end
    if newer then
        local at, partials = 5 + before * width, 5 + count * width
        redis.call('SET', KEYS[i], table.concat({
            struct.pack('<I4', count + 1 - replaced),
            value:sub(5, at - 1), entry, value:sub(at + replaced * width, partials - 1),
            value:sub(partials, low), partial, value:sub(high + 1)}))
        if before == 0 then redis.call('ZADD', KEYS[i + 1], finish, KEYS[i]) end
    end
end
"""
"""Insert rows, each a value and its sorted set in KEYS, and its entry of the directory and its partial in ARGV."""
_PUBLISH = """
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[3] then return 0 end
redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])
return 1
"""
"""Write manifest and progress unless another progress than ARGV[3] is stored; return whether they were written."""
_REMOVE = """
local last, most, width, removed = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), 0
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, most)) do
    local value = redis.call('GET', key) or '\\0\\0\\0\\0'
    local count, gone, low = struct.unpack('<I4', value), 0, 0
    local function ended(row)
        local _, finish, _, _, length = struct.unpack('<i8i8i4i8i4', value, 5 + row * width)
        return finish, length
    end
    while gone < count and removed < most do
        local finish, length = ended(gone)
        if finish > last then break end
        gone, removed, low = gone + 1, removed + 1, low + length
    end
    if gone == count then
        redis.call('DEL', key)
        redis.call('ZREM', KEYS[1], key)
    else
        local partials = 5 + count * width
        redis.call('SET', key, table.concat({
            struct.pack('<I4', count - gone), value:sub(5 + gone * width, partials - 1), value:sub(partials + low)}))
        redis.call('ZADD', KEYS[1], (ended(gone)), key)
    end
end
return removed
"""
"""Remove the first rows of the values of a sorted set, of those that end at or before ARGV[1] at most ARGV[2]."""


class RedisStore:
    """The store of a URL such as "redis://host:6379/0". It is of one server, not of a cluster.

    Raises MissingRequirement without redis-py, and on writing InvalidValue for a server that evicts keys.
    """

    def __init__(self, url: str):
        self.url = url
        self._client = driver("redis", "Redis", "redis").Redis.from_url(url)

    def __reduce__(self) -> tuple[type[RedisStore], tuple[str]]:
        return RedisStore, (self.url,)

    def put(self, feature_set: str, rows: Sequence[Row]) -> None:
        """Write rows in portions, each at once."""
        with self._writer.pipeline(transaction=False) as pipeline:
            for portion in _portions(rows):
                keys: list[str] = []
                values: list[bytes] = []
                for row in portion:
                    entry = row.start, row.end, row.epoch, row.revision, len(row.partial)
                    keys += _value(feature_set, row.level, row.key), _ends(feature_set, row.level)
                    values += np.array(entry, _ENTRY).tobytes(), row.partial
                pipeline.eval(_PUT, len(keys), *keys, *values)
            pipeline.execute()

    def publish(self, feature_set: str, manifest: str, progress: str, before: str) -> bool:
        """Write manifest and progress, unless another progress than `before` is stored."""
        return bool(self._writer.eval(_PUBLISH, 2, *_told(feature_set), manifest, progress, before))

    def read(self, feature_set: str, keys: Sequence[str], ranges: Sequence[Range]) -> Found:
        """Return the partials of keys, with manifest and progress, by one command."""
        values = [_value(feature_set, each.level, key) for key in keys for each in ranges]
        manifest, progress, *found = self._client.mget([*_told(feature_set), *values])
        of_range = iter(found)
        partials = [[_between(next(of_range), low, high) for _, low, high in ranges] for _ in keys]
        return Found(_text(manifest), _text(progress), partials)

    def remove(self, feature_set: str, level: int, before: int, most: int) -> int:
        """Remove rows that end at or before an instant, in portions."""
        removed, last = 0, _AT_ONCE
        while last == _AT_ONCE and removed < most:
            portion = min(_AT_ONCE, most - removed)
            last = self._writer.eval(_REMOVE, 1, _ends(feature_set, level), before, portion, _ENTRY.itemsize)
            removed += last
        return removed

    def close(self) -> None:
        """Close the connections that no thread is using."""
        self._client.connection_pool.disconnect(inuse_connections=False)

    @cached_property
    def _writer(self) -> Any:
        """The client of a server that keeps what it is given."""
        policy = self._client.info("memory")["maxmemory_policy"]
        if policy.startswith("allkeys"):
            raise InvalidValue(
                f"Redis must not remove slices on its own, and the `maxmemory-policy` of this server is {policy}. Set "
                "it to noeviction."
            )
        return self._client


def _portions(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows in portions that are written at once; all rows of a key are in one."""
    portion: list[Row] = []
    for _, of_key in groupby(sorted(rows, key=itemgetter(0)), itemgetter(0)):
        portion += of_key
        if len(portion) >= _AT_ONCE:
            yield portion
            portion = []
    if portion:
        yield portion


def _value(feature_set: str, level: int, key: str) -> str:
    return f"tail:{level}:{feature_set}:{key}" if level else f"head:{feature_set}:{key}"


def _ends(feature_set: str, level: int) -> str:
    return f"ends:{level}:{feature_set}"


def _told(feature_set: str) -> tuple[str, str]:
    return f"manifest:{feature_set}", f"progress:{feature_set}"


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()


def _between(value: bytes | None, low: int, high: int) -> list[bytes]:
    """Return the partials of the rows of a value that begin in `[low, high)`."""
    if value is None:
        return []
    rows = np.frombuffer(value, _ENTRY, int.from_bytes(value[:_COUNT], "little"), _COUNT)
    first, last = rows["start"].searchsorted((low, high)).tolist()
    ends = list(accumulate(rows["length"][:last].tolist(), initial=_COUNT + rows.nbytes))
    return [value[ends[at] : ends[at + 1]] for at in range(first, last)]
