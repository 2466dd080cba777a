"""`python -m slicing state CHECKPOINT`: prints the content of a query's checkpoint, or windows looked up in it."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from slicing.cli.command import Parser
from slicing.cli.console import visible
from slicing.definition import Definition
from slicing.drawing import lines
from slicing.errors import InvalidType, InvalidValue, excerpt, raised
from slicing.windows.sets import windows_of_call
from slicing.windows.time.instants import microseconds_of
from slicing.windows.window import Window, hopping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slicing.spark.columns import Key

COMMAND = "state"
_WINDOWS = re.compile(r"\s*(?P<size>.+?)(?:\s+every\s+(?P<advance>.+?))?\s*")
_IS_NULL = re.compile(r"(.*\S)\s+is\s+null\s*", re.IGNORECASE)
_FORM = "`--keys` are columns with values, as user=bob,card=7, or `user is null`"
_EPILOG = """lookups need the definition of the query, which a checkpoint does not have: a name in a module or file,
of a definition or of a function that takes the session and returns one.

  python -m slicing state CHECKPOINT --define jobs/payments.py:hourly --keys user=bob --latest
  python -m slicing state CHECKPOINT --define payments:hourly --keys user=bob --windows "7 minutes every 1 minute"
  python -m slicing state CHECKPOINT --define payments:hourly --keys user=bob --why 2024-05-01T11:29
"""


@dataclass(frozen=True)
class StateArguments:
    """The arguments: a checkpoint, a micro-batch (None: the last one) and an operator (None: the only one).

    `keys` are texts of keys with columns and values; `windows` replace those of the definition. `starts` are in
    microseconds, None where there is no limit. `why` is the start of the window to explain, in microseconds.
    """

    checkpoint: str
    batch: int | None = None
    operator: int | None = None
    define: str | None = None
    keys: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    starts: tuple[int | None, int | None] | None = None
    latest: bool = False
    incomplete: bool = False
    why: int | None = None
    limit: int = 20


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    made = Parser(
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
    keys = 'look up this key, as user=bob, user=bob,card=7 or "user is null"; may be repeated (default: all keys)'
    add("--keys", action="append", default=[], metavar="COLUMN=VALUE[,...]", help=keys)
    windows = 'other windows than those of the definition, as "7 minutes every 1 minute"; may be repeated'
    add("--windows", action="append", default=[], metavar="SIZE[ every ADVANCE]", help=windows)
    starts = "windows that start from FROM to TO, both included, in ISO form; either may be empty: 2024-05-01T11:00,"
    add("--starts", metavar="FROM,TO", help=starts)
    add("--latest", action="store_true", help="of each key the first window that holds its newest record")
    add("--incomplete", action="store_true", help="also windows whose slices have been removed in part")
    add("--why", metavar="START", help="show the slices of the window of one key that starts then, in ISO form")
    add("--limit", type=int, default=20, metavar="N", help="print at most N rows (20)")
    return made


def parse(arguments: Sequence[str]) -> StateArguments:
    """Return the parsed arguments. Raises InvalidValue and InvalidType, before Spark is started."""
    given = parser().parse_args(arguments)
    path = given.checkpoint if "://" in given.checkpoint else str(Path(given.checkpoint).absolute())
    parsed = StateArguments(
        path,
        given.batch,
        given.operator,
        given.define,
        tuple(given.keys),
        tuple(map(_window, given.windows)),
        None if given.starts is None else _starts(given.starts),
        given.latest,
        given.incomplete,
        None if given.why is None else _instant("--why", given.why),
        given.limit,
    )
    _check(parsed)
    return parsed


def _check(arguments: StateArguments) -> None:
    looked = {
        "keys": arguments.keys,
        "windows": arguments.windows,
        "starts": arguments.starts,
        "latest": arguments.latest,
    }
    looked |= {"incomplete": arguments.incomplete, "why": arguments.why is not None}
    named = [f"--{name}" for name, value in looked.items() if value]
    if named and arguments.define is None:
        raise InvalidValue(
            f"{', '.join(named)} look up windows, for which the definition of the query is needed. Add "
            "`--define MODULE:NAME`."
        )
    if arguments.define is not None and ":" not in arguments.define:
        raise InvalidValue(f"`--define` is a module or a .py file, a colon and a name; got `{arguments.define}`.")
    if arguments.why is not None and (
        len(arguments.keys) > 1 or arguments.starts or arguments.latest or arguments.incomplete
    ):
        raise InvalidValue("`--why` is of one window of one key. Give one `--keys`, and no other choice of windows.")
    for text in arguments.keys:
        if not text.partition("=")[0].strip() or not ("=" in text or _IS_NULL.fullmatch(text)):
            raise InvalidValue(f"{_FORM}; got `{text}`.")
    if arguments.limit < 1:
        raise InvalidValue(f"`--limit` must be positive; got {arguments.limit}.")
    if len(arguments.windows) > 1:
        windows_of_call(list(arguments.windows), {}, long=False)  # refuses windows that could not be distinguished


def _values(text: str, names: Sequence[str]) -> dict[str, str | None]:
    """Return the value of each key column, None for null. A comma is part of a value unless a column name follows it.

    >>> _values("user=Bob, Jr.,card is null", ["user", "card"])
    {'user': 'Bob, Jr.', 'card': None}
    """
    found = {}
    for part in _parts(text, names):
        name, equals, value = part.partition("=")
        null = None if equals else _IS_NULL.fullmatch(name)
        found[(null[1] if null else name).strip()] = value if equals else None
    if sorted(found) != sorted(names):
        raise InvalidValue(
            f"`--keys` has a value for each key column of the definition, {', '.join(names) or 'none'}; "
            f"got {', '.join(found)}."
        )
    return found


def _parts(text: str, names: Sequence[str]) -> list[str]:
    if len(names) < 2:
        return [text]
    known = "|".join(map(re.escape, names))
    return re.split(rf",(?=\s*(?:{known})(?:\s*=|\s+(?i:is\s+null)\s*(?:,|$)))", text)


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


def run(arguments: StateArguments, scratch: Path) -> int:
    """Start Spark, print the description or the found windows, stop Spark. Raises InvalidValue, InvalidType."""
    from slicing.cli.job import reported
    from slicing.cli.session import session

    _use_utc()
    spark = session(scratch)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return reported(spark, scratch, lambda: _print(answers(spark, arguments)))


def _print(texts: Iterable[str]) -> int:
    for text in texts:
        for line in text.splitlines():
            print(visible(line))
    return 0


def _use_utc() -> None:
    """Make `collect` return times in UTC: it uses the time zone of the process, not that of the session."""
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):  # not on Windows
        time.tzset()


def answers(spark: SparkSession, arguments: StateArguments) -> Iterator[str]:
    """Yield the texts to print."""
    from slicing.spark.describe import describe

    if arguments.define is None:
        yield str(describe(spark, arguments.checkpoint, arguments.batch, operator=arguments.operator))
        return
    made = definition(spark, arguments.define)
    names = [key.name for key in made.query().keys]
    given = [_values(text, names) for text in arguments.keys]
    common: dict[str, Any] = {"batch": arguments.batch, "operator": arguments.operator}
    common |= {"windows": list(arguments.windows) or None}
    keys = _frame(spark, made, given) if given else None
    if arguments.why is not None:
        yield str(made.why(arguments.checkpoint, _one_key(names, keys), arguments.why, **common))
        return
    found = made.lookup(
        arguments.checkpoint,
        keys=keys,
        starts=arguments.starts,
        latest=arguments.latest,
        incomplete=arguments.incomplete,
        **common,
    )
    yield _table(found, arguments.limit)


def _frame(spark: SparkSession, made: Definition, keys: Sequence[dict[str, str | None]]) -> DataFrame:
    """The keys as a DataFrame, cast from text. Raises InvalidValue if a text cannot be cast."""
    columns = made.query().keys
    _check_types(columns)
    names = [f"`{column.name.replace('`', '``')}`" for column in columns]
    texts = spark.createDataFrame(
        [tuple(key[column.name] for column in columns) for key in keys],
        ", ".join(f"{name} string" for name in names),
    )
    kinds = [column.type.simpleString() for column in columns]
    frame = texts.selectExpr(
        *[f"try_cast({name} AS {kind}) AS {name}" for name, kind in zip(names, kinds, strict=True)]
    )
    for key, row in zip(keys, frame.collect(), strict=True):
        for column, value in zip(columns, row, strict=True):
            _check_value(column, key[column.name], value)
    return frame


def _check_types(columns: Sequence[Key]) -> None:
    from pyspark.sql import types as T

    for column in columns:
        if isinstance(column.type, T.StructType | T.ArrayType | T.MapType):
            raise InvalidValue(
                f"`--keys` are texts, and column `{column.name}` is {column.type.simpleString()}. Leave `--keys` out, "
                "or look up in Python with `definition.lookup(checkpoint, keys=...)`."
            )


def _check_value(column: Key, text: str | None, value: Any) -> None:
    """Raise InvalidValue if the text cannot be cast to the column's type, or only by rounding."""
    if text is None:
        return
    if value is None or (isinstance(value, Decimal) and Decimal(text.strip()) != value):
        kind = column.type.simpleString()
        raise InvalidValue(f"`--keys`: column `{column.name}` is {kind}; got {excerpt(text)}.")


def _one_key(names: Sequence[str], keys: DataFrame | None) -> Any:
    if not names:
        return None
    if keys is None:
        raise InvalidValue(f"`--why` is of one key; give it as --keys {names[0]}=...")
    return tuple(keys.collect()[0])


def _table(found: DataFrame, limit: int) -> str:
    rows = found.limit(limit + 1).collect()
    shown = lines([found.columns, *[[_cell(value) for value in row] for row in rows[:limit]]], right=True)
    return "\n".join([*shown, *([f"more than {limit}: add --limit"] if len(rows) > limit else [])])


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
    path = Path(name).absolute()
    if not path.is_file():
        raise InvalidValue(f"`--define`: `{name}` is no file.")
    known = str(path.parent) in sys.path
    if not known:
        sys.path.insert(0, str(path.parent))  # as `python jobs/payments.py` does
    spec = spec_from_file_location(f"_slicing_define_{path.stem}", path)
    assert spec, "of a .py file"
    module = module_from_spec(spec)
    assert spec.loader, "of a .py file"
    sys.modules[spec.name] = module  # dataclasses look up annotations there
    before = set(sys.modules)
    spec.loader.exec_module(module)
    _pickle_by_value([module] if known else [module, *_within(path.parent, sys.modules.keys() - before)])
    return module


def _within(folder: Path, names: Iterable[str]) -> Iterator[ModuleType]:
    """The modules and packages directly in a folder, without those of an environment in a sub-folder."""
    for name in {name.partition(".")[0] for name in names}:
        module = sys.modules.get(name)
        path = Path(getattr(module, "__file__", None) or "/")
        if module and folder == (path.parent.parent if path.name == "__init__.py" else path.parent):
            yield module


def _pickle_by_value(modules: Iterable[ModuleType]) -> None:
    """Pickle the modules by value together with functions that use them: workers cannot import them."""
    from pyspark.cloudpickle import register_pickle_by_value

    for module in modules:
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]
