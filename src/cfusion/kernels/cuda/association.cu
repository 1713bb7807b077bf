// Points on a raster: z-buffer, closing, natural-neighbour fill; definitions in kernels/numpy/association.py.
// One launch processes the maps of several views: blockIdx.z is the view.
// Sums over threads are of integers, so that no result depends on their order.

typedef unsigned long long Whole;

// This block's part of an array with `size` values per map.
template <class T>
__device__ __forceinline__ T* own(T* array, size_t size) { return array ? array + blockIdx.z * size : array; }
#define NONE 0xffffffffu
#define UNKNOWN __int_as_float(0x7fc00000)

// ---- z-buffer: the least depth of every pixel, then the first point at that depth

// Integers in the order of the doubles.
__device__ __forceinline__ Whole rank_of(double z) {
    const Whole bits = (Whole)__double_as_longlong(z + 0.);  // -0 becomes 0
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

__device__ __forceinline__ long long landing(double u, double v, double z, int height, int width) {
    const double column = floor(u + 0.5), row = floor(v + 0.5);
    const bool lands = column >= 0 && column < width && row >= 0 && row < height && isfinite(z);
    return lands ? (long long)row * width + (long long)column : -1;
}

extern "C" __global__ void __launch_bounds__(256) least_depth(
    const double* __restrict__ u, const double* __restrict__ v, const double* __restrict__ z, unsigned points,
    int height, int width, Whole* __restrict__ least
) {
    u = own(u, points), v = own(v, points), z = own(z, points), least = own(least, (size_t)height * width);
    const unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= points) return;
    const long long pixel = landing(u[k], v[k], z[k], height, width);
    if (pixel >= 0) atomicMin(least + pixel, rank_of(z[k]));
}

extern "C" __global__ void __launch_bounds__(256) first_point(
    const double* __restrict__ u, const double* __restrict__ v, const double* __restrict__ z, unsigned points,
    int height, int width, const Whole* __restrict__ least, unsigned* __restrict__ winner
) {
    const size_t pixels = (size_t)height * width;
    u = own(u, points), v = own(v, points), z = own(z, points), least = own(least, pixels), winner = own(winner, pixels);
    const unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= points) return;
    const long long pixel = landing(u[k], v[k], z[k], height, width);
    if (pixel >= 0 && least[pixel] == rank_of(z[k])) atomicMin(winner + pixel, k);
}

extern "C" __global__ void __launch_bounds__(256) gather(
    const double* __restrict__ z, const float* __restrict__ values, const unsigned* __restrict__ winner, unsigned points,
    unsigned pixels, float* __restrict__ depth, float* __restrict__ carried
) {
    z = own(z, points), values = own(values, points), winner = own(winner, pixels);
    depth = own(depth, pixels), carried = own(carried, pixels);
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    const unsigned k = winner[p];
    depth[p] = k == NONE ? UNKNOWN : (float)z[k];
    if (carried) carried[p] = k == NONE ? UNKNOWN : values[k];
}

// ---- closing: a dilation is the nearest True pixel of each row, then the rows of the disc

extern "C" __global__ void __launch_bounds__(256) look_across(
    const bool* __restrict__ mask, bool wanted, int radius, int height, int width, int* __restrict__ across
) {
    mask = own(mask, (size_t)height * width), across = own(across, (size_t)height * width);
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= width) return;
    int nearest = radius + 1;
    for (int away = 0; away <= radius && nearest > radius; away++) {
        const bool left = j >= away && mask[(size_t)i * width + j - away] == wanted;
        const bool right = j + away < width && mask[(size_t)i * width + j + away] == wanted;
        if (left || right) nearest = away;
    }
    across[(size_t)i * width + j] = nearest;
}

// grown = wanted within the disc of a pixel that is `wanted`, else its opposite.
extern "C" __global__ void __launch_bounds__(256) look_along(
    const int* __restrict__ across, bool wanted, int radius, int height, int width, bool* __restrict__ grown
) {
    across = own(across, (size_t)height * width), grown = own(grown, (size_t)height * width);
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= width) return;
    bool touches = false;
    for (int row = max(0, i - radius); row <= min(height - 1, i + radius) && !touches; row++) {
        const int reach = across[(size_t)row * width + j];
        touches = reach <= radius && reach * reach + (row - i) * (row - i) <= radius * radius;
    }
    grown[(size_t)i * width + j] = touches == wanted;
}

// ---- natural neighbours: the raster extends `margin` cells beyond the image; known and wanted pixels are its marks

struct Raster {
    int height, width, margin;  // of the raster with its margin

    __device__ size_t cells() const { return (size_t)height * width; }
    __device__ size_t pixels() const { return (size_t)(height - 2 * margin) * (width - 2 * margin); }
    __device__ long long pixel(int row, int column) const {  // in the image, or -1
        const int i = row - margin, j = column - margin, h = height - 2 * margin, w = width - 2 * margin;
        return i >= 0 && i < h && j >= 0 && j < w ? (long long)i * w + j : -1;
    }
};

__device__ __forceinline__ bool marked(
    const Raster& raster, const float* depth, const bool* region, bool wanted, int row, int column
) {
    const long long p = raster.pixel(row, column);
    if (p < 0) return false;
    return wanted ? region[p] && isnan(depth[p]) : !isnan(depth[p]);
}

// Rows up and down from each cell to the nearest mark of its column; H + W or more if there is none. A block takes 32
// columns; each thread scans a part of one, and combines it with the marks that the others found.
extern "C" __global__ void __launch_bounds__(1024) rise_and_fall(
    const float* __restrict__ depth, const bool* __restrict__ region, bool wanted, Raster raster, int* __restrict__ rise,
    int* __restrict__ fall
) {
    __shared__ int first[32][33];
    __shared__ int last[32][33];
    depth = own(depth, raster.pixels()), region = own(region, raster.pixels());
    rise = own(rise, raster.cells()), fall = own(fall, raster.cells());
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    const int each = (raster.height + 31) / 32, start = part * each, end = min(start + each, raster.height);
    const int far = raster.height + raster.width;
    int above = -1, below = -1;  // the first and the last mark of this part
    for (int row = start; row < end && column < raster.width; row++) {
        if (!marked(raster, depth, region, wanted, row, column)) continue;
        if (above < 0) above = row;
        below = row;
    }
    first[part][lane] = above;
    last[part][lane] = below;
    __syncthreads();
    if (column >= raster.width) return;
    int before = -1, after = -1;
    for (int other = part - 1; other >= 0 && before < 0; other--) before = last[other][lane];
    for (int other = part + 1; other < 32 && after < 0; other++) after = first[other][lane];
    for (int row = start; row < end; row++) {
        if (marked(raster, depth, region, wanted, row, column)) before = row;
        rise[(size_t)row * raster.width + column] = before < 0 ? far : row - before;
    }
    for (int row = end - 1; row >= start; row--) {
        if (marked(raster, depth, region, wanted, row, column)) after = row;
        fall[(size_t)row * raster.width + column] = after < 0 ? far : after - row;
    }
}

// Squared distance to the nearest mark, or one more than the limit; the search ends where a column is further away than
// the best mark so far.
extern "C" __global__ void __launch_bounds__(256) squared_distance(
    const int* __restrict__ rise, const int* __restrict__ fall, const int* __restrict__ limit, Raster raster,
    int* __restrict__ squared
) {
    rise = own(rise, raster.cells()), fall = own(fall, raster.cells()), squared = own(squared, raster.cells());
    limit = own(limit, raster.cells());
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= raster.width) return;
    const size_t line = (size_t)row * raster.width;
    long long best = min(rise[line + column], fall[line + column]);
    best *= best;
    if (limit) best = min(best, limit[line + column] + 1ll);
    for (int away = 1; away < raster.width && (long long)away * away < best; away++) {
        for (int side = -1; side <= 1; side += 2) {
            const int there = column + side * away;
            if (there < 0 || there >= raster.width) continue;
            const long long steps = min(rise[line + there], fall[line + there]);
            best = min(best, steps * steps + (long long)away * away);
        }
    }
    squared[line + column] = (int)min(best, 0x7fffffffll);
}

// The number of wanted cells of the row up to and including this one; one warp per row.
extern "C" __global__ void __launch_bounds__(128) count_wanted(
    const float* __restrict__ depth, const bool* __restrict__ region, Raster raster, int* __restrict__ counted
) {
    depth = own(depth, raster.pixels()), region = own(region, raster.pixels()), counted = own(counted, raster.cells());
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= raster.height) return;
    int count = 0;
    for (int first = 0; first < raster.width; first += 32) {
        const int column = first + lane;
        const bool here = column < raster.width && marked(raster, depth, region, true, row, column);
        const unsigned all = __ballot_sync(0xffffffffu, here);
        if (column < raster.width)
            counted[(size_t)row * raster.width + column] = count + __popc(all & (0xffffffffu >> (31 - lane)));
        count += __popc(all);
    }
}

// The largest size of the known values, as bits of a float, which have the order of the sizes.
extern "C" __global__ void __launch_bounds__(256) find_largest(
    const float* __restrict__ depth, unsigned pixels, unsigned* __restrict__ largest
) {
    depth = own(depth, pixels), largest = own(largest, 1);
    unsigned mine = 0;
    for (unsigned p = blockIdx.x * 256 + threadIdx.x; p < pixels; p += gridDim.x * 256)
        if (!isnan(depth[p])) mine = max(mine, __float_as_uint(fabsf(depth[p])));
    for (int step = 16; step > 0; step /= 2) mine = max(mine, __shfl_xor_sync(0xffffffffu, mine, step));
    if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
}

// The power of two by which lent values become integers, such that their sum over all cells stays below 2^62.
__device__ __forceinline__ double scale_of(const Raster& raster, unsigned largest) {
    const double most = max((double)__uint_as_float(largest), 1e-30);
    return exp2(floor(60 - log2((double)raster.cells())) - ceil(log2(most)));
}

__device__ __forceinline__ int whole_root(int square) { return (int)sqrt((double)square); }

// Every lending cell adds its value to its disc, row by row: added at one end, subtracted after the other.
// A share for |p - q| <= r(q), and one for < that excludes ties.
extern "C" __global__ void __launch_bounds__(256) lend(
    const float* __restrict__ depth, const int* __restrict__ rise, const int* __restrict__ fall,
    const int* __restrict__ reach, const int* __restrict__ to_wanted, const int* __restrict__ counted, Raster raster,
    const unsigned* __restrict__ largest, Whole* __restrict__ total, int* __restrict__ shares
) {
    const size_t cells = raster.cells(), edges = cells + raster.height;
    depth = own(depth, raster.pixels()), rise = own(rise, cells), fall = own(fall, cells), reach = own(reach, cells);
    to_wanted = own(to_wanted, cells), counted = own(counted, cells), largest = own(largest, 1);
    total = own(total, edges), shares = own(shares, edges);
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= raster.width) return;
    const size_t line = (size_t)y * raster.width;
    const int far = reach[line + x];
    if (far == 0 || to_wanted[line + x] > far) return;
    double sum = 0;
    int count = 0;
    for (int column = max(0, x - whole_root(far)); column <= min(raster.width - 1, x + whole_root(far)); column++) {
        const int up = rise[line + column], down = fall[line + column], aside = (column - x) * (column - x);
        if (up < raster.height && up * up + aside == far) sum += depth[raster.pixel(y - up, column)], count++;
        if (down != 0 && down < raster.height && down * down + aside == far) sum += depth[raster.pixel(y + down, column)], count++;
    }
    if (count == 0) return;  // nothing is known at all
    const Whole lent = (Whole)llrint(sum / count * scale_of(raster, *largest));
    for (int tied = 0; tied < 2; tied++) {
        const int radius = whole_root(far - tied);
        for (int row = max(0, y - radius); row <= min(raster.height - 1, y + radius); row++) {
            const int half_width = whole_root(far - tied - (row - y) * (row - y));
            const int first = max(0, x - half_width), last = min(raster.width - 1, x + half_width);
            const int* here = counted + (size_t)row * raster.width;
            if (here[last] == (first ? here[first - 1] : 0)) continue;  // nobody there wants anything
            const size_t start = (size_t)row * (raster.width + 1);
            atomicAdd(total + start + first, lent);
            atomicAdd(total + start + last + 1, (Whole)0 - lent);
            atomicAdd(shares + start + first, 1);
            atomicAdd(shares + start + last + 1, -1);
        }
    }
}

// Sum the lent values along each row, one warp per row, and divide.
extern "C" __global__ void __launch_bounds__(128) take_mean(
    const float* __restrict__ depth, const bool* __restrict__ region, Raster raster, const unsigned* __restrict__ largest,
    const Whole* __restrict__ total, const int* __restrict__ shares, float* __restrict__ filled
) {
    const size_t edges = raster.cells() + raster.height;
    depth = own(depth, raster.pixels()), region = own(region, raster.pixels()), filled = own(filled, raster.pixels());
    total = own(total, edges), shares = own(shares, edges);
    const double scale = scale_of(raster, *own(largest, 1));
    const int row = raster.margin + blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= raster.height - raster.margin) return;
    const size_t start = (size_t)row * (raster.width + 1);
    Whole value = 0;
    int share = 0;
    for (int first = 0; first < raster.width; first += 32) {
        const int column = first + lane;
        Whole step = column < raster.width ? total[start + column] : 0;
        int more = column < raster.width ? shares[start + column] : 0;
        for (int away = 1; away < 32; away *= 2) {
            const Whole before = __shfl_up_sync(0xffffffffu, step, away);
            const int fewer = __shfl_up_sync(0xffffffffu, more, away);
            if (lane >= away) step += before, more += fewer;
        }
        value += step;
        share += more;
        const long long p = raster.pixel(row, column);
        if (p >= 0) {
            const bool wanted = region[p] && isnan(depth[p]);
            filled[p] = wanted && share > 0 ? (float)((double)(long long)value / scale / share) : depth[p];
        }
        value = __shfl_sync(0xffffffffu, value, 31);
        share = __shfl_sync(0xffffffffu, share, 31);
    }
}

// The range of the known values around each pixel. One tile per block: minima and maxima along its rows, then columns.
extern "C" __global__ void __launch_bounds__(256) relief(
    const float* __restrict__ depth, int radius, int height, int width, float* __restrict__ out
) {
    const int TILE = 32;
    extern __shared__ float2 rows[];  // (TILE + 2 radius, TILE) least and largest
    const float infinite = __int_as_float(0x7f800000);
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    for (int k = threadIdx.x; k < (TILE + 2 * radius) * TILE; k += blockDim.x) {
        const int i = top + k / TILE - radius, j = left + k % TILE;
        float low = infinite, high = -infinite;  // what is unknown is neither less nor more
        if (i >= 0 && i < height && j < width) {
            for (int t = max(j - radius, 0); t <= min(j + radius, width - 1); t++) {
                const float there = __ldg(depth + (size_t)i * width + t);
                low = fminf(low, there);
                high = fmaxf(high, there);
            }
        }
        rows[k] = make_float2(low, high);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < TILE * TILE; k += blockDim.x) {
        const int i = top + k / TILE, j = left + k % TILE;
        if (i >= height || j >= width) continue;
        float low = infinite, high = -infinite;
        for (int t = 0; t <= 2 * radius; t++) {
            const float2 row = rows[k + t * TILE];
            low = fminf(low, row.x);
            high = fmaxf(high, row.y);
        }
        out[(size_t)i * width + j] = high - low;
    }
}
