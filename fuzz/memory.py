"""What a case took at its peak, and what it may take: twice what was decoded, and 64 MiB."""

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cfusion.io import limits
from cfusion.io.codecs import npz

FREE = 64 << 20  # bytes of any case
CODE = 256 << 20  # bytes of libraries that a call or a command may load besides
NET = 4 << 30  # bytes beyond what a child has: the machine is not to suffer from what is found
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
KIB = 1024


class Meter:
    """The peak of this process, case by case, and the bytes that headers claimed to readers meanwhile."""

    def __init__(self) -> None:
        """From now on, large blocks are given back at once, and decoders tell what they are about to decode."""
        self.claimed = 0
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + NET
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt"):
            library.mallopt(M_MMAP_THRESHOLD, 1 << 20)
            library.mallopt(M_TRIM_THRESHOLD, 1 << 20)
            library.mallopt(M_ARENA_MAX, 2)  # each reserves 64 MiB of addresses, which count
        self.status, self.reset = (
            os.open("/proc/self/status", os.O_RDONLY),
            os.open("/proc/self/clear_refs", os.O_WRONLY),
        )
        self._listen()

    def start(self) -> None:
        """A case begins."""
        self.claimed = 0
        os.pwrite(self.reset, b"5", 0)  # the peak is what there is now
        self.before = self._told(b"VmRSS:")

    def excess(self, decoded: int | None) -> int:
        """Bytes above what the case may take, given what it decoded (None: it was no reader); 0 where it kept to it."""
        taken = self._told(b"VmHWM:") - self.before
        code = CODE if decoded is None else 0
        return max(0, taken - 2 * max(decoded or 0, self.claimed) - FREE - code)

    def _told(self, key: bytes) -> int:
        """A number of bytes that the system tells of this process."""
        return int(os.pread(self.status, 4096, 0).split(key, 1)[1].split(None, 1)[0]) * KIB

    def _listen(self) -> None:
        """Every decoder asks `require_pixels` before it decodes, every archive has `Member`s."""
        require = limits.require_pixels

        def heard(path: Path, width: int, height: int, held: int, bytes_each: int = 4) -> None:
            require(path, width, height, held, bytes_each)
            self.claimed += width * height * bytes_each

        _replace("require_pixels", require, heard)
        unpacked = npz.Member._unpacked

        def told(member: npz.Member) -> Any:
            values = unpacked(member)
            self.claimed += values.nbytes
            return values

        npz.Member._unpacked = told  # type: ignore[method-assign]


def _replace(name: str, old: Callable[..., None], new: Callable[..., None]) -> None:
    """A function, wherever it was imported to."""
    for module in list(sys.modules.values()):
        if getattr(module, name, None) is old:
            setattr(module, name, new)
