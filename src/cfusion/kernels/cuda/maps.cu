// Whole maps, a pixel at a time: coordinates undone, two surfaces blended, observations counted; see contract.py.

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

extern "C" __global__ void __launch_bounds__(256) blend(
    const float* __restrict__ surface, const float* __restrict__ found, float share, unsigned pixels,
    float* __restrict__ out
) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    const float from = surface[p], to = found[p];
    out[p] = isnan(from) || isnan(to) ? to : from + share * (to - from);
}

extern "C" __global__ void __launch_bounds__(256) tilted(
    const float* __restrict__ depth, float down, float right, int width, unsigned pixels, float* __restrict__ out
) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    out[p] = depth[p] + (p / width * down + p % width * right);
}

extern "C" __global__ void __launch_bounds__(256) account(
    const float* __restrict__ depths, const float* __restrict__ weights, const bool* __restrict__ filled,
    const float* __restrict__ depth, int maps, unsigned pixels, short* __restrict__ provenance,
    float* __restrict__ sigma
) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    int measured = 0, known = 0;
    double spread = 0;
    for (int k = 0; k < maps; k++) {
        const size_t at = (size_t)k * pixels + p;
        const float observed = depths[at], away = fabsf(observed - depth[p]);
        const bool seen = weights ? weights[at] > 0 : !isnan(observed);
        measured += seen && !(filled && filled[at]);
        if (!isnan(away)) known++, spread += away;
    }
    provenance[p] = isnan(depth[p]) ? -1 : min(measured, 32767);
    sigma[p] = known ? (float)(sqrt(2.) * spread / (known * sqrt((double)known))) : UNKNOWN;
}

// What closing added to a mask, and how much that is.
extern "C" __global__ void __launch_bounds__(256) added(
    const bool* __restrict__ closed, const bool* __restrict__ mask, unsigned pixels, bool* __restrict__ out, Desk desk
) {
    double count[1] = {0};
    for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < pixels; p += gridDim.x * blockDim.x) {
        const bool here = closed[p] && !mask[p];
        out[p] = here;
        count[0] += here;
    }
    add_up(count, desk);
}
