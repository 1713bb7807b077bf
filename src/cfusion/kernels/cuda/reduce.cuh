// Sums in double precision and minima over a block, in an order that depends on the block's shape alone.

template <class T, class Combine>
__device__ T over_block(T mine, T neutral, Combine combine) {
    __shared__ double parts[32];
    const int thread = threadIdx.x + blockDim.x * threadIdx.y, threads = blockDim.x * blockDim.y;
    for (int step = 16; step > 0; step /= 2) mine = combine(mine, __shfl_xor_sync(0xffffffffu, mine, step));
    __syncthreads();  // the last use of `parts` is over
    if (thread % 32 == 0) parts[thread / 32] = mine;
    __syncthreads();
    T all = thread % 32 < threads / 32 ? parts[thread % 32] : neutral;
    for (int step = 16; step > 0; step /= 2) all = combine(all, __shfl_xor_sync(0xffffffffu, all, step));
    return all;
}

struct Add {
    __device__ double operator()(double a, double b) const { return a + b; }
};

struct Least {
    __device__ double operator()(double a, double b) const { return a < b ? a : b; }
};

// Where blocks leave their sums (blocks, COUNT), how many have, and where the last of them writes the total.
struct Desk {
    double* parts;
    unsigned* arrived;
    double* total;
};

// Bring together what every block found: whichever comes last does so, always in the order of the blocks.
template <int COUNT, class Combine>
__device__ void bring_together(const double (&found)[COUNT], const Desk& desk, double neutral, Combine combine) {
    __shared__ unsigned before[1];
    for (int k = 0; k < COUNT; k++) {
        const double mine = over_block(found[k], neutral, combine);
        if (threadIdx.x == 0) desk.parts[blockIdx.x * COUNT + k] = mine;
    }
    __threadfence();
    if (threadIdx.x == 0) before[0] = atomicAdd(desk.arrived, 1u);
    __syncthreads();
    if (before[0] != gridDim.x - 1) return;
    __threadfence();
    for (int k = 0; k < COUNT; k++) {
        double mine = neutral;
        for (int block = threadIdx.x; block < gridDim.x; block += blockDim.x) mine = combine(mine, __ldcg(desk.parts + block * COUNT + k));
        const double all = over_block(mine, neutral, combine);
        if (threadIdx.x == 0) desk.total[k] = all;
    }
    if (threadIdx.x == 0) *desk.arrived = 0;  // for the next time
}

template <int COUNT>
__device__ void add_up(const double (&sums)[COUNT], const Desk& desk) { bring_together(sums, desk, 0., Add()); }
