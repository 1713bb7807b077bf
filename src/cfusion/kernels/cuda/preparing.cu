// Preparation of a solve: links, values extrapolated into holes, weights by local noise. Definitions: contract.py and
// kernels/numpy/preparing.py.

typedef REAL real;

// ---- where each plane of the dual exists

struct Domain {
    const bool* inside;
    int height, width, stride;  // the last from row to row

    __device__ bool x(int i, int j) const { return i >= 0 && j >= 0 && i < height && j < width && inside[(size_t)i * stride + j]; }
    __device__ bool v1(int i, int j) const { return x(i, j) && x(i, j + 1); }
    __device__ bool v2(int i, int j) const { return x(i, j) && x(i + 1, j); }
    __device__ bool w1(int i, int j) const { return v1(i, j) && v1(i, j - 1); }
    __device__ bool w2(int i, int j) const { return v2(i, j) && v2(i, j - 1) && v1(i, j) && v1(i - 1, j); }
    __device__ bool w3(int i, int j) const { return v2(i, j) && v2(i - 1, j); }
};

extern "C" __global__ void __launch_bounds__(256) link_pixels(
    const bool* __restrict__ inside, int height, int width, int stride, unsigned short* __restrict__ links
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const Domain at = {inside, height, width, stride};
    unsigned bits = at.x(i, j) << 9;
    bits |= at.v1(i, j) | at.v2(i, j) << 1;
    bits |= at.w1(i, j) << 2 | at.w2(i, j) << 3 | at.w3(i, j) << 4;
    bits |= (at.w1(i, j) && at.w1(i, j + 1)) << 5;
    bits |= (at.w2(i, j) && at.w2(i, j + 1) && at.w1(i, j) && at.w1(i + 1, j)) << 6;
    bits |= (at.w3(i, j) && at.w3(i, j + 1) && at.w2(i, j) && at.w2(i + 1, j)) << 7;
    bits |= (at.w3(i, j) && at.w3(i + 1, j)) << 8;
    links[(size_t)i * width + j] = bits;
}

// ---- the observations of a stack, and the extent of a domain

// Counts, and whether there are any; sums: pixels and weights, then the least row, minus the largest, columns, and
// depth, and minus the largest count.
extern "C" __global__ void __launch_bounds__(256) tally(
    const float* __restrict__ depths, const float* __restrict__ weights, int views, unsigned pixels, unsigned width,
    int* __restrict__ counts, bool* __restrict__ observed, Desk desk
) {
    double found[8];
    for (int k = 0; k < 8; k++) found[k] = SumsAndEnds<2>::neutral(k);
    for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < pixels; p += gridDim.x * blockDim.x) {
        int count = 0;
        float least = __int_as_float(0x7f800000);
        for (int k = 0; k < views; k++) {
            const size_t at = (size_t)k * pixels + p;
            const float depth = depths[at];
            const float weight = weights ? weights[at] : !isnan(depth);
            count += weight > 0;
            found[1] += weight;
            if (weight > 0) least = fminf(least, depth);
        }
        counts[p] = count;
        observed[p] = count > 0;
        found[6] = min(found[6], (double)least);
        if (!count) continue;
        const double row = p / width, column = p % width;
        found[0] += 1;
        found[7] = min(found[7], -(double)count);
        found[2] = min(found[2], row), found[3] = min(found[3], -row);
        found[4] = min(found[4], column), found[5] = min(found[5], -column);
    }
    bring_together<SumsAndEnds<2>>(found, desk);
}

// ---- the initial state: a sample of the differences between neighbours, then x and v of the primal

extern "C" __global__ void __launch_bounds__(256) sample_slopes(
    const real* __restrict__ start, const unsigned short* __restrict__ links, int every, int height, int width, int rows,
    int columns, float* __restrict__ sample
) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= rows * columns) return;
    const size_t p = (size_t)(k / columns) * every * width + k % columns * every;
    const unsigned bits = links[p];
    sample[k] = bits & 1 ? start[p + 1] - start[p] : __int_as_float(0x7fc00000);
    sample[rows * columns + k] = bits & 2 ? start[p + width] - start[p] : __int_as_float(0x7fc00000);
}

extern "C" __global__ void __launch_bounds__(256) begin(
    const real* __restrict__ start, const unsigned short* __restrict__ links, const double2* __restrict__ slopes,
    unsigned pixels, real* __restrict__ primal
) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    const double2 across = slopes[0], down = slopes[1];  // a median, and of how many
    primal[p] = start[p];
    primal[(size_t)pixels + p] = links[p] & 1 && across.y > 0 ? (real)across.x : (real)0;
    primal[2 * (size_t)pixels + p] = links[p] & 2 && down.y > 0 ? (real)down.x : (real)0;
}

// Another state's values, where both have pixels; offset of this state's first pixel from the other's.
extern "C" __global__ void __launch_bounds__(256) resume(
    real* __restrict__ primal, real* __restrict__ dual, const unsigned short* __restrict__ links,
    const real* __restrict__ other_primal, const real* __restrict__ other_dual, const bool* __restrict__ inside,
    int stride, int height, int width, int other_height, int other_width, int down, int right, real shift,
    int primal_planes, int dual_planes
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const size_t n = (size_t)height * width, p = (size_t)i * width + j;
    const int row = i + down, column = j + right;
    const unsigned bits = links[p];
    if (!(bits >> 9 & 1) || row < 0 || column < 0 || row >= other_height || column >= other_width) return;
    if (!inside[(size_t)row * stride + column]) return;
    const size_t m = (size_t)other_height * other_width, q = (size_t)row * other_width + column;
    for (int k = 0; k < primal_planes; k++) primal[k * n + p] = other_primal[k * m + q] + (k ? (real)0 : shift);
    for (int k = 0; k < dual_planes; k++) if (bits >> k & 1) dual[k * n + p] = other_dual[k * m + q];
}

// ---- extrapolation: in every round, an unknown pixel becomes the mean of its known neighbours

#define REACH (CARRY_TILE + 2 * ROUNDS)

// ROUNDS of them, on a tile and the pixels they depend on. counts: pixels reached in the last round, and left after it.
extern "C" __global__ void __launch_bounds__(256) carry(
    const real* __restrict__ from, const bool* __restrict__ known, const bool* __restrict__ inside, int height, int width,
    real* __restrict__ to, bool* __restrict__ then_known, unsigned* counts
) {
    __shared__ real values[2 * REACH * REACH];
    __shared__ unsigned char marks[2 * REACH * REACH];  // 1 known, 2 of the domain
    const int top = blockIdx.y * CARRY_TILE - ROUNDS, left = blockIdx.x * CARRY_TILE - ROUNDS, room = REACH * REACH;
    for (int k = threadIdx.x; k < room; k += 256) {
        const int i = top + k / REACH, j = left + k % REACH;
        const bool there = i >= 0 && j >= 0 && i < height && j < width;
        const size_t p = (size_t)i * width + j;
        values[k] = there && known[p] ? from[p] : (real)0;
        marks[k] = there ? known[p] | inside[p] << 1 : 0;
    }
    __syncthreads();
    for (int round = 0; round < ROUNDS; round++) {
        const int old = (round & 1) * room, now = room - old;
        for (int k = threadIdx.x; k < room; k += 256) {
            const int i = k / REACH, j = k % REACH;
            real value = values[old + k];
            unsigned char mark = marks[old + k];
            if (mark == 2) {
                real total = 0;
                int count = 0;
                const real* at = values + old + k;
                const unsigned char* seen = marks + old + k;
                if (i > 0 && seen[-REACH] & 1) total += at[-REACH], count++;
                if (i + 1 < REACH && seen[REACH] & 1) total += at[REACH], count++;
                if (j > 0 && seen[-1] & 1) total += at[-1], count++;
                if (j + 1 < REACH && seen[1] & 1) total += at[1], count++;
                if (count) value = (double)total / count, mark = 3;
                const bool own = i >= ROUNDS && i < ROUNDS + CARRY_TILE && j >= ROUNDS && j < ROUNDS + CARRY_TILE;
                if (round == ROUNDS - 1 && own) atomicAdd(counts + (count ? 0 : 1), 1u);
            }
            values[now + k] = value;
            marks[now + k] = mark;
        }
        __syncthreads();
    }
    const int last = (ROUNDS & 1) * room;
    for (int k = threadIdx.x; k < CARRY_TILE * CARRY_TILE; k += 256) {
        const int i = k / CARRY_TILE + ROUNDS, j = k % CARRY_TILE + ROUNDS, at = last + i * REACH + j;
        if (top + i >= height || left + j >= width) continue;
        const size_t p = (size_t)(top + i) * width + left + j;
        to[p] = values[at];
        then_known[p] = marks[at] & 1;
    }
}

// ---- weights by local noise

#define TILE 32
#define SIDE (TILE + 2 * RADIUS)
#define SUMS 5  // known, their sizes, scales, squared scales, one over the amounts

// Window sums around each pixel of every map, and per block the sums from which their spread follows.
extern "C" __global__ void __launch_bounds__(256) pool(
    const float* __restrict__ depths, const float* __restrict__ weights, const float* __restrict__ depth, int height,
    int width, float* __restrict__ pooled, unsigned char* __restrict__ amounts, double* __restrict__ parts
) {
    __shared__ float sizes[SIDE * SIDE];
    __shared__ unsigned char seen[SIDE * SIDE];
    __shared__ double rows[SIDE * TILE];
    __shared__ unsigned char row_counts[SIDE * TILE];
    const size_t n = (size_t)height * width, map = blockIdx.z * n;
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    for (int k = threadIdx.x; k < SIDE * SIDE; k += 256) {
        const int i = top + k / SIDE - RADIUS, j = left + k % SIDE - RADIUS;
        float size = 0;
        bool known = false;
        if (i >= 0 && j >= 0 && i < height && j < width) {
            const size_t p = (size_t)i * width + j;
            size = fabsf(depths[map + p] - depth[p]);
            known = isfinite(size) && (!weights || weights[map + p] > 0);
        }
        sizes[k] = known ? size : 0.f;
        seen[k] = known;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < SIDE * TILE; k += 256) {
        const int from = k / TILE * SIDE + k % TILE;
        double sum = 0;
        int count = 0;
        for (int step = 0; step <= 2 * RADIUS; step++) sum += sizes[from + step], count += seen[from + step];
        rows[k] = sum;
        row_counts[k] = count;
    }
    __syncthreads();
    double sums[SUMS] = {0, 0, 0, 0, 0};
    for (int k = threadIdx.x; k < TILE * TILE; k += 256) {
        const int i = top + k / TILE, j = left + k % TILE;
        if (i >= height || j >= width) continue;
        double sum = 0;
        int count = 0;
        for (int step = 0; step <= 2 * RADIUS; step++) sum += rows[k + step * TILE], count += row_counts[k + step * TILE];
        const size_t p = map + (size_t)i * width + j;
        pooled[p] = sum;
        amounts[p] = count;
        const int here = (k / TILE + RADIUS) * SIDE + k % TILE + RADIUS;
        if (!seen[here]) continue;
        const double scale = sum / count;
        sums[0] += 1;
        sums[1] += sizes[here];
        sums[2] += scale;
        sums[3] += scale * scale;
        sums[4] += 1. / count;
    }
    const size_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    for (int m = 0; m < SUMS; m++) {
        const double sum = over_block(sums[m], 0., Add());
        if (threadIdx.x == 0) parts[block * SUMS + m] = sum;
    }
}

// The sums of one map, always in the same order.
extern "C" __global__ void __launch_bounds__(256) gather_parts(
    const double* __restrict__ parts, int blocks, double* __restrict__ totals
) {
    for (int m = 0; m < SUMS; m++) {
        double mine = 0;
        for (int k = threadIdx.x; k < blocks; k += 256) mine += parts[((size_t)blockIdx.x * blocks + k) * SUMS + m];
        const double sum = over_block(mine, 0., Add());
        if (threadIdx.x == 0) totals[blockIdx.x * SUMS + m] = sum;
    }
}

// lam = b0 (n + a) / (m + a b0), times the given weight.
extern "C" __global__ void __launch_bounds__(256) trust(
    const float* __restrict__ depths, const float* __restrict__ weights, const float* __restrict__ depth,
    const float* __restrict__ pooled, const unsigned char* __restrict__ amounts, const double* __restrict__ totals,
    int maps, unsigned n, double least, double most, float* __restrict__ out
) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n) return;
    const size_t at = (size_t)blockIdx.y * n + p;
    double count = 0, all = 0;
    for (int k = 0; k < maps; k++) count += totals[k * SUMS], all += totals[k * SUMS + 1];
    const double overall = all / max(count, 1.);
    const double* own = totals + blockIdx.y * SUMS;
    const float size = fabsf(depths[at] - depth[p]), given = weights ? weights[at] : 1.f;
    const bool known = isfinite(size) && given > 0;
    double lam = 1;
    if (known && overall > 0) {
        const double mean = own[2] / own[0], sampled = own[4] / own[0];
        double shape = 1e4;
        if (mean > 0) {
            const double excess = ((own[3] / own[0] - mean * mean) / (mean * mean) - sampled) / (1 + sampled);
            shape = 2 + 1 / max(excess, 1e-4);
        }
        lam = min(max(overall * (amounts[at] + shape) / (pooled[at] + shape * overall), least), most);
    }
    out[at] = isnan(depths[at]) ? 0.f : (float)(lam * given);
}
