"""MovieLens 100k: ratings of seven months in an order of no meaning, so that a stream has many late records."""

import pyarrow as pa
import pytest
from asked import ACCEPTED, bounded, judged, stored, streamed, table
from packages import RECBOLE
from streams import DAY, SECOND

import combinators as C
from benchmarks.public.sql import hopping_starts
from slicing import group_by, hopping, tumbling

pytestmark = pytest.mark.real
RATINGS, FILES = 100_000, 8
DELAY_DAYS = 30


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    lines = RECBOLE.read("recbole/dataset_example/ml-100k/ml-100k.inter").decode().splitlines()[1:]
    _, movies, stars, times = zip(*(line.split("\t") for line in lines), strict=True)
    made = table(
        {"movie": pa.int64(), "stars": pa.int64()},
        ts=[int(each) * SECOND for each in times],
        movie=list(map(int, movies)),
        stars=list(map(int, stars)),
    )
    return stored(tmp_path_factory, RATINGS, FILES, made)


def by_movie(frame):
    """How often and how well is a movie rated in four weeks, looked at every week?"""
    weeks = group_by(frame, "movie").window(hopping("28 days", advance="7 days"), time="ts")
    return weeks.aggregate(ratings=C.count(), mean=C.mean("stars"))


BY_MOVIE = f"""
    select movie, starts, starts + {28 * DAY} as ends, count(*), avg(stars)
    from (select *, {hopping_starts(28 * DAY, 7 * DAY)} as starts from accepted)
    where starts + {28 * DAY} > passed group by movie, starts
"""


def by_stars(frame):
    """How many ratings of one to five stars are there in each month, and for what movies?"""
    months = group_by(frame, "stars").window(tumbling("1 month", zone="UTC"), time="ts")
    return months.aggregate(ratings=C.count(), first=C.min("movie"), last=C.max("movie"))


BY_STARS = """
    with months as (select *, date_trunc('month', ts) as month from accepted)
    select stars, epoch_us(month), epoch_us(month + interval 1 month) as ends, count(*), min(movie), max(movie)
    from months where epoch_us(month + interval 1 month) > passed group by stars, month
"""


@pytest.mark.parametrize(("ask", "sql"), [(by_movie, BY_MOVIE), (by_stars, BY_STARS)])
def test_ratings(spark, ratings, tmp_path, ask, sql):
    everything = judged(ratings, f"with accepted as (select *, 0 as passed from records) select * from ({sql})")
    assert bounded(spark, ratings, ask) == everything
    rows, watermark = streamed(spark, ratings, ask, f"{DELAY_DAYS} days", tmp_path)
    accepted = judged(ratings, f"with accepted as ({ACCEPTED.format(delay=DELAY_DAYS * DAY)}) select * from ({sql})")
    assert rows == [row for row in accepted if row[2] <= watermark]
    assert sum(row[3] for row in rows) < sum(row[3] for row in everything if row[2] <= watermark)
