"""The features of a stream against sums over all payments. No server is needed: messages come from files."""

import json
import os
import random
from datetime import UTC, datetime, timedelta

from fraud.features import features, parsed

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
            "amount": float(choice.randrange(1, 500)),
        }
        for at in hours
    ]


def messages(spark, folder, lines):
    """A stream of messages as the source of Kafka has them, a file in each micro-batch."""
    folder.mkdir()
    for number in range(FILES):
        path = folder / f"{number}.txt"
        path.write_text("\n".join(lines[number * len(lines) // FILES : (number + 1) * len(lines) // FILES]))
        os.utime(path, (1e9 + number, 1e9 + number))  # files are read in the order of their times
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def expected(made, card, end):
    """What the payments of a card say, by name of the feature."""
    found = {}
    for name, hours in HOURS.items():
        start = end - timedelta(hours=hours)
        these = [each for each in made if each["card"] == card and start <= each["ts"] < end]
        found[f"payments_{name}"] = len(these) or None
        found[f"spent_{name}"] = sum(each["amount"] for each in these) if these else None
        found[f"mean_{name}"] = found[f"spent_{name}"] / len(these) if these else None
        found[f"largest_{name}"] = max((each["amount"] for each in these), default=None)
    return found


def test_the_newest_row_of_a_card_has_all_of_its_payments(spark, tmp_path):
    made = payments(seed=1)
    lines = ["no payment", *(json.dumps(each, default=datetime.isoformat) for each in made)]
    rows = features(parsed(messages(spark, tmp_path / "messages", lines)))
    writer = rows.writeStream.format("memory").queryName("newest").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()

    newest = {}
    for row in sorted(spark.table("newest").collect(), key=lambda row: row.revision):
        newest[row.card] = row.asDict()
    assert newest.keys() == {each["card"] for each in made}
    for card, row in newest.items():
        end = row["window_end"].replace(tzinfo=UTC)
        last = max(each["ts"] for each in made if each["card"] == card)
        assert last < end <= last + timedelta(minutes=1)
        assert {name: row[name] for name in expected(made, card, end)} == expected(made, card, end)
