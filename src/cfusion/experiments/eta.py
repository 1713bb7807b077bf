"""How much time is left, from what the jobs so far took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from cfusion.experiments.plan import Job


class Eta:
    """Remaining jobs cost what the same method cost before, or what the average did."""

    def __init__(self, todo: Sequence[Job], workers: int) -> None:
        self.left = Counter(job.method for job in todo)
        self.workers = workers
        self.spent: dict[str, list[float]] = defaultdict(list)

    def after(self, job: Job, seconds: float) -> str:
        """Take note of a job that is done; the time left, in words."""
        self.left[job.method] -= 1
        self.spent[job.method].append(seconds)
        known = {method: sum(times) / len(times) for method, times in self.spent.items()}
        usual = sum(sum(times) for times in self.spent.values()) / sum(len(times) for times in self.spent.values())
        seconds_left = sum(count * known.get(method, usual) for method, count in self.left.items()) / self.workers
        return in_words(seconds_left)


def in_words(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
