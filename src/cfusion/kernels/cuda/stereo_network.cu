// Features of an image by a small network of 3 x 3 convolutions into 64 planes (frontends/mc_cnn/network.py).
// A block computes all planes of a tile: a warp eight planes, a lane four pixels of a row.

#define PLANES 64
#define ROWS 4
#define COLUMNS 32
#define AT_ONCE 8                // planes of the input in shared memory
#define STRIDE (COLUMNS + 5)     // of a row there: four rows fall into different banks
#define OF_WARP 8                // planes
#define OF_LANE 4                // pixels

enum Stage { PLAIN, TO_BYTES, BYTES, LAST };

// What is done with a sum: `PLAIN` a float; else integers, as the 8-bit network rounds them.
__device__ __forceinline__ float finished(float sum, float factor, int stage, float step, float next_step) {
    if (stage == PLAIN) return fmaxf(sum, 0.f);
    if (stage == TO_BYTES) return fminf(rintf(fmaxf(sum, 0.f) / next_step), 255.f);
    const float whole = fminf(fmaxf(rintf(sum * factor), -128.f), 127.f);
    return stage == LAST ? whole : fminf(rintf(fmaxf(whole * step, 0.f) / next_step), 255.f);
}

// out (64, height - 2, width - 2) of in (planes, height, width) by weights (planes, 9, 64).
extern "C" __global__ void __launch_bounds__(256) convolve(
    const float* __restrict__ in, const float* __restrict__ weights, const float* __restrict__ bias,
    const float* __restrict__ factor, int planes, int height, int width, int stage, float step, float next_step,
    float* __restrict__ out
) {
    __shared__ float patch[AT_ONCE][ROWS + 2][STRIDE];
    __shared__ __align__(16) float taps[AT_ONCE][9][PLANES];
    const int lane = threadIdx.x % 32, first = OF_WARP * (threadIdx.x / 32);
    const int top = ROWS * blockIdx.y, left = COLUMNS * blockIdx.x;
    const int row = lane / (COLUMNS / OF_LANE), column = OF_LANE * (lane % (COLUMNS / OF_LANE));
    float sums[OF_WARP][OF_LANE] = {};
    for (int from = 0; from < planes; from += AT_ONCE) {
        __syncthreads();
        for (int k = threadIdx.x; k < AT_ONCE * (ROWS + 2) * (COLUMNS + 2); k += blockDim.x) {
            const int c = k / ((ROWS + 2) * (COLUMNS + 2)), i = k / (COLUMNS + 2) % (ROWS + 2), j = k % (COLUMNS + 2);
            const bool inside = from + c < planes && top + i < height && left + j < width;
            patch[c][i][j] = inside ? in[((size_t)(from + c) * height + top + i) * width + left + j] : 0.f;
        }
        for (int k = threadIdx.x; k < AT_ONCE * 9 * PLANES; k += blockDim.x) {
            const bool inside = from + k / (9 * PLANES) < planes;
            taps[k / (9 * PLANES)][k / PLANES % 9][k % PLANES] = inside ? weights[from * 9 * PLANES + k] : 0.f;
        }
        __syncthreads();
        for (int c = 0; c < AT_ONCE; c++)
#pragma unroll
            for (int i = 0; i < 3; i++) {
                float seen[OF_LANE + 2];
#pragma unroll
                for (int j = 0; j < OF_LANE + 2; j++) seen[j] = patch[c][row + i][column + j];
#pragma unroll
                for (int j = 0; j < 3; j++)
#pragma unroll
                    for (int p = 0; p < OF_WARP; p++) {
                        const float tap = taps[c][3 * i + j][first + p];
#pragma unroll
                        for (int q = 0; q < OF_LANE; q++) sums[p][q] = fmaf(tap, seen[j + q], sums[p][q]);
                    }
            }
    }
    const int v = top + row;
    if (v >= height - 2) return;
#pragma unroll
    for (int p = 0; p < OF_WARP; p++)
#pragma unroll
        for (int q = 0; q < OF_LANE; q++) {
            const int u = left + column + q, plane = first + p;
            if (u < width - 2)
                out[((size_t)plane * (height - 2) + v) * (width - 2) + u] =
                    finished(sums[p][q] + bias[plane], factor[plane], stage, step, next_step);
        }
}

// Normalise features (64, pixels) times `step` to unit vectors, in place.
extern "C" __global__ void __launch_bounds__(256) normalise(float* __restrict__ features, float step, unsigned pixels) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    float square = 0;
    for (int c = 0; c < PLANES; c++) {
        const float value = features[(size_t)c * pixels + p] * step;
        square += value * value;
    }
    const float length = fmaxf(sqrtf(square), 1e-12f);
    for (int c = 0; c < PLANES; c++) features[(size_t)c * pixels + p] = features[(size_t)c * pixels + p] * step / length;
}
