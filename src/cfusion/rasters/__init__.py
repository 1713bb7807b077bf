"""Height models: any number of GeoTIFF rasters, on any grids and of any size, fused into one GeoTIFF."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfusion.rasters.mosaic import Mosaic, fuse_rasters

__all__ = ["Mosaic", "fuse_rasters"]


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    if name in __all__:
        from cfusion.rasters import mosaic

        return getattr(mosaic, name)
    raise AttributeError(f"module 'cfusion.rasters' has no attribute {name!r}")
