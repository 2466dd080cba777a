"""Restarts: a query killed at any point continues from its checkpoint, and its output is that of an uninterrupted run.

The query runs in a process group of its own, killed as a whole with SIGKILL: driver and JVM die at once, workers when
their pipes close. Results and late rows are written as docs/deploy.md has it, so that a repeated micro-batch overwrites
what it wrote before.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from rooms import python_path
from streams import (
    MINUTE,
    SECOND,
    START,
    Output,
    Running,
    brute,
    ending,
    micros,
    record,
    run,
    source,
    table,
    times_of,
    worlds,
    write,
)
from user_aggregates import chan, welford

import combinators as C
from slicing import (
    Aggregate,
    Emission,
    Window,
    counting,
    early,
    group_by,
    hopping,
    late_partials,
    late_records,
    on_change,
    on_close,
    on_update,
    results,
    session,
    sliding,
)
from slicing.triggers.emission import ON_CLOSE

pytestmark = pytest.mark.slow

FILES = 10
TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
WINDOW, DELAY = hopping("10 minutes", "1 minute"), 30 * SECOND


@dataclass(frozen=True)
class Case:
    """The windows of a query, the way in which they are put out, and the counters that count nothing there."""

    window: Window = WINDOW
    emission: Emission = ON_CLOSE
    never: frozenset[str] = frozenset()

    @property
    def late_parts(self):
        """The forms in which late rows can be had."""
        return () if "late" in self.never else ("partials", "records")


CASES = {
    str(emission): Case(emission=emission)
    for emission in (
        ON_CLOSE,
        on_update(),
        on_change(drained=True),
        early(records=4),
        early(every="1 millisecond"),
        on_close(corrections=True, old=True),
    )
} | {
    "sessions": Case(session("10 seconds"), never=frozenset(["late_for_some"])),
    "sessions, on_update()": Case(session("45 seconds"), on_update(), frozenset(["late_for_some"])),
    "sliding": Case(sliding("90 seconds")),
    "sliding, on_update()": Case(sliding("90 seconds"), on_update()),
    "counting": Case(counting(7, 3), never=frozenset(["late", "late_for_some"])),
}
"""By the clock every micro-batch is at a tick, so that all runs of a query put out the same, whenever they run."""
MARK = 777_000
"""A record with this n plus the number of its file is in every file; a killing `agg` waits for one of them."""


def tally(wait, acc, n):
    """The user function of the first stage: sums, and kills the driver's process group if that is armed for `n`."""
    if wait is not None and MARK <= n < MARK + FILES and wait.exists() and wait.read_text().split()[0] == str(n):
        group = int(wait.read_text().split()[1])
        wait.unlink()
        os.killpg(group, signal.SIGKILL)
        time.sleep(60)
    return acc[0] + 1, acc[1] + n % 1009


def nothing():
    return 0, 0


def join(a, b):
    return a[0] + b[0], a[1] + b[1]


def grace_of(emission):
    """Corrections need time for late records; microseconds."""
    return 10 * MINUTE if emission.fires_late else 0


def windows_of(spark, files, case):
    """The windows that are put out, in this or that way."""
    windowed = group_by(source(spark, files, f"{DELAY} microseconds"), "world").window(case.window, time="ts")
    return windowed.grace(f"{grace_of(case.emission)} microseconds").emit(case.emission)


def frame_of(spark, files, late="records", wait=None, case=CASES[str(ON_CLOSE)]):
    """The query: both trees of combinators, floats, and functions row by row; and what came late, if anything can."""
    windowed = windows_of(spark, files, case).late(late if case.late_parts else "counts")
    mine = Aggregate(nothing, partial(tally, wait), join, partial="n long, total long").on("n")
    return windowed.aggregate(
        records=C.count(), total=C.sum("n"), most=C.max("s"), x_total=C.sum("x"), f_last=C.last("f"), mine=mine
    )


class Sink:
    """A directory for results and one for each kind of late rows, with a part for every micro-batch."""

    def __init__(self, root, late=("partials", "records"), after_write=lambda: None):
        self.root, self.after_write = root, after_write
        self.parts = {"results": results, "partials": late_partials, "records": late_records}
        self.parts = {name: part for name, part in self.parts.items() if name == "results" or name in late}

    def sink(self, batch, number):
        """For foreachBatch."""
        batch.persist()
        for name, part in self.parts.items():
            place = str(self.root / name / f"{number:04d}")
            part(batch).write.mode("overwrite").json(place, ignoreNullFields=False, timestampFormat=TIME)
            self.after_write()
        batch.unpersist()

    def note(self, query):
        """Progress is not looked at."""

    def rows(self, name):
        """What is in one of the directories, by micro-batch: rows as JSON has them, floats to the last bit."""
        return {
            int(part.name): sorted(line for file in part.glob("part-*") for line in file.read_text().splitlines())
            for part in (self.root / name).iterdir()
        }


# --- the process that is killed -------------------------------------------------------------------------------------


def main(root, plan, late, name):
    """Run the query until all files are done, or until it kills itself: after so many writes of this process."""
    from conftest import _start

    case = CASES[name]
    (root / "session" / "tmp").mkdir(parents=True, exist_ok=True)
    spark = _start(root / "session")
    writes = count(1)

    def after_write():
        if next(writes) == plan:
            os.killpg(0, signal.SIGKILL)

    target = Sink(root / "sink", case.late_parts[: 1 + (late == "records")], after_write)

    def sink(batch, number):
        with (root / "seen").open("a") as log:
            log.write(f"{number}\n")
        target.sink(batch, number)

    frame = frame_of(spark, root.parent / "files", late, root / "wait", case)
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(root / "checkpoint"))
    with ending(spark, case.emission):
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    query.stop()
    spark.stop()


class Job:
    """The query over the files in `root.parent`, as a process that is started and killed again and again."""

    def __init__(self, root, seed, name):
        self.root, self.choice, self.name = root, random.Random(seed), name
        self.late = "records" if seed % 2 else "partials"
        self.written = Sink(root / "sink", CASES[name].late_parts[: 1 + (self.late == "records")])
        root.mkdir(parents=True)
        self.kills, self.patience = 0, 12

    def run(self, plan=0):
        """Start it; it ends when it is done or kills itself."""
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": python_path(),
            "TZ": "UTC",
        }
        command = [sys.executable, __file__, str(self.root), str(plan), self.late, self.name]
        self.logged = len(self._log())
        with (self.root / "log").open("a") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def seen(self):
        """The micro-batches that reached the sink, in order, repeated ones repeatedly."""
        log = self.root / "seen"
        return [int(line) for line in log.read_text().split()] if log.exists() else []

    def kill(self, how):
        """One run that is killed: "random" once a micro-batch is through, "sink" between writes, "agg" in a worker."""
        done = len(set(self.seen()))
        job = self.run(self.choice.randint(1, 5) if how == "sink" else 0)
        try:
            if how == "agg":
                number = min(FILES - 1, done + self.choice.randint(0, 1))
                (self.root / "wait").write_text(f"{MARK + number} {job.pid}")
            if how == "random":
                # More than the first one, or there is no state yet to go on from.
                self._until(lambda: len(set(self.seen())) > max(done, 1) or job.poll() is not None)
                time.sleep(self.choice.uniform(0, 1))
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGKILL)
            code = job.wait(180)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        self._check(code)
        self.kills += code == -signal.SIGKILL
        return code == -signal.SIGKILL

    def _log(self):
        log = self.root / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _check(self, code):
        """It ended well, was killed, or Spark did not start on a busy machine; see `streams.Running.finish`."""
        new = self._log()[self.logged :]
        assert code in (0, -signal.SIGKILL) or "failed to connect back" in new, f"exit code {code}: {new[-3000:]}"

    def _until(self, condition):
        end = time.monotonic() + 120
        while not condition() and time.monotonic() < end:
            time.sleep(0.05)

    def finish(self):
        """Run it to its end, however often Spark's own start fails on a busy machine."""
        while (code := self.run().wait(240)) != 0 and self.patience:
            self._check(code)
            self.patience -= 1
        assert code == 0, self._log()[-3000:]


def story(root, seed, kinds, name):
    """Kill a query in these ways, one after the other, then let it finish."""
    job = Job(root, seed, name)
    for how in kinds:
        while not job.kill(how) and job.patience:
            job.patience -= 1
            if len(set(job.seen())) >= FILES:
                break  # there is nothing left to kill
    job.finish()
    return job


def stories(root, plans, name):
    """Several of them side by side, on the same files."""
    jobs = {}

    def one(seed, kinds):
        jobs[seed] = story(root / f"job{seed}", seed, kinds, name)

    threads = [threading.Thread(target=one, args=plan) for plan in plans.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(jobs) == len(plans), "a story raised; its traceback is above"
    return jobs


def files_of(seed):
    """Worlds, and in every file a record that `tally` recognises."""
    made = worlds(seed, files=FILES, count=28)
    for number, each in enumerate(made):
        mark = record(1, START + number * SECOND, n=MARK + number)
        yield table([*_records(each), mark])


def _records(each):
    return [{**row, "ts": at} for row, at in zip(each.to_pylist(), times_of(each), strict=True)]


def refused(found):
    """Late records as `brute` names them."""
    for number, lines in found.items():
        for row in map(json.loads, lines):
            at, watermark = (micros(datetime.fromisoformat(time)) for time in (row["ts"], row["late"]["watermark"]))
            yield number, row["late"]["cause"], watermark // 1000, row["world"], at, row["n"]


def check(spark, root, plans, name=str(ON_CLOSE), kinds=frozenset([None])):
    tables, case = list(files_of("restart")), CASES[name]
    write(tables, root / "files")
    frame = frame_of(spark, root / "files", case=case)
    with ending(spark, case.emission):
        whole = Running(frame, root / "whole", {"availableNow": True}, Sink(root / "sink", case.late_parts)).finish()
    expected = {name: whole.rows(name) for name in whole.parts}
    late = list(refused(expected.get("records", {})))
    if case.window == WINDOW:
        known = brute(tables, WINDOW, DELAY, grace_of(case.emission)).refused
        assert Counter(late) == Counter(each for each in known if each[1].startswith("late"))
    jobs = stories(root, plans, name)
    for job in jobs.values():
        found = {name: job.written.rows(name) for name in job.written.parts}
        assert found == {name: expected[name] for name in found}, "the same rows in the same micro-batch, late ones too"
        assert len(job.seen()) > len(set(job.seen())), "some micro-batch was seen twice"
    assert len(jobs) == 1 or {job.late for job in jobs.values()} == {"records", "partials"}
    kept = [json.loads(row) for rows in expected["results"].values() for row in rows]
    assert len(kept) > 200
    assert {row.get("emission") for row in kept} == kinds
    assert len(late) > 30 or "late" in case.never
    return sum(job.kills for job in jobs.values())


FEW = {1: ["sink", "agg"]}
TEN = {1: ["sink", "agg", "random", "sink", "random"], 2: ["agg", "sink", "random", "agg", "sink"]}


@pytest.mark.versions
@pytest.mark.parametrize("plans", [FEW, pytest.param(TEN, marks=pytest.mark.long)], ids=["few", "ten"])
def test_a_query_killed_several_times_puts_out_what_an_uninterrupted_one_does(spark, tmp_path, plans):
    assert check(spark, tmp_path, plans) == sum(map(len, plans.values()))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 16, 2))
def test_more_kills(spark, tmp_path, seed):
    choice = random.Random(seed)
    plans = {seed + i: [choice.choice(["sink", "agg", "random"]) for _ in range(5)] for i in range(2)}
    assert check(spark, tmp_path, plans) >= 8


KINDS = {
    "sessions, on_update()": {"update", "merged"},
    "sliding": {None},
    "sliding, on_update()": {"update"},
    "counting": {None},
    "on_update()": {"update"},
    "on_change(drained=True)": {"final", "drained"},
    "early(records=4)": {"early", "final"},
    "early(every='1 millisecond')": {"early", "final"},
    "on_close(corrections=True, old=True)": {"final", "correction"},
    "sessions": {None},
}


@pytest.mark.long
@pytest.mark.parametrize(("seed", "name"), list(enumerate(KINDS, 1)))
def test_rows_of_other_queries_are_those_of_an_uninterrupted_one(spark, tmp_path, seed, name):
    """In turns with late records and late partials, as the seed has it."""
    assert check(spark, tmp_path, {seed: ["sink", "agg", "random"]}, name, KINDS[name]) == 3


# --- a checkpoint of another query ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(spark, tmp_path_factory):
    """Two files, and a checkpoint that a query over the first has written; asks for a fresh copy of both."""
    root = tmp_path_factory.mktemp("small")
    made = [record(i % 3, START + i * SECOND, n=i, x=i / 2) for i in range(60)]
    write([table(made)], root / "files")
    run(small_frame(spark, root / "files").aggregate(n=C.count(), total=C.sum("n")), checkpoint=root / "checkpoint")
    write([table([record(1, START + 1000 * SECOND)])], root / "files", first=1)
    return root


def small_frame(spark, files, window=None, keys=("world",)):
    return group_by(source(spark, files), *keys).window(window or hopping("30 seconds", "10 seconds"), time="ts")


def copy(root, target):
    subprocess.run(["cp", "-r", str(root / "checkpoint"), str(target)], check=True)
    return target


CHANGES = {
    "hopping('40 seconds', advance='10 seconds') is new": lambda spark, files: small_frame(
        spark, files, hopping("40 seconds", "10 seconds")
    ).aggregate(n=C.count(), total=C.sum("n")),
    "keys: `world bigint` in the checkpoint, `s string` in the query": lambda spark, files: small_frame(
        spark, files, keys=("s",)
    ).aggregate(n=C.count(), total=C.sum("n")),
    "total (sum of x) is new": lambda spark, files: small_frame(spark, files).aggregate(n=C.count(), total=C.sum("x")),
    "buckets: `2` in the checkpoint, `3` in the query": lambda spark, files: (
        small_frame(spark, files).buckets(3).aggregate(n=C.count(), total=C.sum("n"))
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_checkpoint_of_another_query_is_refused_and_the_difference_named(spark, small, tmp_path, what):
    with pytest.raises(StreamingQueryException) as caught:
        run(CHANGES[what](spark, small / "files"), checkpoint=copy(small, tmp_path / "checkpoint"))
    message = str(caught.value)
    assert "StateMismatch" in message
    assert f"it was written by another query. Different: {what}: " in message
    assert "new checkpoint" in message


def test_what_state_does_not_depend_on_may_change_on_a_live_checkpoint(spark, small, tmp_path):
    """Names of results, `lower` (the mean of a sum's partials) and grace."""
    frame = small_frame(spark, small / "files").grace("20 seconds").aggregate(records=C.count(), mean=C.mean("n"))
    output = Running(frame, copy(small, tmp_path / "checkpoint"), {"availableNow": True}, Output()).finish()
    rows = {(row["world"], row["window"]["start"].timestamp() * SECOND - START): row for row in last(output)}
    # [50 s, 80 s) of key 1 holds the seconds 52, 55 and 58.
    assert rows[1, 50 * SECOND]["records"] == 3
    assert rows[1, 50 * SECOND]["mean"] == 55.0


def test_a_checkpoint_goes_on_with_functions_traced_or_by_rows(spark, tmp_path):
    """Sums that are subtracted and a variance that is not: the same rows, to the last bit."""
    tables = worlds("traced", files=9, count=40)
    found = []
    for number, modes in enumerate([(False, False, False), (None, False, None)]):
        root, rows = tmp_path / str(number), []
        for restart, columns in enumerate(modes):
            write(tables[3 * restart : 3 * restart + 3], root / "files", first=3 * restart)
            sums = Aggregate(nothing, partial(tally, None), join, lambda ab, a: (ab[0] - a[0], ab[1] - a[1]))
            spread = Aggregate(lambda: (0, 0.0, 0.0), welford, chan, lower=lambda a: a[2], returns="double")
            frame = small_frame(spark, root / "files", WINDOW).aggregate(
                sums=replace(sums, columns=columns).on("n"), spread=replace(spread, columns=columns).on("x")
            )
            (output,) = run(frame, checkpoint=root / "checkpoint")
            rows += [repr(row) for row in last(output)]
        found.append(sorted(rows))
    assert found[0] == found[1]
    assert len(found[0]) > 50


def last(output):
    return [row for each in output.tables.values() for row in each.to_pylist()]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
