"""Explanations of every figure, layer and choice on a page, from `assets/words.toml`."""

import tomllib

from cfusion.view.document import asset

_WORDS = tomllib.loads(asset("words.toml"))

LAYERS: dict[str, str] = _WORDS["layers"]
HEIGHTS: dict[str, str] = _WORDS["heights"]  # layers of a mosaic, where they mean something else
RASTER_COLUMNS: dict[str, str] = _WORDS["raster_columns"]
VIEW_COLUMNS: dict[str, str] = _WORDS["view_columns"]
CHOICES: dict[str, str] = _WORDS["choices"]  # parameters of methods
METHODS: dict[str, str] = _WORDS["methods"]
MATCHERS: tuple[str, ...] = tuple(_WORDS["matchers"])  # of METHODS, those that match a pair and solve no energy
OF_A_MOSAIC: str = _WORDS["of_a_mosaic"]  # `auto` for height models
