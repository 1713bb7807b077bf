// Sums in double precision and minima over a block, in an order that depends on the block's shape alone.

// Combine the values of a warp's lanes.
template <class T, class Combine>
__device__ __forceinline__ T over_warp(T mine, Combine combine) {
    for (int step = 16; step > 0; step /= 2) mine = combine(mine, __shfl_xor_sync(0xffffffffu, mine, step));
    return mine;
}

template <class T, class Combine>
__device__ T over_block(T mine, T neutral, Combine combine) {
    __shared__ double parts[32];
    const int thread = threadIdx.x + blockDim.x * threadIdx.y, threads = blockDim.x * blockDim.y;
    mine = over_warp(mine, combine);
    __syncthreads();  // the last use of `parts` is over
    if (thread % 32 == 0) parts[thread / 32] = mine;
    __syncthreads();
    const T all = thread % 32 < threads / 32 ? parts[thread % 32] : neutral;
    return over_warp(all, combine);
}

struct Add {
    __device__ double operator()(double a, double b) const { return a + b; }
};

struct Least {
    __device__ double operator()(double a, double b) const { return a < b ? a : b; }
};

// Blocks that run at the same time wait for each other. `arrived` grows over many launches: only its distance from the
// goal matters.
__device__ void wait_for_all(unsigned* arrived, unsigned goal) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while ((int)(goal - *(volatile unsigned*)arrived) > 0) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
}

// Where blocks store their sums (blocks, COUNT), how many have, and where the last one writes the total.
struct Desk {
    double* parts;
    unsigned* arrived;
    double* total;
};

// How several numbers are combined, and their initial values.
struct Sums {
    __device__ static double neutral(int) { return 0; }
    __device__ static double combine(int, double a, double b) { return a + b; }
};

// The first SUMS of them are summed, of the rest the least is taken.
template <int SUMS>
struct SumsAndEnds {
    __device__ static double neutral(int k) { return k < SUMS ? 0 : 1.7976931348623157e308; }
    __device__ static double combine(int k, double a, double b) { return k < SUMS ? a + b : a < b ? a : b; }
};

// Combine the values of all blocks: the last one to arrive does so, always in the order of the blocks. Warps take the
// numbers in turn, so that each waits as seldom as possible.
template <class Way, int COUNT>
__device__ void bring_together(const double (&found)[COUNT], const Desk& desk) {
    __shared__ double of_warps[32][COUNT];
    __shared__ unsigned before[1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int k = 0; k < COUNT; k++) {
        const double mine = over_warp(found[k], [k](double a, double b) { return Way::combine(k, a, b); });
        if (lane == 0) of_warps[warp][k] = mine;
    }
    __syncthreads();
    for (int k = warp; k < COUNT; k += warps) {
        const double mine = lane < warps ? of_warps[lane][k] : Way::neutral(k);
        const double all = over_warp(mine, [k](double a, double b) { return Way::combine(k, a, b); });
        if (lane == 0) desk.parts[blockIdx.x * COUNT + k] = all;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) before[0] = atomicAdd(desk.arrived, 1u);
    __syncthreads();
    if (before[0] != gridDim.x - 1) return;
    __threadfence();
    for (int k = warp; k < COUNT; k += warps) {
        double mine = Way::neutral(k);
        for (int block = lane; block < gridDim.x; block += 32)
            mine = Way::combine(k, mine, __ldcg(desk.parts + block * COUNT + k));
        mine = over_warp(mine, [k](double a, double b) { return Way::combine(k, a, b); });
        if (lane == 0) desk.total[k] = mine;
    }
    if (threadIdx.x == 0) *desk.arrived = 0;  // for the next time
}

template <int COUNT>
__device__ void add_up(const double (&sums)[COUNT], const Desk& desk) { bring_together<Sums>(sums, desk); }
