// Re-association pixel by pixel; conventions in reference/pulling.py.

extern "C" __global__ void __launch_bounds__(256) pull(
    const float* __restrict__ x, Camera from, Camera to, Motion to_from, const float* __restrict__ depth,
    const float* __restrict__ confidence, double agreement, int height, int width, int rows, int columns,
    float* __restrict__ observed, float* __restrict__ weight, bool* __restrict__ seen
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const size_t p = (size_t)i * width + j;
    observed[p] = __int_as_float(0x7fc00000);
    weight[p] = 0;
    seen[p] = false;
    const double here = x[p];
    if (isnan(here)) return;
    const double across = from.across(j), down = from.down(i);
    const bool pinhole = from.kind == 0;
    const double px = pinhole ? across * here : across, py = pinhole ? down * here : down;
    double q[3];
    for (int k = 0; k < 3; k++) q[k] = to_from.m[k][0] * px + to_from.m[k][1] * py + to_from.m[k][2] * here + to_from.m[k][3];
    double rate = to_from.m[2][2];
    if (pinhole) rate += to_from.m[2][0] * across + to_from.m[2][1] * down;
    if (!(rate > 0) || (to.kind == 0 && !(q[2] > 0))) return;
    const double scale = to.kind == 0 ? 1 / q[2] : 1;
    const double u = to.fx * q[0] * scale + to.cx, v = to.fy * q[1] * scale + to.cy;
    const double column = floor(u + 0.5), row = floor(v + 0.5);
    if (!(column >= 0 && column < columns && row >= 0 && row < rows)) return;
    seen[p] = true;
    const size_t nearest = (size_t)row * columns + (size_t)column;
    double measured = depth[nearest];
    const double left = floor(u), top = floor(v);
    if (left >= 0 && top >= 0 && left + 1 < columns && top + 1 < rows) {
        const float* corner = depth + (size_t)top * columns + (size_t)left;
        const double a = corner[0], b = corner[1], c = corner[columns], d = corner[columns + 1];
        const double spread = fmax(fmax(a, b), fmax(c, d)) - fmin(fmin(a, b), fmin(c, d));
        if (!isnan(a + b + c + d) && spread <= agreement) {  // fmax and fmin would skip what is unknown
            const double top_row = a + (u - left) * (b - a), low_row = c + (u - left) * (d - c);
            measured = top_row + (v - top) * (low_row - top_row);
        }
    }
    const float value = here + (measured - q[2]) / rate;
    if (!isfinite(value)) return;
    observed[p] = value;
    weight[p] = confidence ? confidence[nearest] : 1.f;
}
