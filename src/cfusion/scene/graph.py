"""Which views are fused into which: the neighbours of every view, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from cfusion.arrays import is_whole
from cfusion.errors import InputError

NEIGHBOURS = 10  # per view, by default


@dataclass(frozen=True)
class Graph:
    """The neighbours of every view (indices, best first) and where they come from."""

    neighbours: tuple[tuple[int, ...], ...]
    source: str  # shown to the user: "patch-match.cfg", "shared surface", ...

    def __post_init__(self) -> None:
        count = len(self.neighbours)
        for view, others in enumerate(self.neighbours):
            if len(set(others)) != len(others) or view in others or not all(0 <= other < count for other in others):
                raise InputError(
                    f"the neighbours of view {view} are {list(others)}; give others, each once, from 0 to {count - 1}"
                )

    def __len__(self) -> int:
        return len(self.neighbours)

    def bundle(self, view: int) -> tuple[int, ...]:
        """The view itself and its neighbours: the views fused into it."""
        return view, *self.neighbours[view]

    def cut(self, most: int) -> Graph:
        """The best `most` neighbours of each view."""
        if not is_whole(most, 0, 10**9):
            raise InputError(f"neighbours is {str(most)[:40]}; give a whole number from 0")
        return Graph(tuple(others[:most] for others in self.neighbours), self.source)

    @property
    def lonely(self) -> tuple[int, ...]:
        """Views that have no neighbour and are no other view's neighbour."""
        wanted = {other for others in self.neighbours for other in others}
        return tuple(view for view, others in enumerate(self.neighbours) if not others and view not in wanted)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The connected groups of views, largest first."""
        left, groups = set(range(len(self))), []
        while left:
            group = self._reached(min(left))
            left -= group
            groups.append(tuple(sorted(group)))
        return tuple(sorted(groups, key=lambda group: (-len(group), group[0])))

    def both_ways(self, view: int) -> tuple[int, ...]:
        """The neighbours of a view and the views that it is a neighbour of."""
        return tuple(dict.fromkeys((*self.neighbours[view], *self._wanted_by[view])))

    @cached_property
    def _wanted_by(self) -> list[list[int]]:
        """For each view the views that it is a neighbour of."""
        found: list[list[int]] = [[] for _ in self.neighbours]
        for view, others in enumerate(self.neighbours):
            for other in others:
                found[other].append(view)
        return found

    def _reached(self, start: int) -> set[int]:
        """The views connected to one, itself included."""
        seen, todo = {start}, [start]
        while todo:
            new = set(self.both_ways(todo.pop())) - seen
            seen |= new
            todo += new
        return seen


def in_time(count: int, width: int = NEIGHBOURS + 1) -> Graph:
    """Neighbours in time: the `width` frames around each frame, all inside the sequence, nearest first."""
    if width < 1:
        raise InputError(f"window = {width}; give at least 1 frame")
    size = min(width, count)
    found = []
    for frame in range(count):
        first = min(max(frame - width // 2, 0), count - size)
        others = [other for other in range(first, first + size) if other != frame]
        found.append(tuple(sorted(others, key=lambda other: (abs(other - frame), other))))
    return Graph(tuple(found), "time")


def ranked(scores: Sequence[Sequence[tuple[float, int]]], source: str) -> Graph:
    """A graph from scored neighbours (score, view): higher score first, then lower number."""
    best_first = (sorted(each, key=lambda scored: (-scored[0], scored[1])) for each in scores)
    return Graph(tuple(tuple(view for _, view in each) for each in best_first), source)
