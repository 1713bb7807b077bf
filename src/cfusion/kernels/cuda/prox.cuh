// The data term of one pixel: its penalty and its prox, in the precision T of the argument; formulas in kernels/numpy/prox.py.
// Observations of a pixel are `plane` apart, sorted, +inf where missing.

typedef REAL real;
#define INSIDE 512  // the bit of `links` that marks a pixel of the domain

struct Observed {
    const real* values;  // of this pixel
    const real* weights;  // of this pixel; unused unless WEIGHTED
    real total;
    size_t plane;
    int views;

    __device__ real value(int k) const { return values[k * plane]; }
    __device__ real weight(int k) const { return WEIGHTED ? weights[k * plane] : (real)1; }
};

template <class T>
__device__ __forceinline__ T penalty(T t, T delta) {
    const T size = t < 0 ? -t : t;
    if (FIDELITY == 1) return t * t / 2;
    if (FIDELITY == 2) return size <= delta ? t * t / (2 * delta) : size - delta / 2;
    return size;
}

// sum_k w_k phi(x - d_k); for L2 the observations are their mean, and `scatter` is the rest.
template <class T>
__device__ __forceinline__ T misfit_at(T x, const Observed& seen, real scatter, T delta) {
    if (FIDELITY == 1) return seen.total * penalty<T>(x - seen.value(0), delta) + scatter;
    const int at_once = 4;  // loads that do not wait for one another
    T sum = 0;
    for (int first = 0; first < seen.views; first += at_once) {
        real d[at_once], w[at_once];
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            const int k = min(first + j, seen.views - 1);
            d[j] = seen.value(k);
            w[j] = seen.weight(k);
        }
#pragma unroll
        for (int j = 0; j < at_once; j++)
            if (first + j < seen.views && !isinf(d[j])) sum += w[j] * penalty<T>(x - d[j], delta);
        if (isinf(d[at_once - 1])) break;  // what is missing comes last
    }
    return sum;
}

template <class T>
__device__ __forceinline__ T l1_prox(T f, T step, const Observed& seen) {
    real slope = seen.total;
    T best = f - step * seen.total;
    for (int k = 0; k < seen.views; k++) {
        const real d = seen.value(k);
        if (isinf(d)) return max(best, f + step * slope);  // no more observations: the last piece
        best = max(best, min((T)d, f + step * slope));
        slope -= 2 * seen.weight(k);
    }
    return best;
}

// The root of x - f + step sum_k w_k clip((x - d_k) / delta, -1, 1): walk over the corners d_k -+ delta in ascending order.
template <class T>
__device__ __forceinline__ T huber_prox(T f, T step, const Observed& seen, T delta) {
    T slope = 1, x = f + step * seen.total, corner = 0, height = 0;
    for (int lower = 0, upper = 0; upper < seen.views;) {
        const T below = lower < seen.views ? (T)seen.value(lower) - delta : (T)seen.value(upper) + 2 * delta;
        const T above = (T)seen.value(upper) + delta;
        const bool opens = lower < seen.views && below <= above;
        const T next = opens ? below : above;
        height = lower + upper == 0 ? next - x : height + slope * (next - corner);
        if (!(height < 0)) return x;  // the root lies before this corner (or there is no more: next is +inf)
        const T gain = step / delta * (opens ? seen.weight(lower) : seen.weight(upper));
        slope += opens ? gain : -gain;
        corner = next;
        x = corner - height / slope;
        if (opens) lower++;
        else upper++;
    }
    return x;
}

template <class T>
__device__ __forceinline__ T data_prox(T f, T step, const Observed& seen, T delta) {
    if (FIDELITY == 1) return (f + step * seen.total * seen.value(0)) / (1 + step * seen.total);
    if (FIDELITY == 2) return huber_prox<T>(f, step, seen, delta);
    return l1_prox<T>(f, step, seen);
}
