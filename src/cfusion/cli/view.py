"""Show fused results in 3-D in the browser: cameras, clouds, time, colours; or write a recording for rerun."""

import argparse
import time
from pathlib import Path

NAME, SUMMARY = "view", "look at a result, a sequence or a scene in 3-D"
LAST_PORT = 65534  # pages are served from the next one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """OUT, and where to serve or write."""
    add = parser.add_argument
    add("output", type=Path, metavar="OUT", help="the folder that fuse or scene wrote")
    add("--data", type=Path, metavar="DATA", help="the data set the result was fused from, if it has moved")
    add("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine only; over ssh, forward the port")
    add("--port", type=int, default=8080, help="default: 8080, or the next that is free")
    add("--rerun", type=Path, metavar="FILE.rrd", help="write a recording for rerun instead (extra `rerun`)")
    add("--seconds", type=float, metavar="S", help="stop after S seconds (default: at Ctrl-C)")


def run(arguments: argparse.Namespace) -> int:
    """Open the frames; serve or write them."""
    from cfusion.errors import FileError, InputError
    from cfusion.view.frames import open_frames

    if not 1 <= arguments.port <= LAST_PORT:
        raise InputError(f"--port is {arguments.port}; give 1 to {LAST_PORT}")
    if not arguments.output.is_dir():
        raise FileError(f"{arguments.output} is not a folder; give the OUT of fuse or scene")
    frames = open_frames(arguments.output)
    count = "1 frame" if len(frames) == 1 else f"{len(frames)} frames"
    if arguments.rerun is not None:
        from cfusion.view.rerun_file import write_rerun

        write_rerun(frames, arguments.rerun)
        print(f"{count} written; play with: rerun {arguments.rerun}")
        return 0
    from cfusion.view.input_views import InputViews
    from cfusion.view.viewer import Viewer

    viewer = Viewer(frames, InputViews(frames, arguments.data), arguments.host, arguments.port)
    ports = viewer.server.get_port(), viewer.pages.port
    print(f"open {viewer.address} ({count}; Ctrl-C ends it)")
    print(f"from elsewhere: ssh {' '.join(f'-L {port}:localhost:{port}' for port in ports)} THIS_MACHINE", flush=True)
    try:
        until = None if arguments.seconds is None else time.monotonic() + arguments.seconds
        while until is None or time.monotonic() < until:
            time.sleep(0.1)
    except KeyboardInterrupt:
        pass
    viewer.stop()
    return 0
