"""The events of Nexmark have the ids, times and shares of the reference; its rules are here once more, by event."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.nexmark import workload as nexmark
from benchmarks.nexmark.generator import AUCTION, BID, BLOCK, PERSON, Generator
from benchmarks.workloads import workload as workloads

EVENTS = 200_000


@pytest.fixture(scope="module")
def events():
    return Generator().events(0, EVENTS)


@pytest.fixture(scope="module")
def made(events):
    """The columns of the bids, of the auctions, and of the persons, with the id of the event."""
    ids = pa.array(np.arange(EVENTS) + 2)
    found = {}
    for kind, name in ((PERSON, "person"), (AUCTION, "auction"), (BID, "bid")):
        there = pc.equal(events["event_type"], kind)
        flat = pa.Table.from_struct_array(events[name].filter(there))
        found[name] = {each: flat[each].to_numpy() for each in flat.column_names} | {
            "event": ids.filter(there).to_numpy()
        }
    return found


def last(event):
    """The last person and auction of an event, by counting the events before it."""
    epoch, rest = divmod(event, 50)
    return epoch, 3 * epoch + min(rest - 1, 2) if rest else 3 * epoch - 1


def near(share, expected, count):
    """Whether a share of `count` events is within five standard deviations."""
    return abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / count)


def test_kinds_follow_the_ids_and_times_the_numbers(events):
    kinds = events["event_type"].to_numpy()
    ids = np.arange(EVENTS) + 2
    assert [int((kinds == each).sum()) * 50 // EVENTS for each in (PERSON, AUCTION, BID)] == [1, 3, 46]
    assert ((kinds == PERSON) == (ids % 50 == 0)).all()
    assert ((kinds == AUCTION) == np.isin(ids % 50, (1, 2, 3))).all()
    times = (events["ts"].cast(pa.int64()).to_numpy() - workloads.START) // 1000
    assert times.tolist() == [(event - 1) * 100 // 1000 for event in ids.tolist()]
    for kind, name in ((PERSON, "person"), (AUCTION, "auction"), (BID, "bid")):
        own = pa.Table.from_struct_array(events[name].filter(pc.equal(events["event_type"], kind)))
        assert own["dateTime"].equals(events["ts"].filter(pc.equal(events["event_type"], kind)))
        assert events[name].null_count == EVENTS - len(own)


def test_new_persons_and_auctions_have_the_next_ids(made):
    assert made["person"]["id"].tolist() == [1000 + last(event)[0] for event in made["person"]["event"].tolist()]
    assert made["auction"]["id"].tolist() == [1000 + last(event)[1] for event in made["auction"]["event"].tolist()]


def test_half_of_the_bids_are_on_the_hot_auction_and_others_on_auctions_in_flight(made):
    bids, count = made["bid"], len(made["bid"]["event"])
    newest = np.array([last(event)[1] for event in bids["event"].tolist()])
    base = bids["auction"] - 1000
    assert (base >= np.maximum(newest - 100, 0)).all() or (base[base < newest - 100] % 100 == 0).all()
    grown = newest >= 200
    hot = base == newest // 100 * 100
    in_flight = (newest % 100 <= 100) / 111  # those of the others that are the hot one by chance
    assert near(hot[grown].mean(), 0.5 + 0.5 * in_flight[grown].mean(), grown.sum())
    others = (base - newest)[grown & ~hot]
    assert (others.min(), others.max()) == (-100, 10)
    assert near((others > 0).mean(), 10 / 110, len(others))
    assert count == EVENTS * 46 // 50


def test_three_of_four_bids_are_by_the_hot_bidder_whose_id_is_counted_twice(made):
    bids = made["bid"]
    newest = bids["event"] // 50
    base = bids["bidder"] - 2000
    grown = newest >= 1000
    hot = base == newest // 100 * 100 + 1
    assert near(hot[grown].mean(), 0.75 + 0.25 / 1010, grown.sum())
    others = (base - newest)[grown & ~hot]
    assert (others.min(), others.max()) == (-999, 10)
    assert not np.isin(bids["bidder"], range(1000, 2000)).any()


def test_three_of_four_sellers_are_hot_and_persons(made):
    auctions = made["auction"]
    newest = auctions["event"] // 50
    base = auctions["seller"] - 1000
    assert near((base == newest // 100 * 100).mean(), 0.75, len(base))
    assert (base <= newest + 10).all()
    assert set(np.unique(auctions["category"])) == {10, 11, 12, 13, 14}
    assert (auctions["reserve"] > auctions["initialBid"]).all()


def test_prices_are_uniform_in_their_logarithm(made):
    price = made["bid"]["price"]
    logs = np.log10(price / 100)
    assert price.min() >= 100
    assert price.max() <= 10**8
    for low in range(6):
        assert near(((logs >= low) & (logs < low + 1)).mean(), 1 / 6, len(logs))


def test_auctions_last_as_long_as_a_hundred_more_take_on_average(made):
    auctions = made["auction"]
    lengths = (auctions["expires"] - auctions["dateTime"]).astype("timedelta64[ms]").astype(int)
    horizon = 1666 // 10  # milliseconds of the 50 / 3 * 100 events until then
    assert (lengths.min(), lengths.max()) == (1, 2 * horizon)
    assert abs(lengths.mean() - horizon - 0.5) < 5 * 2 * horizon / np.sqrt(12 * len(lengths))


def test_half_of_the_channels_are_hot_and_others_have_addresses_of_their_own(made):
    bids = made["bid"]
    hot = np.isin(bids["channel"].astype(str), ["Google", "Facebook", "Baidu", "Apple"])
    assert near(hot.mean(), 0.5, len(hot))
    address = dict(zip(bids["channel"], bids["url"], strict=True))
    assert 9_950 < len(address) <= 10_004
    tags = {name: url.rpartition("?query=1")[2] for name, url in address.items()}
    assert near(np.mean([tag != "" for name, tag in tags.items() if name.startswith("channel-")]), 0.9, 10_000)
    # The bits of a number in reverse, without the sign; -2^31 has no positive number of 32 bits.
    for number, reverse in {0: 0, 1: -(2**31), 2: 2**30, 3: 2**30, 4: 2**29, 5: 2**31 - 2**29}.items():
        assert tags.get(f"channel-{number}", "") in ("", f"&channel_id={reverse}")
    assert all(
        re.fullmatch(r"https://www\.nexmark\.com(/[a-z_]{3,4}){3}/item\.htm\?query=1.*", url)
        for url in address.values()
    )


@pytest.mark.parametrize(("name", "average"), [("person", 200), ("auction", 500), ("bid", 100)])
def test_events_are_as_large_as_the_reference_on_average(made, name, average):
    texts = {"person": ["name", "emailAddress", "creditCard", "city", "state"], "auction": ["itemName", "description"]}
    fixed = {"person": 8, "auction": 48, "bid": 32}[name]
    sizes = fixed + sum(np.char.str_len(made[name][each].astype(str)) for each in texts.get(name, []))
    whole = sizes + np.char.str_len(made[name]["extra"].astype(str))
    assert abs(whole.mean() - average) < 0.01 * average
    assert (np.abs(whole - average) <= np.ceil(0.2 * (average - sizes)) + 1).all()


def test_events_depend_on_the_seed_and_not_on_how_many_are_made(events):
    assert Generator().events(BLOCK - 10, BLOCK + 10).equals(events.slice(BLOCK - 10, 20))
    assert not Generator(seed=2).events(0, 20).equals(events.slice(0, 20))


def test_events_of_a_group_arrive_out_of_order():
    ids = Generator(group=1000).ids(np.arange(3_000)).tolist()
    assert ids == [1 + number // 1000 * 1000 + number * 953 % 1000 for number in range(1, 3_001)]
    late = Generator(group=1000).events(0, 3_000)["ts"].cast(pa.int64()).to_numpy()
    assert 0 < (np.maximum.accumulate(late) - late).max() < 100_000
    assert sorted(ids[999:1999]) == list(range(1001, 2001))


def test_files_are_the_events_in_their_order(tmp_path, monkeypatch, events):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    written = nexmark.events("few", 1_000, 3)
    files = written.files()
    assert len(files) == 6
    assert written.seconds == 0.1
    both = pa.concat_tables([pq.read_table(file) for file in files[2:4]]).sort_by("ts")
    assert both["ts"].equals(events["ts"].slice(1_000, 1_000))
    assert pc.sum(both["event_type"]) == pc.sum(events["event_type"].slice(1_000, 1_000))
    cut = written.cut(0.1)
    assert (cut.records, cut.seconds, cut.rate) == (100, 0.1, 1_000)


@pytest.mark.parametrize("by", ["auction", "bidder"])
def test_bids_alone_are_those_of_the_events(tmp_path, monkeypatch, events, by):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    found = nexmark.bids(nexmark.events("few", 1_000, 3), by)
    both = pa.concat_tables([pq.read_table(file) for file in found.files()])
    assert len(both) == found.total == 3 * 920
    bids = events.slice(0, 3_000).filter(pc.equal(events.slice(0, 3_000)["event_type"], BID))["bid"].to_pylist()
    expected = sorted((bid[by], bid["dateTime"], bid["price"]) for bid in bids)
    assert sorted(zip(*(both[name].to_pylist() for name in ("key", "ts", "v")), strict=True)) == expected
