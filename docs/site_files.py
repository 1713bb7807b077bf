"""For mkdocs: files of the repository that pages link to (examples, benchmarks) become files of the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\(\.\./((?:examples|benchmarks)/[\w./-]+)(#[\w-]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add every file that some page links to."""
    pages = [Path(file.abs_src_path).read_text(encoding="utf-8") for file in files.documentation_pages()]
    for name in sorted({match.group(1) for page in pages for match in LINK.finditer(page)}):
        target = name.replace("README.md", "results.md")
        content = (ROOT / name).read_text(encoding="utf-8").replace("](../docs/", "](../")
        files.append(File.generated(config, target, content=content))
    return files


def on_page_markdown(markdown: str, **more: Any) -> str:
    """Point the links at them."""

    def moved(match: re.Match[str]) -> str:
        return f"]({match.group(1).replace('README.md', 'results.md')}{match.group(2) or ''})"

    return LINK.sub(moved, markdown)
