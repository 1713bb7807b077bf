// Means over squares, clipped at borders; the definition is numpy/pooling.py. One launch per pass: a tile's rows are
// summed across, then down. REAL is the type of the input; sums are in double precision.

#define TILE 32

extern "C" __global__ void __launch_bounds__(256) mean_around(
    const REAL* __restrict__ values, int radius, int height, int width, double times, double* __restrict__ out
) {
    extern __shared__ double rows[];  // (TILE + 2 radius, TILE)
    const size_t map = blockIdx.z * (size_t)height * width;
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE, side = TILE + 2 * radius;
    for (int k = threadIdx.x; k < side * TILE; k += blockDim.x) {
        const int i = top + k / TILE - radius, j = left + k % TILE;
        double sum = 0;
        if (i >= 0 && i < height && j < width)
            for (int t = max(j - radius, 0); t <= min(j + radius, width - 1); t++) sum += values[map + (size_t)i * width + t];
        rows[k] = sum;
    }
    __syncthreads();
    const double over = 1. / ((2 * radius + 1) * (2 * radius + 1));
    for (int k = threadIdx.x; k < TILE * TILE; k += blockDim.x) {
        const int i = top + k / TILE, j = left + k % TILE;
        if (i >= height || j >= width) continue;
        double sum = 0;
        for (int t = 0; t <= 2 * radius; t++) sum += rows[k + t * TILE];
        out[map + (size_t)i * width + j] = sum * over * times;
    }
}
