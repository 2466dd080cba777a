"""Train a model on the history: each label with the features that its card had at the time of the label.

python -m fraud.train --payments /archive/payments --labels /archive/labels --model model.joblib
"""

from argparse import ArgumentParser

import joblib
from pyspark.sql import DataFrame, SparkSession
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from fraud.features import RESULTS, WINDOWS, card, vector
from slicing import configure


def examples(labels: DataFrame, payments: DataFrame) -> tuple[list[list[float]], list[bool]]:
    """Return the inputs of the model for labels, which have `card`, `ts` and `fraud`, and its outputs."""
    rows = card.at(labels, payments).collect()
    by_window = ({window: {name: row[f"{name}_{window}"] for name in RESULTS} for window in WINDOWS} for row in rows)
    return [vector(values) for values in by_window], [row["fraud"] for row in rows]


def train(labels: DataFrame, payments: DataFrame) -> Pipeline:
    """Return a model of the labels."""
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(*examples(labels, payments))


def main() -> None:
    """Train on tables in Parquet and write the model."""
    parser = ArgumentParser(description=__doc__)
    for name in ("payments", "labels", "model"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    spark = configure(SparkSession.builder.appName("fraud training")).getOrCreate()
    joblib.dump(train(spark.read.parquet(given.labels), spark.read.parquet(given.payments)), given.model)


if __name__ == "__main__":
    main()
