// Iterations of TGV of order 1 or 2 with L1 on a tile that stays in registers.
//
// A block holds a tile of 64 columns: every lane of a warp owns 2 columns of ROWS rows, warps are stacked downwards.
// Neighbours to the side come by shuffle, above and below by shared memory. A pixel needs its neighbours at distance one
// per iteration, so a rim of LEVELS pixels that is wrong after LEVELS iterations keeps the inner tile right. Then
//   EXCHANGE = 0: the inner tile is stored (images larger than the chip; one launch runs LEVELS iterations);
//   EXCHANGE = 1: all tiles run at once, send their border to one another, and go on without leaving the chip.
//
// The prox of the L1 term, max_j min(d_(j+1), f + w (S - 2 C_j)), is the value at the j where two monotone sequences cross.
// That j seldom moves from one iteration to the next: each pixel keeps the two observations around it (low, high) and the
// slope S - 2 C_j, checks that the crossing is still there, and looks at its observations again only when it is not.

#define FULL 0xffffffffu
#define PAIRS 32  // pairs of columns in a tile: one per lane
#define REACH (LEVELS / 2)  // lanes of a rim
#define PARTS (ORDER == 2 ? 6 : 2)  // packets of three values that carry a pair of pixels
#define INFINITE __int_as_float(0x7f800000)

struct Scalars {
    float tau_x, tau_v, sigma_q, sigma_r, alpha_1, alpha_2, relaxation, step, keep, pull;
};

struct Sizes {
    int views, height, width, tile_rows, tile_columns, count;  // a tile without its rim; count of iterations
};

// emulate: packets
// Three values and the number of their round, in one indivisible access: whoever sees the number has the values.
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
// end packets

// The state of a lane's pixels: x, v and q, r, each [row][column of the pair].
struct Pixels {
    float x[ROWS][2], v1[ROWS][2], v2[ROWS][2];
    float q1[ROWS][2], q2[ROWS][2], r1[ROWS][2], r2[ROWS][2], r3[ROWS][2];
};

// Where the prox of each pixel was found: slope S - 2 C_j and j (a byte per row); weight is the step times lam.
struct Crossing {
    float slope[ROWS][2], weight[ROWS][2];
    unsigned rank[2];
};

// Rows that warps show one another: [slot][lane]; slot w is the top row of warp w, or the bottom row of warp w - 1.
struct Borders {
    float2 q2[WARPS + 1][PAIRS], r2[WARPS + 1][PAIRS], r3[WARPS + 1][PAIRS];
    float2 x[WARPS + 1][PAIRS], v1[WARPS + 1][PAIRS], v2[WARPS + 1][PAIRS];
};

struct Shared {
    Borders borders;
    float4 around[ROWS * WARPS][PAIRS];  // the observations below the crossing of both columns, then those above
#if EDGE
    float2 edge[ROWS * WARPS][PAIRS];
#endif
#if ANCHOR
    float2 anchor[ROWS * WARPS][PAIRS];
#endif
#if WEIGHTED
    float4 next_slopes[ROWS * WARPS][PAIRS];  // S - 2 C_(j+1) of both columns, then S - 2 C_(j-1)
#endif
#if EXCHANGE
    int address[PARTS * (2 * LEVELS * PAIRS + 2 * REACH * ROWS * WARPS)];
    float4 arrived[PARTS * (2 * LEVELS * PAIRS + 2 * REACH * ROWS * WARPS)];
#endif
};

struct Place {
    int height, width, row, column;  // of the image; of this lane's first pixel

    __device__ bool inside(int r, int c) const {
        return row + r >= 0 && row + r < height && column + c >= 0 && column + c < width;
    }
    __device__ size_t pixel(int r, int c) const { return (size_t)(row + r) * width + (column + c); }
};

// A pair of pixels: read from inside the image in any case, so that no load waits for another behind a branch.
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

// Find the crossing of every pixel near its x, reading each observation once.
__device__ __forceinline__ void find_crossings(
    const float* __restrict__ values, const float* __restrict__ weights, const float* __restrict__ total,
    const Place& place, int views, const Pixels& is, Crossing& at, Shared& shared, int warp, int lane
) {
    const size_t plane = (size_t)place.height * place.width;
    float after[ROWS][2], before[ROWS][2], low[ROWS][2], high[ROWS][2];
    at.rank[0] = at.rank[1] = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        load(total, place, r, 0.f, at.slope[r]);
        for (int c = 0; c < 2; c++) {
            low[r][c] = -INFINITE;
            high[r][c] = INFINITE;
            before[r][c] = after[r][c] = at.slope[r][c];
        }
    }
#pragma unroll 2
    for (int k = 0; k < views; k++) {
        float value[ROWS][2], twice[ROWS][2];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            load(values + k * plane, place, r, INFINITE, value[r]);
            twice[r][0] = twice[r][1] = 1.f;
            if (WEIGHTED) load(weights + k * plane, place, r, 0.f, twice[r]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const float next = fmaf(-2.f, twice[r][c], at.slope[r][c]);
                if (value[r][c] <= is.x[r][c]) {
                    before[r][c] = at.slope[r][c];
                    at.slope[r][c] = after[r][c] = next;
                    low[r][c] = value[r][c];
                    at.rank[c] += 1u << 8 * r;
                } else if (value[r][c] < high[r][c]) {
                    high[r][c] = value[r][c];
                    after[r][c] = next;
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        shared.around[warp * ROWS + r][lane] = make_float4(low[r][0], low[r][1], high[r][0], high[r][1]);
#if WEIGHTED
        shared.next_slopes[warp * ROWS + r][lane] = make_float4(after[r][0], after[r][1], before[r][0], before[r][1]);
#endif
    }
}

// Follow the crossing of one pixel to where the centre f of its prox puts it.
__device__ __forceinline__ void follow(
    const float* __restrict__ values, const float* __restrict__ weights, size_t plane, int views, float f, float w,
    float& slope, float& low, float& high, unsigned& j, float& after, float& before
) {
    while (fmaf(w, after, f) > high) {
        before = slope;
        slope = after;
        low = high;
        j++;
        high = j < views ? __ldg(values + j * plane) : INFINITE;
        after = slope - (WEIGHTED ? (j < views ? 2.f * __ldg(weights + j * plane) : 0.f) : 2.f);
    }
    while (fmaf(w, before, f) < low) {
        after = slope;
        slope = before;
        high = low;
        j--;
        low = j > 0 ? __ldg(values + (j - 1) * plane) : -INFINITE;
        before = slope + (WEIGHTED ? (j > 0 ? 2.f * __ldg(weights + (j - 1) * plane) : 0.f) : 2.f);
    }
}

// The prox of every x where its crossing was last; says whether some crossing has strayed. FOLLOW goes after those.
template <bool FOLLOW>
__device__ __forceinline__ bool primal_x(
    const Pixels& is, Crossing& at, float (&x)[ROWS][2], const float* __restrict__ values, const float* __restrict__ weights,
    const Place& place, int views, Shared& shared, const Scalars& s, int warp, int lane
) {
    const float2 q2_above = shared.borders.q2[warp][lane];
    bool strayed = false;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float q1_left = __shfl_up_sync(FULL, is.q1[r][1], 1);
        const float4 around = shared.around[warp * ROWS + r][lane];
#if ANCHOR
        const float2 held = shared.anchor[warp * ROWS + r][lane];
#endif
#if WEIGHTED
        const float4 next = shared.next_slopes[warp * ROWS + r][lane];
#endif
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const float q2_up = r ? is.q2[r ? r - 1 : 0][c] : (c ? q2_above.y : q2_above.x);
            const float flow = (is.q1[r][c] - (c ? is.q1[r][0] : q1_left)) + (is.q2[r][c] - q2_up);
            float f = fmaf(s.tau_x, flow, is.x[r][c]);
#if ANCHOR
            f = fmaf(s.keep, f, c ? held.y : held.x);
#endif
            const float w = at.weight[r][c];
            float low = c ? around.y : around.x, high = c ? around.w : around.z;
#if WEIGHTED
            float after = c ? next.y : next.x, before = c ? next.w : next.z;
#else
            float after = at.slope[r][c] - 2.f, before = at.slope[r][c] + 2.f;
#endif
            const bool here = fmaf(w, after, f) > high || fmaf(w, before, f) < low;
            if (FOLLOW && here) {
                const size_t pixel = place.pixel(r, c);
                unsigned j = at.rank[c] >> 8 * r & 255;
                at.rank[c] -= j << 8 * r;
                follow(values + pixel, weights + pixel, (size_t)place.height * place.width, views, f, w, at.slope[r][c],
                       low, high, j, after, before);
                at.rank[c] += j << 8 * r;
                float* kept = (float*)&shared.around[warp * ROWS + r][lane] + c;
                kept[0] = low;
                kept[2] = high;
#if WEIGHTED
                kept = (float*)&shared.next_slopes[warp * ROWS + r][lane] + c;
                kept[0] = after;
                kept[2] = before;
#endif
            }
            strayed |= here;
            x[r][c] = fminf(fmaxf(fmaf(w, at.slope[r][c], f), low), high);
        }
    }
    return strayed;
}

// One pixel's dual step: p + sigma d brought into its ball, then over-relaxed.
template <int COUNT>
__device__ __forceinline__ void dual_step(float** p, const float* d, float sigma, float limit, float relaxation) {
    float moved[COUNT], square = 0.f;
#pragma unroll
    for (int m = 0; m < COUNT; m++) {
        moved[m] = fmaf(sigma, d[m], *p[m]);
        square = fmaf(moved[m], moved[m], square);
    }
    const float shrunk = relaxation * fminf(1.f, limit * rsqrtf(square));
#pragma unroll
    for (int m = 0; m < COUNT; m++) *p[m] = fmaf(shrunk, moved[m], (1.f - relaxation) * *p[m]);
}

// The dual pass; only tiles at a border of the domain need to know which differences exist.
template <bool BOUNDED>
__device__ __forceinline__ void dual_pass(
    Pixels& is, const float (&x)[ROWS][2], const float (&v1)[ROWS][2], const float (&v2)[ROWS][2],
    const unsigned* links, const Shared& shared, const Scalars& s, int warp, int lane
) {
    const float half_root = 0.70710678118654752f;
    const float2 x_below = shared.borders.x[warp + 1][lane];
#if ORDER == 2
    const float2 v1_above = shared.borders.v1[warp][lane], v2_above = shared.borders.v2[warp][lane];
#endif
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float x_right = __shfl_down_sync(FULL, x[r][0], 1);
#if ORDER == 2
        const float v1_left = __shfl_up_sync(FULL, v1[r][1], 1), v2_left = __shfl_up_sync(FULL, v2[r][1], 1);
#endif
#if EDGE
        const float2 edge = shared.edge[warp * ROWS + r][lane];
#endif
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const unsigned bits = links[c] >> 5 * r;
            float d[3];
            d[0] = (c ? x_right : x[r][1]) - x[r][c];
            d[1] = (r < ROWS - 1 ? x[r < ROWS - 1 ? r + 1 : r][c] : (c ? x_below.y : x_below.x)) - x[r][c];
#if ORDER == 2
            d[0] -= v1[r][c];
            d[1] -= v2[r][c];
#endif
            if (BOUNDED) {
                d[0] = bits & 1 ? d[0] : 0.f;
                d[1] = bits & 2 ? d[1] : 0.f;
            }
            float* q[] = {&is.q1[r][c], &is.q2[r][c]};
#if EDGE
            dual_step<2>(q, d, s.sigma_q, s.alpha_1 * (c ? edge.y : edge.x), s.relaxation);
#else
            dual_step<2>(q, d, s.sigma_q, s.alpha_1, s.relaxation);
#endif
#if ORDER == 2
            const float v1_up = r ? v1[r ? r - 1 : 0][c] : (c ? v1_above.y : v1_above.x);
            const float v2_up = r ? v2[r ? r - 1 : 0][c] : (c ? v2_above.y : v2_above.x);
            d[0] = v1[r][c] - (c ? v1[r][0] : v1_left);
            d[1] = half_root * ((v2[r][c] - (c ? v2[r][0] : v2_left)) + (v1[r][c] - v1_up));
            d[2] = v2[r][c] - v2_up;
            if (BOUNDED) {
                d[0] = bits & 4 ? d[0] : 0.f;
                d[1] = bits & 8 ? d[1] : 0.f;
                d[2] = bits & 16 ? d[2] : 0.f;
            }
            float* p[] = {&is.r1[r][c], &is.r2[r][c], &is.r3[r][c]};
            dual_step<3>(p, d, s.sigma_r, s.alpha_2, s.relaxation);
#endif
        }
    }
}

__device__ __forceinline__ void show_dual(const Pixels& is, Shared& shared, int warp, int lane) {
    shared.borders.q2[warp + 1][lane] = make_float2(is.q2[ROWS - 1][0], is.q2[ROWS - 1][1]);
#if ORDER == 2
    shared.borders.r2[warp][lane] = make_float2(is.r2[0][0], is.r2[0][1]);
    shared.borders.r3[warp][lane] = make_float2(is.r3[0][0], is.r3[0][1]);
#endif
}

#if EXCHANGE
// The pairs of a tile's rim, in one row of numbers: the rows above, the rows below, then both sides row by row.
__device__ __forceinline__ int rim_index(int row, int lane, int tile_rows, int lanes) {
    if (row < LEVELS) return row * lanes + lane;
    if (row >= LEVELS + tile_rows) return (row - tile_rows) * lanes + lane;
    return 2 * LEVELS * lanes + (row - LEVELS) * 2 * REACH + (lane < REACH ? lane : lane - lanes + 2 * REACH);
}

__device__ void find_addresses(Shared& shared, int packets, int tile_rows, int lanes, int height, int width) {
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
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        shared.address[k] = inside ? (row * ((width + 1) / 2) + column / 2) * PARTS + (k - pair * PARTS) : -1;
    }
}

__device__ __forceinline__ void send(const Pixels& is, int r, float4* to, unsigned round) {
    const float stamp = __uint_as_float(round);
    send_packet(to + 0, make_float4(is.x[r][0], is.x[r][1], is.q1[r][0], stamp));
    send_packet(to + 1, make_float4(is.q1[r][1], is.q2[r][0], is.q2[r][1], stamp));
#if ORDER == 2
    send_packet(to + 2, make_float4(is.v1[r][0], is.v1[r][1], is.v2[r][0], stamp));
    send_packet(to + 3, make_float4(is.v2[r][1], is.r1[r][0], is.r1[r][1], stamp));
    send_packet(to + 4, make_float4(is.r2[r][0], is.r2[r][1], is.r3[r][0], stamp));
    send_packet(to + 5, make_float4(is.r3[r][1], 0.f, 0.f, stamp));
#endif
}

__device__ __forceinline__ void take(Pixels& is, int r, const float4* from) {
    float4 packet = from[0];
    is.x[r][0] = packet.x, is.x[r][1] = packet.y, is.q1[r][0] = packet.z;
    packet = from[1];
    is.q1[r][1] = packet.x, is.q2[r][0] = packet.y, is.q2[r][1] = packet.z;
#if ORDER == 2
    packet = from[2];
    is.v1[r][0] = packet.x, is.v1[r][1] = packet.y, is.v2[r][0] = packet.z;
    packet = from[3];
    is.v2[r][1] = packet.x, is.r1[r][0] = packet.y, is.r1[r][1] = packet.z;
    packet = from[4];
    is.r2[r][0] = packet.x, is.r2[r][1] = packet.y, is.r3[r][0] = packet.z;
    is.r3[r][1] = from[5].x;
#endif
}

// Give the neighbours our border, take theirs as our rim. Two mailboxes in turn are enough: a neighbour that has sent
// round n has read round n - 1 of everybody around it.
__device__ __forceinline__ void exchange(
    Pixels& is, const Place& place, Shared& shared, float4* mailbox, unsigned round, int tile_rows, int lanes,
    int packets, int warp, int lane
) {
    const size_t pairs = (size_t)place.height * ((place.width + 1) / 2);
    float4* box = mailbox + (round & 1) * pairs * PARTS;
    const bool mine = lane >= REACH && lane < lanes - REACH;
    const bool beside = lane < 2 * REACH || lane >= lanes - 2 * REACH;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = warp * ROWS + r;
        if (mine && row >= LEVELS && row < LEVELS + tile_rows && place.inside(r, 0) &&
            (beside || row < 2 * LEVELS || row >= tile_rows))
            send(is, r, box + ((size_t)(place.row + r) * ((place.width + 1) / 2) + place.column / 2) * PARTS, round);
    }
    const int BATCH = 4;  // accesses in flight per thread
    for (int first = threadIdx.x; first < packets; first += BATCH * blockDim.x) {
        float4 packet[BATCH];
        int address[BATCH];
        bool waiting = false;
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int k = first + b * blockDim.x;
            address[b] = k < packets ? shared.address[k] : -1;
            packet[b].w = __uint_as_float(address[b] < 0 ? round : ~round);
            waiting |= address[b] >= 0;
        }
        while (waiting) {  // ask for all that is missing at once: a question takes as long as an iteration
            waiting = false;
#pragma unroll
            for (int b = 0; b < BATCH; b++)
                if (__float_as_uint(packet[b].w) != round) packet[b] = receive_packet(box + address[b]);
#pragma unroll
            for (int b = 0; b < BATCH; b++) waiting |= __float_as_uint(packet[b].w) != round;
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) if (address[b] >= 0) shared.arrived[first + b * blockDim.x] = packet[b];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = warp * ROWS + r;
        const bool rim = row < LEVELS || row >= LEVELS + tile_rows || !mine;
        if (rim && row < 2 * LEVELS + tile_rows && lane < lanes && place.inside(r, 0))
            take(is, r, shared.arrived + rim_index(row, lane, tile_rows, lanes) * PARTS);
    }
}
#endif

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) sweep(
    const float* __restrict__ primal, const float* __restrict__ dual, float* __restrict__ primal_out,
    float* __restrict__ dual_out, const float* __restrict__ values, const float* __restrict__ weights,
    const float* __restrict__ total, const float* __restrict__ confidence, const unsigned short* __restrict__ links,
    const float* __restrict__ edge, const float* __restrict__ anchor, float4* mailbox, unsigned round, Scalars s,
    Sizes sizes
) {
    const int views = sizes.views, height = sizes.height, width = sizes.width, count = sizes.count;
    const int tile_rows = sizes.tile_rows, tile_columns = sizes.tile_columns;
    extern __shared__ __align__(16) char memory[];
    Shared& shared = *(Shared*)memory;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const size_t plane = (size_t)height * width;
    const Place place = {height, width, (int)blockIdx.y * tile_rows - LEVELS + warp * ROWS,
                         (int)blockIdx.x * tile_columns - LEVELS + 2 * lane};
    for (int k = threadIdx.x; k < sizeof(Borders) / 4; k += blockDim.x) ((float*)&shared.borders)[k] = 0.f;

    Pixels is;
    Crossing at;
    unsigned exist[2] = {0, 0};
    bool all_exist = true;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        load(primal, place, r, 0.f, is.x[r]);
        load(dual, place, r, 0.f, is.q1[r]);
        load(dual + plane, place, r, 0.f, is.q2[r]);
#if ORDER == 2
        load(primal + plane, place, r, 0.f, is.v1[r]);
        load(primal + 2 * plane, place, r, 0.f, is.v2[r]);
        load(dual + 2 * plane, place, r, 0.f, is.r1[r]);
        load(dual + 3 * plane, place, r, 0.f, is.r2[r]);
        load(dual + 4 * plane, place, r, 0.f, is.r3[r]);
#endif
        load(confidence, place, r, 0.f, at.weight[r]);
        for (int c = 0; c < 2; c++) {
            at.weight[r][c] *= s.step;
            const unsigned bits = place.inside(r, c) ? __ldg(links + place.pixel(r, c)) & (ORDER == 2 ? 31 : 3) : 0;
            exist[c] |= bits << 5 * r;
            all_exist = all_exist && bits == (ORDER == 2 ? 31 : 3);
        }
#if EDGE
        float pair[2];
        load(edge, place, r, 1.f, pair);
        shared.edge[warp * ROWS + r][lane] = make_float2(pair[0], pair[1]);
#endif
#if ANCHOR
        float held[2];
        load(anchor, place, r, 0.f, held);
        shared.anchor[warp * ROWS + r][lane] = make_float2(s.pull * held[0], s.pull * held[1]);
#endif
    }
    const bool bounded = !__all_sync(FULL, all_exist);
    find_crossings(values, weights, total, place, views, is, at, shared, warp, lane);
    const int lanes = tile_columns / 2 + 2 * REACH;
#if EXCHANGE
    const int packets = PARTS * (2 * LEVELS * lanes + 2 * REACH * tile_rows);
    find_addresses(shared, packets, tile_rows, lanes, height, width);
#endif
    __syncthreads();
    show_dual(is, shared, warp, lane);
    __syncthreads();

    const float half_root = 0.70710678118654752f;
    for (int done = 0;;) {
        float x[ROWS][2], v1[ROWS][2], v2[ROWS][2];  // the extrapolated primal; x first as the prox has it
        const bool strayed = primal_x<false>(is, at, x, values, weights, place, views, shared, s, warp, lane);
        if (__any_sync(FULL, strayed)) primal_x<true>(is, at, x, values, weights, place, views, shared, s, warp, lane);
#if ORDER == 2
        const float2 r2_below = shared.borders.r2[warp + 1][lane], r3_below = shared.borders.r3[warp + 1][lane];
#endif
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#if ORDER == 2
            const float r1_right = __shfl_down_sync(FULL, is.r1[r][0], 1);
            const float r2_right = __shfl_down_sync(FULL, is.r2[r][0], 1);
#endif
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const float moved = x[r][c], old = is.x[r][c];
                x[r][c] = fmaf(2.f, moved, -old);
                is.x[r][c] = fmaf(s.relaxation, moved - old, old);
#if ORDER == 2
                const int below = r < ROWS - 1 ? r + 1 : r;
                const float r2_down = r < ROWS - 1 ? is.r2[below][c] : (c ? r2_below.y : r2_below.x);
                const float r3_down = r < ROWS - 1 ? is.r3[below][c] : (c ? r3_below.y : r3_below.x);
                const float push_1 = fmaf(-half_root, is.r2[r][c] - r2_down,
                                          (is.q1[r][c] - is.r1[r][c]) + (c ? r1_right : is.r1[r][1]));
                const float push_2 = fmaf(-half_root, is.r2[r][c] - (c ? r2_right : is.r2[r][1]),
                                          (is.q2[r][c] - is.r3[r][c]) + r3_down);
                v1[r][c] = fmaf(2.f * s.tau_v, push_1, is.v1[r][c]);
                v2[r][c] = fmaf(2.f * s.tau_v, push_2, is.v2[r][c]);
                is.v1[r][c] = fmaf(s.relaxation * s.tau_v, push_1, is.v1[r][c]);
                is.v2[r][c] = fmaf(s.relaxation * s.tau_v, push_2, is.v2[r][c]);
#endif
            }
        }
        shared.borders.x[warp][lane] = make_float2(x[0][0], x[0][1]);
#if ORDER == 2
        shared.borders.v1[warp + 1][lane] = make_float2(v1[ROWS - 1][0], v1[ROWS - 1][1]);
        shared.borders.v2[warp + 1][lane] = make_float2(v2[ROWS - 1][0], v2[ROWS - 1][1]);
#endif
        __syncthreads();
        if (bounded) dual_pass<true>(is, x, v1, v2, exist, shared, s, warp, lane);
        else dual_pass<false>(is, x, v1, v2, exist, shared, s, warp, lane);
        if (++done == count) break;
#if EXCHANGE
        if (done % LEVELS == 0) exchange(is, place, shared, mailbox, round++, tile_rows, lanes, packets, warp, lane);
#endif
        show_dual(is, shared, warp, lane);
        __syncthreads();
    }

    if (lane < REACH || lane >= lanes - REACH) return;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = warp * ROWS + r;
        if (row < LEVELS || row >= LEVELS + tile_rows) continue;
        store(primal_out, place, r, is.x[r]);
        store(dual_out, place, r, is.q1[r]);
        store(dual_out + plane, place, r, is.q2[r]);
#if ORDER == 2
        store(primal_out + plane, place, r, is.v1[r]);
        store(primal_out + 2 * plane, place, r, is.v2[r]);
        store(dual_out + 2 * plane, place, r, is.r1[r]);
        store(dual_out + 3 * plane, place, r, is.r2[r]);
        store(dual_out + 4 * plane, place, r, is.r3[r]);
#endif
    }
}
