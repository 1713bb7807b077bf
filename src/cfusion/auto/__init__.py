"""`auto`: the method without parameters to tune."""

from cfusion.auto.auto import Auto
from cfusion.auto.settings import Choices, Settings

__all__ = ["Auto", "Choices", "Settings"]
