"""Several windows in one call of which results are eager: the rows of results that are assembled from slices."""

import random
from functools import partial

import pytest
from oracle import CASES, FINGERPRINT, block_of, moment, records_of
from test_several import EMISSIONS, Together, rows, sets, stream

from slicing.assembly.choice import EAGER, choose
from slicing.content.records import decode_records, encode_records
from slicing.engines.eager.bucket import EagerBucket
from slicing.engines.mixed import MixedBucket
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_change

ALL = EMISSIONS | {"changes": on_change(), "drained": on_change(drained=True)}
NAMES = ("ends together", "longest in the middle", "gaps", "cumulating")


class Eager(Together):
    """All results are eager."""

    def __init__(self, families, cases, grace, emission, wide=False):
        super().__init__(families, cases, grace, emission, wide)
        self.store, self.arguments = MemoryStore(), [[at] for at in range(len(cases))]
        self.bucket = partial(EagerBucket, self.shape, self.arguments, grace, FINGERPRINT, self.store, emission, wide)

    def shipped(self, records):
        columns = records_of(self.shape, self.cases, self.inside(records))
        return [decode_records(self.shape, encode_records(self.shape, columns))]

    def step(self, records, watermark, now=0):
        bucket = self.bucket()
        late = bucket.accept(self.shipped(records))
        found = rows(self.shape, bucket.close(moment(watermark, now)))
        bucket.check()
        return found, late


class Mixed(Eager):
    """Every second result is eager."""

    def __init__(self, families, cases, grace, emission, wide=False):
        super().__init__(families, cases, grace, emission, wide)
        trees = [
            EAGER if at % 2 else choose(kernel, family)
            for family in self.family.families
            for at, kernel in enumerate(self.shape.kernels)
        ]
        self.bucket = partial(
            MixedBucket, self.shape, trees, self.arguments, grace, FINGERPRINT, self.store, emission, wide
        )
        self.sliced = [at for at in range(len(cases)) if at % 2 == 0]

    def shipped(self, records):
        inside, some = self.inside(records), [self.cases[at] for at in self.sliced]
        return [block_of(self.shape.select(self.sliced), some, inside), *super().shipped(records)]


@pytest.mark.parametrize("made", [Eager, Mixed])
@pytest.mark.parametrize("emission", ALL)
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_slices(name, emission, made):
    families, begin, step = sets()[name]
    wides = (False, True) if name == "ends together" else (False,)
    if "change" in str(ALL[emission]) and name != "ends together":
        return
    cases, seen = [CASES[each] for each in ("sum", "highest", "rows")], 0
    for wide in wides:
        for seed, grace in ((1, 0), (2, 5))[name not in ("ends together", "gaps") :]:
            one, other = (kind(families, cases, grace * step, ALL[emission], wide) for kind in (made, Together))
            for came, watermark, clock in stream(random.Random(seed), begin, step):
                (got, late), (wanted, refused) = (each.step(came, watermark, clock) for each in (one, other))
                assert got == wanted
                assert (late.all, late.some) == (refused.all, refused.some)
                for mine, theirs in zip(late.refused, refused.refused, strict=True):
                    assert sum(len(each.index) for each in mine.rows) == theirs.rows.records.sum()
                seen += len(got)
            assert not one.store.pages or "early" in str(ALL[emission])
    assert seen > 30
