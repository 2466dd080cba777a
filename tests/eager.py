"""Buckets of several windows of which all results, or every second one, are eager."""

from functools import partial

from oracle import FINGERPRINT, block_of, moment, records_of
from test_several import Together, rows

from slicing.assembly.choice import EAGER, choose
from slicing.content.records import decode_records, encode_records
from slicing.engines.eager.bucket import EagerBucket
from slicing.engines.mixed import MixedBucket
from slicing.state.store import MemoryStore


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
