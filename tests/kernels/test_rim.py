"""What tiles of the GPU's iterations send to one another: each pair of a rim, from where its own tile puts it."""

from pathlib import Path

import numpy as np
import pytest
from tests.emulation import Emulator

KERNEL = """
// The pair of the image at each place of a tile's border and of its rim, and the packet that the rim's place awaits.
extern "C" __global__ void note(int tile_rows, int lanes, int height, int width, int* sent, int* awaited, int* from) {
    static Mail mail;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pairs = (width + 1) / 2;
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    const Place place = {height, width, (int)blockIdx.y * tile_rows - LEVELS + warp * ROWS,
                         (int)blockIdx.x * 2 * (lanes - 2 * REACH) - LEVELS + 2 * lane};
    const Edges edges = {tile_rows, lanes, warp, lane};
    mail.pairs = 0;
    __syncthreads();
    find_pairs(mail, tile_rows, lanes, height, width);
    const unsigned rows = edges.rows(place);
    for (int r = 0; r < ROWS; r++) {
        const int pair = (place.row + r) * pairs + place.column / 2;
        if (rows >> r & 1) {
            const int slot = edges.sent(r);
            sent[block * RIM + slot] = slot < edges.pairs() && sent[block * RIM + slot] < 0 ? pair : -2;
        }
        if (rows >> (r + ROWS) & 1) awaited[block * RIM + edges.slot(r)] = pair;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < mail.pairs; k += blockDim.x) from[block * RIM + mail.slot(k)] = mail.address(k);
}
"""
FOUR = "struct float4 { float x, y, z, w; };\n"
PARTS = 6


@pytest.mark.parametrize(
    ("rows", "levels", "tile", "image"),
    [
        (4, 2, (40, 60), (480, 640)),
        (6, 2, (63, 60), (375, 242)),  # the last tiles lie partly outside
        (4, 2, (20, 56), (51, 117)),  # an odd width
        (4, 2, (2, 2), (5, 7)),  # every pair is on the border, and in several rims
        (4, 2, (3, 4), (3, 4)),  # one tile
        (4, 4, (9, 12), (30, 41)),
        (4, 4, (5, 4), (11, 9)),
    ],
)
def test_a_rim_awaits_what_its_neighbours_send(
    tmp_path: Path, rows: int, levels: int, tile: tuple[int, int], image: tuple[int, int]
) -> None:
    (tile_rows, tile_columns), (height, width) = tile, image
    down, across = -(-height // tile_rows), -(-width // tile_columns)
    warps, reach = -(-(tile_rows + 2 * levels) // rows), levels // 2
    room = 2 * levels * 32 + 2 * reach * rows * warps
    (tmp_path / "four.cuh").write_text(FOUR)
    (tmp_path / "note.cu").write_text(KERNEL)
    sources = str(tmp_path / "four.cuh"), "rim.cuh", str(tmp_path / "note.cu")
    macros = (f"ROWS={rows}", f"LEVELS={levels}", f"WARPS={warps}", f"PARTS={PARTS}", "ORDER=2", "SHELVED=0")
    sent, awaited, found = (np.full(down * across * room, -1, np.int32) for _ in range(3))
    sizes = map(np.int32, (tile_rows, tile_columns // 2 + 2 * reach, height, width))
    note = Emulator(tmp_path).kernel(sources, "note", macros)
    note((across, down), (32 * warps,), (*sizes, sent, awaited, found))
    assert sent.min() == -1  # no place is used twice
    wanted = awaited >= 0
    assert wanted.any() == (down * across > 1)
    np.testing.assert_array_equal(wanted, found >= 0)
    tiles, place = np.divmod(found[wanted], PARTS * room)
    assert (place < room).all()
    np.testing.assert_array_equal(sent[tiles * room + place], awaited[wanted])
    np.testing.assert_array_equal(np.unique(awaited[wanted]), np.unique(sent[np.isin(sent, awaited[wanted])]))
