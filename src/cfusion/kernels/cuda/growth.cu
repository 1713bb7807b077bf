// How large errors are over depth, from a sample: `sizes_over_depth` of kernels/depth_noise.py, by one block that sorts keys.

#define UNKNOWN __int_as_float(0x7fc00000)
#define NO_KEY 0xffffffffffffffffull
#define WARPS (THREADS / 32)
#define DIGITS 256
#define EACH (DIGITS * WARPS / THREADS)  // of the counts, a thread's share
#define MOST 16  // keys of a thread, at most

typedef unsigned long long Key;  // positive floats are in the order of their bits: a depth, and a size

struct Counts {
    unsigned of[DIGITS][WARPS + 1];  // one more, so that the lanes of a warp seldom meet in a bank
    unsigned before[WARPS];
};

__device__ __forceinline__ unsigned& count_at(Counts& counts, int k) { return counts.of[k / WARPS][k % WARPS]; }

// Every count becomes the sum of those before it.
__device__ void add_up_before(Counts& counts) {
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    unsigned up_to[EACH], sum = 0;
    for (int k = 0; k < EACH; k++) up_to[k] = sum, sum += count_at(counts, thread * EACH + k);
    unsigned all = sum;
    for (int step = 1; step < 32; step *= 2) {
        const unsigned other = __shfl_sync(0xffffffffu, all, lane < step ? lane : lane - step);
        if (lane >= step) all += other;
    }
    if (lane == 31) counts.before[warp] = all;
    __syncthreads();
    unsigned before = all - sum;
    for (int w = 0; w < warp; w++) before += counts.before[w];
    for (int k = 0; k < EACH; k++) count_at(counts, thread * EACH + k) = before + up_to[k];
    __syncthreads();
}

// A stable sort of THREADS * items keys by one digit. A warp holds consecutive keys, a thread every 32nd of them.
__device__ void sort_by_digit(Key* keys, int items, int shift, Counts& counts) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned below = (1u << lane) - 1;
    Key held[MOST];
    unsigned alike_of[MOST];  // to ask for it again takes longer
    for (int k = threadIdx.x; k < DIGITS * WARPS; k += THREADS) count_at(counts, k) = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        if (i >= items) break;
        held[i] = keys[(warp * items + i) * 32 + lane];
        const unsigned digit = (unsigned)(held[i] >> shift) % DIGITS, alike = __match_any_sync(0xffffffffu, digit);
        alike_of[i] = alike;
        if (!(alike & below)) counts.of[digit][warp] += __popc(alike);
        __syncwarp();
    }
    __syncthreads();
    add_up_before(counts);
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        if (i >= items) break;
        const unsigned digit = (unsigned)(held[i] >> shift) % DIGITS, alike = alike_of[i];
        const unsigned first = counts.of[digit][warp];
        __syncwarp();
        if (!(alike & below)) counts.of[digit][warp] = first + __popc(alike);
        __syncwarp();
        keys[first + __popc(alike & below)] = held[i];
    }
    __syncthreads();
}

__device__ void sort_keys(Key* keys, int items, int first_bit, int bits, Counts& counts) {
    __syncthreads();
    for (int shift = first_bit; shift < first_bit + bits; shift += 8) sort_by_digit(keys, items, shift, counts);
}

__device__ int number_of(const Key* keys, int items) {
    double mine = 0;
    for (int k = threadIdx.x; k < THREADS * items; k += THREADS) mine += keys[k] != NO_KEY;
    return (int)over_block(mine, 0.0, Add());
}

__device__ float depth_of(Key key) { return __uint_as_float((unsigned)(key >> 32)); }
__device__ float size_of(Key key) { return __uint_as_float((unsigned)key); }

__device__ double median_depth(const Key* keys, int count) {
    if (count == 0) return UNKNOWN;
    const float low = depth_of(keys[(count - 1) / 2]), high = depth_of(keys[count / 2]);
    return low == high ? low : (low + high) / 2;
}

// As `binned`: the middle depth and the median size of each bin; NaN if there is too little of either.
__device__ void fill_bins(Key* keys, int items, int count, Counts& counts, double* places, double* levels) {
    const int thread = threadIdx.x, each = count / BINS;
    if (thread < BINS) places[thread] = levels[thread] = UNKNOWN;
    if (each < FEWEST || depth_of(keys[(BINS - 1) * each - 1]) < (float)LEAST_RANGE * depth_of(keys[each - 1])) return;
    if (thread < BINS) places[thread] = depth_of(keys[thread * each + each / 2]);
    __syncthreads();
    for (int k = thread; k < THREADS * items; k += THREADS)
        keys[k] = k < BINS * each ? (Key)(k / each) << 32 | (unsigned)keys[k] : NO_KEY;
    sort_keys(keys, items, 0, 40, counts);
    if (thread < BINS) levels[thread] = size_of(keys[thread * each + each / 2]);
}

// found: the median of the positive depths, then depths and sizes of the bins. `every`: pixels from one place of the sample to the next;
// the keys of all threads hold the sample of one map, and of all.
extern "C" __global__ void __launch_bounds__(THREADS) sizes_over_depth(
    const float* __restrict__ surface, const float* __restrict__ depths, int views, int height, int width, int every,
    int items_of_one, int items, Key* __restrict__ room, double* __restrict__ found
) {
#if IN_SHARED
    extern __shared__ Key keys[];
#else
    Key* keys = room;
#endif
    __shared__ Counts counts;
    const int columns = (width + every - 1) / every, places = (height + every - 1) / every * columns;
    for (int p = threadIdx.x; p < THREADS * items_of_one; p += THREADS) {
        const float depth = p < places ? surface[((size_t)(p / columns) * width + p % columns) * every] : UNKNOWN;
        keys[p] = depth > 0 ? (Key)__float_as_uint(depth) << 32 : NO_KEY;
    }
    sort_keys(keys, items_of_one, 32, 32, counts);
    const double middle = median_depth(keys, number_of(keys, items_of_one));
    __syncthreads();
    for (int k = views * places + threadIdx.x; k < THREADS * items; k += THREADS) keys[k] = NO_KEY;
    for (int p = threadIdx.x; p < places; p += THREADS) {
        const size_t pixel = ((size_t)(p / columns) * width + p % columns) * every;
        const float depth = surface[pixel];
#pragma unroll 4
        for (int k = 0; k < views; k++) {
            const float size = fabsf(depths[(size_t)k * height * width + pixel] - depth);
            const bool usable = depth > 0 && size > 0 && isfinite(size);
            keys[k * places + p] = usable ? (Key)__float_as_uint(depth) << 32 | __float_as_uint(size) : NO_KEY;
        }
    }
    sort_keys(keys, items, 32, 32, counts);
    fill_bins(keys, items, number_of(keys, items), counts, found + 1, found + 1 + BINS);
    if (threadIdx.x == 0) found[0] = middle;
}
