"""The mutation tool makes mistakes in what is run, the same for the same seed, and goes on where it was."""

from pathlib import Path

import pytest

sites = pytest.importorskip("tools.mutants.sites", reason="the tools are not part of what is distributed")
from tools.mutants.covering import Covering, _importers  # noqa: E402
from tools.mutants.draw import drawn  # noqa: E402
from tools.mutants.table import Table  # noqa: E402
from tools.mutants.trial import Outcome, Workplace  # noqa: E402

SOURCE = '''"""Words, 1 + 1."""
from __future__ import annotations

def area(width: float, height: int = 2) -> "1 < 2":
    """More words, 3 * 4."""
    if width < 0 and height > 0:
        raise ValueError(f"width is {width + 1}; give {3 - 1}")
    return -width * height / max(width, 1.5) + divmod(height, 1.0)[1]
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "area.py").write_text(SOURCE)
    return tmp_path


def test_every_kind_of_mistake_is_made_and_none_in_words(tree: Path) -> None:
    source = SOURCE.encode()
    made = sites.sites_of("src/area.py", tree)
    edits = {(site.line, site.kind, source[site.start : site.stop].decode(), site.new) for site in made}
    assert edits == {
        (4, "constant", "2", "3"),
        (6, "condition", "width < 0 and height > 0", "(not (width < 0 and height > 0))"),
        (6, "and/or", "and", "or"),
        (6, "comparison", "<", "<="),
        (6, "comparison", ">", ">="),
        (6, "constant", "0", "1"),
        (7, "removed", 'raise ValueError(f"width is {width + 1}; give {3 - 1}")', "pass"),
        (8, "unary", "-width", "width"),
        (8, "operator", "*", "/"),
        (8, "operator", "/", "*"),
        (8, "function", "max", "min"),
        (8, "constant", "1.5", "3.0"),
        (8, "operator", "+", "-"),
        (8, "swapped arguments", "height, 1.0", "1.0, height"),
        (8, "constant", "1.0", "2.0"),
        (8, "constant", "1", "2"),
    }
    assert all(site.parses(source) for site in made)


def test_what_reshape_finds_out_itself_is_left_alone(tree: Path) -> None:
    (tree / "src" / "area.py").write_text("flat = points.reshape(-1, 3)\n")
    edits = {(site.kind, site.new) for site in sites.sites_of("src/area.py", tree)}
    assert edits == {("swapped arguments", "3, -1"), ("unary", "1"), ("constant", "4")}


def test_two_axes_are_swapped_in_any_order(tree: Path) -> None:
    for text, count in (("a.swapaxes(i, j)", 0), ("np.swapaxes(a, i, j)", 1)):
        (tree / "src" / "area.py").write_text(f"turned = {text}\n")
        assert len(sites.sites_of("src/area.py", tree)) == count


def test_the_smaller_of_two_is_the_same_if_they_are_equal(tree: Path) -> None:
    for text, kinds in (("a if a < b else b", {"condition"}), ("a if a < b else c", {"condition", "comparison"})):
        (tree / "src" / "area.py").write_text(f"least = {text}\n")
        assert {site.kind for site in sites.sites_of("src/area.py", tree)} == kinds


def test_variables_of_types_are_left_alone(tree: Path) -> None:
    (tree / "src" / "area.py").write_text("Key = TypeVar('Key', str, int)\n")
    assert not sites.sites_of("src/area.py", tree)


def test_a_seed_draws_the_same_again(tree: Path) -> None:
    first, again, other = (drawn(tree, 6, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) == 6


def test_named_files_are_drawn_in_turn(tree: Path) -> None:
    for name in ("other", "third"):
        (tree / "src" / f"{name}.py").write_text(SOURCE)
    made = drawn(tree, 6, 1, ["src/other.py", "area"])
    assert [site.file for site in made] == ["src/other.py", "src/area.py"] * 3


def test_what_was_tried_is_not_tried_again(tree: Path) -> None:
    one, two = drawn(tree, 2, 1)
    table = Table(tree / "seed.jsonl")
    assert table.claim(0, one)
    assert not Table(table.file).claim(0, one)  # another process has it
    table.add(0, one, Outcome("killed", 1.0, 3, "test_area"))
    table.add(1, two, Outcome("survived", 1.0, 3))
    resumed = Table(table.file)
    assert not resumed.claim(0, one)
    report = resumed.report(tree)
    assert report.startswith("2 mutants: 1 killed, 1 survived; 50.0 % not noticed")
    assert f"{two.file}:{two.line}" in report
    resumed.forget("survived")
    assert [row["number"] for row in resumed.rows()] == [0]


def test_a_mistake_is_noticed_or_not_and_always_undone(tree: Path) -> None:
    (tree / "tests").mkdir()
    (tree / "tests" / "test_area.py").write_text(
        "from area import area\n\ndef test_it():\n    assert area(2, 3) == -3\n"
    )
    place = Workplace(tree)
    verdicts = {}
    for site in sites.sites_of("src/area.py", tree):
        if site.line in (4, 8) and site.kind in ("operator", "constant"):
            verdicts[site.line, site.new] = place._run_with(site, ["tests/test_area.py::test_it"], 60.0).verdict
        assert (tree / "src" / "area.py").read_text() == SOURCE
    assert verdicts.pop((8, "/")) == verdicts.pop((8, "3.0")) == "killed"
    assert verdicts.pop((4, "3")) == verdicts.pop((8, "-")) == "survived"  # the height was given; nothing is added


def test_a_test_that_is_named_otherwise_has_not_failed(tree: Path) -> None:
    """Its name has the constant in it: it is run by the name that it has now."""
    (tree / "src" / "area.py").write_text("MOST = 4.0\nLEAST = 2.0\n")
    (tree / "tests").mkdir()
    (tree / "tests" / "test_area.py").write_text(
        "import pytest\nfrom area import LEAST, MOST\n\n"
        "@pytest.mark.parametrize('most', [MOST])\ndef test_it(most):\n    assert most > 3\n\n"
        "@pytest.mark.parametrize('least', [LEAST])\ndef test_that(least):\n    assert least < 3\n"
    )
    verdicts = {}
    for site in sites.sites_of("src/area.py", tree):
        names = [f"tests/test_area.py::{each}" for each in ("test_it[4.0]", "test_that[2.0]")]
        verdicts[site.line] = Workplace(tree)._run_with(site, names, 60.0).verdict
    assert verdicts == {1: "survived", 2: "killed"}


def test_tests_of_the_subject_come_first_and_what_runs_at_import_is_everybodys(tree: Path) -> None:
    (tree / "tests").mkdir()
    (tree / "tests" / "test_area.py").write_text("from area import area\n")
    own = _importers(tree, "tests")
    assert own == {"src/area.py": {"tests/test_area.py"}}
    other, direct, unseen = "tests/test_other.py::a", "tests/test_area.py::a", "tests/test_area.py::b"
    lines = {"src/area.py": {4: {other}, 8: {other, direct}}}
    covering = Covering(lines, {other: 0.1, direct: 1.0, unseen: 2.0}, {}, own, tree)
    assert covering.tests_of("src/area.py", 8, 8) == [direct, other, unseen]  # maybe in another process
    assert covering.tests_of("src/area.py", 4, 4) == [direct, unseen, other]  # a default: set at import
    assert covering.tests_of("src/area.py", 7, 7) == [direct, unseen, other]  # run by nobody: maybe in another process


def test_what_tests_of_a_file_share_is_asked_of_each_of_them(tree: Path) -> None:
    """The first of them made it, and ran the lines."""
    first, second, apart = "tests/test_area.py::a", "tests/test_area.py::b", "tests/test_other.py::a"
    seconds = {first: 1.0, second: 0.1, apart: 0.1}
    covering = Covering({"src/area.py": {8: {first}}}, seconds, {}, {}, tree)
    assert covering.tests_of("src/area.py", 8, 8) == [first, second]


def test_stored_findings_come_first_and_take_no_time_from_others(tree: Path) -> None:
    stored, slow, own = "tests/test_same_files.py::a", "tests/test_same_bits.py::a", "tests/test_area.py::a"
    lines = {"src/area.py": {8: {stored, slow, own}}}
    covering = Covering(lines, {stored: 19.0, slow: 12.0, own: 19.5}, {}, {"src/area.py": {"tests/test_area.py"}}, tree)
    assert covering.tests_of("src/area.py", 8, 8) == [slow, own]  # both would be too slow
    lines["src/area.py"][8] = {stored, own}
    assert covering.tests_of("src/area.py", 8, 8) == [stored, own]


def test_tests_of_the_package_come_before_others(tree: Path) -> None:
    """Compiled code is run by lines that belong to others; what compares it stands in the folder of its name."""
    (tree / "src" / "cfusion" / "box").mkdir(parents=True)
    (tree / "src" / "cfusion" / "box" / "area.py").write_text(SOURCE)
    quick, beside = "tests/test_other.py::a", "tests/box/test_all.py::a"
    lines = {"src/cfusion/box/area.py": {8: {quick, beside}}}
    covering = Covering(lines, {quick: 0.1, beside: 1.0}, {}, {}, tree)
    assert covering.tests_of("src/cfusion/box/area.py", 8, 8) == [beside, quick]
