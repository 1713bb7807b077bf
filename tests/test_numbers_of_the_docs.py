"""Numbers that the pages state are those that the code uses: who changes one changes both."""

import math
import re
from pathlib import Path
from statistics import NormalDist

import pytest

from cfusion import arrays, methods
from cfusion.auto import (
    belief,
    cross_validation,
    far,
    folds,
    holes,
    misreading,
    occlusion,
    outlines,
    rivals,
    sample,
    small_parts,
    specks,
    uncertainty,
    variable,
)
from cfusion.auto import noise as noise_of_views
from cfusion.cli import report_of_many
from cfusion.datasets.check import compare, factor, scales
from cfusion.frontends import cues, filling, kitti, stereo
from cfusion.frontends.mc_cnn import matcher
from cfusion.geometry import view
from cfusion.io import json_object, limits, text_tables
from cfusion.io.codecs import exr, npz, tiff_header
from cfusion.rasters import align, begin, choose, coregister, ground, mosaic, noise, runner, solve_tile, work
from cfusion.rasters import sample as sample_of_rasters
from cfusion.scene import cloud, cluster, mesh, neighbours, residual, view_cache, volume
from cfusion.view import encode, layers, levels, maps, view_figures

MIB = 2.0**20
DOCS = Path(__file__).parent.parent / "docs"
WORDS = {
    "a": 1.0,
    "one": 1.0,
    "two": 2.0,
    "three": 3.0,
    "four": 4.0,
    "five": 5.0,
    "six": 6.0,
    "seven": 7.0,
    "ten": 10.0,
}
WORDS |= {
    "twelve": 12.0,
    "twice": 2.0,
    "half": 0.5,
    "third": 1 / 3,
    "quarter": 0.25,
    "fifth": 0.2,
    "eighth": 0.125,
    "tenth": 0.1,
}
WORDS |= {"sixteenth": 1 / 16, "twentieth": 0.05, "hundredth": 0.01, "halve": 0.5}
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
    "frontends.md": [
        (r"pairs of the (\w+) frames nearest", kitti.FRAMES),
        (r"may take (\d+) iterations instead", kitti.ITERATIONS),
        (r"`min_confidence` (\d\.\d) instead", methods.PLAUSIBLE),
        (r"Holes up to (\d+) pixels wide", filling.WIDEST),
        (r"\(within (\d) pixel of disparity\)", filling.SAME),
        (r"P1 = (\d),", 2 * matcher.PENALTIES.small_step),
        (r"P2 = (\d+\.\d+) \(half", 2 * matcher.PENALTIES.large_step),
        (r"divided by (\d) where one image has", matcher.PENALTIES.one_edge),
        (r"by (\d\.\d) where both have", matcher.PENALTIES.both_edges),
        (r"a step of (\d\.\d+) standard deviations", matcher.PENALTIES.edge),
        (r"P1 is divided by (\d\.\d) where the disparity", matcher.PENALTIES.ground),
        (r"(\w+) rounds with arms", matcher.McCnn().aggregations),
        (r"arms of (\d) pixels", matcher.McCnn().arm),
        (r"arms of 5 pixels within (\d\.\d+),", matcher.McCnn().arm_tolerance),
        (r"Segments\*\* of up to (\d+) pixels", stereo.MC_CNN_CHECKS.speck),
        (r"connected by steps of (\w+) pixel,", stereo.MC_CNN_CHECKS.speck_step),
        (r"correlation of windows of (\d) x", cues.LIKENESS_WINDOW),
        (r"its mean over (\d+) x", cues.SLOPE_WINDOW),
        (r"left-right check \((\w+) pixel\)", stereo.ELAS_CHECKS.tolerance),
        (r"its speck size \((\d+) pixels\)", stereo.ELAS_CHECKS.speck),
    ],
    "scale.md": [
        (r"(\w+) tries in all", cluster.TRIES),
        (r"waits up to (\d+) s, connects again", cluster.PATIENCE),
        (r"after (\d+) minutes without a record", cluster.STUCK / 60),
        (r"\(or (\w+) times the longest task\)", cluster.STUCK_FACTOR),
        (r"keeps those it decoded \((\d+) MB\)", view_cache.BYTES / MIB),
        (r"scores (\d+) candidates each", neighbours.CANDIDATES),
    ],
    "page.md": [
        (r"fused depth to 1/(\d+) of its range", encode.LARGEST - 1),
        (r"sigma and confidence to (\w+) a percent", 100 * layers.RELATIVE_STEP),
        (r"residuals to a (\w+) of the noise", maps.RESIDUAL_STEP),
        (r"more than (\w+) that of the others", view_figures.NOISY),
        (r"more than (\w+) the usual noise", view_figures.BIASED),
        (r"within (\w+) noise scales of the surface", view_figures.GATE),
        (r"less than (\w+) of the others", view_figures.FEW_KEPT),
        (r"beyond (\d\.\d+): pose or calibration", view_figures.SHIFTED),
        (r"(\d\.\d) million points in all", levels.MOST_POINTS / 1e6),
    ],
    "formats.md": [
        (r"pixels of a map or image \| 2\^(\d+)", math.log2(limits.MOST_PIXELS)),
        (r"at most (\d+) a byte of the file beyond the first 2\^25", limits.PIXELS_PER_BYTE),
        (r"64 a byte of the file beyond the first 2\^(\d+) \| \| unpacked", math.log2(limits.FREE_PIXELS)),
        (r"\| (\d+) a byte of the file beyond the first 2\^27", limits.UNPACKING),
        (r"beyond the first 2\^(\d+) \| \| channels", math.log2(limits.FREE_BYTES)),
        (r"all together (\d+) MiB beyond those", exr.BESIDE / MIB),
        (r"a block of (\d+) MiB beyond one band", tiff_header.BESIDE / MIB),
        (r"read whole \| (\d+) GiB", limits.MOST_BYTES / 1024 / MIB),
        (r"JSON (\d+) MiB", json_object.LONGEST_JSON / MIB),
        (r"tables of numbers (\d+) MiB", text_tables.LONGEST_TABLE / MIB),
        (r"other text (\d+) MiB", text_tables.LONGEST_TEXT / MIB),
        (r"is mapped \(uncompressed `.npz`\) \| (\d+) TiB", npz.MOST_ARCHIVE / MIB**2),
        (r"1e-15 and (\w+) in their unit", view.LARGEST),
        (r"or by the factor between (\S+) and", factor.GRID[0]),
        (r"and (\w+) that fits best", factor.GRID[-1]),
        (r"less than (\w+) pixel of parallax", compare.TOO_CLOSE),
        (r"a residual above (\d) % falls below", 100 * scales.EXACT),
        (r"falls below\s+(\d\.\d) of it", scales.LESS),
        (r"bend the maps by more than a (\w+)\)", scales.MUCH),
        (r"more than a (\w+) apart in scale", scales.LARGE),
        (r"a residual above 1 % (\w+)s and falls", compare.SURE),
    ],
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
        (r"tries alpha_1 in factors of (\w+)", cross_validation.LADDER),
        (r"predicts held-out observations better by (\w+) standard error is taken", cross_validation.VARIABLE_CHANCE),
        (r"predict held-out observations better by (\w+) standard errors", cross_validation.LOCAL_CHANCE),
        (r"held-out views better by (\d\.\d) standard errors \(`edges`\)", cross_validation.EDGE_CHANCE),
        (r"With one or two views it takes (\w+) standard errors", cross_validation.FEW_VIEWS_CHANCE),
        (r"predicts held-out observations worse by a (\w+)\.", cross_validation.CLEAR_GAIN),
        (r"a factor of (\w+) between the deciles", variable.WIDE),
        (r"with q at most (\d)", misreading.MOST_LOST),
        (r"pixels beside edges \((\d+) at least\)", outlines.TELLING),
        (r"half of the other views, (\w+) at most, confirm", outlines.CONFIRMED),
        (r"at most (\d) % of its pixels far from edges are blobs", 100 * outlines.BLOBS),
        (r"at least (\w+) other views, by weight", occlusion.CONFIRMED),
        (r"neighbours correlate by less than (\d\.\d+)", occlusion.ALIKE),
        (r"at most (\d) % lie further than ten", 100 * occlusion.MOST_FAR_OFF),
        (r"lie further than (\w+) noise scales from", occlusion.FAR_OFF),
        (r"any share if they correlate by less than (\d\.\d+)", occlusion.INDEPENDENT),
        (r"differ in noise by more than (\d\.\d+)", noise_of_views.VIEW_RATIO),
        (r"a tile, an (\w+) of the image wide", 1 / far.TILES),
        (r"fewer than (\w+) pixels of the surrounding 7 x 7", specks.MOST),
        (r"between pixels \((\d\.\d) pixels at 45", noise_of_views.BETWEEN_PIXELS),
        (r"\((\d\.\d) pixels for the confidence\)", noise_of_views.PIXEL_ERROR),
        (r"six pixels and a (\w+) of a pixel are enough", small_parts.NEARER),
        (r"the two are (\w+) pixel or more apart", small_parts.APART),
        (r"at most about (\d+ \d+) observed pixels", sample.ENOUGH),
        (r"tiles of (\d+) x", sample.TILE),
        (r"are divided by 1 \+ \(P / (\d)\)", misreading.FAR),
        (r"a range of (\w+) noise scales", outlines.STEP),
        (r"like (\w+) of its eight neighbours", outlines.FEWEST),
        (r"exact: at most (\d\.\d) % of its pixels beside edges", 100 * outlines.DENIED),
        (r"\*\*jagged\*\* \(more than (\d) % of its pixels", 100 * outlines.JAGGED),
        (r"at least (\d+) pixels of a 5 x 5 square", rivals.MOST),
        (r"more than (\d) % of its pixels at edges are refuted", 100 * rivals.JAGGED),
        (r"\((\w+) noise scales off, at least seven", small_parts.OTHER),
        (r"hardly correlate \(below (\d\.\d+)\)", small_parts.ALIKE),
        (r"and others within (\w+) pixels around\), they are holes", holes.CLOSE),
        (r"fewer than a (\w+) of what is usual around", specks.FEW),
        (r"- ([\d.]+) log max\(1, z\)", belief.STEP_SIZE),
        (r"over 6 noise scales, (\d+) at most", belief.LARGEST),
        (r"over (\d) % of the depth, 20 at most", 100 * belief.LEAST_RELIEF),
        (r"share their errors and more than (\d) % is denied", 100 * outlines.SURELY),
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


def test_numbers_of_the_normal_distribution_are_those() -> None:
    """To the four digits that they have."""
    median = NormalDist().inv_cdf(0.75)
    assert pytest.approx(median, abs=1e-4) == arrays.MEDIAN_SIZE
    assert pytest.approx(1 / median, abs=1e-4) == arrays.OVER_MEDIAN
    assert pytest.approx(math.sqrt(math.pi / 2), abs=1e-4) == arrays.OVER_MEAN
    assert math.pi / 2 == far.OF_MEDIAN
    assert pytest.approx(math.sqrt(1 + 4 + 1)) == noise.ROUGHNESS  # of x - 2 y + z
    assert math.log(2) == noise_of_views.LAPLACE_MEDIAN
    assert uncertainty.UNIFORM == 1 / 12
