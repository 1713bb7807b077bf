"""The data set that a reader returns: the views of one scene, and what the files state about all of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import overload

from cfusion.arrays import is_whole
from cfusion.errors import InputError
from cfusion.geometry import View
from cfusion.io.paths import ROOTS, within

MOST_VIEWS = 10**9
KEPT = 12  # frames cached: a window of eleven, and the next one


@dataclass(frozen=True)
class LazyViews(Sequence[View]):
    """Views that are read when they are used; slices are lazy too."""

    load: Callable[[int], View]  # by index
    numbers: Sequence[int]

    @classmethod
    def reading(cls, load: Callable[[int], View], count: int) -> "LazyViews":
        """The frames 0 to count - 1; the last few are cached, so that memory does not grow with their number."""
        roots = ROOTS.get()

        def load_inside(number: int) -> View:
            with within(*roots):
                return load(number)

        return cls(lru_cache(KEPT)(load_inside), range(count))

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> View: ...
    @overload
    def __getitem__(self, index: slice) -> "LazyViews": ...
    def __getitem__(self, index: int | slice) -> "View | LazyViews":
        if isinstance(index, slice):
            return LazyViews(self.load, self.numbers[index])
        return self.load(self.numbers[index])


@dataclass(frozen=True, eq=False)
class Dataset(Sequence[View]):
    """Views in one unit; `reference` is the index of the view to fuse into, if the data name one."""

    views: Sequence[View]
    reference: int | None = None
    unit: str = "metre"
    sentence: str = ""  # what was recognised and how it was converted, for the user
    files: tuple[Path, ...] = ()  # the depth map of each view, if each has its own file

    def __post_init__(self) -> None:
        if self.reference is not None and not is_whole(self.reference, -MOST_VIEWS, MOST_VIEWS):
            raise InputError(f"reference is {str(self.reference)[:40]!r}; give the number of a view, from 0")
        if self.reference is not None and not 0 <= self.reference < len(self.views):
            raise InputError(f"reference is {self.reference}, give a view from 0 to {len(self.views) - 1}")

    @classmethod
    def of_files(
        cls, files: Iterable[Path], load: Callable[[int], View], sentence: str, unit: str = "metre"
    ) -> "Dataset":
        """The views of depth maps in files of their own, each read when it is used."""
        listed = tuple(files)
        return cls(LazyViews.reading(load, len(listed)), unit=unit, sentence=sentence, files=listed)

    def __repr__(self) -> str:
        """One line, without reading a view."""
        return f"Dataset({len(self)} views, {self.unit}, {self.sentence!r})"

    def __len__(self) -> int:
        return len(self.views)

    @overload
    def __getitem__(self, index: int) -> View: ...
    @overload
    def __getitem__(self, index: slice) -> "Dataset": ...
    def __getitem__(self, index: int | slice) -> "View | Dataset":
        if not isinstance(index, slice):
            return self.views[index]
        places = range(len(self))[index]
        kept = None if self.reference is None or self.reference not in places else places.index(self.reference)
        return Dataset(self.views[index], kept, self.unit, self.sentence, self.files[index])
