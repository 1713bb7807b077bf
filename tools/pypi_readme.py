"""For the build: the README as a package index shows it, where links into the repository lead nowhere.

Pictures of the repository are left out, links to its files become their words; addresses stay.
"""

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # only the words are wanted
    MetadataHookInterface = object

PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)]*\)\n+", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\((?!https?://|#|mailto:)[^)]*\)")


def for_index(readme: str) -> str:
    """The text without what only a clone can show."""
    return LINK.sub(r"\1", PICTURE.sub("", readme))


class CustomMetadataHook(MetadataHookInterface):
    """Sets the readme of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text)}
