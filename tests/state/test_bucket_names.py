"""Buckets in messages are numbered from 0, as they are asked for, whatever values Spark's shuffle has for them."""

import pickle

import pytest

from slicing.state.format.buckets import BucketName, Buckets


@pytest.mark.parametrize("buckets", [Buckets(1), Buckets(2), Buckets(16), Buckets(100), Buckets(64, over=8)])
def test_numbers_are_those_of_the_labels_in_order(buckets):
    assert [str(BucketName(label, buckets.text)) for label in buckets.labels] == [
        f"bucket {number}" for number in range(buckets.count)
    ]
    assert sorted(buckets.labels) == [*buckets.labels]


def test_labels_are_no_numbers():
    """So a message with a label would name a bucket that nobody has asked for."""
    assert max(Buckets(16).labels) > 16


@pytest.mark.parametrize("text", ["", "of another version", "4"])
def test_a_label_that_is_not_known_is_shown(text):
    assert str(BucketName(4711, text)) == "bucket 4711"


def test_a_name_is_that_of_the_number_in_messages():
    name = pickle.loads(pickle.dumps(BucketName(Buckets(16).labels[-1], "16")))
    assert f"page `p1` of {name}" == "page `p1` of bucket 15"
