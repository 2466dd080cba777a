"""The figures of a `ProgressListener` as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from math import isinf
from typing import TYPE_CHECKING

from slicing.errors import InvalidType, MissingRequirement, excerpt
from slicing.spark.progress import MicroBatch, ProgressListener
from slicing.stages.metrics import ELSEWHERE, IMPLAUSIBLE, REFUSED, TIMERS

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_PREFIX = "slicing_"
_COUNTERS = {
    "micro_batches": "Micro-batches that have run",
    "records": "Records that were read",
    "seconds": "Duration of the micro-batches",
    "results": "Emitted result rows",
    "partials_read": "Partials that were read from the state",
    "partials_written": "Partials that were written to the state",
}
_REFUSED = (*REFUSED, IMPLAUSIBLE, ELSEWHERE)


class PrometheusCollector:
    """Export the figures of the running queries of a `ProgressListener` to a registry of `prometheus_client`.

    ::

        listener = ProgressListener(lines=False)
        spark.streams.addListener(listener)
        prometheus_client.REGISTRY.register(PrometheusCollector(listener))
        prometheus_client.start_http_server(9108)

    Every metric has the label `query`, the name or id of the query. Metrics are computed only on a scrape. Counters
    start at zero when a query starts in this program, as Prometheus expects. The names begin with `slicing_`. Counters:
    records, results, micro_batches, seconds, partials_read, partials_written, refused_records (by `cause`) and
    stage_seconds (by `stage`), each with `_total`. Histogram without a sum: required_delay_seconds. Gauges:
    longest_required_delay_seconds, watermark_delay_seconds, watermark_timestamp_seconds, watermark_lag_seconds,
    open_windows, slices, state_memory_bytes, state_disk_bytes. A query that has ended has no metrics. Raises
    MissingRequirement without `prometheus_client`, which the extra `prometheus` installs, and InvalidType.
    """

    def __init__(self, listener: ProgressListener):
        if not isinstance(listener, ProgressListener):
            raise InvalidType(f"`listener` must be a ProgressListener; got {excerpt(listener)}.")
        if find_spec("prometheus_client") is None:
            raise MissingRequirement(
                "metrics of Prometheus need the package `prometheus_client`, which is not installed. Install the "
                "extra: `pip install 'spark-slicing[prometheus]'`."
            )
        self.listener = listener

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that a registry does not collect all figures only to learn their names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; `prometheus_client` calls it in a thread of its own."""
        # Copies, because queries may end during the collection.
        newest = {query: self.listener.batches[query][-1] for query in list(self.listener.gauges)}
        totals = {query: dict(self.listener.totals.get(query, {})) for query in newest}
        yield from _counters(totals)
        yield from _gauges(newest)
        yield from self._delays(list(newest))

    def _delays(self, queries: list[str]) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

        required = HistogramMetricFamily(
            f"{_PREFIX}required_delay_seconds",
            "Watermark delay that records need to count in all of their windows",
            labels=["query"],
        )
        longest = GaugeMetricFamily(
            f"{_PREFIX}longest_required_delay_seconds", "Delay that all records would have needed", labels=["query"]
        )
        for query in queries:
            if lateness := self.listener.lateness(query):
                bounds = [(_bound(bound), records) for bound, records in lateness.cumulative()]
                required.add_metric([query], bounds, sum_value=None)
                longest.add_metric([query], lateness.longest / 1e6)
        yield from (required, longest)


def _counters(totals: dict[str, dict[str, float]]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    for name, text in _COUNTERS.items():
        family = CounterMetricFamily(_PREFIX + name, text, labels=["query"])
        for query, found in totals.items():
            family.add_metric([query], found.get(name, 0))
        yield family
    parts = (
        ("refused_records", "Records that were refused, by cause", "cause", {name: name for name in _REFUSED}, 1),
        ("stage_seconds", "Time in Python, by stage", "stage", {name: name.partition("_")[2] for name in TIMERS}, 1e6),
    )
    for name, text, label, labels, unit in parts:
        family = CounterMetricFamily(_PREFIX + name, text, labels=["query", label])
        for query, found in totals.items():
            for counter in labels.keys() & found.keys():
                family.add_metric([query, labels[counter]], found[counter] / unit)
        yield family


def _gauges(newest: dict[str, MicroBatch]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    figures = {
        "watermark_timestamp_seconds": "Watermark, in seconds since 1970",
        "watermark_lag_seconds": "Distance of the watermark behind the clock when the micro-batch began",
        "watermark_delay_seconds": "Delay of the watermark",
        "open_windows": "Open windows in the bucket with the most",
        "slices": "Slices of the state in the bucket with the most",
        "state_memory_bytes": "State in memory, as Spark reports it",
        "state_disk_bytes": "State on disk, as Spark reports it",
    }
    found = {query: _figures(batch) for query, batch in newest.items()}
    for name, text in figures.items():
        family = GaugeMetricFamily(_PREFIX + name, text, labels=["query"])
        for query, values in found.items():
            if name in values:
                family.add_metric([query], values[name])
        yield family


def _figures(batch: MicroBatch) -> dict[str, float]:
    found = batch.gauges()
    if "watermark_seconds" in found:
        found["watermark_timestamp_seconds"] = found["watermark_seconds"]
    if batch.lateness:
        found["watermark_delay_seconds"] = batch.lateness.delay / 1e6
    return found


def _bound(seconds: float) -> str:
    """A bound in the text format of Prometheus."""
    return "+Inf" if isinf(seconds) else str(seconds)
