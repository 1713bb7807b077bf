"""What the stages of a mosaic cost in seconds of a usual machine: iterations of a megapixel, and what takes as long."""

from __future__ import annotations

from dataclasses import dataclass

AN_ITERATION = 0.0077  # seconds, of a megapixel on one thread
LAYING, COMPARING = 220, 300  # iterations of the sample that take as long: for one raster, at the start and at the end
FITS, OF_A_FIT = 11, 210  # usually tried on the sample; iterations of one
TRIAL = 900  # iterations of the sample that take as long as its certified solve
READING, CERTIFYING, WRITING, FINISHING = 15, 115, 50, 60  # iterations of the mosaic that take as long
USUAL = 300  # iterations, until the sample has told
LONGER, CERTIFICATES = 1.125, 1.5  # times those of the sample, and how many: in the mean of mosaics, half need more

Ahead = tuple[tuple[tuple[str, ...], float], ...]


@dataclass(frozen=True)
class Effort:
    """The size of a mosaic."""

    rasters: int
    sample: float  # megapixels of the sample
    whole: float  # megapixels of the mosaic
    in_passes: float  # megapixels that a pass iterates: tiles with their halos
    hands: int = 1  # that work on tiles at once

    def ahead(self, iterations: int = USUAL) -> Ahead:
        """The stages in order (how their words begin), and the seconds of each."""
        one, all_ = AN_ITERATION * self.sample, AN_ITERATION * self.whole
        return (
            (("laying",), one * LAYING * self.rasters),
            (("choosing",), one * (FITS * OF_A_FIT + TRIAL)),
            (("reading",), all_ * READING / self.hands),
            (("iterating", "certifying"), self._iterating(LONGER * iterations, CERTIFICATES)),
            (("writing", "comparing"), all_ * (WRITING + FINISHING) + one * COMPARING * self.rasters),
        )

    def choosing(self, fits: int) -> float:
        """The share of the choices that is done after so many fits."""
        return FITS * OF_A_FIT * fits / max(FITS, fits + 1) / (FITS * OF_A_FIT + TRIAL)

    def iterating(self, iterations: float, goal: int, certificates: float) -> float:
        """The share of the iterations that is done; the first certificate usually asks for some more."""
        expected = (LONGER * goal, CERTIFICATES) if certificates < 1 else (goal, int(certificates) + 1)
        return self._iterating(iterations, certificates) / self._iterating(*expected)

    def writing(self, share: float, compared: int) -> float:
        """The share of the end that is done: of the maps, and rasters compared with them."""
        maps, last, one = WRITING * self.whole, FINISHING * self.whole, COMPARING * self.sample
        return (maps * share + one * compared) / (maps + one * self.rasters + last)

    def _iterating(self, iterations: float, certificates: float) -> float:
        return AN_ITERATION * (self.in_passes * iterations + CERTIFYING * self.whole * certificates) / self.hands
