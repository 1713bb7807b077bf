"""A cache of views: least recently used ones are dropped when it is full."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import overload

from cfusion.geometry import View

BYTES = 512 << 20  # default size of the cache


class ViewCache(Sequence[View]):
    """A lazy sequence of views that caches up to a number of bytes."""

    def __init__(self, views: Sequence[View], most_bytes: int = BYTES) -> None:
        self.views, self.most_bytes, self.bytes = views, most_bytes, 0
        self._kept: OrderedDict[int, View] = OrderedDict()
        self._lock = Lock()

    @classmethod
    def of(cls, views: Sequence[View]) -> Sequence[View]:
        """A cache over lazy views; lists and tuples are returned unchanged."""
        return views if isinstance(views, list | tuple | ViewCache) else cls(views)

    def __len__(self) -> int:
        return len(self.views)

    @overload
    def __getitem__(self, index: int) -> View: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[View]: ...
    def __getitem__(self, index: int | slice) -> View | Sequence[View]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        number = range(len(self))[index]
        with self._lock:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        view = self.views[number]
        with self._lock:
            if number not in self._kept:
                self._kept[number] = view
                self.bytes += size(view)
            while self.bytes > self.most_bytes and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self.bytes -= size(dropped)
        return view


def size(view: View) -> int:
    """The bytes of a view's maps."""
    maps = (view.depth, view.image, view.confidence)
    return sum(each.nbytes for each in maps if each is not None)
