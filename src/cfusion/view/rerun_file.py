"""A recording for rerun: every frame with its camera, depth and points, on a timeline."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cfusion.errors import optional_module
from cfusion.geometry import Orthographic
from cfusion.view.clouds import limits_of, points_and_colours
from cfusion.view.frames import FusedFrame, near_origin


def write_rerun(frames: Sequence[FusedFrame], path: Path) -> None:
    """Write one file, which `rerun FILE.rrd` plays; far from the origin, relative to the middle camera."""
    rerun = optional_module("rerun", missing="recordings need rerun: pip install 'cfusion[rerun]'")
    frames = near_origin(frames)
    stream = rerun.RecordingStream("cfusion")
    stream.save(str(path))
    stream.log("world", rerun.ViewCoordinates.RDF, static=True)
    limits = limits_of(frames, "depth")
    for number, frame in enumerate(frames):
        maps = frame.maps()
        stream.set_time("frame", sequence=number)
        points, colours = points_and_colours(frame, maps, "depth", 1, limits=limits)
        stream.log("world/points", rerun.Points3D(points, colors=colours))
        pose = frame.pose.matrix()
        stream.log("world/camera", rerun.Transform3D(translation=pose[:3, 3], mat3x3=pose[:3, :3]))
        if not isinstance(frame.camera, Orthographic):
            resolution = [frame.camera.width, frame.camera.height]
            stream.log(
                "world/camera/image", rerun.Pinhole(image_from_camera=frame.camera.matrix, resolution=resolution)
            )
            stream.log("world/camera/image/depth", rerun.DepthImage(np.nan_to_num(maps.depth), meter=1.0))
    stream.flush()
