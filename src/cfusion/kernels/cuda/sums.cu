// Misfit and energy; definitions in kernels/numpy/iteration.py.

#define HALF_ROOT 0.70710678118654752440
#define THIRD_ROOT 0.57735026918962576451
#define TWO_THIRDS_ROOT 0.81649658092772603273
#define TERMS 7  // three orders of the regulariser, fidelity, proximal, mass of the data, pixels
#define PRIMAL (ORDER * (ORDER + 1) / 2)
#define PLANES (PRIMAL + ORDER * (ORDER + 3) / 2)

extern "C" __global__ void __launch_bounds__(256) misfit(
    const real* __restrict__ x, const real* __restrict__ values, const real* __restrict__ weights,
    const real* __restrict__ total, const real* __restrict__ scatter, real delta, int views, size_t pixels,
    real* __restrict__ out
) {
    const size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    const Observed seen = {values + p, weights + p, total[p], pixels, views};
    out[p] = misfit_at<real>(x[p], seen, FIDELITY == 1 ? scatter[p] : (real)0, delta);
}

__device__ __forceinline__ double length(const double* d, int count) {
    double square = 0;
    for (int m = 0; m < count; m++) square += d[m] * d[m];
    return sqrt(square);
}

// The prior's value, the terms of the energy (the regulariser without alpha), and the displacement of each plane.
// With a rate, the confidence b / (misfit + rate) is computed here; without `kept` there is no displacement.
extern "C" __global__ void __launch_bounds__(256) measure(
    const real* __restrict__ primal, const real* __restrict__ dual, const real* __restrict__ values, const real* __restrict__ weights,
    const real* __restrict__ total, const real* __restrict__ scatter, const real* confidence,
    const real* __restrict__ rate, const real* __restrict__ strength, real* made, const real* __restrict__ kept, int every,
    const unsigned short* __restrict__ links, const real* __restrict__ edge, const real* __restrict__ tensor,
    const real* __restrict__ anchor, real delta, int views, int height, int width, Desk desk
) {
    const size_t n = (size_t)height * width;
    double all[1 + TERMS + PLANES];
    for (int k = 0; k < 1 + TERMS + PLANES; k++) all[k] = 0;
    double* sums = all + 1;
    for (size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x; p < n; p += (size_t)gridDim.x * blockDim.x) {
        const unsigned bits = links[p];
        if (!(bits & INSIDE)) {
            if (rate) made[p] = 0;
            continue;
        }
        const real x = primal[p];
        const Observed seen = {values + p, weights + p, total[p], n, views};
        const real misfit = misfit_at<real>(x, seen, FIDELITY == 1 ? scatter[p] : (real)0, delta);
        const real lam = rate ? strength[p] / (misfit + rate[p]) : confidence[p];
        if (rate) {
            made[p] = lam;
            all[0] += (double)rate[p] * lam - strength[p] * log((double)lam);
        }
        sums[3] += (double)lam * misfit;
        sums[5] += (double)lam * seen.total;
        sums[6] += 1;
#if ANCHOR
        const double away = (double)x - anchor[p];
        sums[4] += away * away;
#endif
        double d[4];
        d[0] = bits & 1 ? (double)primal[p + 1] - x : 0;
        d[1] = bits & 2 ? (double)primal[p + width] - x : 0;
#if ORDER >= 2
        if (bits & 1) d[0] -= primal[n + p];
        if (bits & 2) d[1] -= primal[2 * n + p];
#endif
#if TENSOR
        const double across = tensor[n + p] * d[0] + tensor[2 * n + p] * d[1];
        d[0] = tensor[p] * d[0] + tensor[n + p] * d[1];
        d[1] = across;
#endif
        sums[0] += (EDGE ? (double)edge[p] : 1.) * length(d, 2);
#if ORDER >= 2
        const real *v1 = primal + n + p, *v2 = primal + 2 * n + p;
        d[0] = bits & 4 ? (double)v1[0] - v1[-1] : 0;
        d[1] = bits & 8 ? HALF_ROOT * (((double)v2[0] - v2[-1]) + ((double)v1[0] - v1[-width])) : 0;
        d[2] = bits & 16 ? (double)v2[0] - v2[-width] : 0;
#if ORDER >= 3
        for (int m = 0; m < 3; m++) if (bits & 4 << m) d[m] -= primal[(3 + m) * n + p];
#endif
        sums[1] += length(d, 3);
#endif
#if ORDER >= 3
        const real *w1 = primal + 3 * n + p, *w2 = primal + 4 * n + p, *w3 = primal + 5 * n + p;
        d[0] = bits & 32 ? (double)w1[1] - w1[0] : 0;
        d[1] = bits & 64 ? TWO_THIRDS_ROOT * ((double)w2[1] - w2[0]) + THIRD_ROOT * ((double)w1[width] - w1[0]) : 0;
        d[2] = bits & 128 ? THIRD_ROOT * ((double)w3[1] - w3[0]) + TWO_THIRDS_ROOT * ((double)w2[width] - w2[0]) : 0;
        d[3] = bits & 256 ? (double)w3[width] - w3[0] : 0;
        sums[2] += length(d, 4);
#endif
    }
    if (!kept) {
        double few[1 + TERMS];
        for (int k = 0; k < 1 + TERMS; k++) few[k] = all[k];
        add_up(few, desk);
        return;
    }
    const unsigned rows = (height + every - 1) / every, amount = rows * width;
    for (unsigned k = blockIdx.x * blockDim.x + threadIdx.x; k < amount; k += gridDim.x * blockDim.x) {
        const size_t p = (size_t)(k / width) * every * width + k % width;
        for (int plane = 0; plane < PLANES; plane++) {
            const real now = plane < PRIMAL ? primal[plane * n + p] : dual[(plane - PRIMAL) * n + p];
            const double moved = now - kept[(size_t)plane * amount + k];
            all[1 + TERMS + plane] += moved * moved;
        }
    }
    add_up(all, desk);
}
