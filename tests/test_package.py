"""The package as others get it: extras that are named, help with examples, a wheel that holds what it needs."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from cfusion.cli.examples import EXAMPLES
from cfusion.cli.extras import EXTRAS, for_this_install
from cfusion.cli.main import COMMANDS, build_parser, main

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_info_knows_every_extra(capsys: pytest.CaptureFixture[str]) -> None:
    declared = {
        name: {re.split(r"[\[<>=]", each)[0].lower() for each in packages}
        for name, packages in PROJECT["optional-dependencies"].items()
        if name not in ("all", "dev", "docs")
    }
    assert {name: {each.lower() for each in packages} for name, packages in EXTRAS.items()} == declared
    assert main(["info", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["missing"]) == set(EXTRAS)


def test_a_message_names_a_command_that_works_from_a_clone() -> None:
    told = for_this_install("PNG files need Pillow: pip install 'cfusion[data]'")
    assert told == f"PNG files need Pillow: pip install '{ROOT}[data]'"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.NAME)
def test_help_has_two_examples_that_parse(command: object, capsys: pytest.CaptureFixture[str]) -> None:
    name = command.NAME  # type: ignore[attr-defined]
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = capsys.readouterr().out
    for example in EXAMPLES[name]:
        assert example in shown
        assert build_parser().parse_args(example.split()[1:]).run is not None


def test_the_shell_is_answered() -> None:
    pytest.importorskip("argcomplete")
    asked = {
        "_ARGCOMPLETE": "1",
        "COMP_LINE": "cfusion ev",
        "COMP_POINT": "10",
        "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stdout",
    }
    found = subprocess.run(
        [sys.executable, "-m", "cfusion"], env=os.environ | asked, capture_output=True, text=True, timeout=60
    )
    assert found.stdout.strip() == "evaluate"


def test_the_readme_of_the_package_has_no_links_into_the_repository() -> None:
    from tools.pypi_readme import for_index

    shown = for_index((ROOT / "README.md").read_text())
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", shown) == []
    assert for_index("![a](b.png)\nsee [the *model*](docs/model.md), [here](https://a.b/c)") == (
        "see the *model*, [here](https://a.b/c)"
    )


def test_the_wheel_holds_what_the_commands_read(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    program = f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    wheel = zipfile.ZipFile(tmp_path / done.stdout.split()[-1])
    names = set(wheel.namelist())
    (about,) = [name for name in names if name.endswith("/METADATA")]
    assert b"Description-Content-Type: text/markdown" in wheel.read(about)
    assert b"](docs/" not in wheel.read(about)
    assert {f"cfusion/paper/{path.name}" for path in (ROOT / "paper").glob("*.toml")} <= names
    sources = {
        path for path in (ROOT / "src" / "cfusion").rglob("*") if path.is_file() and "__pycache__" not in str(path)
    }
    assert {str(path.relative_to(ROOT / "src")) for path in sources} <= names
