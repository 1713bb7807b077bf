"""What tests of scenes share."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `walls`, which tests import

from walls import lay, walk


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Five views of a wall."""
    return lay(walk(), tmp_path / "data", "bundle")
