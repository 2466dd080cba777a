"""The arithmetic of slices against the definition: slices lie between neighbouring starts and ends of windows."""

import numpy as np
import pytest

from slicing.windows.families.even import Even

SMALL = [Even(size, advance, offset) for size in range(1, 9) for advance in range(1, 9) for offset in (-13, -1, 0, 5)]
TIMES = range(-20, 21)
WINDOWS = range(-40, 41)


def bounds(family, window):
    start = family.offset + window * family.advance
    return start, start + family.size


def edges(family):
    return sorted({edge for window in WINDOWS for edge in bounds(family, window)})


def test_a_slice_lies_between_neighbouring_edges():
    for family in SMALL:
        cuts = edges(family)
        for time in TIMES:
            index = family.slice_at(time)
            start = max(edge for edge in cuts if edge <= time)
            end = min(edge for edge in cuts if edge > time)
            assert (family.slice_start(index), family.slice_start(index + 1)) == (start, end), (family, time)
            assert family.slice_at(start) == family.slice_at(end - 1) == index


def test_slices_are_numbered_without_holes():
    for family in SMALL:
        inside = [edge for edge in edges(family) if abs(edge) <= 20]
        indices = [family.slice_at(edge) for edge in inside]
        assert indices == list(range(indices[0], indices[0] + len(inside))), family


def test_windows_that_cover_a_slice_are_those_that_hold_its_instants():
    for family in SMALL:
        for time in TIMES:
            index = family.slice_at(time)
            covering = range(family.first_window(index), family.last_window(index) + 1)
            holding = [w for w in WINDOWS if bounds(family, w)[0] <= time < bounds(family, w)[1]]
            assert list(covering) == holding, (family, time)
            assert family.in_gap(index) == (not holding)


def test_a_window_is_its_slices():
    for family in SMALL:
        cuts = edges(family)
        for window in range(-3, 4):
            start, end = bounds(family, window)
            assert (family.window_start(window), family.window_end(window)) == (start, end)
            first = family.first_slice(window)
            assert family.per_window == sum(start <= edge < end for edge in cuts)
            assert family.slice_start(first) == start
            assert family.slice_start(first + family.per_window) == end


@pytest.mark.parametrize("grace", [0, 1, 3, 7])
def test_the_first_open_window_ends_after_the_watermark(grace):
    for family in SMALL:
        for watermark in TIMES:
            first = min(w for w in WINDOWS if bounds(family, w)[1] + grace > watermark)
            assert family.first_open(watermark, grace) == first, (family, watermark)


def test_two_slices_per_advance_when_the_size_is_no_multiple():
    #   size 5, advance 2:      slices of 1 (= 5 mod 2) and 1 (the rest) in turn, also before 1970
    #
    #   time     -4  -3  -2  -1   0   1   2   3   4   5   6
    #   slice    |-4-|-3-|-2-|-1-|-0-|-1-|-2-|-3-|-4-|-5-|
    #   window -2[===================)
    #   window -1        [===================)
    #   window 0                 [===================)
    family = Even(5, 2)
    assert [family.slice_at(t) for t in (-4, -1, 0, 1, 5)] == [-4, -1, 0, 1, 5]
    assert (family.per_window, family.first_slice(-1), family.first_slice(0)) == (5, -2, 0)
    assert (family.first_window(0), family.last_window(0)) == (-2, 0)
    assert (family.first_window(1), family.last_window(1)) == (-1, 0), "window -2 ends before the instant 1"


def test_gaps_are_slices_of_no_window():
    #   size 2, advance 5, offset 1
    #
    #   time     -4  -3  -2  -1   0   1   2   3   4   5   6   7   8
    #   slice    |--- -2 -|---- -1 ----|-- 0 --|---- 1 ----|-- 2 --|
    #   window   [== -1 ==)            [== 0 ==)           [== 1 ==)
    family = Even(2, 5, 1)
    assert [family.slice_at(t) for t in (-4, -3, -2, 0, 1, 2, 3, 5, 6)] == [-2, -2, -1, -1, 0, 0, 1, 1, 2]
    assert [family.in_gap(index) for index in (-2, -1, 0, 1, 2)] == [False, True, False, True, False]
    assert family.per_window == 1


def test_a_window_is_closed_at_its_end_plus_grace():
    #   size 4, advance 2, grace 3
    #
    #   time      0   2   4   6   8
    #   window 0  [=======)...|             open while 4 + 3 > watermark
    #   window 1      [=======)...|         open while 6 + 3 > watermark
    family = Even(4, 2)
    assert [family.first_open(watermark, grace=3) for watermark in (6, 7, 8, 9)] == [0, 1, 1, 2]


def test_arrays_give_what_integers_give():
    for family in (Even(6, 2, 1), Even(7, 3, -4), Even(2, 5, 1), Even(3, 3)):
        many = np.arange(-30, 30)
        for name in (
            "slice_at",
            "slice_start",
            "window_start",
            "window_end",
            "first_slice",
            "first_window",
            "last_window",
        ):
            method = getattr(family, name)
            array = method(many)
            assert array.dtype == np.int64
            assert array.tolist() == [method(one) for one in many.tolist()], (family, name)
        assert family.in_gap(many).tolist() == [family.in_gap(one) for one in many.tolist()]


def test_instants_of_the_years_1_to_9999():
    family = Even(3_600_000_000, 7_000_000, 123)
    for time in (-62_135_596_800_000_000, 253_402_300_799_999_999):
        index = family.slice_at(time)
        assert family.slice_start(index) <= time < family.slice_start(index + 1)
        assert family.slice_at(np.array([time])).tolist() == [index]


@pytest.mark.parametrize(("slices", "per_group"), [(1, 1), (2, 1), (3, 2), (60, 8), (1440, 38), (10_080, 100)])
def test_a_slice_group_is_about_the_root_of_a_window(slices, per_group):
    assert Even(slices, 1).slices_per_group == per_group
