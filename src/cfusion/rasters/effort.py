"""Expected duration of a mosaic's stages on a typical machine, in units of one iteration on a megapixel."""

from dataclasses import dataclass

AN_ITERATION = 0.0077  # seconds, one megapixel on one thread
LAYING, COMPARING = 220, 300  # iterations on the sample of equal duration, per raster: at the start, at the end
FITS, OF_A_FIT = 11, 210  # typical number of fits on the sample; iterations of one fit
TRIAL = 900  # iterations on the sample, as long as its certified solve
READING, CERTIFYING, WRITING, FINISHING = 15, 115, 50, 60  # iterations on the mosaic of equal duration
USUAL = 300  # iterations expected before the sample is solved
LONGER, CERTIFICATES = 1.125, 1.5  # mean over mosaics: iterations over those of the sample; certificates

Ahead = tuple[tuple[tuple[str, ...], float], ...]


@dataclass(frozen=True)
class Effort:
    """The size of a mosaic."""

    rasters: int
    sample: float  # megapixels of the sample
    whole: float  # megapixels of the mosaic
    in_passes: float  # megapixels that a pass iterates: tiles with their halos
    hands: int = 1  # processes that work on tiles

    def ahead(self, iterations: int = USUAL) -> Ahead:
        """The stages in order (first words of their names), each with its expected seconds."""
        one, all_ = AN_ITERATION * self.sample, AN_ITERATION * self.whole
        return (
            (("laying",), one * LAYING * self.rasters),
            (("choosing",), one * (FITS * OF_A_FIT + TRIAL)),
            (("reading",), all_ * READING / self.hands),
            (("iterating", "certifying"), self._iterating(LONGER * iterations, CERTIFICATES)),
            (("writing", "comparing"), all_ * (WRITING + FINISHING) + one * COMPARING * self.rasters),
        )

    def choosing(self, fits: int) -> float:
        """Share of the choices that is done after this number of fits."""
        return FITS * OF_A_FIT * fits / max(FITS, fits + 1) / (FITS * OF_A_FIT + TRIAL)

    def iterating(self, iterations: float, goal: int, certificates: float) -> float:
        """Share of the iterations that is done; the first certificate usually requires some more."""
        expected = (LONGER * goal, CERTIFICATES) if certificates < 1 else (goal, int(certificates) + 1)
        return self._iterating(iterations, certificates) / self._iterating(*expected)

    def writing(self, share: float, compared: int) -> float:
        """Share of the last stage that is done, from the share of maps written and the number of rasters compared."""
        maps, last, one = WRITING * self.whole, FINISHING * self.whole, COMPARING * self.sample
        return (maps * share + one * compared) / (maps + one * self.rasters + last)

    def _iterating(self, iterations: float, certificates: float) -> float:
        return AN_ITERATION * (self.in_passes * iterations + CERTIFYING * self.whole * certificates) / self.hands
