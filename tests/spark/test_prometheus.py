"""Metrics of Prometheus: from reports, then scraped over HTTP while a stream runs, against the progress of Spark."""

import json
import re
import time
from types import SimpleNamespace
from urllib.request import urlopen

import pytest
from rooms import ROOT
from streams import MINUTE, SECOND, START, record, source, table, write
from test_progress import COUNTS, OPERATOR, report

import combinators as C
from slicing import InvalidType, MissingRequirement, ProgressListener, PrometheusCollector, group_by, hopping
from slicing.triggers.required_delay import BOUNDS

prometheus_client = pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

DASHBOARD = ROOT / "examples" / "fraud" / "monitoring" / "dashboard.json"
QUERY = {"query": "payments"}
DELAYS = {
    "required_delays": [10, 5, *[0] * (len(BOUNDS) - 2), 1],
    "longest_required_delay": 8 * 24 * 60 * MINUTE,
    "watermark_delay": 2 * MINUTE,
    "retained": None,
}


def exported(listener):
    """The text for a scrape, from a registry with nothing else."""
    registry = prometheus_client.CollectorRegistry()
    registry.register(PrometheusCollector(listener))
    return prometheus_client.generate_latest(registry).decode()


def samples(text):
    """Values by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def named(found, name, **labels):
    return found[name, tuple(sorted({**QUERY, **labels}.items()))]


@pytest.fixture
def listener():
    found = ProgressListener(lines=False)
    for number in (3, 4):
        metrics = {"slicing: n": {**COUNTS, **DELAYS}, "implausible: ts 1": {"implausible": 2}}
        operators = [OPERATOR, {**OPERATOR, "numRowsDroppedByWatermark": 3}]
        batch = report(batchId=number, observedMetrics=metrics, stateOperators=operators)
        found.onQueryProgress(SimpleNamespace(progress=batch))
    return found


def test_counters_are_sums_and_gauges_the_newest(listener):
    found = samples(exported(listener))
    assert named(found, "slicing_micro_batches_total") == 2
    assert named(found, "slicing_records_total") == 40_000
    assert named(found, "slicing_seconds_total") == 1.0
    assert named(found, "slicing_results_total") == 2 * COUNTS["results"]
    causes = ("late", "late_for_some", "no_time", "no_window", "implausible", "dropped_by_other_operators")
    assert [named(found, "slicing_refused_records_total", cause=each) for each in causes] == [10, 2400, 0, 0, 4, 6]
    assert named(found, "slicing_open_windows") == COUNTS["open_windows"]
    assert named(found, "slicing_watermark_lag_seconds") == 120
    assert named(found, "slicing_watermark_delay_seconds") == 120
    assert named(found, "slicing_state_disk_bytes") == 2 * 1536
    assert named(found, "slicing_longest_required_delay_seconds") == 8 * 24 * 3600
    buckets = [
        named(found, "slicing_required_delay_seconds_bucket", le=le) for le in ("0.0", "1.0", "604800.0", "+Inf")
    ]
    assert buckets == [20, 30, 30, 32]


def test_a_query_that_has_ended_has_no_metrics_any_more(listener):
    listener.onQueryTerminated(SimpleNamespace(id=report().id, exception=None))
    assert not samples(exported(listener))
    assert not listener.totals


def test_every_query_of_the_dashboard_is_about_metrics_that_are_there(listener):
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 5
    names = {name for name, _ in samples(exported(listener))}
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    asked += [each["query"] for each in dashboard["templating"]["list"]]
    used = {name for each in asked for name in re.findall(r"slicing_\w+", each)}
    assert used <= names, used - names
    bounds = {dict(labels)["le"] for name, labels in samples(exported(listener)) if name.endswith("_bucket")}
    wanted = {each for expr in asked for found in re.findall(r'le=~?"([^"]+)"', expr) for each in found.split("|")}
    assert wanted
    assert wanted <= bounds


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("slicing.spark.prometheus.find_spec", lambda name: None)
    with pytest.raises(MissingRequirement, match=r"pip install 'spark-slicing\[prometheus\]'"):
        PrometheusCollector(ProgressListener(lines=False))
    with pytest.raises(InvalidType, match="must be a ProgressListener"):
        PrometheusCollector(print)


@pytest.mark.slow
def test_a_stream_is_scraped_while_it_runs(spark, tmp_path):
    """Records, refused ones and the delays that they need, as the progress of Spark has them."""
    files = [[record(key, START + key * SECOND) for key in range(8)], [record(1, START + 5 * MINUTE)]]
    files += [[record(1, START + 10 * MINUTE)], [record(1, START + 15 * MINUTE), record(1, START)]]
    write(map(table, files), tmp_path / "files")
    listener, registry = ProgressListener(lines=False), prometheus_client.CollectorRegistry()
    registry.register(PrometheusCollector(listener))
    server, thread = prometheus_client.start_http_server(0, "127.0.0.1", registry)
    spark.streams.addListener(listener)
    windowed = group_by(source(spark, tmp_path / "files"), "world").window(
        hopping("20 seconds", "10 seconds"), time="ts"
    )
    query = windowed.aggregate(total=C.sum("n")).writeStream.format("noop").queryName("payments")
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        end, found = time.monotonic() + 60, {}
        while found.get(("slicing_micro_batches_total", (("query", "payments"),)), 0) < 5 and time.monotonic() < end:
            time.sleep(0.2)
            with urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
                found = samples(answer.read().decode())
    finally:
        query.stop()
        spark.streams.removeListener(listener)
        server.shutdown()
        server.server_close()
        thread.join()
    assert named(found, "slicing_records_total") == 12
    assert named(found, "slicing_refused_records_total", cause="late") == 1
    assert named(found, "slicing_required_delay_seconds_bucket", le="+Inf") == 12
    assert named(found, "slicing_required_delay_seconds_bucket", le="0.0") == 11
    # The first window of the late record ends at START + 10 s; before its micro-batch the watermark was at 5 minutes.
    assert named(found, "slicing_longest_required_delay_seconds") == pytest.approx(290.001)
    assert named(found, "slicing_watermark_timestamp_seconds") == (START + 15 * MINUTE) // SECOND
