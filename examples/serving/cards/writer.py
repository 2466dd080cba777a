"""Write the slices of a stream of payments to a store. The payments are invented: some each second, of five cards.

python -m cards.writer --store sqlite:///features.db --checkpoint checkpoint
"""

from argparse import ArgumentParser

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from cards.features import card
from slicing import configure, serve_to

CARDS = ["ada", "bob", "cyd", "dan", "eve"]


def invented(spark: SparkSession, a_second: int) -> DataFrame:
    """Return a stream of payments with the columns `card`, `ts` and `cents`."""
    cards = ", ".join(f"'{name}'" for name in CARDS)
    columns = [f"element_at(array({cards}), 1 + int(rand() * {len(CARDS)})) AS card", "timestamp AS ts"]
    rows = spark.readStream.format("rate").option("rowsPerSecond", a_second).load()
    return rows.selectExpr(*columns, "100 + bigint(rand() * 9900) AS cents")


def writer(payments: DataFrame, store: str, checkpoint: str) -> DataStreamWriter:
    """Return the query that keeps a store up to date, to be started."""
    served = card.serve(payments.withWatermark("ts", "10 seconds"))
    to_store = served.writeStream.outputMode("update").foreachBatch(serve_to(store))
    return to_store.option("checkpointLocation", checkpoint)


def main() -> None:
    """Run until the query ends."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite:///features.db")
    parser.add_argument("--checkpoint", default="checkpoint")
    parser.add_argument("--rate", type=int, default=5, help="payments a second")
    given = parser.parse_args()
    spark = configure(SparkSession.builder.appName("cards"), partitions=2, quiet=True).getOrCreate()
    writer(invented(spark, given.rate), given.store, given.checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
