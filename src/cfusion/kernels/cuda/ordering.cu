// Sorted observations, or their mean, and the weighted median; definitions in kernels/numpy/ordering.py.

typedef REAL real;
#define INFINITE (real)__int_as_float(0x7f800000)

// The weighted median of sorted observations.
extern "C" __global__ void middle(
    const real* __restrict__ values, const real* __restrict__ weights, const real* __restrict__ total,
    real* __restrict__ median, int views, size_t pixels
) {
    const size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    const double half = (double)total[p] / 2;
    double heaped = 0;
    real first = 0, last = 0;
    for (int k = 0; k < views; k++) {
        const real value = values[k * pixels + p];
        if (!(value < INFINITE)) break;
        const double before = heaped;
        heaped += WEIGHTED ? weights[k * pixels + p] : (real)1;
        if (before < half && heaped >= half) first = value;
        if (before <= half && heaped > half) last = value;
    }
    median[p] = first + (last - first) / 2;
}

// Each thread sorts one pixel's observations in its own column of shared memory (stable: equal ones keep their order).
// Sums: observed pixels, observations, squared mean errors, the median and its square; then the least and minus the
// largest observation.
extern "C" __global__ void order_observations(
    const SOURCE* __restrict__ depths, const SOURCE* __restrict__ given, Window window, real centre, bool inverse,
    real* __restrict__ values, real* __restrict__ carried, real* __restrict__ total, real* __restrict__ median,
    real* __restrict__ mean, real* __restrict__ scatter, int views, Desk desk
) {
    extern __shared__ __align__(16) char memory[];
    real* sorted = (real*)memory + threadIdx.x;
    real* with = sorted + views * blockDim.x;
    const int next = blockDim.x;
    const size_t pixels = window.pixels(), image = window.image();
    double found[7];
    for (int k = 0; k < 7; k++) found[k] = SumsAndEnds<5>::neutral(k);
    for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < pixels; p += gridDim.x * blockDim.x) {
        const size_t place = window.place(p);
        int count = 0;
        for (int k = 0; k < views; k++) {
            const real depth = depths[k * image + place], w = WEIGHTED ? (real)given[k * image + place] : (real)1;
            const real d = (inverse ? 1 / depth : depth) - centre;
            const bool known = isfinite(d) && w > 0;
            const real value = known ? d : INFINITE;
            count += known;
            int at = k;
            for (; at > 0 && sorted[(at - 1) * next] > value; at--) {
                sorted[at * next] = sorted[(at - 1) * next];
                if (WEIGHTED) with[at * next] = with[(at - 1) * next];
            }
            sorted[at * next] = value;
            if (WEIGHTED) with[at * next] = known ? w : 0;
        }
        double heaped = 0;
        for (int k = 0; k < count; k++) heaped += WEIGHTED ? with[k * next] : (real)1;
        const double all = heaped, half = all / 2;
        total[p] = all;
        real first = 0, last = 0;
        bool reached = false;
        heaped = 0;
        for (int k = 0; k < views && half > 0; k++) {
            heaped += WEIGHTED ? with[k * next] : (real)1;
            if (heaped >= half && !reached) {
                first = sorted[k * next];
                reached = true;
            }
            if (heaped > half) {
                last = sorted[k * next];
                break;
            }
        }
        const real middle = half > 0 ? first + (last - first) / 2 : 0;
        median[p] = middle;
        double off = 0;
#if FIDELITY == 1
        double sum = 0, spread = 0;
        for (int k = 0; k < count; k++) sum += (double)(WEIGHTED ? with[k * next] : (real)1) * sorted[k * next];
        const double average = total[p] > 0 ? sum / total[p] : 0;
        for (int k = 0; k < count; k++) {
            const double away = sorted[k * next] - average;
            spread += (WEIGHTED ? with[k * next] : (real)1) * away * away;
        }
        mean[p] = average;
        scatter[p] = spread / 2;
        off = sqrt(spread / all);
#else
        for (int k = 0; k < count; k++) off += (WEIGHTED ? with[k * next] : (real)1) * fabs((double)middle - sorted[k * next]);
        off /= all;
        for (int k = 0; k < views; k++) {
            values[k * pixels + p] = sorted[k * next];
            if (WEIGHTED) carried[k * pixels + p] = with[k * next];
        }
#endif
        if (!count) continue;
        found[0] += 1;
        found[1] += count;
        found[2] += off * off;
        found[3] += middle;
        found[4] += (double)middle * middle;
        found[5] = min(found[5], (double)sorted[0]);
        found[6] = min(found[6], -(double)sorted[(count - 1) * next]);
    }
    bring_together<SumsAndEnds<5>>(found, desk);
}
