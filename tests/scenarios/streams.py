"""Micro-batches of any kind of windows: disorder, late records, duplicates, equal times, pauses, times on edges.

Some edges are those of windows, some those of what is late.
"""

from .kind import MS


def stream(rng, kind, batches=20, most=12, keys=3, late=True):
    """Records (time, key, value, gap), the watermark and the clock in milliseconds, of each micro-batch."""
    now, clock, watermark, judged = kind.begin, kind.begin // 1000 + 10**5, 0, 0
    lateness = rng.choice([0, kind.step, kind.reach, 3 * kind.reach])
    quiet = rng.random() < 0.3  # most micro-batches have few records
    for _ in range(batches):
        records = []
        for _ in range(rng.choice([0, 1, 2, most // 2, most]) // (1 + 2 * quiet)):
            spread = rng.choice([kind.step, kind.reach, 3 * kind.reach]) if late else kind.step
            time = now + rng.randrange(-spread, 2 * kind.step)
            if rng.random() < 0.4:
                edge = max(1, kind.step // 2)
                time = time // edge * edge - rng.choice([0, 0, 1])
            if late and judged and rng.random() < 0.08:  # of a window that is just closed, or just open, by any grace
                lengths = [0, kind.step, kind.reach]
                time = judged * MS - rng.choice(lengths) - rng.choice(lengths) - rng.choice([0, 0, 1])
            if rng.random() < 0.02:
                time += rng.choice([2, 5]) * kind.reach  # ahead of the others
            key = rng.choice([None, *range(1, keys)])
            if records and records[-1][0] is not None and rng.random() < 0.12:  # as far from the last one as decides
                far = rng.choice([-1, 1]) * rng.choice([kind.step, 2 * kind.step, kind.reach])
                time, key = records[-1][0] + far + rng.choice([0, 0, -1, 1]), records[-1][1]
            value = None if rng.random() < 0.05 else rng.randrange(-50, 100)
            records.append((time if rng.random() > 0.02 else None, key, value, rng.choice(kind.gaps)))
        records += rng.choices(records, k=2) if records and rng.random() < 0.5 else []
        yield records, watermark, clock
        judged = watermark  # by the watermark of before records are late
        jump = 20 * kind.reach if rng.random() < 0.1 else 0
        now += rng.choice([0, kind.step // 4, kind.step, kind.step, kind.reach, jump])
        clock += rng.choice([0, 1, 4, 9, 20, 25])
        watermark = max(watermark, (now - lateness) // MS)
