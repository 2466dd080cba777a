"""A question asked of a bounded DataFrame and of a stream, both answered by DuckDB too."""

import duckdb
import pyarrow as pa
from streams import Output, source, write

from benchmarks.public.sql import hopping_starts


def table(types, **columns):
    """Records with a time `ts` in microseconds and columns of these types, in the order in which they come."""
    return pa.table(columns, schema=pa.schema([("ts", pa.timestamp("us", "UTC")), *types.items()]))


def stored(factory, count, files, records):
    """The directory of these records, whose number is known, in consecutive files, read one a micro-batch."""
    assert records.num_rows == count
    directory, size = factory.mktemp("records"), -(-count // files)
    write([records.slice(number * size, size) for number in range(files)], directory)
    return directory


def judged(directory, sql):
    """Rows by DuckDB as sorted tuples; `records` has the column `file`, numbered from 0, beside those of the files."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(
            "create view records as select * exclude filename, "
            "cast(regexp_extract(filename, 'f([0-9]+)\\.parquet', 1) as int) as file "
            f"from read_parquet('{directory}/*.parquet', filename = true)"
        )
        return sorted(connection.sql(sql).fetchall())


def hops(size, advance, aggregates, key=""):
    """SQL of the rows of hopping windows."""
    key = key and f"{key}, "
    return f"""
        select {key}starts, starts + {size}, {aggregates}
        from (select *, {hopping_starts(size, advance)} as starts from records) group by {key}starts
    """


def sessions(gap, aggregates, key):
    """SQL of the rows of sessions."""
    return f"""
        with pauses as (
            select *, coalesce(epoch_us(ts) - lag(epoch_us(ts)) over w > {gap}, true) as first
            from records window w as (partition by {key} order by ts)
        ), numbered as (
            select *, sum(first::int) over (partition by {key} order by ts) as number from pauses
        )
        select {key}, epoch_us(min(ts)), epoch_us(max(ts)) + {gap}, {aggregates} from numbered group by {key}, number
    """


ACCEPTED = """
    with watermarks as (
        select f.file, coalesce(max(epoch_us(r.ts)) - {delay}, 0) as passed
        from (select distinct file from records) f left join records r on r.file < f.file - 1 group by f.file
    )
    select records.*, passed from records join watermarks using (file)
"""
"""Records with the watermark by which they are late for a window, `passed`: that of the micro-batch before theirs."""


def bounded(spark, directory, ask):
    """Rows of the question as sorted tuples, with the window as its start and end in microseconds."""
    return sorted(_tuples(ask(spark.read.parquet(str(directory))).toArrow()))


def streamed(spark, directory, ask, delay, checkpoint):
    """The same from a stream with this delay, and the watermark at its end: later windows have no row yet."""
    output = Output()
    events = source(spark, directory, delay, schema=spark.read.parquet(str(directory)).schema)
    writer = ask(events).writeStream.foreachBatch(output.sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    output.note(query)
    rows = [row for each in output.tables.values() for row in _tuples(each)]
    return sorted(rows), max(output.watermarks().values()) * 1000


def _tuples(found):
    place = found.column_names.index("window")
    window = found["window"].combine_chunks()
    edges = [window.field(edge).cast(pa.int64()) for edge in ("start", "end")]
    columns = [*found.columns[:place], *edges, *found.columns[place + 1 :]]
    return list(zip(*(each.to_pylist() for each in columns), strict=True))
