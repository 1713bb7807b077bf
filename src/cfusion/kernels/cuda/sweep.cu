// Iterations of TGV of order 1 or 2 with L1 on a tile that stays in registers (tile.cuh); one iteration depends on
// pixels one away.
//   EXCHANGE = 0: the tile is stored after at most LEVELS iterations (images larger than the chip);
//   EXCHANGE = 1: all tiles run at once, exchange their rims (halos) every LEVELS iterations, and stay on the chip.
//
// The prox of the L1 term, max_j min(d_(j+1), f + w (S - 2 C_j)), is the value at the j where two monotone sequences
// cross. That j seldom changes between iterations: each pixel keeps the two observations around it (low, high) and the
// slope S - 2 C_j, checks that the crossing is still there, and reads its observations again only if it is not.
//
// SHELVED = 1 (order 2): r is in shared memory, which leaves registers for half as many pixels more.

struct Scalars {
    float tau_x, tau_v, sigma_q, sigma_r, alpha_1, alpha_2, relaxation, step, keep, pull;
};

struct Sizes {
    int views, height, width, tile_rows, tile_columns, count;  // a tile without its rim; count of iterations
};

// The state of a lane's pixels: x, v and q, r, each [row][column of the pair].
struct Pixels {
    float x[ROWS][2], v1[ROWS][2], v2[ROWS][2], q1[ROWS][2], q2[ROWS][2];
#if !SHELVED
    float r1[ROWS][2], r2[ROWS][2], r3[ROWS][2];
#endif
};

// r of one pair of pixels.
struct Pair {
    float r1[2], r2[2], r3[2];
};

// The number of observations below each pixel's crossing: a byte per row, for both columns.
typedef unsigned Ranks[2][(ROWS + 3) / 4];

// Rows that warps share: [slot][lane]; slot w is the top row of warp w, or the bottom row of warp w - 1.
struct Borders {
    float2 q2[WARPS + 1][PAIRS], x[WARPS + 1][PAIRS], v1[WARPS + 1][PAIRS], v2[WARPS + 1][PAIRS];
#if SHELVED
    float2 shelf[3][ROWS * WARPS + 1][PAIRS];  // all of r; nothing is below the last row
#else
    float2 r2[WARPS + 1][PAIRS], r3[WARPS + 1][PAIRS];
#endif
};

struct Shared {
    Borders borders;
    float4 around[ROWS * WARPS][PAIRS];  // low and high of both columns' crossings
    float4 slopes[ROWS * WARPS][PAIRS];  // slope and weight of both
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
    Mail mail;
#endif
};

#if ORDER == 2
// Row r of this lane's r; ROWS is the first row of the warp below, whose r1 is not needed.
__device__ __forceinline__ Pair look_up(const Pixels& is, const Shared& shared, int r, int warp, int lane) {
    Pair pair;
#if SHELVED
    const int row = warp * ROWS + r;
    const float2 r1 = shared.borders.shelf[0][row][lane], r2 = shared.borders.shelf[1][row][lane];
    const float2 r3 = shared.borders.shelf[2][row][lane];
#else
    if (r < ROWS) {
        for (int c = 0; c < 2; c++) {
            pair.r1[c] = is.r1[r][c];
            pair.r2[c] = is.r2[r][c];
            pair.r3[c] = is.r3[r][c];
        }
        return pair;
    }
    const float2 r1 = make_float2(0.f, 0.f), r2 = shared.borders.r2[warp + 1][lane], r3 = shared.borders.r3[warp + 1][lane];
#endif
    pair.r1[0] = r1.x, pair.r1[1] = r1.y;
    pair.r2[0] = r2.x, pair.r2[1] = r2.y;
    pair.r3[0] = r3.x, pair.r3[1] = r3.y;
    return pair;
}

__device__ __forceinline__ void put_back(Pixels& is, Shared& shared, const Pair& pair, int r, int warp, int lane) {
#if SHELVED
    const int row = warp * ROWS + r;
    shared.borders.shelf[0][row][lane] = make_float2(pair.r1[0], pair.r1[1]);
    shared.borders.shelf[1][row][lane] = make_float2(pair.r2[0], pair.r2[1]);
    shared.borders.shelf[2][row][lane] = make_float2(pair.r3[0], pair.r3[1]);
#else
    for (int c = 0; c < 2; c++) {
        is.r1[r][c] = pair.r1[c];
        is.r2[r][c] = pair.r2[c];
        is.r3[r][c] = pair.r3[c];
    }
#endif
}
#endif

// Find the crossing of every pixel near its x, reading each observation once; j is stored in its byte of `rank`.
// Without branches, and several observations of all rows at a time: so many loads are under way.
__device__ __forceinline__ void find_crossings(
    const float* __restrict__ values, const float* __restrict__ weights, const float* __restrict__ total,
    const float* __restrict__ confidence, const Place& place, int views, const Pixels& is, float step, Ranks& rank,
    Shared& shared, int warp, int lane
) {
    const int at_once = SHELVED ? 2 : 4;
    const size_t plane = (size_t)place.height * place.width;
    float slope[ROWS][2], after[ROWS][2], before[ROWS][2], low[ROWS][2], high[ROWS][2];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        load(total, place, r, 0.f, slope[r]);
        for (int c = 0; c < 2; c++) {
            low[r][c] = -INFINITE;
            high[r][c] = INFINITE;
            before[r][c] = after[r][c] = slope[r][c];
        }
    }
    for (int first = 0; first < views; first += at_once) {
        float value[at_once][ROWS][2], weight[at_once][ROWS][2];
#pragma unroll
        for (int k = 0; k < at_once; k++) {
            const size_t start = min(first + k, views - 1) * plane;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                load(values + start, place, r, INFINITE, value[k][r]);
                weight[k][r][0] = weight[k][r][1] = 1.f;
                if (WEIGHTED) load(weights + start, place, r, 0.f, weight[k][r]);
            }
        }
#pragma unroll
        for (int k = 0; k < at_once; k++) {
            const bool known = first + k < views;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const float next = fmaf(-2.f, weight[k][r][c], slope[r][c]), d = value[k][r][c];
                    const bool below = known && d <= is.x[r][c], above = known && !below && d < high[r][c];
                    before[r][c] = below ? slope[r][c] : before[r][c];
                    slope[r][c] = below ? next : slope[r][c];
                    after[r][c] = below || above ? next : after[r][c];
                    low[r][c] = below ? d : low[r][c];
                    high[r][c] = above ? d : high[r][c];
                    rank[c][r / 4] += below ? 1u << 8 * (r % 4) : 0u;
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float lam[2];
        load(confidence, place, r, 0.f, lam);
        shared.around[warp * ROWS + r][lane] = make_float4(low[r][0], low[r][1], high[r][0], high[r][1]);
        shared.slopes[warp * ROWS + r][lane] = make_float4(slope[r][0], slope[r][1], step * lam[0], step * lam[1]);
#if WEIGHTED
        shared.next_slopes[warp * ROWS + r][lane] = make_float4(after[r][0], after[r][1], before[r][0], before[r][1]);
#endif
    }
}

// Follow the crossing of one pixel to the position given by the centre f of its prox.
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

// The prox of every x at its last crossing; returns whether a crossing has moved. FOLLOW updates those.
template <bool FOLLOW>
__device__ __forceinline__ bool primal_x(
    const Pixels& is, Ranks& rank, float (&x)[ROWS][2], const float* __restrict__ values, const float* __restrict__ weights,
    const Place& place, int views, Shared& shared, const Scalars& s, int warp, int lane
) {
    const float2 q2_above = shared.borders.q2[warp][lane];
    bool strayed = false;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float q1_left = __shfl_up_sync(FULL, is.q1[r][1], 1);
        const float4 around = shared.around[warp * ROWS + r][lane], slopes = shared.slopes[warp * ROWS + r][lane];
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
            const float w = c ? slopes.w : slopes.z;
            float slope = c ? slopes.y : slopes.x;
            float low = c ? around.y : around.x, high = c ? around.w : around.z;
#if WEIGHTED
            float after = c ? next.y : next.x, before = c ? next.w : next.z;
#else
            float after = slope - 2.f, before = slope + 2.f;
#endif
            const bool here = fmaf(w, after, f) > high || fmaf(w, before, f) < low;
            if (FOLLOW && here) {
                const size_t pixel = place.pixel(r, c);
                unsigned j = rank[c][r / 4] >> 8 * (r % 4) & 255;
                rank[c][r / 4] -= j << 8 * (r % 4);
                follow(values + pixel, weights + pixel, (size_t)place.height * place.width, views, f, w, slope,
                       low, high, j, after, before);
                rank[c][r / 4] += j << 8 * (r % 4);
                float* kept = (float*)&shared.around[warp * ROWS + r][lane] + c;
                kept[0] = low;
                kept[2] = high;
                ((float*)&shared.slopes[warp * ROWS + r][lane])[c] = slope;
#if WEIGHTED
                kept = (float*)&shared.next_slopes[warp * ROWS + r][lane] + c;
                kept[0] = after;
                kept[2] = before;
#endif
            }
            strayed |= here;
            x[r][c] = fminf(fmaxf(fmaf(w, slope, f), low), high);
        }
    }
    return strayed;
}

// One pixel's dual step: p + sigma d projected into its ball, then over-relaxed.
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

// The dual pass; only tiles at a border of the domain test which differences exist.
template <bool BOUNDED>
__device__ __forceinline__ void dual_pass(
    Pixels& is, const float (&x)[ROWS][2], const float (&v1)[ROWS][2], const float (&v2)[ROWS][2],
    const unsigned* links, Shared& shared, const Scalars& s, int warp, int lane
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
        Pair pair = look_up(is, shared, r, warp, lane);
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
            float* p[] = {&pair.r1[c], &pair.r2[c], &pair.r3[c]};
            dual_step<3>(p, d, s.sigma_r, s.alpha_2, s.relaxation);
#endif
        }
#if ORDER == 2
        put_back(is, shared, pair, r, warp, lane);
#endif
    }
}

__device__ __forceinline__ void show_dual(const Pixels& is, Shared& shared, int warp, int lane) {
    shared.borders.q2[warp + 1][lane] = make_float2(is.q2[ROWS - 1][0], is.q2[ROWS - 1][1]);
#if ORDER == 2 && !SHELVED
    shared.borders.r2[warp][lane] = make_float2(is.r2[0][0], is.r2[0][1]);
    shared.borders.r3[warp][lane] = make_float2(is.r3[0][0], is.r3[0][1]);
#endif
}

#if EXCHANGE
__device__ __forceinline__ void put_down(const Pixels& is, Shared& shared, int r, int warp, int lane, int slot) {
    float4(&values)[KEPT][RIM] = shared.mail.sent();
    values[0][slot] = make_float4(is.x[r][0], is.x[r][1], is.q1[r][0], is.q1[r][1]);
#if ORDER == 2
    const Pair pair = look_up(is, shared, r, warp, lane);
    values[1][slot] = make_float4(is.q2[r][0], is.q2[r][1], is.v1[r][0], is.v1[r][1]);
    values[2][slot] = make_float4(is.v2[r][0], is.v2[r][1], pair.r1[0], pair.r1[1]);
    values[3][slot] = make_float4(pair.r2[0], pair.r2[1], pair.r3[0], pair.r3[1]);
#else
    values[1][slot] = make_float4(is.q2[r][0], is.q2[r][1], 0.f, 0.f);
#endif
}

__device__ __forceinline__ void take(Pixels& is, Shared& shared, int r, int warp, int lane, int slot) {
    const float4(&values)[KEPT][RIM] = shared.mail.arrived;
    const float4 a = values[0][slot], b = values[1][slot];
    is.x[r][0] = a.x, is.x[r][1] = a.y, is.q1[r][0] = a.z, is.q1[r][1] = a.w;
    is.q2[r][0] = b.x, is.q2[r][1] = b.y;
#if ORDER == 2
    const float4 c = values[2][slot], d = values[3][slot];
    is.v1[r][0] = b.z, is.v1[r][1] = b.w, is.v2[r][0] = c.x, is.v2[r][1] = c.y;
    Pair pair;
    pair.r1[0] = c.z, pair.r1[1] = c.w, pair.r2[0] = d.x, pair.r2[1] = d.y, pair.r3[0] = d.z, pair.r3[1] = d.w;
    put_back(is, shared, pair, r, warp, lane);
#endif
}

// Send our border to the neighbours, receive theirs as our rim.
__device__ __forceinline__ void exchange(
    Pixels& is, Shared& shared, const Edges& edges, unsigned rows, float4* mailbox, unsigned round, int warp, int lane
) {
    float4* box = box_of(mailbox, round);
#pragma unroll
    for (int r = 0; r < ROWS; r++) if (rows >> r & 1) put_down(is, shared, r, warp, lane, edges.sent(r));
    __syncthreads();
    post(shared.mail, box, edges.pairs(), round);
#if SHELVED
    __syncthreads();  // what arrives is stored over what was sent
#endif
    receive(shared.mail, box, round);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) if (rows >> (r + ROWS) & 1) take(is, shared, r, warp, lane, edges.slot(r));
}
#endif

// Store this tile, without its rim.
__device__ __forceinline__ void store_tile(
    const Pixels& is, const Shared& shared, const Place& place, const Edges& edges, float* primal_out, float* dual_out,
    int warp, int lane
) {
    const size_t plane = (size_t)place.height * place.width;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (!edges.mine(warp * ROWS + r)) continue;
        store(primal_out, place, r, is.x[r]);
        store(dual_out, place, r, is.q1[r]);
        store(dual_out + plane, place, r, is.q2[r]);
#if ORDER == 2
        store(primal_out + plane, place, r, is.v1[r]);
        store(primal_out + 2 * plane, place, r, is.v2[r]);
        const Pair pair = look_up(is, shared, r, warp, lane);
        store(dual_out + 2 * plane, place, r, pair.r1);
        store(dual_out + 3 * plane, place, r, pair.r2);
        store(dual_out + 4 * plane, place, r, pair.r3);
#endif
    }
}

#if SETTLE
// sum_k w_k |x - d_k| of a pair of pixels, in the order of prox.cuh, with many loads in flight.
__device__ __forceinline__ void misfits_of(
    const float* __restrict__ values, const float* __restrict__ weights, const Place& place, int r, int views,
    const float* x, float* sums
) {
    const int at_once = 4;
    const size_t plane = (size_t)place.height * place.width;
    sums[0] = sums[1] = 0.f;
    for (int first = 0; first < views; first += at_once) {
        float d[at_once][2], w[at_once][2];
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            const size_t start = min(first + j, views - 1) * plane;
            load(values + start, place, r, INFINITE, d[j]);
            w[j][0] = w[j][1] = 1.f;
            if (WEIGHTED) load(weights + start, place, r, 0.f, w[j]);
        }
#pragma unroll
        for (int j = 0; j < at_once; j++)
#pragma unroll
            for (int c = 0; c < 2; c++)
                if (first + j < views && !isinf(d[j][c])) sums[c] += w[j][c] * fabsf(x[c] - d[j][c]);
    }
}

// Squares of the displacement of a pixel's planes since the start: x, v, then q, r.
__device__ __forceinline__ void add_squares(
    const float (&now)[PLANES], const float* __restrict__ primal, const float* __restrict__ dual, size_t plane, size_t pixel,
    double* sums
) {
#pragma unroll
    for (int k = 0; k < PLANES; k++) {
        const double moved = now[k] - __ldg(k < PRIMAL ? primal + k * plane + pixel : dual + (k - PRIMAL) * plane + pixel);
        sums[k] += moved * moved;
    }
}

// The sums over this lane's pixels of the tile, whose rim has just arrived: terms of the energy as in sums.cu and, with
// `ways`, the displacement in every so many rows.
__device__ __forceinline__ void measure_tile(
    const Pixels& is, Shared& shared, Place place, Edges edges, const float* __restrict__ primal_start,
    const float* __restrict__ dual_start, const float* __restrict__ values, const float* __restrict__ weights,
    const float* __restrict__ total, const float* __restrict__ confidence, const unsigned short* __restrict__ links,
    int views, int every, bool ways, int warp, int lane, double (&sums)[FOUND]
) {
    // Otherwise addresses are computed before the iterations, which then lack those registers: a third slower.
    asm volatile("" : "+r"(place.row), "+r"(place.column), "+r"(place.width), "+r"(place.height), "+r"(warp), "+r"(lane));
    edges.warp = warp, edges.lane = lane;
    const size_t plane = (size_t)place.height * place.width;
    shared.borders.x[warp][lane] = make_float2(is.x[0][0], is.x[0][1]);
#if ORDER == 2
    shared.borders.v1[warp + 1][lane] = make_float2(is.v1[ROWS - 1][0], is.v1[ROWS - 1][1]);
    shared.borders.v2[warp + 1][lane] = make_float2(is.v2[ROWS - 1][0], is.v2[ROWS - 1][1]);
#endif
    __syncthreads();
    const float2 x_below = shared.borders.x[warp + 1][lane];
#if ORDER == 2
    const float2 v1_above = shared.borders.v1[warp][lane], v2_above = shared.borders.v2[warp][lane];
#endif
    for (int k = 0; k < FOUND; k++) sums[k] = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float x_right = __shfl_down_sync(FULL, is.x[r][0], 1);
#if ORDER == 2
        const float v1_left = __shfl_up_sync(FULL, is.v1[r][1], 1), v2_left = __shfl_up_sync(FULL, is.v2[r][1], 1);
        const Pair pair = look_up(is, shared, r, warp, lane);
#endif
        if (!edges.mine(warp * ROWS + r)) continue;
        float misfit[2], lam[2], mass[2];
        load(confidence, place, r, 0.f, lam);
        load(total, place, r, 0.f, mass);
        misfits_of(values, weights, place, r, views, is.x[r], misfit);
#pragma unroll
        for (int c = 0; c < 2; c++) {
            if (!place.inside(r, c)) continue;
            const size_t pixel = place.pixel(r, c);
            if (ways && (place.row + r) % every == 0) {
#if ORDER == 2
                const float now[] = {is.x[r][c],  is.v1[r][c], is.v2[r][c], is.q1[r][c],
                                     is.q2[r][c], pair.r1[c],  pair.r2[c],  pair.r3[c]};
#else
                const float now[] = {is.x[r][c], is.q1[r][c], is.q2[r][c]};
#endif
                add_squares(now, primal_start, dual_start, plane, pixel, sums + TERMS);
            }
            const unsigned bits = __ldg(links + pixel);
            if (!(bits & INSIDE)) continue;
            sums[2] += (double)lam[c] * misfit[c];
            sums[3] += (double)lam[c] * mass[c];
            sums[4] += 1;
            const double x = is.x[r][c];
            double d[3];
            d[0] = bits & 1 ? (c ? x_right : is.x[r][1]) - x : 0;
            d[1] = bits & 2 ? (r < ROWS - 1 ? is.x[r < ROWS - 1 ? r + 1 : r][c] : (c ? x_below.y : x_below.x)) - x : 0;
#if ORDER == 2
            const double v1 = is.v1[r][c], v2 = is.v2[r][c];
            const float v1_up = r ? is.v1[r ? r - 1 : 0][c] : (c ? v1_above.y : v1_above.x);
            const float v2_up = r ? is.v2[r ? r - 1 : 0][c] : (c ? v2_above.y : v2_above.x);
            if (bits & 1) d[0] -= v1;
            if (bits & 2) d[1] -= v2;
#endif
#if EDGE
            const float2 edge = shared.edge[warp * ROWS + r][lane];
            sums[0] += (double)(c ? edge.y : edge.x) * length(d, 2);
#else
            sums[0] += length(d, 2);
#endif
#if ORDER == 2
            d[0] = bits & 4 ? v1 - (c ? is.v1[r][0] : v1_left) : 0;
            d[1] = bits & 8 ? HALF_ROOT * ((v2 - (c ? is.v2[r][0] : v2_left)) + (v1 - v1_up)) : 0;
            d[2] = bits & 16 ? v2 - v2_up : 0;
            sums[1] += length(d, 3);
#endif
        }
    }
}
#endif

// One iteration of the tile; its rim becomes wrong by one pixel.
__device__ __forceinline__ void iterate(
    Pixels& is, Ranks& rank, const float* __restrict__ values, const float* __restrict__ weights, const Place& place,
    int views, const unsigned* exist, bool bounded, Shared& shared, const Scalars& s, int warp, int lane
) {
    const float half_root = 0.70710678118654752f;
    show_dual(is, shared, warp, lane);
    __syncthreads();
    float x[ROWS][2], v1[ROWS][2], v2[ROWS][2];  // the extrapolated primal; x first as the prox has it
    const bool strayed = primal_x<false>(is, rank, x, values, weights, place, views, shared, s, warp, lane);
    if (__any_sync(FULL, strayed)) primal_x<true>(is, rank, x, values, weights, place, views, shared, s, warp, lane);
#if ORDER == 2
    Pair here = look_up(is, shared, 0, warp, lane);
#endif
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#if ORDER == 2
        const Pair below = look_up(is, shared, r + 1, warp, lane);
        const float r1_right = __shfl_down_sync(FULL, here.r1[0], 1);
        const float r2_right = __shfl_down_sync(FULL, here.r2[0], 1);
#endif
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const float moved = x[r][c], old = is.x[r][c];
            x[r][c] = fmaf(2.f, moved, -old);
            is.x[r][c] = fmaf(s.relaxation, moved - old, old);
#if ORDER == 2
            const float push_1 = fmaf(-half_root, here.r2[c] - below.r2[c],
                                      (is.q1[r][c] - here.r1[c]) + (c ? r1_right : here.r1[1]));
            const float push_2 = fmaf(-half_root, here.r2[c] - (c ? r2_right : here.r2[1]),
                                      (is.q2[r][c] - here.r3[c]) + below.r3[c]);
            v1[r][c] = fmaf(2.f * s.tau_v, push_1, is.v1[r][c]);
            v2[r][c] = fmaf(2.f * s.tau_v, push_2, is.v2[r][c]);
            is.v1[r][c] = fmaf(s.relaxation * s.tau_v, push_1, is.v1[r][c]);
            is.v2[r][c] = fmaf(s.relaxation * s.tau_v, push_2, is.v2[r][c]);
#endif
        }
#if ORDER == 2
        here = below;
#endif
    }
    shared.borders.x[warp][lane] = make_float2(x[0][0], x[0][1]);
#if ORDER == 2
    shared.borders.v1[warp + 1][lane] = make_float2(v1[ROWS - 1][0], v1[ROWS - 1][1]);
    shared.borders.v2[warp + 1][lane] = make_float2(v2[ROWS - 1][0], v2[ROWS - 1][1]);
#endif
    __syncthreads();
    if (bounded) dual_pass<true>(is, x, v1, v2, exist, shared, s, warp, lane);
    else dual_pass<false>(is, x, v1, v2, exist, shared, s, warp, lane);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) sweep(
    const float* __restrict__ primal, const float* __restrict__ dual, float* primal_out, float* dual_out,
    const float* __restrict__ values, const float* __restrict__ weights, const float* __restrict__ total,
    const float* __restrict__ confidence, const unsigned short* __restrict__ links,
    const float* __restrict__ edge, const float* __restrict__ anchor, float4* mailbox, unsigned round, Scalars s,
    Sizes sizes
#if SETTLE
    , Plan plan, const float* primal_start, const float* dual_start, Board* board, double* parts, double* out
#endif
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
    __syncthreads();

    Pixels is;
    Ranks rank;
    for (int k = 0; k < (ROWS + 3) / 4; k++) rank[0][k] = rank[1][k] = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) load(primal, place, r, 0.f, is.x[r]);
    // before the rest is loaded, whose registers hold the observations that are under way
    find_crossings(values, weights, total, confidence, place, views, is, s.step, rank, shared, warp, lane);
    __syncthreads();
    unsigned exist[2] = {0, 0};
    bool all_exist = true;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        load(dual, place, r, 0.f, is.q1[r]);
        load(dual + plane, place, r, 0.f, is.q2[r]);
#if ORDER == 2
        load(primal + plane, place, r, 0.f, is.v1[r]);
        load(primal + 2 * plane, place, r, 0.f, is.v2[r]);
        Pair pair;
        load(dual + 2 * plane, place, r, 0.f, pair.r1);
        load(dual + 3 * plane, place, r, 0.f, pair.r2);
        load(dual + 4 * plane, place, r, 0.f, pair.r3);
        put_back(is, shared, pair, r, warp, lane);
#endif
        for (int c = 0; c < 2; c++) {
            const unsigned bits = place.inside(r, c) ? __ldg(links + place.pixel(r, c)) & (ORDER == 2 ? 31 : 3) : 0;
            exist[c] |= bits << 5 * r;
            all_exist = all_exist && bits == (ORDER == 2 ? 31 : 3);
        }
#if EDGE
        float limits[2];
        load(edge, place, r, 1.f, limits);
        shared.edge[warp * ROWS + r][lane] = make_float2(limits[0], limits[1]);
#endif
#if ANCHOR
        float held[2];
        load(anchor, place, r, 0.f, held);
        shared.anchor[warp * ROWS + r][lane] = make_float2(s.pull * held[0], s.pull * held[1]);
#endif
    }
    const bool bounded = !__all_sync(FULL, all_exist);
    const int lanes = tile_columns / 2 + 2 * REACH;
    const Edges edges = {tile_rows, lanes, warp, lane};
#if EXCHANGE
    if (threadIdx.x == 0) shared.mail.pairs = 0;
    __syncthreads();
    find_pairs(shared.mail, tile_rows, lanes, height, width);
    const unsigned rows = edges.rows(place);
#endif
    __syncthreads();

#if SETTLE
    bool ways = plan.checked < plan.checks;
    for (int done = 0; done < count;) {
        for (int k = 0; k < plan.block; k++) {
            iterate(is, rank, values, weights, place, views, exist, bounded, shared, s, warp, lane);
            if (k % LEVELS == LEVELS - 1) exchange(is, shared, edges, rows, mailbox, round++, warp, lane);
        }
        done += plan.block;
        double sums[FOUND];
        measure_tile(is, shared, place, edges, primal_start, dual_start, values, weights, total, confidence, links, views,
                     plan.every, ways, warp, lane, sums);
        if (look(sums, board, parts, out, plan, done, count, ways, *(Scratch*)shared.mail.arrived)) break;
    }
#else
    for (int done = 0; done < count; done++) {
#if EXCHANGE
        if (done && done % LEVELS == 0) exchange(is, shared, edges, rows, mailbox, round++, warp, lane);
#endif
        iterate(is, rank, values, weights, place, views, exist, bounded, shared, s, warp, lane);
    }
#endif
    store_tile(is, shared, place, edges, primal_out, dual_out, warp, lane);
}
