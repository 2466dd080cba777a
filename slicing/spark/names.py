"""Names and Columns of a call as columns of its DataFrame, resolved as Spark resolves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.aggregates.migration_hints import is_column, text_of
from slicing.errors import InvalidType, InvalidValue, shortened
from slicing.spark.columns import Key, quoted
from slicing.spark.declared import Declared

_ADDRESSED = "columnnodeexpression("
"""In the text of a Python function of columns, which then has addresses of this process: the next one has others."""


class Names:
    """What a call names. `frame` is its DataFrame, with what has been computed so far in columns called by their texts.

    A name is a column in whatever case, unless `spark.sql.caseSensitive` is set, or a path into a struct; a column that
    has a path's text for a name goes first.
    """

    def __init__(self, frame: DataFrame):
        self.given = frame
        self.frame: DataFrame | None = frame
        self._computed: dict[str, Column] = {}

    @property
    def schema(self) -> T.StructType:
        """All columns, with those that have been computed."""
        assert self.frame is not None
        return self.frame.schema

    @property
    def given_schema(self) -> T.StructType:
        """The columns of the call's DataFrame."""
        return self.given.schema

    @property
    def streaming(self) -> bool:
        """Whether it is a stream."""
        return self.given.isStreaming

    def key(self, given: Any) -> Key:
        """The key that is meant, under the name that Spark would give it."""
        field = self.field(given, "key column")
        return Key(self._name(given, field), field.dataType, field.name)

    def _name(self, given: Any, field: T.StructField) -> str:
        if isinstance(given, str):
            return self.given.select(self._computed[field.name]).columns[0] if field.name in self._computed else given
        return self.given.select(given).columns[0]

    def field(self, given: Any, what: str) -> T.StructField:
        """The column that is meant, which is computed if there is none. Raises InvalidValue, naming `what` it is."""
        name = (
            self._of_column(given, what)
            if is_column(given)
            else self._of_name(given, what, "is written `F.expr({!r})`.")
        )
        return self.schema[name]

    def named(self, name: str, what: str) -> T.StructField:
        """The same where only a name will do, and state holds it: so a path is spelled as the schema has it."""
        spelled = name if self._called(name) else self._spelled(name)
        found = self._of_name(spelled, what, "gets a name first, by `withColumn`.")
        return self.schema[found]

    def _spelled(self, path: str) -> str:
        """A path into structs with the names of its fields, as far as it leads."""
        found: list[str] = []
        inside: T.DataType = self.given_schema
        for part in path.split("."):
            kinds = {each.name: each.dataType for each in inside.fields} if isinstance(inside, T.StructType) else {}
            there = self._alike(tuple(kinds), part)
            if len(there) != 1:
                return path
            found += there
            inside = kinds[there[0]]
        return ".".join(found)

    def _of_name(self, name: str, what: str, remedy: str) -> str:
        found = self._called(name)
        if len(found) > 1:
            raise InvalidValue(f"{what} `{name}` is ambiguous: {len(found)} columns have this name. Rename one.")
        if found:
            return found[0]
        if self._called(name.partition(".")[0]) and "." in name:
            return self._of_column(F.col(name), what)
        known = ", ".join(self.given_schema.names)
        expression = "" if name.isidentifier() else f" An expression {remedy.format(name)}"
        raise InvalidValue(f"{what} `{shortened(name)}` does not exist; the columns are {known}.{expression}")

    def _called(self, name: str) -> list[str]:
        """The columns of the call's DataFrame that have a name."""
        return self._alike(self.given_schema.names, name)

    def _alike(self, names: Sequence[str], name: str) -> list[str]:
        """Return the names that Spark takes for the same name."""
        exact = [each for each in names if each == name]
        folded = [each for each in names if each.casefold() == name.casefold()]
        if len(folded) == len(exact):
            return exact
        return exact if self._sensitive() else folded

    def _sensitive(self) -> bool:
        return str(self.given.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"

    def _of_column(self, column: Column, what: str) -> str:
        text = text_of(column)
        try:
            found = self.given.select(column)
            if len(found.schema.fields) != 1:
                raise InvalidValue(f"{what} `{shortened(text)}` is several columns. Name them one by one.")
            if _ADDRESSED in text:
                text = found.columns[0]
            while known := self._known(text):
                for name, other in known.items():
                    if self.given.select(other).sameSemantics(found):
                        return name
                text += "'"  # another function may have the same text
            assert self.frame is not None
            computed = self.frame.withColumn(text, column)
            _ = computed.schema
        except AnalysisException as error:
            reason = str(error).strip().splitlines()[0]
            raise InvalidValue(
                f"{what} `{shortened(text)}` cannot be computed of a record: {shortened(reason)}"
            ) from None
        self.frame, self._computed[text] = computed, column
        return text

    def _known(self, text: str) -> dict[str, Column]:
        """What has a text for its name already, in whatever case: columns that were given or computed."""
        every = {name: quoted(name) for name in self.given.columns} | self._computed
        return {name: column for name, column in every.items() if name.casefold() == text.casefold()}


class NamesOfHistory(Names):
    """What a call over a stream names of its history: a bounded DataFrame, whose records come in an order."""

    @property
    def streaming(self) -> bool:
        """It is a part of the stream."""
        return True


class DeclaredNames(Names):
    """What a call names of declared columns: these, and paths into their structs. `frame` is None if there is none yet.

    The type of any other expression only Spark knows, which is not asked.
    """

    def __init__(self, frame: DataFrame | None, declared: Declared):
        self._declared = declared
        self._schema = declared.schema
        self._computed: dict[str, Column] = {}
        self.frame = None if frame is None else declared.read(frame)

    @property
    def schema(self) -> T.StructType:
        """All columns, with those that have been computed."""
        return self._schema

    @property
    def given_schema(self) -> T.StructType:
        """The declared columns."""
        return self._declared.schema

    @property
    def streaming(self) -> bool:
        """Whether a stream is declared."""
        return self._declared.streaming

    def _name(self, given: Any, field: T.StructField) -> str:
        return field.name.rpartition(".")[2] if field.name in self._computed else str(given)

    def _sensitive(self) -> bool:
        return False  # no two declared columns have names that differ in case alone

    def _of_column(self, column: Column, what: str) -> str:
        text = text_of(column)
        path = self._spelled(text).split(".")
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
            self._computed[text] = F.col(".".join(f"`{part}`" for part in path))
            if self.frame is not None:  # not by `withColumn`, see `told`
                self.frame = self.frame.select("*", self._computed[text].alias(text))
        return text
