"""Resolves the names and Columns of a call to columns of its DataFrame, by Spark's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.column_names import in_backquotes, in_code, is_column, parts_of, path_of, text_of, unquoted
from slicing.errors import InvalidType, InvalidValue, shortened
from slicing.spark.columns import Key, quoted
from slicing.spark.declared import Declared

_ADDRESSED = "columnnodeexpression("
"""A part of the text of a Column made by a Python lambda; such a text has memory addresses, which change."""


def is_case_sensitive(session: SparkSession) -> bool:
    """Return whether names that differ in case are different names in a session."""
    return str(session.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def is_active_case_sensitive() -> bool:
    """Return whether names that differ in case are different names in the active session."""
    session = SparkSession.getActiveSession()
    return session is not None and is_case_sensitive(session)


class Names:
    """Resolves what a call names. `frame` is its DataFrame plus computed columns, each named by the text of its Column.

    A name is a column, in any case unless `spark.sql.caseSensitive` is set, or a path into a struct, with or without
    backquotes. A column whose name equals the path takes precedence.
    """

    def __init__(self, frame: DataFrame):
        self.given = frame
        self.frame: DataFrame | None = frame
        self._computed: dict[str, Column] = {}

    @property
    def schema(self) -> T.StructType:
        """The schema of all columns, computed ones included."""
        assert self.frame is not None
        return self.frame.schema

    @property
    def given_schema(self) -> T.StructType:
        """The schema of the call's DataFrame."""
        return self.given.schema

    @property
    def streaming(self) -> bool:
        """Whether the DataFrame is a stream."""
        return self.given.isStreaming

    def key(self, given: Any) -> Key:
        """Return the key column, under the name that Spark would give it. Raises InvalidValue."""
        field = self.field(given, "key column")
        return Key(self._name(given, field), field.dataType, field.name, self.code(field.name))

    def _name(self, given: Any, field: T.StructField) -> str:
        if isinstance(given, str):
            if field.name in self._computed:
                return self.given.select(self._computed[field.name]).columns[0]
            return given if self.alike(self.given_schema.names, given) else unquoted(given)
        return self.given.select(given).columns[0]

    def field(self, given: Any, what: str) -> T.StructField:
        """Return the column, computed if necessary. Raises InvalidValue; `what` is the column's role in the message."""
        name = (
            self._of_column(given, what)
            if is_column(given)
            else self._of_name(given, what, "is written `F.expr({!r})`.")
        )
        return self.schema[name]

    def code(self, name: str) -> str:
        """Return the code of a column for remedies: that of its name, or of the expression that computes it."""
        return self.computed(name) or in_code(name)

    def computed(self, name: str) -> str:
        """Return the code of the expression that computes a column, "" for a column of the call's DataFrame."""
        return f"F.expr({text_of(self._computed[name])!r})" if name in self._computed else ""

    def named(self, name: str, what: str) -> T.StructField:
        """As `field`, for names that the state stores: it takes only a name, and spells a path as the schema does."""
        spelled = name if self._called(name) else self._spelled(name)
        found = self._of_name(spelled, what, "gets a name first, by `withColumn`.")
        return self.schema[found]

    def _spelled(self, path: str) -> str:
        """A path into structs with its fields spelled as in the schema; unchanged if a part does not resolve."""
        return path_of(self._fields(parts_of(path))) or path

    def _fields(self, parts: Sequence[str]) -> list[str]:
        """The names of a path as the schema spells them; empty if one does not resolve."""
        found: list[str] = []
        inside: T.DataType = self.given_schema
        for part in parts:
            kinds = {each.name: each.dataType for each in inside.fields} if isinstance(inside, T.StructType) else {}
            there = self.alike(tuple(kinds), part)
            if len(there) != 1:
                return []
            found += there
            inside = kinds[there[0]]
        return found

    def _of_name(self, name: str, what: str, remedy: str) -> str:
        found = self._called(name)
        if len(found) > 1:
            raise InvalidValue(f"{what} `{name}` is ambiguous: {len(found)} columns have this name. Rename one.")
        if found:
            return found[0]
        first, *more = parts_of(name)
        if more and self.alike(self.given_schema.names, first):
            return self._of_path(name, what)
        expression = "" if name.isidentifier() else f"An expression {remedy.format(name)}"
        from slicing.hints import no_column

        raise no_column(what, name, self.given_schema.names, expression)

    def _of_path(self, path: str, what: str) -> str:
        """The name of the computed column of a field of a struct."""
        return self._of_column(F.col(path), what)

    def _called(self, name: str) -> list[str]:
        """The columns of the call's DataFrame with this name, which may be in backquotes."""
        known = self.given_schema.names
        return self.alike(known, name) or self.alike(known, unquoted(name))

    def alike(self, names: Sequence[str], name: str) -> list[str]:
        """Return the names that Spark treats as equal to `name`."""
        exact = [each for each in names if each == name]
        folded = [each for each in names if each.casefold() == name.casefold()]
        if len(folded) == len(exact):
            return exact
        return exact if self.is_case_sensitive else folded

    @property
    def is_case_sensitive(self) -> bool:
        """Whether names that differ in case are different names."""
        return is_case_sensitive(self.given.sparkSession)

    def _of_column(self, column: Column, what: str) -> str:
        text = text_of(column)
        try:
            found = self.given.select(column)
            if len(found.schema.fields) != 1:
                raise InvalidValue(f"{what} `{shortened(text)}` is several columns. Name them one by one.")
            # Spark refuses a nested generator such as `explode`; alone it would repeat the record for all results.
            _ = self.given.select(column.isNull()).schema
            if _ADDRESSED in text:
                text = found.columns[0]
            while known := self._known(text):
                for name, other in known.items():
                    if self.given.select(other).sameSemantics(found):
                        return name
                text += "'"  # a different function may have the same text
            assert self.frame is not None
            computed = self.frame.withColumn(text, column)
            _ = computed.schema
        except AnalysisException as error:
            reason = str(error).strip().splitlines()[0]
            raise InvalidValue(
                f"{what} `{shortened(text)}` cannot be computed of a record: {shortened(reason)} Compute it before "
                "`group_by`, by `withColumn`, and name it."
            ) from None
        self.frame, self._computed[text] = computed, column
        return text

    def _known(self, text: str) -> dict[str, Column]:
        """The given and computed columns whose name equals the text, ignoring case."""
        every = {name: quoted(name) for name in self.given.columns} | self._computed
        return {name: column for name, column in every.items() if name.casefold() == text.casefold()}


class NamesOfHistory(Names):
    """Resolves what a call over a stream names to columns of its history, a bounded DataFrame."""

    @property
    def streaming(self) -> bool:
        """True: the history is part of the stream."""
        return True


class DeclaredNames(Names):
    """Resolves what a call names to declared columns, and paths into structs. `frame` is None without a DataFrame.

    Other expressions raise InvalidType: only Spark knows their types, and Spark is not asked.
    """

    def __init__(self, frame: DataFrame | None, declared: Declared):
        self._declared = declared
        self._schema = declared.schema
        self._computed: dict[str, Any] = {}
        self.frame = None if frame is None else declared.read(frame)

    @property
    def schema(self) -> T.StructType:
        """The schema of all columns, computed ones included."""
        return self._schema

    @property
    def given_schema(self) -> T.StructType:
        """The declared schema."""
        return self._declared.schema

    @property
    def streaming(self) -> bool:
        """Whether the declaration is of a stream."""
        return self._declared.streaming

    def _name(self, given: Any, field: T.StructField) -> str:
        if field.name in self._computed:
            return parts_of(field.name)[-1]
        return str(given) if self.alike(self.given_schema.names, str(given)) else unquoted(str(given))

    @property
    def is_case_sensitive(self) -> bool:
        """False: declared columns differ in more than case."""
        return False

    def _of_path(self, path: str, what: str) -> str:
        return self._of_column(path_of(parts_of(path)), what)

    def _of_column(self, column: Column | str, what: str) -> str:
        text = text_of(column)
        path = self._fields(parts_of(text)) or [text]
        kind: T.DataType = self._declared.schema
        for part in path:
            if not isinstance(kind, T.StructType) or part not in kind.names:
                raise InvalidType(
                    f"{what} `{shortened(text)}` is no declared column, and the type of an expression cannot be asked "
                    'where the schema is declared. Compute it before, by `select("*", ....alias("a"))`, and declare it.'
                )
            kind = kind[part].dataType
        if len(path) == 1:
            return path[0]
        if text not in self._computed:
            self._schema = T.StructType([*self._schema.fields, T.StructField(text, kind)])
            self._computed[text] = column
            if self.frame is not None:  # `withColumn` would ask the server, see `told`
                self.frame = self.frame.select("*", F.col(".".join(map(in_backquotes, path))).alias(text))
        return text
