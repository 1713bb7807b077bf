// One primal-dual iteration in two passes over the image, for every kind of problem; formulas in kernels/numpy/iteration.py.

#define HALF_ROOT (real)0.70710678118654752440
#define THIRD_ROOT (real)0.57735026918962576451
#define TWO_THIRDS_ROOT (real)0.81649658092772603273

struct Scalars {
    real tau[3], sigma[3], alpha[3], relaxation, step, keep, pull, delta;
};

struct Image {
    int height, width;
    size_t plane;
};

// The flux of q into the differences of x: the tensor's, where there is one.
__device__ __forceinline__ real flux(
    int component, const real* __restrict__ dual, const real* __restrict__ tensor,
    const unsigned short* __restrict__ links, const Image& image, size_t p
) {
#if TENSOR
    if (!(links[p] & 1 << component)) return 0;
    return tensor[component * image.plane + p] * dual[p] + tensor[(component + 1) * image.plane + p] * dual[image.plane + p];
#else
    return dual[component * image.plane + p];
#endif
}

extern "C" __global__ void __launch_bounds__(256) primal_pass(
    real* __restrict__ primal, real* __restrict__ ahead, const real* __restrict__ dual,
    const real* __restrict__ values, const real* __restrict__ weights, const real* __restrict__ total,
    const real* __restrict__ confidence, const unsigned short* __restrict__ links, const real* __restrict__ tensor,
    const real* __restrict__ anchor, Scalars s, int views, int height, int width
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const Image image = {height, width, (size_t)height * width};
    const size_t n = image.plane, p = (size_t)i * width + j;
    const bool left = j > 0, right = j + 1 < width, up = i > 0, down = i + 1 < height;
    const real q1 = flux(0, dual, tensor, links, image, p), q2 = flux(1, dual, tensor, links, image, p);
    real flow = q1 + q2;
    if (left) flow -= flux(0, dual, tensor, links, image, p - 1);
    if (up) flow -= flux(1, dual, tensor, links, image, p - width);
    real old = primal[p];
    real f = old + s.tau[0] * flow;
#if ANCHOR
    f = s.keep * f + s.pull * anchor[p];
#endif
    const Observed seen = {values + p, weights + p, total[p], n, views};
    const real moved = data_prox<real>(f, s.step * confidence[p], seen, s.delta);
    ahead[p] = 2 * moved - old;
    primal[p] = old + s.relaxation * (moved - old);
#if ORDER >= 2
    {
        const real r1 = dual[2 * n + p], r2 = dual[3 * n + p], r3 = dual[4 * n + p];
        const real r2_down = down ? dual[3 * n + p + width] : 0;
        const real push[2] = {
            q1 - r1 + (right ? dual[2 * n + p + 1] : 0) - HALF_ROOT * (r2 - r2_down),
            q2 - HALF_ROOT * (r2 - (right ? dual[3 * n + p + 1] : 0)) - r3 + (down ? dual[4 * n + p + width] : 0)};
        for (int m = 0; m < 2; m++) {
            old = primal[(1 + m) * n + p];
            ahead[(1 + m) * n + p] = old + 2 * s.tau[1] * push[m];
            primal[(1 + m) * n + p] = old + s.relaxation * s.tau[1] * push[m];
        }
    }
#endif
#if ORDER >= 3
    {
        const real s1 = dual[5 * n + p], s2 = dual[6 * n + p], s3 = dual[7 * n + p], s4 = dual[8 * n + p];
        const real s1_left = left ? dual[5 * n + p - 1] : 0, s2_left = left ? dual[6 * n + p - 1] : 0;
        const real s3_left = left ? dual[7 * n + p - 1] : 0, s2_up = up ? dual[6 * n + p - width] : 0;
        const real s3_up = up ? dual[7 * n + p - width] : 0, s4_up = up ? dual[8 * n + p - width] : 0;
        const real push[3] = {
            dual[2 * n + p] + s1 - s1_left + THIRD_ROOT * (s2 - s2_up),
            dual[3 * n + p] + TWO_THIRDS_ROOT * (s2 - s2_left + s3 - s3_up),
            dual[4 * n + p] + THIRD_ROOT * (s3 - s3_left) + s4 - s4_up};
        for (int m = 0; m < 3; m++) {
            old = primal[(3 + m) * n + p];
            ahead[(3 + m) * n + p] = old + 2 * s.tau[2] * push[m];
            primal[(3 + m) * n + p] = old + s.relaxation * s.tau[2] * push[m];
        }
    }
#endif
}

// One level's dual step at a pixel: planes first .. first + COUNT - 1 move by d and are projected into their ball.
template <int COUNT>
__device__ __forceinline__ void dual_step(real* dual, size_t first, size_t n, const real* d, real sigma, real limit, real relaxation) {
    real old[COUNT], moved[COUNT], square = 0;
    for (int m = 0; m < COUNT; m++) {
        old[m] = dual[first + m * n];
        moved[m] = old[m] + sigma * d[m];
        square += moved[m] * moved[m];
    }
    const real length = sqrt(square), shrink = length > limit ? limit / length : (real)1;
    for (int m = 0; m < COUNT; m++) dual[first + m * n] = old[m] + relaxation * (shrink * moved[m] - old[m]);
}

extern "C" __global__ void __launch_bounds__(256) dual_pass(
    real* __restrict__ dual, const real* __restrict__ ahead, const unsigned short* __restrict__ links,
    const real* __restrict__ edge, const real* __restrict__ tensor, Scalars s, int height, int width
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const size_t n = (size_t)height * width, p = (size_t)i * width + j;
    const unsigned bits = links[p];  // where a bit is set, the neighbours it stands for are in the image
    real d[4];
    d[0] = bits & 1 ? ahead[p + 1] - ahead[p] : 0;
    d[1] = bits & 2 ? ahead[p + width] - ahead[p] : 0;
#if ORDER >= 2
    if (bits & 1) d[0] -= ahead[n + p];
    if (bits & 2) d[1] -= ahead[2 * n + p];
#endif
#if TENSOR
    const real across = tensor[n + p] * d[0] + tensor[2 * n + p] * d[1];
    d[0] = tensor[p] * d[0] + tensor[n + p] * d[1];
    d[1] = across;
#endif
#if EDGE
    dual_step<2>(dual, p, n, d, s.sigma[0], s.alpha[0] * edge[p], s.relaxation);
#else
    dual_step<2>(dual, p, n, d, s.sigma[0], s.alpha[0], s.relaxation);
#endif
#if ORDER >= 2
    {
        const real *v1 = ahead + n + p, *v2 = ahead + 2 * n + p;
        d[0] = bits & 4 ? v1[0] - v1[-1] : 0;
        d[1] = bits & 8 ? HALF_ROOT * (v2[0] - v2[-1] + v1[0] - v1[-width]) : 0;
        d[2] = bits & 16 ? v2[0] - v2[-width] : 0;
#if ORDER >= 3
        for (int m = 0; m < 3; m++) if (bits & 4 << m) d[m] -= ahead[(3 + m) * n + p];
#endif
        dual_step<3>(dual, 2 * n + p, n, d, s.sigma[1], s.alpha[1], s.relaxation);
    }
#endif
#if ORDER >= 3
    {
        const real *w1 = ahead + 3 * n + p, *w2 = ahead + 4 * n + p, *w3 = ahead + 5 * n + p;
        d[0] = bits & 32 ? w1[1] - w1[0] : 0;
        d[1] = bits & 64 ? TWO_THIRDS_ROOT * (w2[1] - w2[0]) + THIRD_ROOT * (w1[width] - w1[0]) : 0;
        d[2] = bits & 128 ? THIRD_ROOT * (w3[1] - w3[0]) + TWO_THIRDS_ROOT * (w2[width] - w2[0]) : 0;
        d[3] = bits & 256 ? w3[width] - w3[0] : 0;
        dual_step<4>(dual, 5 * n + p, n, d, s.sigma[2], s.alpha[2], s.relaxation);
    }
#endif
}
