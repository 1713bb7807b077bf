"""Examples run, small, and print what their pages claim; the README's code runs; links lead somewhere."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View
from cfusion.datasets import write_bundle

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
WIDTHS = {"01": 96, "02": 120, "03": 80, "04": 96, "05": 48}  # pixels
SECONDS = 300  # a machine without compiled kernels, and busy, may need minutes; a warm one needs two


@cache
def printed(number: str) -> str:
    """What the example of that number prints when run as a user would."""
    (path,) = [path for path in EXAMPLES if path.name.startswith(number)]
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(path), str(WIDTHS[number])],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    return run.stdout


def value(text: str, line: str, label: str) -> float:
    """The number after the label in the line that starts so."""
    found = re.search(rf"^{re.escape(line)}\b.*?{re.escape(label)} +([-+.\deE]+)", text, re.MULTILINE)
    assert found, f"no {label} after {line} in:\n{text}"
    return float(found.group(1))


def needs_scenes() -> None:
    pytest.importorskip("trimesh")
    pytest.importorskip("embreex")


def test_all_examples_are_run_here() -> None:
    assert [path.name[:2] for path in EXAMPLES] == sorted(WIDTHS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_docstring_is_the_page(path: Path) -> None:
    """It comes before any import, has a formula or a layout set apart, and says how to run the file."""
    page = ast.get_docstring(ast.parse(path.read_text()), clean=False) or ""
    assert path.read_text().startswith('"""')
    assert f"python examples/{path.name}" in page
    assert len(re.findall(r"\n\n    \S", page)) >= 2


def test_auto_beats_the_median_and_the_median_one_view() -> None:
    needs_scenes()
    rmse = {name: value(printed("01"), name, "RMSE") for name in ("input", "median", "auto")}
    assert rmse["auto"] < rmse["median"] / 2 < rmse["input"] / 4


def test_height_maps_are_filled_a_little_and_not_invented() -> None:
    text = printed("02")
    assert value(text, "auto", "RMSE") < value(text, "median", "RMSE") / 4
    shares = {name: value(text, name, "") for name in ("measured", "filled", "unknown")}
    assert shares["filled"] > 0
    assert shares["unknown"] > 100 * 20 * 20 / (80 * 120)  # nearly all of the large gap
    assert sum(shares.values()) == pytest.approx(100, abs=0.02)


def test_bounds_are_below_energies_and_gaps_below_tolerances() -> None:
    text = printed("03")
    assert "every bound is below every energy: True" in text
    rows = re.findall(r"^(1e-\d+) +[\d.]+ +[\d.]+ +(\S+) +\d+$", text, re.MULTILINE)
    assert len(rows) == 3
    assert all(float(gap) <= float(tolerance) for tolerance, gap in rows)


def test_confidence_ranks_errors_better_than_chance() -> None:
    needs_scenes()
    text = printed("04")
    assert value(text, "confidence", "AUSE") < 0.8 * value(text, "random", "AUSE")
    assert value(text, "confidence", "ROC-AUC") > 0.55


def test_bundles_come_back_as_written() -> None:
    needs_scenes()
    pytest.importorskip("PIL")
    text = printed("05")
    assert "bit by bit as written: True" in text
    assert value(text, "RMSE of one view", "fused") < value(text, "RMSE of one", "view") / 4
    assert {"depth.npy", "points.ply", "result.json"} <= set(re.findall(r"^  (\S+)", text, re.MULTILINE))


def test_the_first_code_of_the_readme_runs(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    rng = np.random.default_rng(0)
    camera = Pinhole(30.0, 30.0, 12.0, 9.0, 24, 18)
    views = [View(2 + rng.laplace(0, 0.05, camera.shape), camera, Pose.identity()) for _ in range(3)]
    write_bundle(views, tmp_path / "bundle")
    code += "print(result.depth.shape, result.status.value)"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert run.stdout.startswith("(18, 24) The "), run.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if not target.startswith("https://"):
            place, _, heading = target.partition("#")
            found = page.parent / place if place else page
            assert found.exists(), f"{page.name} links to {target}"
            headings = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE) if heading else []
            anchors = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
            assert not heading or heading in anchors
