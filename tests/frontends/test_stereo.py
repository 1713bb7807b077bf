"""Matchers find what was rendered, know what they could not see, and say how sure they are."""

from pathlib import Path

import numpy as np
import pytest
from conftest_frontends import slanted_pair, step_pair  # placeholder
