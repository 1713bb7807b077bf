"""What a data set names stays inside its folder: names, links, neighbours with nearly the same name."""

from pathlib import Path

import pytest

from cfusion.errors import FileError
from cfusion.io.paths import also, inside, path_inside, require_inside, within


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder, one beside it whose name goes on, and links from the first."""
    for name in ("data", "data2", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    root = tmp_path / "data"
    (root / "sub").mkdir()
    (root / "to_inside").symlink_to(root / "sub")
    (root / "to_other").symlink_to(tmp_path / "other")
    (root / "circle").symlink_to(root / "circle")
    return root


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        *((("file", True), ("sub/x", True), (".", True), ("sub/../file", True), ("to_inside/x", True))),
        *((("..", False), ("../data2/file", False), ("sub/../../other", False), ("/etc/passwd", False))),
        *((("to_other/file", False), ("x" * 255, True), ("x" * 256, False), ("ü" * 128, False), ("a\0b", False))),
    ],
)
def test_a_name_leads_inside_or_is_refused(data: Path, name: str, stays: bool) -> None:
    assert inside(data, name) == stays
    if stays:
        assert path_inside(data, name, "list.txt") == data / name
        return
    with pytest.raises(FileError, match=r"^list\.txt names ") as caught:
        path_inside(data, name, "list.txt")
    long = len(name.encode()) > 255
    assert ("are too many for a file" in str(caught.value)) == long
    assert ("leads out of" in str(caught.value)) != long
    assert len(str(caught.value)) < 300


def test_files_are_read_inside_the_folders_that_are_allowed(data: Path, tmp_path: Path) -> None:
    other, third = tmp_path / "other" / "file", tmp_path / "data2" / "file"
    require_inside(other)  # nothing is being read: anywhere
    with within(data):
        require_inside(data / "file")
        for wrong in (other, third, data / "to_other" / "file", tmp_path):
            with pytest.raises(FileError, match="leads out of"):
                require_inside(wrong)
        with also(tmp_path / "other"):
            require_inside(other)
            require_inside(data / "file")
            with pytest.raises(FileError, match="leads out of"):
                require_inside(third)
        with pytest.raises(FileError):
            require_inside(other)
        with within(tmp_path / "other"):
            require_inside(other)
            with pytest.raises(FileError):
                require_inside(data / "file")
        require_inside(data / "file")
    with also(data):  # beside anywhere is anywhere
        require_inside(third)
    require_inside(third)
