"""Numbers that the pages state are those that the code uses: who changes one changes both."""

import re
from pathlib import Path

import pytest

from cfusion import methods
from cfusion.auto import (
    belief,
    cross_validation,
    folds,
    holes,
    misreading,
    outlines,
    rivals,
    sample,
    small_parts,
    specks,
)
from cfusion.cli import report_of_many
from cfusion.rasters import align, begin, choose, coregister, ground, mosaic, noise, runner, solve_tile, work
from cfusion.rasters import sample as sample_of_rasters
from cfusion.scene import cloud, cluster, mesh, residual, volume

DOCS = Path(__file__).parent.parent / "docs"
WORDS = {"a": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0, "ten": 10.0}
WORDS |= {"twelve": 12.0, "twice": 2.0, "half": 0.5, "third": 1 / 3, "quarter": 0.25, "fifth": 0.2, "hundredth": 0.01}
STATED: dict[str, list[tuple[str, float]]] = {
    "height-models.md": [
        (r"(\w+) noise scales of the fused ground", work.KEPT),
        (r"pixels are finer by more than (\d\.\d)", align.COARSER),
        (r"rank correlation below (\d\.\d)", ground.ALIKE),
        (r"from all others than (\w+) their range", ground.FILLING_AWAY),
        (r"by more than (\w+) spreads of the differences", ground.OTHER_DATUM),
        (r"shifted horizontally by more than (\w+) pixel", begin.FAR),
        (r"removes (\d+) % of the spread", 100 * (1 - begin.HELPS)),
        (r"A shift below (\w+) standard errors", coregister.CLEAR),
        (r"or (\d+) % of the spread is ignored", 100 * coregister.LEAST_GAIN),
        (r"rasters that differ by more than (\d\.\d+)", noise.APART),
        (r"delta\*\* \((\d\.\d) or 4 noise scales", choose.CORNERS[1]),
        (r"delta\*\* \(1.5 or (\d) noise scales", choose.CORNERS[0]),
        (r"at most (\w+) windows of", sample_of_rasters.MOST),
        (r"windows of (\d+)", sample_of_rasters.SIDE),
        (r"held-out rasters better by (\w+) standard errors", choose.CHANCE),
        (r"advances every tile by (\d+) iterations", mosaic.PASS),
        (r"with a halo of (\d+) pixels", solve_tile.REACH * mosaic.PASS + solve_tile.SPARE),
        (r"after (\w+) deaths", runner.MOST_DEATHS),
        (r"up to (\d+) megapixels", report_of_many.LARGEST / 1e6),
    ],
    "scale.md": [(r"(\w+) tries in all", cluster.TRIES)],
    "scenes.md": [
        (r"`min_confidence` (\d\.\d) instead", methods.PLAUSIBLE),
        (r"the map moves a (\w+) of the way", residual.SHARE),
        (r"deviation of both together plus (\w+) a pixel", cloud.PIXELS),
        (r"within (\w+) a pixel of it along the surface", cloud.NEAR),
        (r"more than (\d+) times the usual one of its view", cloud.MAX_SIGMA_RATIO),
        (r"in blocks of (\d) x", volume.SIDE),
        (r"The voxel is (\w+) the usual sigma", mesh.VOXEL_SIGMAS),
        (r"the larger of (\d) voxels", mesh.TRUNCATION),
        (r"voxels and (\d) sigma", mesh.SIGMAS),
        (r"have less than a (\w+) of the weight", mesh.HEARD),
    ],
    "choosing.md": [
        (r"a (\w+) of the views is held out", folds.SHARE),
        (r"it is better by (\w+) standard errors of the difference", cross_validation.CHANCE),
        (r"must also be better by (\d\.\d)", 100 * cross_validation.LEAST_GAIN),
        (r"at most about (\d+ \d+) observed pixels", sample.ENOUGH),
        (r"tiles of (\d+) x", sample.TILE),
        (r"are divided by 1 \+ \(P / (\d)\)", misreading.FAR),
        (r"a range of (\w+) noise scales", outlines.STEP),
        (r"like (\w+) of its eight neighbours", outlines.FEWEST),
        (r"exact: at most (\d) % of its pixels beside edges", 100 * outlines.DENIED),
        (r"\*\*jagged\*\* \(more than (\d) % of its pixels", 100 * outlines.JAGGED),
        (r"at least (\d+) pixels of a 5 x 5 square", rivals.MOST),
        (r"more than (\d) % of its pixels at edges are refuted", 100 * rivals.JAGGED),
        (r"\((\w+) noise scales off, at least seven", small_parts.OTHER),
        (r"hardly correlate \(below (\d\.\d+)\)", small_parts.ALIKE),
        (r"and others within (\w+) pixels around\), they are holes", holes.CLOSE),
        (r"fewer than a (\w+) of what is usual around", specks.FEW),
        (r"- ([\d.]+) log max\(1, z\)", belief.STEP_SIZE),
        (r"1 within (\d) pixels of a depth edge", belief.REACH),
        (r"in noise scales, (\d+) at most", belief.MOST_BENT),
        (r"fewer than (\w+) of its eight neighbours are within", belief.FEWEST_ALIKE),
    ],
}


@pytest.mark.parametrize("page", STATED)
def test_a_page_states_the_numbers_that_are_used(page: str) -> None:
    text = " ".join((DOCS / page).read_text().split())
    for sentence, used in STATED[page]:
        found = re.search(sentence, text)
        assert found is not None, f"{sentence!r} is not in {page}: state it, or leave it out here"
        words = found[1].replace(" ", "")
        stated = WORDS[words.lower()] if words.lower() in WORDS else float(words)
        assert stated == pytest.approx(used), f"{page} says {found[0]!r}, the code has {used}"
