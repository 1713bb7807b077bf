"""`auto`: the method that needs no parameters."""

from cfusion.auto.auto import Auto
from cfusion.auto.settings import Choices, Settings

__all__ = ["Auto", "Choices", "Settings"]
