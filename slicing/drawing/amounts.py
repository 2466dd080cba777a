"""Counts, durations, bytes and shares as text."""

from __future__ import annotations

from fractions import Fraction


def number(value: float) -> str:
    """Return the number as text: with thousands separators, and at most one decimal from 1 on."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def counted(count: float, noun: str) -> str:
    """Return the number and its noun, in the plural unless the number is 1."""
    return f"{number(count)} {noun}" + ("" if count == 1 else "s")


def duration(seconds: float) -> str:
    """Return seconds in the largest unit with a number of at least 1."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"


def exact_duration(micros: int) -> str:
    """Return a duration, in microseconds and not negative, with all of its units.

    >>> exact_duration(640_000_000), exact_duration(86_400_000_000), exact_duration(1_013_000), exact_duration(0)
    ('10 min 40 s', '1 d', '1 s 13 ms', '0 s')
    """
    found = []
    units = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 10**6), ("ms", 1000), ("us", 1))
    for unit, length in units:
        count, micros = divmod(micros, length)
        found += [f"{count} {unit}"] if count else []
    return " ".join(found) or "0 s"


def size(count: float) -> str:
    """Return bytes in the largest unit with a number of at least 1."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= length:
            return f"{count / length:,.1f} {unit}"
    return f"{count:,.0f} B"


def percent(part: int, of: int) -> str:
    """Return a share in percent, rounded down, with more digits near 100 %: only a complete share is 100 %.

    >>> percent(997, 1000), percent(99_999, 100_000), percent(5, 5), percent(1, 3)
    ('99.7 %', '99.999 %', '100 %', '33.3 %')
    """
    share = 100 * Fraction(part, of)
    digits = next((n for n in range(1, 6) if 100 - share >= Fraction(1, 10**n)), 6)
    floored = int(share * 10**digits)
    return f"{floored / 10**digits:.{digits}f}".rstrip("0").rstrip(".") + " %"
