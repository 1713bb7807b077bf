"""Make docs/pictures/demo.png from what `cfusion demo` wrote: depth above, surface below, one column per method.

python docs/make_pictures.py [demo-out]
"""

import json
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

BAR = 46  # pixels below each picture of the demo: its colour bar, which is left out here
WIDTH, GAP, HEADING = 236, 8, 30  # pixels
COLOURS = 200  # of the palette: keeps the file small, noise does not compress
TARGET = Path(__file__).parent / "pictures" / "demo.png"


def main() -> None:
    demo = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    rmse = {row["name"]: row["rmse"] for row in json.loads((demo / "scores.json").read_text())}
    columns = {
        "truth": ("truth-true-depth", "truth-true-surface"),
        f"one of 11 views: RMSE {rmse['input']:.3f}": ("input-depth", "input-surface"),
        f"median: RMSE {rmse['median']:.3f}": ("median-depth", "median-surface"),
        f"auto: RMSE {rmse['auto']:.3f}": ("auto-depth", "auto-surface"),
    }
    strips = [[_picture(demo / "pictures" / f"{name}.png") for name in names] for names in columns.values()]
    height = strips[0][0].height
    sheet = Image.new("RGB", (4 * WIDTH + 5 * GAP, HEADING + 2 * (height + GAP)), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(15)
    for at, (heading, strip) in enumerate(zip(columns, strips, strict=True)):
        left = GAP + at * (WIDTH + GAP)
        draw.text((left + WIDTH / 2, HEADING / 2), heading, fill="#333333", font=font, anchor="mm")
        for row, picture in enumerate(strip):
            sheet.paste(picture, (left, HEADING + row * (height + GAP)))
    TARGET.parent.mkdir(exist_ok=True)
    sheet.quantize(COLOURS, dither=Image.Dither.NONE).save(TARGET, optimize=True)


def _picture(path: Path) -> Image.Image:
    """A picture of the demo on white, without its colour bar, WIDTH wide."""
    found = Image.open(path).convert("RGBA")
    found = found.crop((0, 0, found.width, found.height - BAR))
    paper = Image.new("RGBA", found.size, "white")
    paper.alpha_composite(found)
    size = (WIDTH, round(WIDTH * found.height / found.width))
    return paper.convert("RGB").resize(size, Image.Resampling.LANCZOS)


if __name__ == "__main__":
    main()
