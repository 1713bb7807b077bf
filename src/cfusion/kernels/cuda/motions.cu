// Motions of views that remove their residuals, one block a view; definitions in kernels/numpy/motions.py.

#define PAIRS (EFFECTS * (EFFECTS + 1) / 2)
#define BINS 2048  // of 11 bits
#define DIGITS 6  // of 11 bits, the last of 8: the sign of a size needs none
#define WARPS (THREADS / 32)

typedef unsigned long long Key;

// What a view's block of threads shares.
struct View {
    double about[EFFECTS][EFFECTS], step[EFFECTS], moved[EFFECTS];
    double system[EFFECTS][EFFECTS + 1], between[EFFECTS][EFFECTS], found[PAIRS + EFFECTS];
    double of_warps[WARPS][PAIRS + EFFECTS];
    unsigned bins[BINS], before[WARPS], rank;
    Key prefix;
};

__device__ __forceinline__ Key bits_of(double size) { return __double_as_longlong(size); }
__device__ __forceinline__ double size_of(Key bits) { return __longlong_as_double(bits); }

// The sum of `mine` over the threads before this one.
__device__ unsigned sum_before(unsigned mine, View& view) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned up_to = mine;
    for (int step = 1; step < 32; step *= 2) {
        const unsigned other = __shfl_sync(0xffffffffu, up_to, lane < step ? lane : lane - step);
        if (lane >= step) up_to += other;
    }
    if (lane == 31) view.before[warp] = up_to;
    __syncthreads();
    unsigned out = up_to - mine;
    for (int w = 0; w < warp; w++) out += view.before[w];
    __syncthreads();
    return out;
}

// The size |left| of this rank among the known ones, exactly: digit by digit, the high ones first.
__device__ double size_at(const double* left, int places, unsigned rank, View& view) {
    const int thread = threadIdx.x, each = BINS / THREADS;
    if (thread == 0) view.rank = rank, view.prefix = 0;
    for (int digit = 0; digit < DIGITS; digit++) {
        const int shift = digit < DIGITS - 1 ? 52 - 11 * digit : 0, bits = digit < DIGITS - 1 ? 11 : 8;
        for (int b = thread; b < BINS; b += THREADS) view.bins[b] = 0;
        __syncthreads();
        const Key prefix = view.prefix;
        for (int p = thread; p < places; p += THREADS) {
            const Key key = bits_of(fabs(left[p]));
            if (left[p] == left[p] && key >> (shift + bits) == prefix)
                atomicAdd(view.bins + (unsigned)(key >> shift & ((1u << bits) - 1)), 1u);
        }
        __syncthreads();
        unsigned mine = 0;
        for (int b = 0; b < each; b++) mine += view.bins[thread * each + b];
        const unsigned before = sum_before(mine, view), wanted = view.rank;
        __syncthreads();
        if (wanted >= before && wanted < before + mine) {
            unsigned within = wanted - before;
            int b = thread * each;
            while (within >= view.bins[b]) within -= view.bins[b++];
            view.rank = within;
            view.prefix = prefix << bits | b;
        }
        __syncthreads();
    }
    const double out = size_of(view.prefix);
    __syncthreads();
    return out;
}

// The median of the known sizes; infinite if there are none.
__device__ double median_size(const double* left, int places, int count, View& view) {
    const double infinite = size_of(0x7ffull << 52);
    if (count == 0) return infinite;
    const double low = size_at(left, places, (count - 1) / 2, view);
    double up_to = 0, next = infinite;
    for (int p = threadIdx.x; p < places; p += THREADS) {
        const double size = fabs(left[p]);
        if (size <= low) up_to++;
        if (size > low && size < next) next = size;
    }
    up_to = over_block(up_to, 0.0, Add());
    next = over_block(next, infinite, Least());
    return (low + (up_to > count / 2 ? low : next)) / 2;
}

// Sums over a block, by its warps' lanes first: view.found.
template <int COUNT>
__device__ void add_up_here(const double (&mine)[COUNT], View& view) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int m = 0; m < COUNT; m++) {
        const double sum = over_warp(mine[m], Add());
        if (lane == 0) view.of_warps[warp][m] = sum;
    }
    __syncthreads();
    if (threadIdx.x < COUNT) {
        double sum = 0;
        for (int w = 0; w < WARPS; w++) sum += view.of_warps[w][threadIdx.x];
        view.found[threadIdx.x] = sum;
    }
    __syncthreads();
}

__device__ int pair_of(int a, int b) { return a <= b ? a * EFFECTS - a * (a - 1) / 2 + b - a : pair_of(b, a); }

// T S T' of the sums of pairs in view.found, by the first threads: system.
__device__ void carry_over(View& view) {
    const int a = threadIdx.x / EFFECTS, b = threadIdx.x % EFFECTS;
    if (a < EFFECTS) {
        double sum = 0;
        for (int m = 0; m < EFFECTS; m++) sum += view.about[a][m] * view.found[pair_of(m, b)];
        view.between[a][b] = sum;
    }
    __syncthreads();
    if (a < EFFECTS) {
        double sum = 0;
        for (int m = 0; m < EFFECTS; m++) sum += view.between[a][m] * view.about[b][m];
        view.system[a][b] = sum;
    }
    __syncthreads();
}

__device__ void write_system(double* out, const View& view) {
    if (threadIdx.x < EFFECTS * EFFECTS) out[threadIdx.x] = view.system[threadIdx.x / EFFECTS][threadIdx.x % EFFECTS];
}

// Gauss's elimination with pivots, by one thread: step.
__device__ void solve(View& view) {
    auto& s = view.system;
    for (int c = 0; c < EFFECTS; c++) {
        int pivot = c;
        for (int r = c + 1; r < EFFECTS; r++) if (fabs(s[r][c]) > fabs(s[pivot][c])) pivot = r;
        for (int k = c; k <= EFFECTS; k++) {
            const double held = s[c][k];
            s[c][k] = s[pivot][k], s[pivot][k] = held;
        }
        for (int r = c + 1; r < EFFECTS; r++) {
            const double factor = s[r][c] / s[c][c];
            for (int k = c; k <= EFFECTS; k++) s[r][k] -= factor * s[c][k];
        }
    }
    for (int r = EFFECTS - 1; r >= 0; r--) {
        double sum = s[r][EFFECTS];
        for (int k = r + 1; k < EFFECTS; k++) sum -= s[r][k] * view.step[k];
        view.step[r] = sum / s[r][r];
    }
}

// Effects (EFFECTS, places) of motions at a place.
struct At {
    double e[EFFECTS];
    __device__ At(const double* effects, int places, int p) {
#pragma unroll
        for (int m = 0; m < EFFECTS; m++) e[m] = effects[(size_t)m * places + p];
    }
};

// sums += weight times the products of all pairs of effects.
__device__ __forceinline__ void add_pairs(double* sums, const double* e) {
    int pair = 0;
#pragma unroll
    for (int a = 0; a < EFFECTS; a++)
#pragma unroll
        for (int b = a; b < EFFECTS; b++) sums[pair++] += e[a] * e[b];
}

// Sums over blocks of places of the squares of their scores: system. A warp takes every WARPS-th block.
__device__ void square_scores(
    const double* effects, const double* left, const unsigned char* kept, int places, const int* order, const int* first, int blocks,
    View& view
) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double sums[PAIRS] = {};
    for (int b = warp; b < blocks; b += WARPS) {
        double score[EFFECTS] = {};
        const int end = b + 1 < blocks ? first[b + 1] : places;
        for (int k = first[b] + lane; k < end; k += 32) {
            const int p = order[k];
            if (!kept[p]) continue;
            const At at(effects, places, p);
#pragma unroll
            for (int m = 0; m < EFFECTS; m++) score[m] += left[p] * at.e[m];
        }
#pragma unroll
        for (int m = 0; m < EFFECTS; m++) score[m] = over_warp(score[m], Add());
        if (lane == 0) add_pairs(sums, score);
    }
    add_up_here(sums, view);
    carry_over(view);
}

// out (K, 4 EFFECTS^2 + EFFECTS + 3): normals, squares of the scores of blocks and of wider ones, squares of the effects;
// motion; size, whether it is told, count.
extern "C" __global__ void __launch_bounds__(THREADS) removal(
    const double* __restrict__ residuals, const double* __restrict__ effects, const double* __restrict__ about, int places,
    const int* __restrict__ order, const int* __restrict__ first, int blocks, const int* __restrict__ wide_order,
    const int* __restrict__ wide_first, int wide_blocks, double fewest, double least, double* __restrict__ lefts,
    unsigned char* __restrict__ masks, double* __restrict__ out
) {
    __shared__ View view;
    const int thread = threadIdx.x, k = blockIdx.x, square = EFFECTS * EFFECTS;
    const double* mine = residuals + (size_t)k * places;
    double* left = lefts + (size_t)k * places;
    unsigned char* kept = masks + (size_t)k * places;
    out += (size_t)k * (4 * square + EFFECTS + 3);
    if (thread < square) view.about[thread / EFFECTS][thread % EFFECTS] = about[(size_t)k * square + thread];
    double known = 0;
    for (int p = thread; p < places; p += THREADS) {
        left[p] = isfinite(mine[p]) ? mine[p] : size_of(0x7ff8ull << 48);
        known += isfinite(mine[p]) ? 1 : 0;
    }
    const int count = (int)over_block(known, 0.0, Add());
    bool told = count >= fewest;
    double size = 1;
    __syncthreads();
    for (int round = 0; round < STEPS; round++) {
        size = fmax(median_size(left, places, count, view), least);
        told &= size > 0;
        size = told ? size : 1;
        double sums[PAIRS + EFFECTS] = {};
        for (int p = thread; p < places; p += THREADS) {
            kept[p] = fabs(left[p]) <= OUTLIER * size;
            if (!kept[p]) continue;
            const At at(effects, places, p);
            add_pairs(sums, at.e);
#pragma unroll
            for (int m = 0; m < EFFECTS; m++) sums[PAIRS + m] += mine[p] * at.e[m];
        }
        add_up_here(sums, view);
        carry_over(view);
        if (thread < EFFECTS) {
            double pull = 0;
            for (int m = 0; m < EFFECTS; m++) pull -= view.about[thread][m] * view.found[PAIRS + m];
            view.system[thread][EFFECTS] = pull;
            view.system[thread][thread] += size / LARGEST * (size / LARGEST);
        }
        __syncthreads();
        write_system(out, view);
        __syncthreads();
        if (thread == 0) solve(view);
        __syncthreads();
        if (thread < EFFECTS) {
            double sum = 0;
            for (int m = 0; m < EFFECTS; m++) sum += view.step[m] * view.about[m][thread];
            view.moved[thread] = sum;
        }
        __syncthreads();
        for (int p = thread; p < places; p += THREADS) {
            if (left[p] != left[p]) continue;
            const At at(effects, places, p);
            double sum = 0;
#pragma unroll
            for (int m = 0; m < EFFECTS; m++) sum += view.moved[m] * at.e[m];
            left[p] = mine[p] + sum;
        }
        __syncthreads();
    }
    square_scores(effects, left, kept, places, order, first, blocks, view);
    write_system(out + square, view);
    __syncthreads();
    square_scores(effects, left, kept, places, wide_order, wide_first, wide_blocks, view);
    write_system(out + 2 * square, view);
    __syncthreads();
    double sums[PAIRS] = {};
    for (int p = thread; p < places; p += THREADS) {
        if (left[p] != left[p]) continue;
        const At at(effects, places, p);
        add_pairs(sums, at.e);
    }
    add_up_here(sums, view);
    carry_over(view);
    write_system(out + 3 * square, view);
    if (thread < EFFECTS) out[4 * square + thread] = view.step[thread];
    if (thread == 0) out[4 * square + EFFECTS] = size, out[4 * square + EFFECTS + 1] = told, out[4 * square + EFFECTS + 2] = count;
}
