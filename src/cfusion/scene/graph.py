"""Which views are fused into which: the neighbours of every view, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
        linked: list[set[int]] = [set(others) for others in self.neighbours]
        for view, others in enumerate(self.neighbours):
            for other in others:
                linked[other].add(view)
        left, groups = set(range(len(self))), []
        while left:
            group = set(_reached(min(left), linked))
            left -= group
            groups.append(tuple(sorted(group)))
        return tuple(sorted(groups, key=lambda group: (-len(group), group[0])))

    def both_ways(self, view: int) -> tuple[int, ...]:
        """The neighbours of a view and the views that it is a neighbour of."""
        return tuple(dict.fromkeys((*self.neighbours[view], *self._wanted_by()[view])))

    def _wanted_by(self) -> tuple[tuple[int, ...], ...]:
        found = self.__dict__.get("_wanted")
        if found is None:
            lists: list[list[int]] = [[] for _ in self.neighbours]
            for view, others in enumerate(self.neighbours):
                for other in others:
                    lists[other].append(view)
            found = tuple(tuple(each) for each in lists)
            object.__setattr__(self, "_wanted", found)
        return found


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
    return Graph(tuple(tuple(view for _, view in sorted(each, key=_order)) for each in scores), source)


def _order(scored: tuple[float, int]) -> tuple[float, int]:
    return -scored[0], scored[1]


def _reached(start: int, linked: Sequence[set[int]]) -> Iterator[int]:
    seen, todo = {start}, [start]
    while todo:
        view = todo.pop()
        yield view
        for other in linked[view] - seen:
            seen.add(other)
            todo.append(other)
