"""Served features against sums over all payments and training rows. No server is needed: messages are files."""

import json
import os
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from fraud.features import RESULTS, WINDOWS, card, vector
from fraud.stream import DELAY, PAYMENT, parsed, slices

from slicing import serve_to
from slicing.serving import Reader
from slicing.testing import run

HOURS = {"10m": 1 / 6, "1h": 1, "6h": 6, "1d": 24, "7d": 7 * 24}
START = datetime(2024, 5, 1, 12, tzinfo=UTC)
FILES = 4


def payments(seed, count=400):
    """Payments of five cards in ten days, many in the last hour, out of order by less than the delay."""
    choice = random.Random(seed)
    hours = sorted(choice.choice([choice.uniform(0, 240), choice.uniform(239, 240)]) for _ in range(count))
    return [
        {
            "card": f"card {choice.randrange(5)}",
            "ts": START + timedelta(hours=at, seconds=-choice.uniform(0, 100)),
            "amount": Decimal(choice.randrange(1, 50000)).scaleb(-2),
        }
        for at in hours
    ]


def text(payment):
    return json.dumps({**payment, "ts": payment["ts"].isoformat(), "amount": float(payment["amount"])})


def messages(spark, folder, lines):
    """A stream of messages as the source of Kafka has them, a file in each micro-batch."""
    folder.mkdir()
    for number in range(FILES):
        path = folder / f"{number}.txt"
        path.write_text("\n".join(lines[number * len(lines) // FILES : (number + 1) * len(lines) // FILES]))
        os.utime(path, (1e9 + number, 1e9 + number))  # files are read in the order of their times
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def start(name, at):
    """The start of the window as of a full minute: a tail begins at a full hour."""
    found = at - timedelta(hours=HOURS[name])
    return found.replace(minute=0) if HOURS[name] >= 24 else found


def expected(made, of, at):
    """What the payments of a card before a full minute say, by window."""
    found = {}
    for name in WINDOWS:
        these = [each["amount"] for each in made if each["card"] == of and start(name, at) <= each["ts"] < at]
        found[name] = {
            "payments": len(these),
            "spent": sum(these) if these else None,
            "mean": pytest.approx(sum(these) / len(these), abs=Decimal("0.000001")) if these else None,
            "largest": max(these, default=None),
        }
    return found


@pytest.fixture(scope="module")
def made():
    return payments(seed=1)


@pytest.fixture(scope="module")
def reader(spark, made, tmp_path_factory):
    """A reader of what the stream has written."""
    folder = tmp_path_factory.mktemp("stream")
    url = f"sqlite:///{folder}/features.db"
    rows = slices(parsed(messages(spark, folder / "messages", ["no payment", *map(text, made)])))
    writer = rows.writeStream.outputMode("update").trigger(availableNow=True)
    writer = writer.foreachBatch(serve_to(url, keep="30 days")).option("checkpointLocation", str(folder / "checkpoint"))
    writer.start().awaitTermination()
    return Reader(url, card)


@pytest.fixture(scope="module")
def asked():
    """Cards and full minutes: many within the payments, some after the last one, and a card without payments."""
    choice = random.Random(2)
    minutes = [START + timedelta(minutes=choice.randrange(8 * 24 * 60, 11 * 24 * 60)) for _ in range(100)]
    minutes += [START + timedelta(minutes=240 * 60 - choice.randrange(90)) for _ in range(100)]
    return [(f"card {choice.randrange(6)}", at) for at in minutes]


def test_windows_close_with_all_payments_before_their_end():
    """Without Spark: the payments of the last hour, in four micro-batches."""
    made = [each for each in payments(seed=3) if each["ts"] >= START + timedelta(hours=239)]
    batches = [made[at : at + len(made) // FILES + 1] for at in range(0, len(made), len(made) // FILES + 1)]
    found = run(card, batches, DELAY, schema=PAYMENT)
    rows = [row for batch in found for row in batch.rows]
    assert sum(batch.counters["late"] for batch in found) == 0
    assert {row.windows for row in rows} == {*WINDOWS}
    for row in rows:
        assert row.window.start == start(row.windows, row.window.end)
        wanted = expected(made, row.card, row.window.end)[row.windows]
        assert {name: row[name] for name in RESULTS} == wanted


def test_served_features_are_of_all_payments(reader, made, asked):
    for of, at in asked:
        answer = reader.read(of, at=at)
        assert dict(answer) == expected(made, of, at)
        assert {name: answer.starts[name] for name in WINDOWS} == {name: start(name, at) for name in WINDOWS}


def test_training_and_serving_agree_to_the_bit(spark, reader, made, asked):
    rows = [(*each, row) for row, each in enumerate(asked)]
    labels = spark.createDataFrame(rows, "card string, ts timestamp, row int")
    trained = {row["row"]: row for row in card.at(labels, spark.createDataFrame(made, PAYMENT)).collect()}
    assert len(trained) == len(asked)
    for row, (of, at) in enumerate(asked):
        answer = reader.read(of, at=at)
        for window in WINDOWS:
            for name in RESULTS:
                served, training = answer[window][name], trained[row][f"{name}_{window}"]
                assert (type(served), str(served)) == (type(training), str(training)), (of, at, window, name)


def test_a_model_scores_served_features_as_it_scores_the_history(spark, reader, made, asked):
    pytest.importorskip("sklearn")
    from fraud.score import score
    from fraud.train import examples, train

    payments = spark.createDataFrame(made, PAYMENT)
    # A card with many payments in the last hour is called a fraud.
    labels = [(of, at, expected(made, of, at)["1h"]["payments"] > 3) for of, at in asked]
    frame = spark.createDataFrame(labels, "card string, ts timestamp, fraud boolean").coalesce(1)
    inputs, said = examples(frame, payments)
    model = train(frame, payments)
    served = [vector(reader.read(of, at=at)) for of, at in asked]
    assert sorted(inputs) == sorted(served)
    assert model.score(inputs, said) > 0.9
    before = {tuple(values): float(model.predict_proba([values])[0, 1]) for values in inputs}
    for (of, at), values in zip(asked, served, strict=True):
        assert score(model, reader, of, at=at) == before[tuple(values)]
