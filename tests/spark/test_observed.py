"""What is observed of a query costs little when the query is built."""

from py4j.java_gateway import GatewayClient

import combinators as C
from slicing import group_by, hopping


def test_building_a_query_makes_few_calls_of_the_jvm(spark, monkeypatch):
    """A call takes 0.3 ms on a machine that is idle. There were 1,500 when each metric was a column of the API."""
    frame = spark.readStream.format("rate").load().withWatermark("timestamp", "5 seconds")
    windowed = group_by(frame, "value").window(hopping("1 hour", "1 minute"), time="timestamp")
    windowed.aggregate(n=C.count())  # what is found out once is not counted
    calls, send = [], GatewayClient.send_command

    def counted(self, command, *more, **options):
        if not command.startswith("m\n"):  # an object that Python has forgotten
            calls.append(command)
        return send(self, command, *more, **options)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    windowed.aggregate(n=C.count(), total=C.sum("value"))
    assert 50 < len(calls) < 600
