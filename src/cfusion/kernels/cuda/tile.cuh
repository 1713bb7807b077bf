// Code shared by kernels that keep a tile of the image in registers.
//
// A block holds a tile of 64 columns: every lane of a warp owns 2 columns of ROWS rows, warps are stacked downwards.
// Neighbours to the side are read by shuffle, above and below through shared memory. Around the tile lies a rim (halo)
// of LEVELS pixels that belongs to other tiles; values computed there become wrong from the outside in, by one pixel
// for every pixel that a step depends on, so the tile itself stays right until the rim is used up. Then the rim is
// exchanged: every tile sends its border and waits for those around it.

#define FULL 0xffffffffu
#define PAIRS 32  // pairs of columns in a tile: one per lane
#define REACH (LEVELS / 2)  // lanes of a rim
#define PACKETS (PARTS * (2 * LEVELS * PAIRS + 2 * REACH * ROWS * WARPS))  // of a rim, at most; PARTS for a pair of pixels
#define SLOT_BITS 13
#define INFINITE __int_as_float(0x7f800000)

// Three values and the number of their round, in one indivisible access: a reader that sees the number has the values.
__device__ __forceinline__ void send_packet(float4* to, float4 packet) {
    unsigned long long low = __float_as_uint(packet.x) | (unsigned long long)__float_as_uint(packet.y) << 32;
    unsigned long long high = __float_as_uint(packet.z) | (unsigned long long)__float_as_uint(packet.w) << 32;
    asm volatile("{.reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.gpu.global.b128 [%0], t;}"
                 :: "l"(to), "l"(low), "l"(high) : "memory");
}

__device__ __forceinline__ float4 receive_packet(const float4* from) {
    unsigned long long low, high;
    asm volatile("{.reg .b128 t; ld.relaxed.gpu.global.b128 t, [%2]; mov.b128 {%0, %1}, t;}"
                 : "=l"(low), "=l"(high) : "l"(from) : "memory");
    return make_float4(__uint_as_float((unsigned)low), __uint_as_float((unsigned)(low >> 32)),
                       __uint_as_float((unsigned)high), __uint_as_float((unsigned)(high >> 32)));
}

struct Place {
    int height, width, row, column;  // of the image; of this lane's first pixel

    __device__ bool inside(int r, int c) const {
        return row + r >= 0 && row + r < height && column + c >= 0 && column + c < width;
    }
    __device__ size_t pixel(int r, int c) const { return (size_t)(row + r) * width + (column + c); }
};

// A pair of pixels: always read from inside the image, so that no load waits behind a branch.
__device__ __forceinline__ void load(const float* __restrict__ plane, const Place& place, int r, float outside, float* pair) {
    const size_t line = (size_t)min(max(place.row + r, 0), place.height - 1) * place.width;
    if (!(place.width & 1)) {  // pairs are aligned, and inside the image or not as one
        const float2 both = __ldg((const float2*)(plane + line + min(max(place.column, 0), place.width - 2)));
        pair[0] = both.x;
        pair[1] = both.y;
    } else {
        for (int c = 0; c < 2; c++) pair[c] = __ldg(plane + line + min(max(place.column + c, 0), place.width - 1));
    }
    for (int c = 0; c < 2; c++) pair[c] = place.inside(r, c) ? pair[c] : outside;
}

__device__ __forceinline__ void store(float* __restrict__ plane, const Place& place, int r, const float* pair) {
    if (!(place.width & 1)) {
        if (place.inside(r, 0)) *(float2*)(plane + place.pixel(r, 0)) = make_float2(pair[0], pair[1]);
    } else {
        for (int c = 0; c < 2; c++) if (place.inside(r, c)) plane[place.pixel(r, c)] = pair[c];
    }
}

// Packets of the rim: their number, where to find them, and where they are stored on arrival.
struct Mail {
    int packets;
    unsigned place[PACKETS];  // the number of a pair of pixels in the image, and of the packet in the rim
    float4 arrived[PACKETS];

    // An image that fits on a chip has fewer pairs than 1 << 32 - SLOT_BITS.
    __device__ int slot(int k) const { return place[k] & ((1 << SLOT_BITS) - 1); }
    __device__ int address(int k) const { return (place[k] >> SLOT_BITS) * PARTS + slot(k) % PARTS; }
};
static_assert(PACKETS <= 1 << SLOT_BITS, "a packet's number takes more bits");

// The pairs of a tile's rim in one sequence: the rows above, the rows below, then both sides row by row.
__device__ __forceinline__ int rim_index(int row, int lane, int tile_rows, int lanes) {
    if (row < LEVELS) return row * lanes + lane;
    if (row >= LEVELS + tile_rows) return (row - tile_rows) * lanes + lane;
    return 2 * LEVELS * lanes + (row - LEVELS) * 2 * REACH + (lane < REACH ? lane : lane - lanes + 2 * REACH);
}

// The packets to wait for: those of pixels in the image. `mail.packets` is zero before.
__device__ void find_packets(Mail& mail, int tile_rows, int lanes, int height, int width) {
    const int packets = PARTS * (2 * LEVELS * lanes + 2 * REACH * tile_rows);
    for (int k = threadIdx.x; k < packets; k += blockDim.x) {
        const int pair = k / PARTS, band = LEVELS * lanes;
        int row, lane;
        if (pair < 2 * band) {
            row = pair / lanes;
            lane = pair - row * lanes;
            if (row >= LEVELS) row += tile_rows;
        } else {
            row = (pair - 2 * band) / (2 * REACH);
            lane = pair - 2 * band - row * 2 * REACH;
            row += LEVELS;
            if (lane >= REACH) lane += lanes - 2 * REACH;
        }
        row += blockIdx.y * tile_rows - LEVELS;
        const int column = (int)blockIdx.x * 2 * (lanes - 2 * REACH) - LEVELS + 2 * lane;
        if (row < 0 || row >= height || column < 0 || column >= width) continue;
        mail.place[atomicAdd(&mail.packets, 1)] = (row * ((width + 1) / 2) + column / 2) << SLOT_BITS | k;
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
    __device__ int slot(int r) const { return rim_index(warp * ROWS + r, lane, tile_rows, lanes) * PARTS; }
};

// Two alternating mailboxes suffice: a neighbour that has sent round n has read round n - 1 of all its neighbours.
__device__ __forceinline__ float4* box_of(float4* mailbox, unsigned round, const Place& place) {
    return mailbox + (round & 1) * (size_t)place.height * ((place.width + 1) / 2) * PARTS;
}

__device__ __forceinline__ float4* letter(float4* box, const Place& place, int r) {
    return box + ((size_t)(place.row + r) * ((place.width + 1) / 2) + place.column / 2) * PARTS;
}

// Wait for the rim's packets of this round, with all threads of the block.
__device__ __forceinline__ void receive(Mail& mail, const float4* box, unsigned round) {
    const int BATCH = 4, last = mail.packets - 1;
    for (int first = threadIdx.x; first <= last; first += BATCH * blockDim.x) {
        float4 packet[BATCH];
        bool waiting;
        do {  // ask for all of them at once, also again: one question takes half as long as an iteration
#pragma unroll
            for (int b = 0; b < BATCH; b++)
                packet[b] = receive_packet(box + mail.address(min(first + b * (int)blockDim.x, last)));
            waiting = false;
#pragma unroll
            for (int b = 0; b < BATCH; b++) waiting |= __float_as_uint(packet[b].w) != round;
        } while (waiting);
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int place = first + b * (int)blockDim.x;
            if (place <= last) mail.arrived[mail.slot(place)] = packet[b];
        }
    }
    __syncthreads();
}
