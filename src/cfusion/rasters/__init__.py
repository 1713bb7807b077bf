"""Height models: any number of GeoTIFF rasters, on any grids and of any size, fused into one GeoTIFF."""
