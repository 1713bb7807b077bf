// Observations in ascending order, or their mean, and the weighted median; definitions in reference/ordering.py.

typedef REAL real;
#define INFINITE (real)__int_as_float(0x7f800000)

// The weighted median of observations in ascending order.
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
extern "C" __global__ void order_observations(
    const real* __restrict__ depths, const real* __restrict__ given, real* __restrict__ values,
    real* __restrict__ carried, real* __restrict__ total, real* __restrict__ median, real* __restrict__ mean,
    real* __restrict__ scatter, int views, size_t pixels
) {
    extern __shared__ __align__(16) char memory[];
    real* sorted = (real*)memory + threadIdx.x;
    real* with = sorted + views * blockDim.x;
    const int next = blockDim.x;
    const size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    for (int k = 0; k < views; k++) {
        const real d = depths[k * pixels + p], w = WEIGHTED ? given[k * pixels + p] : (real)1;
        const bool known = isfinite(d) && w > 0;
        const real value = known ? d : INFINITE;
        int at = k;
        for (; at > 0 && sorted[(at - 1) * next] > value; at--) {
            sorted[at * next] = sorted[(at - 1) * next];
            if (WEIGHTED) with[at * next] = with[(at - 1) * next];
        }
        sorted[at * next] = value;
        if (WEIGHTED) with[at * next] = known ? w : 0;
    }
    double heaped = 0;
    for (int k = 0; k < views; k++) {
        if (!(sorted[k * next] < INFINITE)) break;
        heaped += WEIGHTED ? with[k * next] : (real)1;
    }
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
    median[p] = half > 0 ? first + (last - first) / 2 : 0;
#if FIDELITY == 1
    double sum = 0, spread = 0;
    for (int k = 0; k < views && sorted[k * next] < INFINITE; k++)
        sum += (double)(WEIGHTED ? with[k * next] : (real)1) * sorted[k * next];
    const double centre = total[p] > 0 ? sum / total[p] : 0;
    for (int k = 0; k < views && sorted[k * next] < INFINITE; k++) {
        const double away = sorted[k * next] - centre;
        spread += (WEIGHTED ? with[k * next] : (real)1) * away * away;
    }
    mean[p] = centre;
    scatter[p] = spread / 2;
#else
    for (int k = 0; k < views; k++) {
        values[k * pixels + p] = sorted[k * next];
        if (WEIGHTED) carried[k * pixels + p] = with[k * next];
    }
#endif
}
