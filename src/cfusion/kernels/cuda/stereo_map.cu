// A disparity map after matching: left-right check, specks, cues, median, bilateral filter.
// Definitions: frontends/consistency.py, cues.py, refine.py. Unknown is NaN.

#define UNKNOWN __int_as_float(0x7fc00000)
#define STEPS 16         // per pixel of disparity, while specks are looked for
#define SUPPORT 7        // pixels on each side of a pixel in which the share of unconfirmed ones is taken
#define ROUGHNESS 2      // second differences
#define JUMP 4           // jumps of the disparity
#define SLOPE 12         // the slope of the surface
#define STEEPEST 1.f     // pixels of disparity between neighbours of one surface
#define TEXTURE 5        // slopes of the image

// The row or column that is read beyond the border: mirrored, the last one once.
__device__ __forceinline__ int mirrored(int at, int size) {
    if (size == 1) return 0;
    while (at < 0 || at >= size) at = at < 0 ? -at : 2 * (size - 1) - at;
    return at;
}

// apart = |d - d'| with d' of the other map at u - d; `found` keeps d where that is within the tolerance.
// The rows of the other map run from right to left.
extern "C" __global__ void __launch_bounds__(256) compare(
    const float* __restrict__ disparity, const float* __restrict__ other, double tolerance, int width,
    float* __restrict__ apart, float* __restrict__ found
) {
    const int u = blockIdx.x * blockDim.x + threadIdx.x;
    if (u >= width) return;
    const size_t row = (size_t)blockIdx.y * width;
    const double d = disparity[row + u], there = u - d;
    const int column = min(max((int)floor(there), 0), max(width - 2, 0));
    const int next = there > column ? min(column + 1, width - 1) : column;
    const double before = other[row + width - 1 - column], after = other[row + width - 1 - next];
    const double between = before + (there - column) * (after - before);
    const double off = fmin(fabs(between - d), fmin(fabs(before - d), fabs(after - d)));
    apart[row + u] = there >= 0 ? (float)off : UNKNOWN;
    found[row + u] = there >= 0 && (float)off <= tolerance ? (float)d : UNKNOWN;
}

// ---- specks: every pixel points to one of its segment with a smaller number, the smallest to itself

__device__ __forceinline__ unsigned root_of(const unsigned* parent, unsigned p) {
    unsigned up = ((volatile const unsigned*)parent)[p];
    while (up != p) p = up, up = ((volatile const unsigned*)parent)[p];
    return p;
}

__device__ void join(unsigned* parent, unsigned a, unsigned b) {
    while (true) {
        a = root_of(parent, a), b = root_of(parent, b);
        if (a == b) return;
        const unsigned low = min(a, b), high = max(a, b);
        const unsigned was = atomicMin(parent + high, low);
        if (was == high) return;
        a = low, b = was;  // another thread was quicker: what it joined has to be joined too
    }
}

__device__ __forceinline__ bool connected(float one, float other, float step) {
    return one == one && other == other && fabsf(rintf(one * STEPS) - rintf(other * STEPS)) <= step;
}

extern "C" __global__ void __launch_bounds__(256) alone(unsigned pixels, unsigned* __restrict__ parent, unsigned* __restrict__ sizes) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < pixels) parent[p] = p, sizes[p] = 0;
}

// `step` is in 1 / STEPS of a pixel of disparity.
extern "C" __global__ void __launch_bounds__(256) join_segments(
    const float* __restrict__ found, float step, int width, unsigned pixels, unsigned* parent
) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    if (p % width > 0 && connected(found[p], found[p - 1], step)) join(parent, p, p - 1);
    if (p >= width && connected(found[p], found[p - width], step)) join(parent, p, p - width);
}

extern "C" __global__ void __launch_bounds__(256) count_segments(unsigned pixels, unsigned* parent, unsigned* sizes) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    const unsigned root = root_of(parent, p);
    atomicAdd(sizes + root, 1u);
    atomicMin(parent + p, root);
}

extern "C" __global__ void __launch_bounds__(256) drop_specks(
    const unsigned* __restrict__ parent, const unsigned* __restrict__ sizes, unsigned size, unsigned pixels,
    float* __restrict__ found
) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < pixels && sizes[root_of(parent, p)] <= size) found[p] = UNKNOWN;
}

// ---- cues

// |second difference| along an axis; NaN if one of the three is unknown or outside.
__device__ __forceinline__ float bend(const float* map, int v, int u, int down, int across, int height, int width) {
    if (v < down || u < across || v + down >= height || u + across >= width) return UNKNOWN;
    const size_t p = (size_t)v * width + u, step = (size_t)down * width + across;
    return fabsf((map[p + step] - map[p]) - (map[p] - map[p - step]));
}

// Adds the change of the disparity to the next pixel along an axis, unless it is a step, unknown or outside.
__device__ __forceinline__ void add_change(
    const float* map, int v, int u, int down, int across, int height, int width, float& change, float& amount
) {
    if (v < 0 || u < 0 || v + down >= height || u + across >= width) return;
    const size_t p = (size_t)v * width + u;
    const float step = map[p + (size_t)down * width + across] - map[p];
    if (fabsf(step) < STEEPEST) change += step, amount++;
}

// |dI / du|, one-sided at the border.
__device__ __forceinline__ float slope(const float* row, int u, int width) {
    if (width == 1) return 0;
    if (u == 0) return fabsf(row[1] - row[0]);
    return u == width - 1 ? fabsf(row[u] - row[u - 1]) : fabsf((row[u + 1] - row[u - 1]) / 2);
}

__device__ __forceinline__ float share(float value) { return fminf(fmaxf(value, 0.f), 1.f); }

// (8, height, width): apart, lonely, rough, front, behind, flat, then unsure and unlike; `curves` are those of `winners`.
extern "C" __global__ void __launch_bounds__(256) cues(
    const float* __restrict__ found, const float* __restrict__ apart, const float* __restrict__ image,
    const float* __restrict__ curves, float jump, float texture, float margin, int height, int width,
    float* __restrict__ out
) {
    const int u = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y;
    if (u >= width) return;
    const size_t p = (size_t)v * width + u, pixels = (size_t)height * width;
    float known = 0, bends = 0, amount = 0, slopes = 0, front = 0, behind = 0;
    float rise = 0, rises = 0, tilt = 0, tilts = 0;
    for (int i = -SUPPORT; i <= SUPPORT; i++)
        for (int j = -SUPPORT; j <= SUPPORT; j++) {
            const float there = found[(size_t)mirrored(v + i, height) * width + mirrored(u + j, width)];
            known += there == there;
        }
    for (int i = -ROUGHNESS; i <= ROUGHNESS; i++)
        for (int j = -ROUGHNESS; j <= ROUGHNESS; j++) {
            const int row = mirrored(v + i, height), column = mirrored(u + j, width);
            const float along = bend(found, row, column, 1, 0, height, width);
            const float across = bend(found, row, column, 0, 1, height, width);
            if (along == along) bends += along, amount++;
            if (across == across) bends += across, amount++;
        }
    for (int i = -SLOPE; i <= SLOPE; i++)
        for (int j = -SLOPE; j <= SLOPE; j++) {
            const int row = mirrored(v + i, height), column = mirrored(u + j, width);
            add_change(found, row - 1, column, 1, 0, height, width, rise, rises);
            add_change(found, row, column, 1, 0, height, width, rise, rises);
            add_change(found, row, column - 1, 0, 1, height, width, tilt, tilts);
            add_change(found, row, column, 0, 1, height, width, tilt, tilts);
        }
    const float of_slope = (2 * SLOPE + 1) * (2 * SLOPE + 1);
    rise = (rise / of_slope) / fmaxf(rises / of_slope, 1e-3f), tilt = (tilt / of_slope) / fmaxf(tilts / of_slope, 1e-3f);
    for (int i = max(-JUMP, -v); i <= min(JUMP, height - 1 - v); i++)
        for (int j = max(-JUMP, -u); j <= min(JUMP, width - 1 - u); j++) {
            const float off = (found[(size_t)(v + i) * width + u + j] - found[p]) - (i * rise + j * tilt);
            front = fmaxf(front, -off), behind = fmaxf(behind, off);
        }
    for (int i = -TEXTURE; i <= TEXTURE; i++)
        for (int j = -TEXTURE; j <= TEXTURE; j++)
            slopes += slope(image + (size_t)mirrored(v + i, height) * width, mirrored(u + j, width), width);
    const float of_roughness = (2 * ROUGHNESS + 1) * (2 * ROUGHNESS + 1), of_support = (2 * SUPPORT + 1) * (2 * SUPPORT + 1);
    const float of_texture = (2 * TEXTURE + 1) * (2 * TEXTURE + 1);
    const float rough = 2 * (bends / of_roughness) / fmaxf(amount / of_roughness, 1e-3f);
    const float second = curves[2 * pixels + p] - curves[pixels + p];
    const float all[8] = {
        apart[p] == apart[p] ? apart[p] : 1.f, 1 - known / of_support, rough / (1 + rough), front / (front + jump),
        behind / (behind + jump), texture / (texture + slopes / of_texture), margin / (margin + fmaxf(second, 0.f)),
        curves[3 * pixels + p]
    };
    for (int k = 0; k < 8; k++) out[k * pixels + p] = share(all[k]);
}

// ---- filters

// The farther of the nearest known values before and after, in the row (`across`) or in the column; NaN if none.
extern "C" __global__ void __launch_bounds__(256) farther(
    const float* __restrict__ map, bool across, int height, int width, float* __restrict__ out
) {
    const int u = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y;
    if (u >= width) return;
    const size_t p = (size_t)v * width + u, step = across ? 1 : width;
    const int at = across ? u : v, size = across ? width : height;
    float before = UNKNOWN, after = UNKNOWN;
    for (int k = 0; k <= at && before != before; k++) before = map[p - k * step];
    for (int k = 0; k < size - at && after != after; k++) after = map[p + k * step];
    out[p] = fminf(before, after);
}

// Medians of 5 x 5 pixels of `filled`, with repeated border, where `map` is known.
extern "C" __global__ void __launch_bounds__(256) median(
    const float* __restrict__ map, const float* __restrict__ filled, int height, int width, float* __restrict__ out
) {
    const int u = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y;
    if (u >= width) return;
    const size_t p = (size_t)v * width + u;
    float seen[25], middle = UNKNOWN;
    for (int k = 0; k < 25; k++) {
        const int row = min(max(v + k / 5 - 2, 0), height - 1), column = min(max(u + k % 5 - 2, 0), width - 1);
        const float there = filled[(size_t)row * width + column];
        seen[k] = there == there ? there : 0;
    }
#pragma unroll
    for (int k = 0; k < 25; k++) {
        int less = 0, same = 0;
#pragma unroll
        for (int other = 0; other < 25; other++) less += seen[other] < seen[k], same += seen[other] == seen[k];
        if (less <= 12 && less + same > 12) middle = seen[k];
    }
    out[p] = map[p] == map[p] ? middle : UNKNOWN;
}

// Means over neighbours, weighted by distance (Gaussian of `width` pixels), within `step` pixels of disparity.
extern "C" __global__ void __launch_bounds__(256) bilateral(
    const float* __restrict__ map, int radius, float spread, float step, int height, int width, float* __restrict__ out
) {
    const int u = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y;
    if (u >= width) return;
    const float here = map[(size_t)v * width + u];
    float total = 0, weights = 0;
    for (int i = max(v - radius, 0); i <= min(v + radius, height - 1); i++)
        for (int j = max(u - radius, 0); j <= min(u + radius, width - 1); j++) {
            const float there = map[(size_t)i * width + j];
            if (!(fabsf(there - here) < step)) continue;
            const float weight = expf(-(float)((i - v) * (i - v) + (j - u) * (j - u)) / (2 * spread * spread));
            total += weight * there, weights += weight;
        }
    out[(size_t)v * width + u] = weights > 0 ? total / weights : UNKNOWN;
}
