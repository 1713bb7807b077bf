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

// Sum `rows` numbers of each of `columns` kinds: parts (rows, columns) -> sums (columns), by one block.
extern "C" __global__ void __launch_bounds__(256) add_parts(const double* __restrict__ parts, int rows, int columns, double* __restrict__ sums) {
    for (int column = 0; column < columns; column++) {
        double mine = 0;
        for (int row = threadIdx.x; row < rows; row += blockDim.x) mine += parts[row * columns + column];
        const double sum = over_block(mine, 0., Add());
        if (threadIdx.x == 0) sums[column] = sum;
    }
}
