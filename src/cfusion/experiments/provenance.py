"""The origin of a result: code, commit, data, machine, time."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import lru_cache

from cfusion.experiments.code_version import code_version, solving
from cfusion.experiments.conditions import KittiBundle
from cfusion.experiments.models import REPOSITORY
from cfusion.experiments.plan import Job
from cfusion.io.versions import versions


def provenance(job: Job) -> dict[str, object]:
    """The origin of a result, beyond the job itself."""
    return {
        "code": code_version(solving(job.backend, kitti=isinstance(job.condition, KittiBundle))),
        "commit": commit(),
        "data": job.condition.checksum(),
        "versions": versions(),
        "machine": f"{platform.machine()} {platform.system()}, {os.cpu_count()} cores",
        "threads": os.environ.get("NUMBA_NUM_THREADS", "all"),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@lru_cache(1)
def commit() -> str | None:
    """The commit of the repository, with + if the tree differs from it; None outside a repository."""
    if not (REPOSITORY / ".git").exists():
        return None
    head, changes = _git("rev-parse", "--short=12", "HEAD"), _git("status", "--porcelain", "--", "src", "paper")
    return None if not head else head + ("+" if changes else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
