// The cost volume (H, W, D) of a pair, its means over crosses, and its mirror image; see
// frontends/mc_cnn/definition.py.
// Entry (v, u, d) compares left pixel u with right pixel u - d, OUTSIDE where u < d.

#define OUTSIDE 1.f
#define PLANES 64
#define COLUMNS 16       // left pixels of a block
#define DISPARITIES 128  // threads of a block, one disparity each

// (1 - <f, f'>) / 2 of unit features (64, height, width).
extern "C" __global__ void __launch_bounds__(DISPARITIES) cost_volume(
    const float* __restrict__ left, const float* __restrict__ right, int height, int width, int count,
    float* __restrict__ cost
) {
    __shared__ __align__(16) float ours[PLANES][COLUMNS];
    __shared__ float theirs[PLANES][COLUMNS + DISPARITIES - 1];
    const int u = COLUMNS * blockIdx.x, v = blockIdx.y, d = DISPARITIES * blockIdx.z + threadIdx.x;
    const int start = u - DISPARITIES * (int)blockIdx.z - (DISPARITIES - 1);  // the right pixel of the first entry
    for (int k = threadIdx.x; k < PLANES * COLUMNS; k += blockDim.x) {
        const int c = k / COLUMNS, j = u + k % COLUMNS;
        ours[c][k % COLUMNS] = j < width ? left[((size_t)c * height + v) * width + j] : 0.f;
    }
    for (int c = 0; c < PLANES; c++)
        for (int k = threadIdx.x; k < COLUMNS + DISPARITIES - 1; k += blockDim.x) {
            const int j = start + k;
            theirs[c][k] = j >= 0 && j < width ? right[((size_t)c * height + v) * width + j] : 0.f;
        }
    __syncthreads();
    float sums[COLUMNS] = {};
    const int first = DISPARITIES - 1 - threadIdx.x;
    for (int c = 0; c < PLANES; c++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) sums[j] = fmaf(ours[c][j], theirs[c][first + j], sums[j]);
    if (d >= count) return;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
        if (u + j < width)
            cost[((size_t)v * width + u + j) * count + d] = u + j >= d ? 0.5f - 0.5f * sums[j] : OUTSIDE;
}

// Distances (4, height, width) to the left, right, up and down over which the grey value stays near the pixel's own.
extern "C" __global__ void __launch_bounds__(256) arms(
    const float* __restrict__ image, int longest, double tolerance, int height, int width, int* __restrict__ out
) {
    const int u = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y, side = blockIdx.z;
    if (u >= width) return;
    const int down = side == 2 ? -1 : side == 3, across = side == 0 ? -1 : side == 1;
    const float here = image[(size_t)v * width + u];
    int length = 0;
    while (length < longest) {
        const int row = v + (length + 1) * down, column = u + (length + 1) * across;
        if (row < 0 || row >= height || column < 0 || column >= width) break;
        if ((double)fabsf(image[(size_t)row * width + column] - here) >= tolerance) break;
        length++;
    }
    out[((size_t)side * height + v) * width + u] = length;
}

// The length, to one side, of the cross that left pixel p and right pixel q have in common.
__device__ __forceinline__ int common(const int* ours, const int* theirs, size_t pixels, int side, size_t p, size_t q) {
    return min(ours[side * pixels + p], theirs[side * pixels + q]);
}

// half = sums of the cost along the row arms.
extern "C" __global__ void __launch_bounds__(256) sum_across(
    const float* __restrict__ cost, const int* __restrict__ ours, const int* __restrict__ theirs, int height, int width,
    int count, float* __restrict__ half
) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    const int u = at / count, d = at % count, v = blockIdx.y;
    if (u >= width || d > u) return;
    const size_t pixels = (size_t)height * width, p = (size_t)v * width + u;
    const int left = common(ours, theirs, pixels, 0, p, p - d), right = common(ours, theirs, pixels, 1, p, p - d);
    float sum = 0;
    for (int j = -left; j <= right; j++) sum += cost[(p + j) * count + d];
    half[p * count + d] = sum;
}

// cost = means over the row arms of all pixels on the column arms.
extern "C" __global__ void __launch_bounds__(256) mean_along(
    const float* __restrict__ half, const int* __restrict__ ours, const int* __restrict__ theirs, int height, int width,
    int count, float* __restrict__ cost
) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    const int u = at / count, d = at % count, v = blockIdx.y;
    if (u >= width || d > u) return;
    const size_t pixels = (size_t)height * width, p = (size_t)v * width + u;
    const int up = common(ours, theirs, pixels, 2, p, p - d), down = common(ours, theirs, pixels, 3, p, p - d);
    float sum = 0;
    int many = 0;
    for (int i = -up; i <= down; i++) {
        const size_t there = p + (long long)i * width;
        many += common(ours, theirs, pixels, 0, there, there - d) + common(ours, theirs, pixels, 1, there, there - d) + 1;
        sum += half[there * count + d];
    }
    cost[p * count + d] = sum / many;
}

// The volume of the mirrored pair, right image first: its pixel W - 1 - x at d is left pixel x + d at d.
extern "C" __global__ void __launch_bounds__(256) mirror(
    const float* __restrict__ cost, int width, int count, float* __restrict__ out
) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    const int x = at / count, d = at % count;
    const size_t row = (size_t)blockIdx.y * width;
    if (x >= width) return;
    out[(row + width - 1 - x) * count + d] = x + d < width ? cost[(row + x + d) * count + d] : OUTSIDE;
}
