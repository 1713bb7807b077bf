"""The paper's tables and figures: specifications in TOML, run once, cached, and summarised from the results only."""

from cfusion.experiments.plan import Level, plan
from cfusion.experiments.read_spec import NAMES, load
from cfusion.experiments.runner import run
from cfusion.experiments.so_far import so_far
from cfusion.experiments.spec import Spec
from cfusion.experiments.store import Store
from cfusion.experiments.summary import summarise

__all__ = ["NAMES", "Level", "Spec", "Store", "load", "plan", "run", "so_far", "summarise"]
