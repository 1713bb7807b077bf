"""Real height models of every awkward kind: each pair fuses rightly, or is refused with the right sentence."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from cfusion import fuse_rasters
from cfusion.errors import CFusionError
from cfusion.rasters.begin import plan_mosaic
from cfusion.rasters.options import Options

DATA = Path(os.environ.get("CFUSION_DATA", Path(__file__).parents[3] / "shared" / "data")) / "dsm"
pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason=f"no height models at {DATA}")]

PACA, SPLIT = "dsm_end2end_paca_bulldozer", "dsm_end2end_ventoux_split"
PLAIN, FILLED = "dsm_test_surface_modeling_ventoux", "dsm_test_ventoux_with_filling"
DEGREES = "dsm_test_ventoux_with_filling_4326"
SRTM, BLURRED = "srtm_ref", "srtm_blurred_and_shifted"
ALL = (PACA, SPLIT, PLAIN, FILLED, DEGREES, SRTM, BLURRED)
PLACES = ({PACA}, {SPLIT, PLAIN, FILLED, DEGREES}, {SRTM, BLURRED})


def files(*names: str) -> list[Path]:
    return [DATA / f"{name}.tif" for name in names]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(ALL, 2)))
def test_every_pair_as_it_comes_is_refused_with_the_right_sentence(one: str, other: str) -> None:
    if not any({one, other} <= place for place in PLACES):
        sentence = "does not overlap"
    elif {one, other} & {FILLED, DEGREES}:
        sentence = "at exactly 0 .*--nodata 0"
    elif {one, other} == {SPLIT, PLAIN}:
        sentence = r"50\.8.*another vertical datum"
    else:
        sentence = r"3\.0 columns, .5\.0 rows"
    with pytest.raises(CFusionError, match=sentence):
        plan_mosaic(files(one, other), Options())


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations((SPLIT, PLAIN, FILLED, DEGREES), 2)))
def test_pairs_of_one_place_lie_on_one_another_once_told_how(one: str, other: str) -> None:
    plan = plan_mosaic(files(one, other), Options(nodata=(0.0,), coregister="offset"))
    first, second = plan.sample.stacked()
    apart = (second - first)[np.isfinite(second - first)]
    assert apart.size > 10_000
    assert abs(np.median(apart)) < 0.02
    assert 1.4826 * np.median(np.abs(apart)) < (0.6 if SPLIT in (one, other) else 0.06)
    offset = plan.placements[1].offset
    assert abs(offset) == pytest.approx(50.8 if SPLIT in (one, other) else 0, abs=0.1)


def test_the_shift_of_the_blurred_tile_is_whole_and_taken_out() -> None:
    plan = plan_mosaic(files(SRTM, BLURRED), Options(coregister="shift"))
    assert plan.placements[1].shift == (-3.0, -5.0)
    assert plan.rasters[1].place == (3, 5)
    assert any("in degrees" in each for each in plan.sentences)


def test_a_pair_with_a_reprojected_copy_fuses_rightly() -> None:
    made = fuse_rasters(files(PLAIN, DEGREES), nodata=0, alpha=(0.2, 0.4), bounds=(675300, 4897100, 675400, 4897160))
    height, count = made.maps["height"], made.maps["count"]
    assert made.gap <= 1e-3
    assert 425 < np.nanmin(height) < np.nanmax(height) < 520
    assert np.isnan(height[count == 0]).all()
    assert all(abs(row.placement.offset) < 0.05 for row in made.rasters)
