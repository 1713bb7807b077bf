"""Explanations of every figure, layer and choice on a page."""

LAYERS = {
    "depth": "Distance along the optical axis.",
    "sigma": "How far off the depth may be: the standard deviation of its error.",
    "confidence": (
        "With auto and with stereo, the probability that the depth is right; with other methods, the weight of a "
        "pixel's observations in the energy. Zero where nothing is known."
    ),
    "provenance": "How many views observed the pixel; 0: filled from its neighbours, nothing drawn: unknown.",
    "normals": "Which way the surface faces: red right, green up, blue towards the camera.",
    "image": "The image of the reference view.",
    "error": "Depth minus truth: blue is too near, red is too far.",
    "input": "The reference view's own depth map before fusion.",
    "median": "Per pixel, the median of the measurements of all views.",
    "truth": "The true depth.",
    "surface": "The surface in grey, under one light: what the eye sees first.",
}
HEIGHTS = {
    "depth": "Height above the vertical datum of the rasters.",
    "provenance": "How many rasters observed the pixel; 0: filled from its neighbours, nothing drawn: unknown.",
}
OF_A_MOSAIC = (
    "Ours, for height models: a piecewise planar ground (total generalised variation of order two) with errors that "
    "count squared when small, one energy for all tiles; weights and corner are chosen by how well they predict "
    "rasters that were held out of a sample."
)
RASTER_COLUMNS = {
    "noise": "Standard deviation of the raster's errors.",
    "bias": "Its offset against the median of all rasters: positive if it lies higher.",
    "kept": "Share of its pixels within three times its noise of the fused ground.",
    "shift": "Displacement of its content from the fused ground, in pixels.",
}
VIEW_COLUMNS = {
    "noise": "Robust standard deviation of the view's measurements around the fused surface.",
    "bias": "Median of measured minus fused: positive if the view measures too far.",
    "kept": "Share of its readings that are of this surface: within six times the usual noise.",
    "shift": "Registration: displacement of its readings over the surface, in pixels, at which they fit best.",
    "effect": "How far the mean of all observations moves when this view is left out (root mean square).",
}
CHOICES = {
    "alpha": "Weights of the regulariser, one per order: larger is smoother.",
    "inverse": "Whether the surface was solved in inverse depth, which suits stereo and distant planes, or in depth.",
    "local": "Whether observations were weighted by the noise around them.",
    "edges": "Whether smoothing was reduced across the edges of the surface.",
    "noise_growth": "Noise that grows as (depth / first)^second, by which observations were weighed.",
    "margins": "Other weights, as factors of the chosen ones, and how much worse they predict held-out views.",
    "order": "Order of the regulariser: 1 prefers steps, 2 planes, 3 curved patches.",
    "lam": "Weight of the observations against the regulariser.",
    "delta": "Errors below it count squared, above linearly (Huber).",
    "tolerance": "Relative duality gap at which the solver stops.",
    "rounds": "How often every view is read again at the current surface.",
    "gate": "Noise scales beyond which an observation is of another surface.",
    "fill_radius": "Holes up to this many pixels wide are bridged.",
    "radius": "Holes up to this many pixels wide are closed when a view is splatted.",
    "iterations": "The most iterations a convex solve may take.",
}
MATCHERS = ("sgm", "elas", "mc-cnn")
METHODS = {
    "sgm": "Semi-global matching (OpenCV, 8 paths) of the pair, both ways; pixels that disagree are dropped.",
    "elas": "Matching by triangles between robust points of the pair, both ways; pixels that disagree are dropped.",
    "mc-cnn": "Matching costs by a network, then semi-global matching, both ways; pixels that disagree are dropped.",
    "reference": "The reference view alone, before fusion.",
    "input": "The reference view alone, before fusion.",
    "mean": "All views are splatted onto the reference, and each pixel takes their mean.",
    "median": "All views are splatted onto the reference, and each pixel takes their median.",
    "rof": "Total variation with squared errors: piecewise constant surfaces.",
    "l1": "Total generalised variation of order two with absolute errors: piecewise planar surfaces.",
    "tgv-fusion": "As l1, with errors that count squared when small.",
    "l1-heuristic": "As l1, with less weight for views at grazing angles.",
    "rof-adapt": "As rof, with a confidence for every pixel estimated along with the depth.",
    "l1-adapt": "As l1, with a confidence for every pixel estimated along with the depth.",
    "adapt-hprior": "As l1-adapt, with less weight for views at grazing angles.",
    "adapt-hprior-g": "As adapt-hprior, smoothed less across edges of the image.",
    "auto": (
        "Ours. Every view is read at the current surface, so that noise stays where it was measured; "
        "weights are chosen by how well they predict views that were held out; nothing is left to tune."
    ),
}
