"""A parser for schemas in DDL text. PySpark would ask the JVM, or over Spark Connect the server, to parse them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import types as T

from slicing.errors import InvalidValue

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|[\w.\-]+|.)", re.DOTALL)
_ATOMIC: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "byte": T.ByteType(),
    "smallint": T.ShortType(),
    "short": T.ShortType(),
    "int": T.IntegerType(),
    "integer": T.IntegerType(),
    "bigint": T.LongType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "real": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp_ltz": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
    "variant": T.VariantType(),
}
_DAYS = {"day": 0, "hour": 1, "minute": 2, "second": 3}
_MONTHS = {"year": 0, "month": 1}


def struct_of(text: str) -> T.StructType:
    """Return the struct type of a DDL schema such as "user string, amount decimal(10,2)", without asking Spark.

    `varchar(n)` and `char(n)` become strings. Raises InvalidValue for text that Spark would not parse either, and for
    types that this parser does not know.
    """
    reader = _Reader(text)
    return reader.columns("")


class _Reader:
    """Reads a schema from left to right; `next` is the next token, "" at the end."""

    def __init__(self, text: str):
        self.text = text
        self._tokens = [token for token in _TOKEN.findall(text) if token.strip()]

    @property
    def next(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def columns(self, end: str) -> T.StructType:
        """Read columns up to the token `end`."""
        fields: list[T.StructField] = []
        while self.next != end:
            if fields:
                self.expect(",")
            fields.append(self._column())
        return T.StructType(fields)

    def _column(self) -> T.StructField:
        name = self.name("the name of a column")
        if self.next == ":":
            self.take()
        kind, nullable, metadata = self.type(), True, {}
        if self.word("not"):
            self.expect("null")
            nullable = False
        if self.word("comment"):
            metadata["comment"] = re.sub(r"\\(.)", r"\1", self.take()[1:-1])
        return T.StructField(name, kind, nullable, metadata)

    def type(self) -> T.DataType:
        """Read a type."""
        word = self.name("a type").lower()
        if word in ("array", "map", "struct"):
            return self._nested(word)
        if word in ("decimal", "dec", "numeric"):
            precision, scale, *_ = *(self._numbers() or [10]), 0
            return T.DecimalType(precision, scale)
        if word in ("varchar", "char", "character"):
            self._numbers()
            return T.StringType()
        if word == "interval":
            return self._interval()
        if word == "string" and self.word("collate"):
            return T.StringType(self.name("a collation"))
        if word not in _ATOMIC:
            raise self.failed(f"`{word}` is no type of Spark that is known here")
        return _ATOMIC[word]

    def _nested(self, word: str) -> T.DataType:
        self.expect("<")
        with self.until(">"):
            if word == "array":
                return T.ArrayType(self.type())
            if word == "struct":
                return self.columns(">")
            key = self.type()
            self.expect(",")
            return T.MapType(key, self.type())

    def _interval(self) -> T.DataType:
        first = self.next.lower()
        if first not in {**_DAYS, **_MONTHS}:
            return T.CalendarIntervalType()
        self.take()
        last = self.name("the end of an interval").lower() if self.word("to") else first
        units, kind = (_DAYS, T.DayTimeIntervalType) if first in _DAYS else (_MONTHS, T.YearMonthIntervalType)
        if last not in units:
            raise self.failed(f"there is no interval {first} to {last}")
        return kind(units[first], units[last])

    def _numbers(self) -> list[int]:
        """Read numbers in parentheses, if there are any."""
        found: list[int] = []
        if self.next != "(":
            return found
        self.take()
        with self.until(")"):
            while self.next != ")":
                if found:
                    self.expect(",")
                number = self.take()
                if not re.fullmatch(r"-?\d+", number):
                    raise self.failed(f"expected a number, not `{number}`")
                found.append(int(number))
        return found

    @contextmanager
    def until(self, end: str) -> Iterator[None]:
        """Expect the token `end` after the body of the `with` statement."""
        yield
        self.expect(end)

    def name(self, what: str) -> str:
        """Read a name and return it without its backquotes."""
        token = self.take()
        if token.startswith("`") and len(token) > 2:
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"[\w\-]+", token):
            raise self.failed(f"expected {what}, not {f'`{token}`' if token else 'the end'}")
        return token

    def word(self, word: str) -> bool:
        """Whether `word` is the next token; if so, it is consumed."""
        if self.next.lower() != word:
            return False
        self.take()
        return True

    def expect(self, token: str) -> None:
        """Consume this token. Raises InvalidValue if the next token is another one."""
        found = self.take()
        if found.lower() != token:
            raise self.failed(f"expected `{token}`, not {f'`{found}`' if found else 'the end'}")

    def take(self) -> str:
        """Consume the next token and return it."""
        return self._tokens.pop(0) if self._tokens else ""

    def failed(self, why: str) -> InvalidValue:
        """Return the error for a text that cannot be parsed."""
        return InvalidValue(f'a schema is text such as "user string, ts timestamp"; in {self.text!r} {why}.')
