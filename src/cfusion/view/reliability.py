"""Whether sigma is right: predicted against actual error, where the truth is known."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 12
FEWEST = 30  # pixels of a bin


@dataclass(frozen=True)
class Reliability:
    """Bins of equal size by sigma, and the shares of errors within one and two sigma."""

    predicted: tuple[float, ...]  # root mean square sigma of a bin
    actual: tuple[float, ...]  # root mean square error of its pixels
    within_one: float
    within_two: float

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        ratio = float(np.median(np.divide(self.actual, self.predicted)))
        honest = "honest" if 0.8 <= ratio <= 1.25 else "too small" if ratio > 1 else "too large"
        return (
            f"Sigma is {honest}: actual errors are {ratio:.2f} times what it predicts (median over bins); "
            f"{100 * self.within_one:.0f} % of the errors are within one sigma and {100 * self.within_two:.0f} % "
            "within two (68 % and 95 % for normal errors)."
        )


def reliability(
    depth: NDArray[np.floating], sigma: NDArray[np.floating], truth: NDArray[np.floating]
) -> Reliability | None:
    """The reliability of sigma; None if too few pixels have depth, sigma and truth."""
    error = np.abs(np.asarray(depth, np.float64) - truth)
    use = np.isfinite(error) & np.isfinite(sigma) & (np.asarray(sigma) > 0)
    if use.sum() < 2 * FEWEST:
        return None
    errors, sigmas = error[use], np.asarray(sigma, np.float64)[use]
    order = np.argsort(sigmas, kind="stable")
    bins = np.array_split(order, min(BINS, len(order) // FEWEST))
    return Reliability(
        predicted=tuple(float(np.sqrt(np.mean(sigmas[each] ** 2))) for each in bins),
        actual=tuple(float(np.sqrt(np.mean(errors[each] ** 2))) for each in bins),
        within_one=float(np.mean(errors <= sigmas)),
        within_two=float(np.mean(errors <= 2 * sigmas)),
    )
