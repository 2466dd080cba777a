"""Which cases of a test that has many are quick: the mark `one_in`."""

from collections import Counter, defaultdict
from itertools import chain
from zlib import crc32

import pytest


def mark_slow(items):
    """Of the cases of a test marked `one_in(n)` keep one in `n`, and mark the others as slow.

    The choice is by hash, so that it is the same in all processes, and does not follow the grid of the parameters. Of a
    parameter that has no more values than cases are kept each value is kept.
    """
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("one_in") and not item.get_closest_marker("long"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        (share,) = cases[0].get_closest_marker("one_in").args
        for item in _others(sorted(cases, key=lambda item: crc32(item.nodeid.encode())), share):
            item.add_marker(pytest.mark.slow)


def _others(cases, share):
    """The cases that are not kept: those are the ones that add most values, then as many as are wanted."""
    wanted = -(-len(cases) // share)
    values = [{(name, _value(value)) for name, value in case.callspec.params.items()} for case in cases]
    found = Counter(name for name, _ in set(chain.from_iterable(values)))
    values = [{(name, value) for name, value in each if found[name] <= wanted} for each in values]
    left, unseen = list(range(len(cases))), set(chain.from_iterable(values))
    while unseen:
        most = max(left, key=lambda at: len(values[at] & unseen))
        left.remove(most)
        unseen -= values[most]
    return [cases[at] for at in left[max(0, wanted - len(cases) + len(left)) :]]


def _value(value):
    """By what values are compared: most by themselves, those that have no hash by what they are shown as."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
