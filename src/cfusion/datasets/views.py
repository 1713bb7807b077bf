"""What a reader returns: the views of one scene, and what their file says about all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from cfusion.errors import InputError
from cfusion.geometry import View


@dataclass(frozen=True, eq=False)
class Views(Sequence[View]):
    """Views in one unit; `reference` is the index of the one to fuse into, if the file names one."""

    views: tuple[View, ...]
    reference: int | None = None
    unit: str = "metre"

    def __post_init__(self) -> None:
        if self.reference is not None and not 0 <= self.reference < len(self.views):
            raise InputError(
                f"reference is {self.reference}, the views are 0 to {len(self.views) - 1}; name one of them"
            )

    def __len__(self) -> int:
        return len(self.views)

    @overload
    def __getitem__(self, index: int) -> View: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[View, ...]: ...
    def __getitem__(self, index: int | slice) -> View | tuple[View, ...]:
        return self.views[index]
