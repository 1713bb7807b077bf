// Maps of a window placed in the whole image, one thread per pixel; see contract.py.

typedef REAL real;
#define UNKNOWN __int_as_float(0x7fc00000)

extern "C" __global__ void __launch_bounds__(256) whole(
    const real* __restrict__ part, const bool* __restrict__ domain, Window window, float outside, real centre,
    bool inverse, float* __restrict__ out
) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= window.image()) return;
    const int i = (int)(p / window.width) - window.top, j = (int)(p % window.width) - window.left;
    float value = outside;
    if (domain[p] && i >= 0 && j >= 0 && i < window.rows && j < window.columns) {
        const real depth = part[(size_t)i * window.columns + j] + centre;
        value = !inverse ? (float)depth : depth > 0 ? (float)(1 / depth) : UNKNOWN;
    }
    out[p] = value;
}
