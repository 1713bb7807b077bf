// Held-out observations; definitions in numpy/trials.py.

typedef REAL real;

// How much nearer x is to the held-out observations than another x: sums of w, w g, w^2, w^2 g, w^2 g^2, and of w times
// the other's distance.
extern "C" __global__ void __launch_bounds__(256) gain(
    const real* __restrict__ x, const real* __restrict__ other, const float* __restrict__ depths,
    const float* __restrict__ weights, const bool* __restrict__ inside, int stride, Window window, double centre,
    bool inverse, int maps, Desk desk
) {
    double sums[6] = {0, 0, 0, 0, 0, 0};
    const unsigned pixels = window.pixels();
    for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < pixels; p += gridDim.x * blockDim.x) {
        if (!inside[(size_t)(p / window.columns) * stride + p % window.columns]) continue;
        const size_t place = window.place(p);
        for (int k = 0; k < maps; k++) {
            const size_t at = k * window.image() + place;
            const double depth = depths[at], w = weights ? weights[at] : isfinite(depth);
            if (!(w > 0)) continue;
            const double d = (inverse ? 1 / depth : depth) - centre;
            const double off = w * fabs(other[p] - d), nearer = off - w * fabs(x[p] - d);
            sums[0] += w, sums[1] += nearer, sums[5] += off;
            sums[2] += w * w, sums[3] += w * nearer, sums[4] += nearer * nearer;
        }
    }
    add_up(sums, desk);
}

// Maps with and without the held-out observations; sums: the number of known depths of each.
extern "C" __global__ void __launch_bounds__(256) split(
    const float* __restrict__ depths, const float* __restrict__ weights, const bool* __restrict__ turns, int many,
    int block, int maps, int height, int width, float* __restrict__ kept, float* __restrict__ out,
    float* __restrict__ kept_weights, float* __restrict__ out_weights, Desk desk
) {
    double known[2] = {0, 0};
    const unsigned pixels = (unsigned)height * width;
    const float unknown = __int_as_float(0x7fc00000);
    for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < pixels; p += gridDim.x * blockDim.x) {
        const int row = abs(2 * (int)(p / width) - (height - 1)) / 2 / block;
        const int column = abs(2 * (int)(p % width) - (width - 1)) / 2 / block, turn = (row + column) % many;
        for (int k = 0; k < maps; k++) {
            const size_t at = (size_t)k * pixels + p;
            const bool held = turns[k * many + turn];
            const float depth = depths[at];
            kept[at] = held ? unknown : depth;
            out[at] = held ? depth : unknown;
            if (!isnan(depth)) known[held] += 1;
            if (!weights) continue;
            kept_weights[at] = held ? 0.f : weights[at];
            out_weights[at] = held ? weights[at] : 0.f;
        }
    }
    add_up(known, desk);
}
