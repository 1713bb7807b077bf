// Re-association per pixel; conventions in numpy/pulling.py.

#define UNKNOWN __int_as_float(0x7fc00000)
#define INFINITE __int_as_float(0x7f800000)
#define BENT 0.5
#define EVEN 0.8
#define STEEP 15.
#define STEEPEST 30.
#define DISTANT 10
#define SAFE 4.

// 1 / x, or -x for an orthographic camera: linear in the image of a plane.
__device__ double plane_at(const float* x, int height, int width, int i, int j, bool pinhole) {
    const double here = i >= 0 && j >= 0 && i < height && j < width ? x[(size_t)i * width + j] : UNKNOWN;
    return !pinhole ? -here : here > 0 ? 1 / here : UNKNOWN;
}

// The change per pixel, along (down, right), to the neighbour that differs least, less where slopes are not even.
__device__ double slope_at(const float* x, int height, int width, int i, int j, int down, int right, bool pinhole) {
    const double here = plane_at(x, height, width, i, j, pinhole);
    double least = INFINITE, most = -INFINITE;
    for (int away = -2; away <= 2; away++) {
        if (away == 0) continue;
        const double step = (plane_at(x, height, width, i + away * down, j + away * right, pinhole) - here) / away;
        if (step < least) least = step;  // comparisons with NaN are false
        if (step > most) most = step;
    }
    if (!((least > 0 && most > 0) || (least < 0 && most < 0))) return 0;
    const double flattest = least > 0 ? least : most, steepest = least > 0 ? most : least;
    return fmin(fmax((flattest / steepest - BENT) / (EVEN - BENT), 0.), 1.) * flattest;
}

// How even 1 / x goes on with this slope for DISTANT pixels, on the better side: from 0 to 1.
__device__ double goes_on(const float* x, int height, int width, int i, int j, int down, int right, double slope) {
    const double here = plane_at(x, height, width, i, j, true);
    double best = 0;
    for (int away = -DISTANT; away <= DISTANT; away += 2 * DISTANT) {
        const double there = plane_at(x, height, width, i + away * down, j + away * right, true);
        const double ratio = slope == 0 ? 0 : (there - here) / (away * slope);
        if (ratio > 0) best = fmax(best, (fmin(ratio, 1 / ratio) - BENT) / (EVEN - BENT));  // not if it is NaN
    }
    return fmin(best, 1.);
}

// The plane that touches the surface at a pixel: its slopes in the variable in which it is linear, the same for all views.
struct Plane {
    double slope_x, slope_y, facing;
};

__device__ Plane plane_of(const float* x, int height, int width, int i, int j, double here, const Camera& from) {
    const bool pinhole = from.kind == 0;
    const double per_column = slope_at(x, height, width, i, j, 0, 1, pinhole);
    const double per_row = slope_at(x, height, width, i, j, 1, 0, pinhole);
    Plane plane = {from.fx * per_column, from.fy * per_row, !pinhole ? 1 : here > 0 ? 1 / here : 0};
    const double square = plane.slope_x * plane.slope_x + plane.slope_y * plane.slope_y;
    const double steep = pinhole ? here * sqrt(square) : 0;
    if (steep > STEEP) {
        const double share = fmax((STEEPEST - steep) / (STEEPEST - STEEP), 0.);
        plane.slope_x *= fmax(share, goes_on(x, height, width, i, j, 0, 1, per_column));
        plane.slope_y *= fmax(share, goes_on(x, height, width, i, j, 1, 0, per_row));
    }
    return plane;
}

// What one view measured, and whether it sees the point; UNKNOWN without a measurement.
struct Measured {
    float depth;
    size_t nearest;  // pixel of the view
    bool seen;
};

__device__ Measured read(
    const Plane& plane, double across, double down, double here, const Camera& from, const Placed& view,
    const float* depth, int rows, int columns
) {
    const Camera to = view.camera;
    const Motion& to_from = view.motion;
    const double agreement = view.agreement;
    const bool pinhole = from.kind == 0;
    const Measured none = {UNKNOWN, 0, false};
    const double px = pinhole ? across * here : across, py = pinhole ? down * here : down;
    double q[3];
    for (int k = 0; k < 3; k++) q[k] = to_from.m[k][0] * px + to_from.m[k][1] * py + to_from.m[k][2] * here + to_from.m[k][3];
    double rate = to_from.m[2][2];
    if (pinhole) rate += to_from.m[2][0] * across + to_from.m[2][1] * down;
    if (!(rate > 0) || (to.kind == 0 && !(q[2] > 0))) return none;
    const double scale = to.kind == 0 ? 1 / q[2] : 1;
    double u = to.fx * q[0] * scale + to.cx, v = to.fy * q[1] * scale + to.cy;
    if (to.bent()) {
        const Slopes at = to.pixel({q[0] * scale, q[1] * scale});
        u = at.x, v = at.y;
    }
    const double column = floor(u + 0.5), row = floor(v + 0.5);
    if (!(column >= 0 && column < columns && row >= 0 && row < rows)) return none;
    const size_t nearest = (size_t)row * columns + (size_t)column;
    double measured = depth[nearest], beside = (column - u) / to.fx, below = (row - v) / to.fy;
    const double left = floor(u), top = floor(v);
    if (left >= 0 && top >= 0 && left + 1 < columns && top + 1 < rows) {
        const float* corner = depth + (size_t)top * columns + (size_t)left;
        const double a = corner[0], b = corner[1], c = corner[columns], d = corner[columns + 1];
        const double spread = fmax(fmax(a, b), fmax(c, d)) - fmin(fmin(a, b), fmin(c, d));
        if (agreement > 0 && !isnan(a + b + c + d) && spread <= agreement) {  // fmax and fmin would skip what is unknown
            const double top_row = a + (u - left) * (b - a), low_row = c + (u - left) * (d - c);
            measured = top_row + (v - top) * (low_row - top_row);
            beside = below = 0;
        }
    }
    // the plane in the view
    const double ahead = pinhole ? plane.facing - plane.slope_x * across - plane.slope_y * down : 1;
    double normal[3];
    for (int k = 0; k < 3; k++) {
        normal[k] = to_from.m[k][0] * plane.slope_x + to_from.m[k][1] * plane.slope_y + to_from.m[k][2] * ahead;
    }
    double there = normal[2], further = normal[0] * beside + normal[1] * below, predicted = q[2], steeper = 1;
    bool touches = plane.facing > 0;
    if (to.kind == 0) {
        there += normal[0] * (q[0] * scale + beside) + normal[1] * (q[1] * scale + below);
        touches = touches && there < SAFE * (there - further) && there - further < SAFE * there;
        further *= q[2];
    }
    if (touches && there > 0) {
        predicted -= further / there;
        steeper = fmin(fmax(there * rate / plane.facing, 1 / SAFE), SAFE);
    }
    const float value = here + (measured - predicted) * (steeper / rate);
    return {isfinite(value) ? value : UNKNOWN, nearest, true};
}

// A thread reads some of the views at its pixel: their slopes take longer than a reading.
extern "C" __global__ void __launch_bounds__(256) pull(
    const float* __restrict__ x, Camera from, const Placed* __restrict__ placed, const float* __restrict__ depth,
    const float* __restrict__ confidence, int height, int width, int rows, int columns, int views,
    float* __restrict__ observed, float* __restrict__ weight, bool* __restrict__ seen
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const size_t pixel = (size_t)i * width + j;
    const double here = x[pixel];
    const bool known = !isnan(here);
    Slopes ray = {0, 0};
    Plane plane = {0, 0, 0};
    if (known) ray = from.slopes(j, i), plane = plane_of(x, height, width, i, j, here, from);
    for (int view = blockIdx.z; view < views; view += gridDim.z) {
        const size_t p = view * ((size_t)height * width) + pixel, map = view * ((size_t)rows * columns);
        Measured found = {UNKNOWN, 0, false};
        if (known) found = read(plane, ray.x, ray.y, here, from, placed[view], depth + map, rows, columns);
        const bool measured = !isnan(found.depth);
        observed[p] = found.depth;
        weight[p] = !measured ? 0.f : confidence ? confidence[map + found.nearest] : 1.f;
        seen[p] = found.seen;
    }
}
