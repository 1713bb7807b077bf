// Some rows of a state are kept, to measure its displacement later (sums.cu). Planes are the primal's, then the dual's.

typedef REAL real;
#define PRIMAL (ORDER * (ORDER + 1) / 2)

__device__ __forceinline__ const real* plane_of(const real* primal, const real* dual, int plane, size_t pixels) {
    return plane < PRIMAL ? primal + plane * pixels : dual + (plane - PRIMAL) * pixels;
}

extern "C" __global__ void __launch_bounds__(256) sample(
    const real* __restrict__ primal, const real* __restrict__ dual, real* __restrict__ kept, int every, int height, int width
) {
    const int rows = (height + every - 1) / every, row = blockIdx.y, plane = blockIdx.z;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const real* from = plane_of(primal, dual, plane, (size_t)height * width);
    kept[((size_t)plane * rows + row) * width + column] = from[(size_t)row * every * width + column];
}
