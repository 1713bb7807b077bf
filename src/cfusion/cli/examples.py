"""Two examples of every command, for its --help."""

EXAMPLES: dict[str, tuple[str, str]] = {
    "demo": ("cfusion demo -o demo-out", "cfusion demo --scene city --size 320x240 --methods auto,median,l1"),
    "fuse": ("cfusion fuse BUNDLE -o OUT", "cfusion fuse SEQUENCE --every 5 --window 11 -o OUT"),
    "scene": ("cfusion scene DATA -o OUT", "cfusion scene COLMAP_WORKSPACE -o OUT --neighbours 8 --mesh"),
    "mosaic": ("cfusion mosaic A.tif B.tif C.tif -o OUT.tif", "cfusion mosaic FOLDER -o OUT.tif --coregister"),
    "stereo": (
        "cfusion stereo LEFT.png RIGHT.png -o OUT --calib calib.txt",
        "cfusion stereo LEFT.png RIGHT.png -o OUT --matcher elas --focal 720 --baseline 0.54",
    ),
    "view": ("cfusion view OUT", "cfusion view OUT --rerun OUT.rrd"),
    "evaluate": ("cfusion evaluate OUT TRUTH.npy", "cfusion evaluate OUT TRUTH.npy --baseline 0.1 --json"),
    "reproduce": ("cfusion reproduce objects --quick", "cfusion reproduce all --full -o reproduce-out --jobs 4"),
    "check": ("cfusion check DATA", "cfusion check DATA --format tum --json"),
    "methods": ("cfusion methods", "cfusion methods --json"),
    "formats": ("cfusion formats", "cfusion formats --options"),
    "info": ("cfusion info", "cfusion info --json"),
}


def epilog(command: str) -> str:
    """The end of a command's --help."""
    return "examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[command])
