"""Score a card by its features now, without Spark.

python -m fraud.score --store postgresql://... --model model.joblib 4711
"""

from argparse import ArgumentParser

import joblib
from sklearn.pipeline import Pipeline

from fraud.features import card, vector
from slicing.serving import Reader

MAX_AGE = "10 minutes"
"""Cards are not scored if the stream has not written for longer."""


def score(model: Pipeline, reader: Reader, of: str, **options: object) -> float | None:
    """Return the probability of fraud; None while the stream does not know all windows. Options are those of `read`."""
    values = vector(reader.read(of, **options))
    return None if values is None else float(model.predict_proba([values])[0, 1])


def main() -> None:
    """Print the probability of fraud of one card."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("card")
    given = parser.parse_args()
    print(score(joblib.load(given.model), Reader(given.store, card), given.card, max_age=MAX_AGE))


if __name__ == "__main__":
    main()
