// The rim (halo) of a tile in registers (tile.cuh): which pairs of pixels are exchanged, and where they lie in between.

#define PAIRS 32  // pairs of columns in a tile: one per lane
#define REACH (LEVELS / 2)  // lanes of a rim
#define RIM (2 * LEVELS * PAIRS + 2 * REACH * ROWS * WARPS)  // pairs of pixels in a rim, at most; a border has fewer
#define KEPT (ORDER == 2 ? 4 : 2)  // quadruples of values of a pair of pixels; it takes PARTS packets
#define SLOT_BITS 10

struct Place {
    int height, width, row, column;  // of the image; of this lane's first pixel

    __device__ bool inside(int r, int c) const {
        return row + r >= 0 && row + r < height && column + c >= 0 && column + c < width;
    }
    __device__ size_t pixel(int r, int c) const { return (size_t)(row + r) * width + (column + c); }
};

// Between registers and mailbox. Two lanes of a row are on the sides of a tile: their values are brought together here,
// so that full warps send and receive them.
struct Mail {
    int pairs;  // of the rim, in the image
    unsigned place[RIM];  // the number of a pair's first packet in the mailbox, and of the pair in the rim
    float4 arrived[KEPT][RIM];
#if SHELVED  // there is no room for both
    __device__ float4 (&sent())[KEPT][RIM] { return arrived; }
#else
    float4 leaving[KEPT][RIM];  // so that nobody waits until all have sent: up to a quarter of an iteration
    __device__ float4 (&sent())[KEPT][RIM] { return leaving; }
#endif

    __device__ int slot(int k) const { return place[k] & ((1 << SLOT_BITS) - 1); }
    __device__ int address(int k) const { return place[k] >> SLOT_BITS; }
};
static_assert(RIM <= 1 << SLOT_BITS, "a pair's number takes more bits");

// The pairs of a tile's rim, or of its border, in one sequence: those of the side lanes row by row, then the rows above
// and below between them. `row` and `lane` count from the corner of the rim. For a lane that is linear in the rows.
__device__ __forceinline__ int rim_index(int row, int lane, int tile_rows, int lanes) {
    const int wide = lanes - 2 * REACH, along = lane - REACH;
    if (along < 0 || along >= wide) return row * 2 * REACH + (along < 0 ? lane : lane - wide);
    return (tile_rows + 2 * LEVELS) * 2 * REACH + (row < LEVELS ? row : row - tile_rows) * wide + along;
}

__device__ __forceinline__ int border_index(int row, int lane, int tile_rows, int lanes) {
    const int wide = lanes - 4 * REACH, along = lane - 2 * REACH;
    if (along < 0 || along >= wide) return (row - LEVELS) * 2 * REACH + (along < 0 ? lane - REACH : along - wide + REACH);
    return tile_rows * 2 * REACH + (row < 2 * LEVELS ? row - LEVELS : row - tile_rows + LEVELS) * wide + along;
}

// The pairs to wait for: those in the image, wherever their tiles send them. `mail.pairs` is zero before.
__device__ void find_pairs(Mail& mail, int tile_rows, int lanes, int height, int width) {
    const int wide = lanes - 2 * REACH, tile_columns = 2 * wide, beside = 2 * REACH * (tile_rows + 2 * LEVELS);
    for (int k = threadIdx.x; k < beside + 2 * LEVELS * wide; k += blockDim.x) {
        int row, lane;
        if (k < beside) {
            row = k / (2 * REACH);
            lane = k - row * 2 * REACH;
            if (lane >= REACH) lane += wide;
        } else {
            row = (k - beside) / wide;
            lane = k - beside - row * wide + REACH;
            if (row >= LEVELS) row += tile_rows;
        }
        row += blockIdx.y * tile_rows - LEVELS;
        const int column = (int)blockIdx.x * tile_columns - LEVELS + 2 * lane;
        if (row < 0 || row >= height || column < 0 || column >= width) continue;
        const int down = row / tile_rows, across = column / tile_columns;
        const int there = border_index(row - down * tile_rows + LEVELS, (column - across * tile_columns) / 2 + REACH,
                                       tile_rows, lanes);
        mail.place[atomicAdd(&mail.pairs, 1)] = ((down * gridDim.x + across) * PARTS * RIM + there) << SLOT_BITS | k;
    }
}

// Whether this lane's row r is on the border of the tile, which others need, or in the rim, which others send.
struct Edges {
    int tile_rows, lanes, warp, lane;

    __device__ bool mine(int row) const {
        return row >= LEVELS && row < LEVELS + tile_rows && lane >= REACH && lane < lanes - REACH;
    }
    __device__ bool border(int r, const Place& place) const {
        const int row = warp * ROWS + r;
        const bool beside = lane < 2 * REACH || lane >= lanes - 2 * REACH;
        return mine(row) && (beside || row < 2 * LEVELS || row >= tile_rows) && place.inside(r, 0);
    }
    __device__ bool rim(int r, const Place& place) const {
        const int row = warp * ROWS + r;
        return !mine(row) && row < 2 * LEVELS + tile_rows && lane < lanes && place.inside(r, 0);
    }
    __device__ int slot(int r) const { return rim_index(warp * ROWS + r, lane, tile_rows, lanes); }
    __device__ int sent(int r) const { return border_index(warp * ROWS + r, lane, tile_rows, lanes); }
    __device__ int pairs() const {  // of the border
        return 2 * REACH * tile_rows + 2 * LEVELS * max(lanes - 4 * REACH, 0);
    }
    // A bit for each row of this lane on the border, and another for each in the rim: asked in every exchange.
    __device__ unsigned rows(const Place& place) const {
        unsigned bits = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) bits |= border(r, place) << r | rim(r, place) << (r + ROWS);
        return bits;
    }
};
