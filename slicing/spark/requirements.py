"""What the stateful operator needs from the machine and the session, checked before Spark fails without a reason."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from pyspark.sql import SparkSession

from slicing.errors import MissingRequirement

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_INSTALL = "Install what streams need with `pip install 'spark-slicing[spark]'`."


def check_stream(spark: SparkSession) -> None:
    """Raise MissingRequirement when this session cannot run Spark's stateful operator."""
    pandas = _installed("pandas")
    if pandas is None or not (2, 2) <= _release(pandas) < (3, 0):
        raise MissingRequirement(f"streams need pandas >= 2.2 and < 3; found {pandas or 'none'}. {_INSTALL}")
    if _installed("protobuf") is None:
        raise MissingRequirement(f"streams need protobuf, which Spark does not bring; found none. {_INSTALL}")
    provider = spark.conf.get(_PROVIDER, "")
    if provider != _ROCKSDB:
        raise MissingRequirement(
            f"streams need the RocksDB state store; `{_PROVIDER}` is {provider!r}. "
            f'Set it before the query is built: spark.conf.set("{_PROVIDER}", "{_ROCKSDB}").'
        )


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _release(text: str) -> tuple[int, int]:
    major, minor, *_ = text.split(".")
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)
