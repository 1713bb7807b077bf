"""Roles are stated: what looks like something else than heights of this ground is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.rasters.conftest import ground, surveys, write_tif

from cfusion.errors import CFusionError, InputError
from cfusion.rasters.begin import plan_mosaic
from cfusion.rasters.options import Options
from cfusion.rasters.roles import assign


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    surveys(tmp_path, ground(64, 64), 2, noise=0.2)
    return tmp_path


def weights(file: Path, seed: int = 5) -> Path:
    return write_tif(file, np.random.default_rng(seed).uniform(0.1, 1, (64, 64)).astype(np.float32))


@pytest.mark.parametrize("name", ["weights.tif", "s0_sigma.tif", "confidence-2.tif", "dsm_mask.tif"])
def test_a_name_that_says_something_else_is_refused(folder: Path, name: str) -> None:
    weights(folder / name)
    with pytest.raises(InputError, match="does not hold heights, to judge by its name"):
        assign([folder])


def test_weights_under_an_innocent_name_are_refused_by_their_numbers(folder: Path) -> None:
    weights(folder / "t1.tif")
    with pytest.raises(InputError, match=r"t1.tif does not look like heights of the same ground"):
        plan_mosaic([folder], Options())


def test_other_ground_at_the_same_place_is_refused(folder: Path) -> None:
    write_tif(folder / "x.tif", ground(64, 64).T[::-1].copy() * 2 + 40)
    with pytest.raises(InputError, match="does not look like heights of the same ground"):
        plan_mosaic([folder], Options())


def test_flat_noisy_ground_is_the_same_ground(tmp_path: Path) -> None:
    surveys(tmp_path, np.full((64, 64), 12.0, np.float32), 3)
    assert len(plan_mosaic([tmp_path], Options()).rasters) == 3


def test_a_description_states_roles(folder: Path) -> None:
    rows = [{"heights": f"s{k}.tif", "sigma": weights(folder / f"g{k}_sigma.tif", k).name} for k in range(2)]
    (folder / "mosaic.json").write_text(json.dumps({"rasters": rows}))
    plan = plan_mosaic([folder], Options())
    assert plan.beliefs is not None
    assert [each.name for each in plan.inputs] == ["s0.tif", "s1.tif"]
    found = plan.sample_weights()
    sigma = plan.beliefs[0].aligned.read(slice(0, 64), slice(0, 64))
    assert found[0][sigma > np.median(sigma)].max() < found[0][sigma < np.median(sigma)].min()  # larger is worse


def test_the_layout_of_cars_states_roles(folder: Path) -> None:
    write_tif(folder / "dsm.tif", ground(64, 64))
    weights(folder / "weights.tif")
    found = assign([folder])
    assert found.inputs[0].weights is not None
    assert "s0.tif, s1.tif not used" in found.sentences[0]
    assert "weights.tif its weights" in found.sentences[0]
    (folder / "weights.tif").unlink()
    assert "its weights" not in assign([folder]).sentences[0]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"rasters": []}',
        '{"rasters": [{"height": "s0.tif"}]}',
        '{"rasters": [{"heights": "s0.tif", "band": "x"}]}',
    ],
)
def test_a_bad_description_is_one_line(folder: Path, text: str) -> None:
    (folder / "mosaic.json").write_text(text)
    with pytest.raises(CFusionError, match=r"mosaic.json"):
        assign([folder])


def test_weights_come_one_for_each(folder: Path) -> None:
    files = [folder / "s0.tif", folder / "s1.tif"]
    with pytest.raises(InputError, match="lists 1 rasters for 2"):
        assign(files, weights=[weights(folder / "w.tif")])
    with pytest.raises(InputError, match="given twice"):
        assign([files[0], files[0]])
