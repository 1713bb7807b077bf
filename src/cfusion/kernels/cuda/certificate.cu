// The lower bound of kernels/numpy/certificate.py: repair the top dual, compute the slopes below it, minimise per
// pixel.

#define HALF_ROOT 0.70710678118654752440
#define THIRD_ROOT 0.57735026918962576451
#define TWO_THIRDS_ROOT 0.81649658092772603273
#define TOP (ORDER + 1)  // planes of the top dual
#define MARGIN (AT_ONCE * ORDER)  // a repair step looks ORDER pixels away
#define TILE_ROWS (ROOM_ROWS - 2 * MARGIN)
#define TILE_COLUMNS (ROOM_COLUMNS - 2 * MARGIN)
#define ROOM (ROOM_ROWS * ROOM_COLUMNS)
#define TERM_WEIGHT (real)0.125

// The balls of a problem at a pixel.
struct Balls {
    const real *confidence, *total, *edge, *tensor;
    size_t plane;
    real alpha[3];

    __device__ real limit(int level, size_t p) const { return EDGE && level == 0 ? alpha[0] * edge[p] : alpha[level]; }

    // The steepest slope that the data can balance: unlimited for L2 or with an anchor, none without data.
    __device__ real hold(size_t p) const {
        const real steepest = sizeof(real) == 4 ? (real)3.402823466e38 : (real)1.7976931348623157e308;
        const real held = confidence[p] * total[p];
        if (ANCHOR) return steepest;
        if (FIDELITY == 1) return held > 0 ? steepest : (real)0;
        return held;
    }

    // D^(1/2) of a first-order dual, its flux (where differences exist), and back.
    template <class T>
    __device__ void stretch(T* q, size_t p) const {
#if TENSOR
        const T xx = tensor[p], xy = tensor[plane + p], yy = tensor[2 * plane + p], first = q[0];
        q[0] = xx * first + xy * q[1];
        q[1] = xy * first + yy * q[1];
#endif
    }
    template <class T>
    __device__ void flux(T* q, size_t p, unsigned bits) const {
        stretch(q, p);
        for (int m = 0; m < 2; m++) if (!(bits & 1 << m)) q[m] = 0;
    }
    template <class T>
    __device__ void relax(T* q, size_t p) const {
#if TENSOR
        const T xx = tensor[p], xy = tensor[plane + p], yy = tensor[2 * plane + p], first = q[0];
        const T least = (T)1.17549435e-38f;
        const T determinant = xx * yy - xy * xy > least ? xx * yy - xy * xy : least;
        q[0] = (yy * first - xy * q[1]) / determinant;
        q[1] = (xx * q[1] - xy * first) / determinant;
#endif
    }
};

template <class T>
__device__ __forceinline__ T shrink_into(const T* p, int planes, T limit) {
    T square = 0;
    for (int m = 0; m < planes; m++) square += p[m] * p[m];
    const T length = sqrt(square);
    return length > limit ? limit / length : (T)1;
}

// E^T of one order at a pixel; `at(m, down, right)` reads plane m of p at a neighbour, zero outside.
template <class T, class Read>
__device__ __forceinline__ void adjoint(int order, Read at, T* out) {
    if (order == 1) {
        out[0] = at(0, 0, -1) - at(0, 0, 0) + at(1, -1, 0) - at(1, 0, 0);
    } else if (order == 2) {
        const T middle = at(1, 0, 0);
        out[0] = at(0, 0, 0) - at(0, 0, 1) + (T)HALF_ROOT * (middle - at(1, 1, 0));
        out[1] = (T)HALF_ROOT * (middle - at(1, 0, 1)) + at(2, 0, 0) - at(2, 1, 0);
    } else {
        const T second = at(1, 0, 0), third = at(2, 0, 0);
        out[0] = at(0, 0, -1) - at(0, 0, 0) + (T)THIRD_ROOT * (at(1, -1, 0) - second);
        out[1] = (T)TWO_THIRDS_ROOT * (at(1, 0, -1) - second + at(2, -1, 0) - third);
        out[2] = (T)THIRD_ROOT * (at(2, 0, -1) - third) + at(3, -1, 0) - at(3, 0, 0);
    }
}

// E of one order at a pixel, zero where a plane does not exist.
template <class Read>
__device__ __forceinline__ void gradient(int order, unsigned bits, Read at, real* out) {
    if (order == 1) {
        out[0] = bits & 1 ? at(0, 0, 1) - at(0, 0, 0) : 0;
        out[1] = bits & 2 ? at(0, 1, 0) - at(0, 0, 0) : 0;
    } else if (order == 2) {
        out[0] = bits & 4 ? at(0, 0, 0) - at(0, 0, -1) : 0;
        out[1] = bits & 8 ? (real)HALF_ROOT * (at(1, 0, 0) - at(1, 0, -1) + at(0, 0, 0) - at(0, -1, 0)) : 0;
        out[2] = bits & 16 ? at(1, 0, 0) - at(1, -1, 0) : 0;
    } else {
        const real a = at(0, 0, 0), b = at(1, 0, 0), c = at(2, 0, 0);
        out[0] = bits & 32 ? at(0, 0, 1) - a : 0;
        out[1] = bits & 64 ? (real)TWO_THIRDS_ROOT * (at(1, 0, 1) - b) + (real)THIRD_ROOT * (at(0, 1, 0) - a) : 0;
        out[2] = bits & 128 ? (real)THIRD_ROOT * (at(2, 0, 1) - c) + (real)TWO_THIRDS_ROOT * (at(1, 1, 0) - b) : 0;
        out[3] = bits & 256 ? at(2, 1, 0) - c : 0;
    }
}

// The duals of all orders at one pixel, g first: those of order j are j + 1 planes.
#define CHAIN ((ORDER + 1) * (ORDER + 2) / 2)
#define PLANE(order) ((order) * ((order) + 1) / 2)  // the first of that order; of g for order 0
#define BEYOND (ROOM_COLUMNS + 1)  // zeros before the first plane and after each: what is looked at beyond a border
#define STRIDE (ROOM + BEYOND)  // from plane to plane
#define CELLS ((ROOM + THREADS - 1) / THREADS)  // of a thread

// A thread's own pixels; their chains, which others read, are in shared memory.
struct Cell {
    real chain[CHAIN], was[TOP], hold;  // a hold below zero: not in the image
    unsigned bits;
};

// The place of a cell in the room, the tile it belongs to, and which of its values others read.
struct Spot {
    int row, column;

    __device__ Spot(int k) : row(k / ROOM_COLUMNS), column(k % ROOM_COLUMNS) {}
    __device__ bool within(int margin) const {
        return row >= margin && row < ROOM_ROWS - margin && column >= margin && column < ROOM_COLUMNS - margin;
    }
    __device__ bool mine() const { return within(MARGIN); }
    __device__ bool border() const { return mine() && !within(2 * MARGIN); }
};

// All repair steps of the whole grid: before <- proj(ahead - step rise), ahead <- before + momentum (its change). A
// tile takes AT_ONCE steps on its own, in a room that includes the pixels they depend on; then tiles read each other's
// borders, or whole tiles if there are more tiles than blocks. Two copies of `ahead` and `before` (2, TOP, H, W)
// alternate for that; `before_turns` turns are over. Beyond the side of a room the next row is read, which affects the
// margin only.
extern "C" __global__ void __launch_bounds__(THREADS, 1) repair(
    real* ahead, real* before, const real* __restrict__ momenta, const unsigned short* __restrict__ links,
    const real* __restrict__ confidence, const real* __restrict__ total, const real* __restrict__ edge,
    const real* __restrict__ tensor, real alpha_1, real alpha_2, real alpha_3, int rounds, int before_turns, int height,
    int width, unsigned* arrived, unsigned arrived_before
) {
    extern __shared__ __align__(16) char memory[];
    const size_t n = (size_t)height * width;
    const Balls balls = {confidence, total, edge, tensor, n, {alpha_1, alpha_2, alpha_3}};
    real* room = (real*)memory + BEYOND;  // (CHAIN, STRIDE)
    for (int k = threadIdx.x; k < (CHAIN + 1) * BEYOND; k += THREADS) room[k / BEYOND * STRIDE - BEYOND + k % BEYOND] = 0;
    const int across = (width + TILE_COLUMNS - 1) / TILE_COLUMNS, tiles = across * ((height + TILE_ROWS - 1) / TILE_ROWS);
    const bool stays = tiles <= gridDim.x;
    const real step = (real)1 / (8 * ORDER);
    Cell cells[CELLS];
    for (int done = 0, turn = 0; done < rounds; done += AT_ONCE, turn++) {
        const int steps = min(AT_ONCE, rounds - done);
        const bool first_turn = done == 0, last_turn = done + AT_ONCE >= rounds;
        const int from = (before_turns + turn) & 1;
        const size_t source = from * TOP * n, target = (1 - from) * TOP * n;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int row0 = tile / across * TILE_ROWS - MARGIN, column0 = tile % across * TILE_COLUMNS - MARGIN;
#pragma unroll
            for (int c = 0; c < CELLS; c++) {
                const int k = threadIdx.x + c * THREADS;
                const Spot spot(k);
                if (k >= ROOM || (stays && !first_turn && spot.mine())) continue;
                const int i = row0 + spot.row, j = column0 + spot.column;
                const bool inside = i >= 0 && i < height && j >= 0 && j < width;
                const size_t p = (size_t)i * width + j;
                for (int m = 0; m < TOP; m++) {
                    cells[c].chain[PLANE(ORDER) + m] = inside ? __ldcg(ahead + source + m * n + p) : (real)0;
                    cells[c].was[m] = inside ? __ldcg(before + source + m * n + p) : (real)0;
                    room[(PLANE(ORDER) + m) * STRIDE + k] = cells[c].chain[PLANE(ORDER) + m];
                }
                if (first_turn || !stays) {
                    cells[c].hold = inside ? balls.hold(p) : (real)-1;
                    cells[c].bits = inside ? links[p] : 0;
                }
            }
            __syncthreads();
            for (int each = 0; each < steps; each++) {
                const int first = MARGIN - (steps - each) * ORDER, last = ROOM_ROWS - first;  // rows that still matter
#pragma unroll
                for (int order = ORDER; order >= 1; order--) {
#pragma unroll
                    for (int c = 0; c < CELLS; c++) {
                        const int k = threadIdx.x + c * THREADS;
                        const Spot spot(k);
                        if (spot.row < first || spot.row >= last) continue;
                        Cell& cell = cells[c];
                        real out[3];
                        adjoint<real>(order, [&](int m, int down, int right) {
#if ORDER == 1 && TENSOR
                            const int there = k + down * ROOM_COLUMNS + right;
                            const int i = row0 + spot.row + down, j = column0 + spot.column + right;
                            real q[2] = {room[PLANE(1) * STRIDE + there], room[(PLANE(1) + 1) * STRIDE + there]};
                            if (i >= 0 && i < height && j >= 0 && j < width) balls.flux(q, (size_t)i * width + j, links[(size_t)i * width + j]);
                            return q[m];
#else
                            if (down == 0 && right == 0) return cell.chain[PLANE(order) + m];
                            return room[(PLANE(order) + m) * STRIDE + k + down * ROOM_COLUMNS + right];
#endif
                        }, out);
                        if (order == 1) out[0] = cell.hold >= 0 ? out[0] - min(max(out[0], -cell.hold), cell.hold) : (real)0;
                        for (int m = 0; m < order; m++) {
                            cell.chain[PLANE(order - 1) + m] = out[m];
                            room[(PLANE(order - 1) + m) * STRIDE + k] = out[m];
                        }
                    }
                    __syncthreads();
                }
#pragma unroll
                for (int order = 1; order < ORDER; order++) {
#pragma unroll
                    for (int c = 0; c < CELLS; c++) {
                        const int k = threadIdx.x + c * THREADS;
                        const Spot spot(k);
                        if (spot.row < first || spot.row >= last) continue;
                        Cell& cell = cells[c];
                        const size_t p = (size_t)(row0 + spot.row) * width + column0 + spot.column;
                        real out[3] = {0, 0, 0}, within[3];
                        if (cell.hold >= 0) {
                            gradient(order, cell.bits, [&](int m, int down, int right) {
                                if (down == 0 && right == 0) return cell.chain[PLANE(order - 1) + m];
                                return room[(PLANE(order - 1) + m) * STRIDE + k + down * ROOM_COLUMNS + right];
                            }, out);
                            const real* dual = cell.chain + PLANE(order);
                            for (int m = 0; m <= order; m++) within[m] = dual[m];
                            if (order == 1) balls.relax(within, p);
                            const real shrink = shrink_into(within, order + 1, balls.limit(order - 1, p));
                            for (int m = 0; m <= order; m++) within[m] *= shrink;
                            if (order == 1) balls.stretch(within, p);
                            for (int m = 0; m <= order; m++) out[m] = TERM_WEIGHT * out[m] + (dual[m] - within[m]);
                        }
                        for (int m = 0; m <= order; m++) {
                            cell.chain[PLANE(order) + m] = out[m];
                            room[(PLANE(order) + m) * STRIDE + k] = out[m];
                        }
                    }
                    __syncthreads();
                }
                const real momentum = momenta[done + each];
#pragma unroll
                for (int c = 0; c < CELLS; c++) {
                    const int k = threadIdx.x + c * THREADS;
                    const Spot spot(k);
                    Cell& cell = cells[c];
                    if (spot.row < first || spot.row >= last || cell.hold < 0) continue;
                    const size_t p = (size_t)(row0 + spot.row) * width + column0 + spot.column;
                    real rise[4], now[TOP];
                    gradient(ORDER, cell.bits, [&](int m, int down, int right) {
                        if (down == 0 && right == 0) return cell.chain[PLANE(ORDER - 1) + m];
                        return room[(PLANE(ORDER - 1) + m) * STRIDE + k + down * ROOM_COLUMNS + right];
                    }, rise);
                    if (ORDER == 1) balls.stretch(rise, p);
                    for (int m = 0; m < TOP; m++) now[m] = cell.chain[PLANE(ORDER) + m] - step * rise[m];
                    const real shrink = shrink_into(now, TOP, balls.limit(ORDER - 1, p));
                    for (int m = 0; m < TOP; m++) {
                        now[m] *= shrink;
                        cell.chain[PLANE(ORDER) + m] = now[m] + momentum * (now[m] - cell.was[m]);
                        room[(PLANE(ORDER) + m) * STRIDE + k] = cell.chain[PLANE(ORDER) + m];
                        cell.was[m] = now[m];
                    }
                }
                __syncthreads();
            }
#pragma unroll
            for (int c = 0; c < CELLS; c++) {
                const int k = threadIdx.x + c * THREADS;
                const Spot spot(k);
                const bool wanted = stays && !last_turn ? spot.border() : spot.mine();
                if (!wanted || cells[c].hold < 0) continue;
                const size_t p = (size_t)(row0 + spot.row) * width + column0 + spot.column;
                for (int m = 0; m < TOP; m++) {
                    __stcg(ahead + target + m * n + p, cells[c].chain[PLANE(ORDER) + m]);
                    __stcg(before + target + m * n + p, cells[c].was[m]);
                }
            }
        }
        wait_for_all(arrived, arrived_before + (turn + 1) * gridDim.x);
    }
}

// The top dual projected into its ball: the start of the repair (both copies that it reads, and `before`).
extern "C" __global__ void __launch_bounds__(256) project(
    const real* __restrict__ top, real* __restrict__ ahead, real* __restrict__ before, const real* __restrict__ edge,
    real alpha_1, real alpha_2, real alpha_3, size_t n
) {
    const size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n) return;
    const Balls balls = {0, 0, edge, 0, n, {alpha_1, alpha_2, alpha_3}};
    real here[TOP];
    for (int m = 0; m < TOP; m++) here[m] = top[m * n + p];
    const real shrink = shrink_into(here, TOP, balls.limit(ORDER - 1, p));
    for (int m = 0; m < TOP; m++) ahead[m * n + p] = before[m * n + p] = shrink * here[m];
}

// E^T from the planes of one order to the `order` planes below, in double precision; and per block the least factor
// that brings `lower` into the ball of its level.
extern "C" __global__ void __launch_bounds__(256) descend(
    const real* __restrict__ top, const double* __restrict__ upper, double* __restrict__ lower, int order,
    const unsigned short* __restrict__ links, const real* __restrict__ edge, const real* __restrict__ tensor, real alpha_1, real alpha_2, real alpha_3, int height,
    int width, double* __restrict__ factors
) {
    const size_t n = (size_t)height * width;
    const Balls balls = {0, 0, edge, tensor, n, {alpha_1, alpha_2, alpha_3}};
    double factor = 1;
    for (size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x; p < n; p += (size_t)gridDim.x * blockDim.x) {
        const int i = p / width, j = p % width;
        double out[3];
        adjoint<double>(order, [=](int m, int down, int right) {
            if (i + down < 0 || i + down >= height || j + right < 0 || j + right >= width) return 0.;
            const size_t there = p + (long long)down * width + right;
            if (order < ORDER) return upper[m * n + there];
            if (ORDER > 1 || !TENSOR) return (double)top[m * n + there];
            double q[2] = {(double)top[there], (double)top[n + there]};
            balls.flux(q, there, links[there]);
            return q[m];
        }, out);
        for (int m = 0; m < order; m++) lower[m * n + p] = out[m];
        if (order == 1) continue;
        if (order == 2) balls.relax(out, p);
        factor = min(factor, shrink_into(out, order, (double)balls.limit(order - 2, p)));
    }
    factor = over_block(factor, 1., Least());
    if (threadIdx.x == 0) factors[blockIdx.x] = factor;
}

struct Box {
    double low, high;
};

// min over x in the box of slope x + lam sum_k w_k |x - d_k|: convex and piecewise linear, so at a corner.
__device__ double l1_bound(double slope, double lam, const Observed& seen, const Box& box) {
    double value = slope * box.low, total = 0, heaped = 0, x = box.low;
    int known = 0;
    const int at_once = 4;  // loads that do not wait for one another
    for (bool more = true; more && known < seen.views;) {
        real d[at_once], w[at_once];
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            d[j] = seen.value(min(known + j, seen.views - 1));
            w[j] = seen.weight(min(known + j, seen.views - 1));
        }
        const int before = known;
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            more = more && before + j < seen.views && !isinf(d[j]);
            if (!more) continue;
            total += w[j];
            value += lam * w[j] * fabs(d[j] - box.low);
            known++;
        }
    }
    double best = value;
    for (int k = 0; k < known; k++) {
        const double d = seen.value(k);
        if (d > box.low) {
            value += (slope + lam * (2 * heaped - total)) * (d - x);
            x = d;
            best = min(best, value);
        }
        heaped += seen.weight(k);
    }
    return min(best, value + (slope + lam * (2 * heaped - total)) * (box.high - x));
}

__device__ double huber_slope(double x, const Observed& seen, double delta) {
    double sum = 0;
    for (int k = 0; k < seen.views && !isinf(seen.value(k)); k++)
        sum += seen.weight(k) * min(max((x - seen.value(k)) / delta, -1.), 1.);
    return sum;
}

// Bisection on the increasing derivative; convexity bounds the remaining error.
__device__ double huber_bound(double slope, double lam, const Observed& seen, const Box& box, double delta) {
    double low = box.low, high = box.high, x;
    if (slope + lam * huber_slope(low, seen, delta) >= 0) x = low;
    else if (slope + lam * huber_slope(high, seen, delta) <= 0) x = high;
    else {
        for (int step = 0; step < 60; step++) {
            x = (low + high) / 2;
            if (slope + lam * huber_slope(x, seen, delta) > 0) high = x;
            else low = x;
        }
        x = (low + high) / 2;
    }
    double value = slope * x + lam * misfit_at<double>(x, seen, 0, delta);
    if (x > box.low && x < box.high)
        value -= fabs(slope + lam * huber_slope(x, seen, delta)) * (box.high - box.low);
    return value;
}

// The sum over the domain of each pixel's minimum, with its slope scaled by the least of all factors; and that factor.
extern "C" __global__ void __launch_bounds__(256) pixel_bounds(
    const double* __restrict__ slopes, const double* __restrict__ factors, int factor_count,
    const real* __restrict__ values, const real* __restrict__ weights, const real* __restrict__ total,
    const real* __restrict__ scatter, const real* __restrict__ confidence, const unsigned short* __restrict__ links,
    const real* __restrict__ anchor, double pull, double delta, double low, double high, int views, size_t n, Desk desk
) {
    double factor = 1, sum[2] = {0, 0};
    for (int k = threadIdx.x; k < factor_count; k += blockDim.x) factor = min(factor, factors[k]);
    factor = over_block(factor, 1., Least());
    const Box box = {low, high};
    for (size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x; p < n; p += (size_t)gridDim.x * blockDim.x) {
        if (!(links[p] & INSIDE)) continue;
        const double slope = factor * slopes[p], lam = confidence[p];
        const Observed seen = {values + p, weights + p, total[p], n, views};
        const real left_out = FIDELITY == 1 ? scatter[p] : (real)0;
#if ANCHOR
        double x = data_prox<double>(anchor[p] - slope / pull, lam / pull, seen, delta);
        x = min(max(x, box.low), box.high);  // a weak pull holds x no better than no pull
        const double away = x - anchor[p];
        sum[0] += slope * x + lam * misfit_at<double>(x, seen, left_out, delta) + pull / 2 * away * away;
#else
        const double hold = lam * total[p], end = slope > 0 ? box.low : box.high;
        if (!(hold > 0)) sum[0] += slope * end + lam * misfit_at<double>(end, seen, left_out, delta);
        else if (FIDELITY == 0) sum[0] += l1_bound(slope, lam, seen, box);
        else if (FIDELITY == 2) sum[0] += huber_bound(slope, lam, seen, box, delta);
        else {
            const double x = min(max(seen.value(0) - slope / hold, box.low), box.high);
            sum[0] += slope * x + lam * misfit_at<double>(x, seen, left_out, delta);
        }
#endif
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) sum[1] = factor;
    add_up(sum, desk);
}
