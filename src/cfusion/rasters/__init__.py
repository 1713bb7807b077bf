"""Height models: GeoTIFF in, GeoTIFF out, any number, any grids, any size."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfusion.rasters.mosaic import Mosaic, fuse_rasters

__all__ = ["Mosaic", "fuse_rasters"]


def __getattr__(name: str) -> Any:
    """The work comes with its modules when it is first asked for."""
    if name in __all__:
        from cfusion.rasters import mosaic

        return getattr(mosaic, name)
    raise AttributeError(f"module 'cfusion.rasters' has no attribute {name!r}")
