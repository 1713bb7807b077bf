"""The share of the work that is done, from the durations of finished jobs."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from cfusion.experiments.plan import Job


class Eta:
    """Expects remaining jobs to take as long as earlier ones of the same method, or as the average."""

    def __init__(self, todo: Sequence[Job]) -> None:
        self.left = Counter(job.method for job in todo)
        self.spent: dict[str, list[float]] = defaultdict(list)

    def after(self, job: Job, seconds: float) -> float:
        """Record the duration of a finished job; return the share of all work that is done."""
        self.left[job.method] -= 1
        self.spent[job.method].append(seconds)
        known = {method: sum(times) / len(times) for method, times in self.spent.items()}
        spent = sum(sum(times) for times in self.spent.values())
        usual = spent / sum(len(times) for times in self.spent.values())
        left = sum(count * known.get(method, usual) for method, count in self.left.items())
        return spent / (spent + left) if spent + left > 0 else 1.0
