// Order statistics of many rows at once, exactly: three passes over the bits of the floats, the high ones first.
// Rows hold NaN or infinities where unknown; values that are not above `least` do not count either. Each (row,
// probability) has two targets: the values of the ranks below and above the probability. With `sides`, the first
// probability of a row is of |t|, the second of t > 0, the third of -t > 0.

#define BINS 4096  // of 12 bits
#define COARSE 256  // bins of the first pass: 8 + 12 + 12 bits; few values would meet in one bin of more bits
#define THREADS 1024
#define AT_ONCE 8  // values of a thread
#define UNKNOWN __int_as_float(0x7fc00000)

// Zero between two uses. Blocks on different multiprocessors alternate on it: always read from memory, never cached.
struct Target {
    unsigned prefix[2], rank[2], count, arrived, passed;
};

// Integers in the order of the floats, and back.
__device__ __forceinline__ unsigned key_of(float value) {
    const unsigned bits = __float_as_uint(value);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}
__device__ __forceinline__ double value_of(unsigned key) {
    return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key);
}

// Rows of values: planes of `width` columns, and how many floats lie between neighbours in memory.
struct Rows {
    const float* at;
    long long plane, row, column, width;
    __device__ __forceinline__ float value(int which, unsigned k, bool apart) const {
        const unsigned i = apart ? k / (unsigned)width : 0, j = apart ? k % (unsigned)width : k;
        return __ldg(at + which * plane + i * row + j * column);
    }
};

// One pass over a row's bits: count this block's share into the histogram. In the first pass most values fall into the
// same few bins: each lane of a warp has its own.
__device__ void count_bits(
    const Rows& rows, int which, unsigned length, float least, int side, int pass, unsigned low, unsigned high,
    unsigned* mine, unsigned* histogram
) {
    const int thread = threadIdx.x, lane = thread % 32;
    const bool apart = low != high, in_lines = rows.width < length;
    const int used = pass == 0 || apart ? 2 * BINS : BINS;
    for (int k = thread; k < used; k += THREADS) mine[k] = 0;
    __syncthreads();
    const unsigned stride = gridDim.x * THREADS;
    for (unsigned first = blockIdx.x * THREADS + thread; first < length; first += AT_ONCE * stride) {
        float values[AT_ONCE];  // as many loads are under way
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++)
            values[b] = first + b * stride < length ? rows.value(which, first + b * stride, in_lines) : UNKNOWN;
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++) {
            const float value = side == 1 ? fabsf(values[b]) : side == 3 ? -values[b] : values[b];
            if (!(isfinite(value) && value > least)) continue;
            const unsigned key = key_of(value);
            if (pass == 0) {
                atomicAdd(mine + (key >> 24) * 32 + lane, 1u);
                continue;
            }
            const unsigned above = pass == 1 ? key >> 24 : key >> 12, bin = (pass == 1 ? key >> 12 : key) & (BINS - 1);
            if (above == low) atomicAdd(mine + bin, 1u);
            if (apart && above == high) atomicAdd(mine + BINS + bin, 1u);
        }
    }
    __syncthreads();
    if (pass == 0) {
        unsigned sum = 0;
        for (int k = 0; k < 8; k++) sum += mine[thread * 8 + (k + thread) % 8];
        if (sum) atomicAdd(histogram + thread / 4, sum);
    } else {
        for (int k = thread; k < used; k += THREADS) if (mine[k]) atomicAdd(histogram + k, mine[k]);
    }
    __threadfence();
    __syncthreads();
}
static_assert(COARSE * 4 == THREADS && COARSE * 32 == 2 * BINS, "four threads add up one bin of the first pass");

// The sum over this thread and those before it; parts[w] is that of all threads up to warp w.
__device__ unsigned sum_up_to(unsigned mine, unsigned* parts) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = 1; step < 32; step *= 2) {
        const unsigned before = __shfl_up_sync(0xffffffffu, mine, step);
        if (lane >= step) mine += before;
    }
    if (lane == 31) parts[warp] = mine;
    __syncthreads();
    if (warp == 0) {
        unsigned up_to = parts[lane];
        for (int step = 1; step < 32; step *= 2) {
            const unsigned before = __shfl_up_sync(0xffffffffu, up_to, step);
            if (lane >= step) up_to += before;
        }
        parts[lane] = up_to;
    }
    __syncthreads();
    return mine + (warp ? parts[warp - 1] : 0);
}

// The bins of a target's two ranks, after all blocks of its row have counted. The target is in shared memory: each
// access to that in global memory would be waited for.
__device__ void find_bins(Target& target, double share, int pass, unsigned* mine, unsigned* parts, unsigned* histogram) {
    const int thread = threadIdx.x, each = pass ? BINS / THREADS : 1;  // bins of a thread
    const bool apart = target.prefix[0] != target.prefix[1];
    for (int k = thread; k < (pass == 0 ? THREADS : apart ? 2 * BINS : BINS); k += THREADS) {
        mine[k] = __ldcg(histogram + k);  // beyond COARSE zero in the first pass
        histogram[k] = 0;  // for the next pass
    }
    __syncthreads();
    for (int side = 0; side < 2; side++) {
        const unsigned* bins = mine + (apart ? side * BINS : 0) + thread * each;  // this thread's
        unsigned sum = 0;
        for (int k = 0; k < each; k++) sum += bins[k];
        const unsigned up_to = sum_up_to(sum, parts), count = parts[31];
        if (thread == 0 && pass == 0) {
            const double place = count ? share * (count - 1) : 0;
            target.count = count;
            target.rank[side] = min((unsigned)floor(place) + (side && place > floor(place)), count ? count - 1 : 0);
        }
        __syncthreads();
        const unsigned wanted = target.rank[side];
        __syncthreads();
        if ((wanted >= up_to - sum && wanted < up_to) || (count == 0 && thread == 0)) {
            unsigned rank = wanted - (up_to - sum);
            int bin = 0;
            while (bin < each - 1 && rank >= bins[bin]) rank -= bins[bin++];
            target.rank[side] = rank;
            target.prefix[side] = target.prefix[side] << 12 | (thread * each + bin);
        }
        __syncthreads();
    }
}

__device__ void write_down(const Target& target, double share, double* out) {
    const double place = target.count ? share * (target.count - 1) : 0;
    const double a = value_of(target.prefix[0]), b = value_of(target.prefix[1]), part = place - floor(place);
    const double unknown = __longlong_as_double(0x7ff8000000000000ll);
    const double between = part < 0.5 ? a + (b - a) * part : b - (b - a) * (1 - part);
    // a median is the mean of the middle two as floats have it
    out[0] = target.count == 0 ? unknown : share == 0.5 && a != b ? ((float)a + (float)b) / 2 : between;
    out[1] = target.count;
}

// All three passes; the blocks of a row (gridDim.x) run at the same time, and wait for each other between passes.
extern "C" __global__ void __launch_bounds__(THREADS) select_bits(
    Rows rows, unsigned length, float above, const double* __restrict__ probabilities, int asked,
    bool sides, Target* targets, unsigned* histograms, double* __restrict__ out
) {
    __shared__ unsigned mine[2 * BINS];
    __shared__ unsigned parts[THREADS / 32];
    __shared__ unsigned last[1];
    __shared__ Target here;
    const int which = blockIdx.y, thread = threadIdx.x, side = sides ? 1 + which % asked : 0;
    const float least = side > 1 ? 0.f : above;
    const double share = probabilities[which % asked];
    volatile Target* target = targets + which;
    unsigned* histogram = histograms + (size_t)which * 2 * BINS;
    for (int pass = 0; pass < 3; pass++) {
        const unsigned low = pass ? target->prefix[0] : 0, high = pass ? target->prefix[1] : 0;
        if (thread == 0) {
            here.prefix[0] = low, here.prefix[1] = high, here.count = target->count;
            here.rank[0] = target->rank[0], here.rank[1] = target->rank[1];
        }
        count_bits(rows, which / asked, length, least, side, pass, low, high, mine, histogram);
        if (thread == 0) last[0] = atomicAdd(&targets[which].arrived, 1u) == gridDim.x - 1;
        __syncthreads();
        if (last[0]) {
            __threadfence();
            find_bins(here, share, pass, mine, parts, histogram);
            if (thread == 0) {
                if (pass == 2) {
                    write_down(here, share, out + 2 * which);
                    targets[which] = Target();
                } else {
                    target->prefix[0] = here.prefix[0], target->prefix[1] = here.prefix[1];
                    target->rank[0] = here.rank[0], target->rank[1] = here.rank[1];
                    target->count = here.count, target->arrived = 0;
                    __threadfence();
                    atomicAdd(&targets[which].passed, 1u);
                }
            }
        } else if (pass < 2 && thread == 0) {
            while (target->passed == pass) __nanosleep(20);
            __threadfence();
        }
        __syncthreads();
    }
}
