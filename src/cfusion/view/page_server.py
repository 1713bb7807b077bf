"""A small server for the pages of frames: existing pages are sent, those of a scene are made on request."""

import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cfusion.errors import CFusionError
from cfusion.view.frames import FusedFrame
from cfusion.view.scene_page import write_view_page

TRIES = 50  # ports tried


class PageServer:
    """Serves `/3` as the page of frame 3."""

    def __init__(self, frames: Sequence[FusedFrame], host: str, port: int) -> None:
        self.frames = frames
        self.made: dict[int, Path] = {}
        self.folder = tempfile.TemporaryDirectory(prefix="cfusion-pages-")
        self.lock = threading.Lock()  # one page is made at a time
        self.server = _bound(host, port, self._handler())
        self.port = int(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self, number: int) -> Path:
        """The file of a frame's page; raises if it has none."""
        frame = self.frames[number]
        if frame.page is not None:
            return frame.page
        if frame.scene is None or frame.number is None:
            raise CFusionError(f"{frame.name} has no page; it was written with --no-report")
        with self.lock:
            if number not in self.made:
                target = Path(self.folder.name) / f"{number}.html"
                self.made[number] = write_view_page(frame.scene, frame.number, target)
        return self.made[number]

    def stop(self) -> None:
        """Stop the server and remove the pages it made."""
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.path.strip("/")
                if not asked.isdecimal() or int(asked) >= len(pages.frames):
                    self.send_error(404)
                    return
                try:
                    content, status = pages.page(int(asked)).read_bytes(), 200
                except (CFusionError, OSError) as error:
                    content, status = f"{error}\n".encode(), 500
                self.send_response(status)
                self.send_header("Content-Type", f"text/{'html' if status == 200 else 'plain'}; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *words: object) -> None:
                """Log nothing."""

        return Handler


def _bound(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """A server at the port, or at the next free one."""
    for candidate in range(port, port + TRIES):
        with suppress(OSError):
            return ThreadingHTTPServer((host, candidate), handler)
    return ThreadingHTTPServer((host, 0), handler)
