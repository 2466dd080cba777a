"""`python -m slicing state CHECKPOINT`: what the checkpoint of a query holds, and lookups in it, as text."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from slicing.cli.command import REFUSED
from slicing.cli.console import complain, visible
from slicing.definition import Definition
from slicing.errors import InvalidType, InvalidValue, excerpt, raised
from slicing.windows.sets import windows_of_call
from slicing.windows.time.durations import microseconds_of
from slicing.windows.window import Window, hopping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMAND = "state"
_WINDOWS = re.compile(r"\s*(?P<size>.+?)(?:\s+every\s+(?P<advance>.+?))?\s*")
_EPILOG = """lookups need the definition of the query, which a checkpoint does not have: a name in a module or file,
of a definition or of a function that takes the session and returns one.

  python -m slicing state CHECKPOINT --define jobs/payments.py:hourly --keys user=bob --latest
  python -m slicing state CHECKPOINT --define payments:hourly --keys user=bob --windows "7 minutes every 1 minute"
  python -m slicing state CHECKPOINT --define payments:hourly --keys user=bob --why 2024-05-01T11:29
"""


@dataclass(frozen=True)
class Asked:
    """The arguments: a checkpoint, a micro-batch and an operator of it, None for the last one and for the only one.

    `keys` has the columns and values of each key that is looked up, `windows` others than those of the definition.
    `starts` are in microseconds, None where they are open; `why` is the start of the window that is explained.
    """

    checkpoint: str
    batch: int | None = None
    operator: int | None = None
    define: str | None = None
    keys: tuple[tuple[tuple[str, str], ...], ...] = ()
    windows: tuple[Window, ...] = ()
    starts: tuple[int | None, int | None] | None = None
    latest: bool = False
    incomplete: bool = False
    why: int | None = None
    limit: int = 20


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line as for all other errors."""
        raise SystemExit(complain(f"{message}. See `python -m slicing {COMMAND} --help`.", REFUSED))


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = _Parser(
        prog=f"python -m slicing {COMMAND}",
        description="Describe what the checkpoint of a query holds, or look windows up in it. Nothing is written, and "
        "the query may be running. Times are UTC.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="the `checkpointLocation` of the query")
    add("--batch", type=int, metavar="N", help="a committed micro-batch (default: the last)")
    add("--operator", type=int, metavar="N", help="a stateful operator, where a query has several")
    add(
        "--define",
        metavar="MODULE:NAME",
        help="the definition of the query, in a module or a .py file: look windows up",
    )
    keys = "look up this key, as user=bob or user=bob,card=7; may be repeated (default: all keys)"
    add("--keys", action="append", default=[], metavar="COLUMN=VALUE[,...]", help=keys)
    windows = 'other windows than those of the definition, as "7 minutes every 1 minute"; may be repeated'
    add("--windows", action="append", default=[], metavar="SIZE[ every ADVANCE]", help=windows)
    starts = "windows that start from FROM to TO, both included, in ISO form; either may be empty: 2024-05-01T11:00,"
    add("--starts", metavar="FROM,TO", help=starts)
    add("--latest", action="store_true", help="of each key the first window that holds its newest record")
    add("--incomplete", action="store_true", help="also windows of which slices have been removed")
    add("--why", metavar="START", help="show the slices of the window of one key that starts then, in ISO form")
    add("--limit", type=int, default=20, metavar="N", help="print at most N rows (20)")
    return made


def parse(arguments: Sequence[str]) -> Asked:
    """Return what the arguments ask for. Raises InvalidValue and InvalidType, before Spark is started."""
    given = parser().parse_args(arguments)
    path = given.checkpoint if "://" in given.checkpoint else str(Path(given.checkpoint).absolute())
    asked = Asked(
        path,
        given.batch,
        given.operator,
        given.define,
        tuple(map(_key, given.keys)),
        tuple(map(_window, given.windows)),
        None if given.starts is None else _starts(given.starts),
        given.latest,
        given.incomplete,
        None if given.why is None else _instant("--why", given.why),
        given.limit,
    )
    _check(asked)
    return asked


def _check(asked: Asked) -> None:
    looked = {"keys": asked.keys, "windows": asked.windows, "starts": asked.starts, "latest": asked.latest}
    looked |= {"incomplete": asked.incomplete, "why": asked.why is not None}
    named = [f"--{name}" for name, value in looked.items() if value]
    if named and asked.define is None:
        raise InvalidValue(
            f"{', '.join(named)} look up windows, for which the definition of the query is needed. Add "
            "`--define MODULE:NAME`."
        )
    if asked.define is not None and ":" not in asked.define:
        raise InvalidValue(f"`--define` is a module or a .py file, a colon and a name; got `{asked.define}`.")
    if asked.why is not None and (len(asked.keys) > 1 or asked.starts or asked.latest or asked.incomplete):
        raise InvalidValue("`--why` is of one window of one key. Give one `--keys`, and no other choice of windows.")
    if asked.limit < 1:
        raise InvalidValue(f"`--limit` must be positive; got {asked.limit}.")
    if len(asked.windows) > 1:
        windows_of_call(list(asked.windows), {}, long=False)  # refuses windows that could not be told apart


def _key(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise InvalidValue(f"`--keys` are columns with values, as user=bob,card=7; got `{text}`.")
        found.append((name.strip(), value))
    return tuple(found)


def _window(text: str) -> Window:
    match = _WINDOWS.fullmatch(text)
    if match is None:
        raise InvalidValue(f'`--windows` is a size, and an advance: "7 minutes every 1 minute"; got `{text}`.')
    return hopping(match["size"], match["advance"] or match["size"])


def _starts(text: str) -> tuple[int | None, int | None]:
    low, comma, high = text.partition(",")
    if not comma:
        raise InvalidValue(f"`--starts` are two instants with a comma between, either may be empty; got `{text}`.")
    return tuple(_instant("--starts", each) if each.strip() else None for each in (low, high))  # type: ignore[return-value]


def _instant(name: str, text: str) -> int:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidValue(f"`{name}` has instants in ISO form, as 2024-05-01T11:29; got `{text}`.") from None
    return microseconds_of(found if found.tzinfo else found.replace(tzinfo=UTC))


def run(asked: Asked, scratch: Path) -> int:
    """Start Spark, print the description or what is looked up, stop Spark. Raises InvalidValue, InvalidType."""
    from slicing.cli.session import session

    spark = session(scratch)
    try:
        for text in answers(spark, asked):
            for line in text.splitlines():
                print(visible(line))
        return 0
    finally:
        spark.stop()


def answers(spark: SparkSession, asked: Asked) -> Iterator[str]:
    """Yield what is printed."""
    from slicing.spark.describe import describe

    if asked.define is None:
        yield str(describe(spark, asked.checkpoint, asked.batch, operator=asked.operator))
        return
    made = definition(spark, asked.define)
    names = [key.name for key in made.query().keys]
    for key in asked.keys:
        _check_columns(names, [name for name, _ in key])
    common: dict[str, Any] = {"batch": asked.batch, "operator": asked.operator}
    common |= {"windows": list(asked.windows) or None}
    keys = _frame(spark, made, asked.keys) if asked.keys else None
    if asked.why is not None:
        yield str(made.why(asked.checkpoint, _one_key(names, keys), asked.why, **common))
        return
    found = made.lookup(
        asked.checkpoint, keys=keys, starts=asked.starts, latest=asked.latest, incomplete=asked.incomplete, **common
    )
    yield _table(found, asked.limit)


def _check_columns(names: Sequence[str], given: Sequence[str]) -> None:
    if sorted(given) != sorted(names):
        keys = ", ".join(names) or "none"
        raise InvalidValue(
            f"`--keys` has a value for each key column of the definition, {keys}; got {', '.join(given)}."
        )


def _frame(spark: SparkSession, made: Definition, keys: Sequence[Sequence[tuple[str, str]]]) -> DataFrame:
    """The keys as a DataFrame, cast from text. Raises InvalidValue for text that is no value of the type."""
    columns = made.query().keys
    rows = [tuple(dict(key)[column.name] for column in columns) for key in keys]
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        for value in values:
            kind = column.type.simpleString()
            if (
                spark.createDataFrame([(value,)], "v string").selectExpr(f"try_cast(v AS {kind})").collect()[0][0]
                is None
            ):
                raise InvalidValue(f"`--keys`: column `{column.name}` is {kind}; got {excerpt(value)}.")
    texts = spark.createDataFrame(rows, ", ".join(f"`{column.name}` string" for column in columns))
    return texts.selectExpr(*[f"CAST(`{c.name}` AS {c.type.simpleString()}) AS `{c.name}`" for c in columns])


def _one_key(names: Sequence[str], keys: DataFrame | None) -> Any:
    if not names:
        return None
    if keys is None:
        raise InvalidValue(f"`--why` is of one key; give it as --keys {names[0]}=...")
    return tuple(keys.collect()[0])


def _table(found: DataFrame, limit: int) -> str:
    from slicing.explain.state_table import aligned

    rows = found.limit(limit + 1).collect()
    lines = aligned([found.columns, *[[_cell(value) for value in row] for row in rows[:limit]]])
    return "\n".join([*lines, *([f"more than {limit}: add --limit"] if len(rows) > limit else [])])


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if hasattr(value, "asDict"):
        return " ".join(_cell(each) for each in value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def definition(spark: SparkSession, place: str) -> Definition:
    """Return the definition at a place: a module or file, a colon and a name. Raises InvalidValue, InvalidType."""
    module, _, name = place.rpartition(":")
    try:
        found = getattr(_module(module), name)
        made = found if isinstance(found, Definition) or not callable(found) else found(spark)
    except (InvalidValue, InvalidType):
        raise
    except Exception as error:
        raise InvalidValue(f"`--define {place}` cannot be read: {raised(error)}.") from error
    if not isinstance(made, Definition):
        raise InvalidType(
            f"`--define {place}` must be what `.define(...)` returns, or a function of the session that returns it; "
            f"got {excerpt(made)}."
        )
    return made


def _module(name: str) -> Any:
    if not name.endswith(".py"):
        return import_module(name)
    path = Path(name)
    if not path.is_file():
        raise InvalidValue(f"`--define`: `{name}` is no file.")
    spec = spec_from_file_location(path.stem, path)
    assert spec, "of a .py file"
    module = module_from_spec(spec)
    assert spec.loader, "of a .py file"
    spec.loader.exec_module(module)
    return module
