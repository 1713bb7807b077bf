"""Built-in scenes, the paper's camera tracks, and noise: views whose truth is known."""

from cfusion.synthetic.city_block import city
from cfusion.synthetic.noise import Chain, Gauss, Holes, Laplace, Noise, Outliers, Regional, Stereo
from cfusion.synthetic.render import photograph, render
from cfusion.synthetic.room import room
from cfusion.synthetic.scene import Scene, load_mesh, plane, sphere, step
from cfusion.synthetic.sensors import Blobs, Kinect, disturbed
from cfusion.synthetic.smooth_object import blob
from cfusion.synthetic.track import ORBIT_BASELINE, PAPER_CAMERA, bundle, city_bundle, nadir, object_bundle, orbit

__all__ = [
    "ORBIT_BASELINE",
    "PAPER_CAMERA",
    "Blobs",
    "Chain",
    "Gauss",
    "Holes",
    "Kinect",
    "Laplace",
    "Noise",
    "Outliers",
    "Regional",
    "Scene",
    "Stereo",
    "blob",
    "bundle",
    "city",
    "city_bundle",
    "disturbed",
    "load_mesh",
    "nadir",
    "object_bundle",
    "orbit",
    "photograph",
    "plane",
    "render",
    "room",
    "sphere",
    "step",
]
