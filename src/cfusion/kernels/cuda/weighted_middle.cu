// The middle of weights by weight: its bits are found four at a time, the high ones first, by blocks that run at the
// same time.

#define BITS 4
#define WAYS (1 << BITS)
#define ROUNDS (32 / BITS)
#define WARPS (THREADS / 32)

// The bits of a weight that is at least zero are in its order. `parts`: room for the sums of all blocks, twice.
extern "C" __global__ void __launch_bounds__(THREADS) weighted_middle(
    const float* __restrict__ weights, int views, int height, int width, int every, double* parts, unsigned* arrived,
    unsigned arrived_before, double* __restrict__ out
) {
    __shared__ double of_warps[WARPS][WAYS], sums[WAYS];  // of the weights up to the end of each way
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int columns = (width + every - 1) / every, places = (height + every - 1) / every * columns;
    double half = 0;
    unsigned prefix = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const int shift = 32 - BITS * (round + 1);
        float mine[WAYS] = {};
        for (int k = blockIdx.x * THREADS + thread; k < views * places; k += gridDim.x * THREADS) {
            const int place = k % places;
            const size_t row = (size_t)(k / places) * height + place / columns * every;
            const float weight = weights[row * width + place % columns * every];
#pragma unroll
            for (unsigned way = 0; way < WAYS; way++)
                if (__float_as_uint(weight) <= prefix + (way << shift) + ((1u << shift) - 1)) mine[way] += weight;
        }
#pragma unroll
        for (int way = 0; way < WAYS; way++) {
            const double sum = over_warp((double)mine[way], Add());
            if (lane == 0) of_warps[warp][way] = sum;
        }
        __syncthreads();
        double* here = parts + round % 2 * gridDim.x * WAYS;
        if (thread < WAYS) {
            double sum = 0;
            for (int w = 0; w < WARPS; w++) sum += of_warps[w][thread];
            here[blockIdx.x * WAYS + thread] = sum;
        }
        wait_for_all(arrived, arrived_before + (round + 1) * gridDim.x);
        for (int way = warp; way < WAYS; way += WARPS) {
            double sum = 0;
            for (int block = lane; block < gridDim.x; block += 32) sum += __ldcg(here + block * WAYS + way);
            sum = over_warp(sum, Add());
            if (lane == 0) sums[way] = sum;
        }
        __syncthreads();
        if (round == 0) half = sums[WAYS - 1] / 2;  // of all
        unsigned chosen = 0;
        for (int way = 0; way < WAYS - 1; way++) chosen += sums[way] < half;
        prefix += chosen << shift;
    }
    if (blockIdx.x == 0 && thread == 0) out[0] = __uint_as_float(prefix);
}
