// Points of a depth map in another camera, and viewing angles of a surface; definitions in numpy/viewing.py.

#define UNKNOWN __int_as_float(0x7fc00000)

extern "C" __global__ void __launch_bounds__(256) reproject(
    const float* __restrict__ depth, const Placed* __restrict__ views, Camera onto, int height, int width,
    double* __restrict__ u, double* __restrict__ v, double* __restrict__ z
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const Camera from = views[blockIdx.z].camera;
    const Motion& onto_from = views[blockIdx.z].motion;
    const size_t p = ((size_t)blockIdx.z * height + i) * width + j;
    const double here = depth[p], reach = from.kind == 0 ? here : here * 0 + 1;
    const Slopes slopes = from.slopes(j, i);
    const double x = slopes.x * reach, y = slopes.y * reach;
    double q[3];
    for (int k = 0; k < 3; k++) q[k] = onto_from.m[k][0] * x + onto_from.m[k][1] * y + onto_from.m[k][2] * here + onto_from.m[k][3];
    const double in_front = onto.kind != 0 ? 1 : q[2] > 0 ? q[2] : (double)UNKNOWN;
    const Slopes at = onto.pixel({q[0] / in_front, q[1] / in_front});
    u[p] = at.x;
    v[p] = at.y;
    z[p] = q[2];
}

extern "C" __global__ void __launch_bounds__(256) cosines(
    const float* __restrict__ depths, Camera camera, int height, int width, float* __restrict__ out
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const size_t plane = (size_t)height * width, p = blockIdx.z * plane + (size_t)i * width + j;
    out[p] = UNKNOWN;
    const int beside = j + 1 < width && !isnan(depths[p + 1]) ? 1 : -1;
    const int below = i + 1 < height && !isnan(depths[p + width]) ? 1 : -1;
    if (j + beside < 0 || i + below < 0) return;
    const double here = depths[p], next_x = depths[p + beside], next_y = depths[p + (long long)below * width];
    const Slopes s = camera.slopes(j, i), across = camera.slopes(j + beside, i), down = camera.slopes(j, i + below);
    double x = s.x, y = s.y;
    double a[3] = {across.x - x, 0, next_x - here}, b[3] = {0, down.y - y, next_y - here};
    if (camera.kind == 0) {
        a[0] = across.x * next_x - x * here;
        a[1] = across.y * next_x - y * here;
        b[0] = down.x * next_y - x * here;
        b[1] = down.y * next_y - y * here;
    } else x = y = 0;
    const double n[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
    const double length = (n[0] * n[0] + n[1] * n[1] + n[2] * n[2]) * (x * x + y * y + 1);
    if (length > 0) out[p] = fabs(n[0] * x + n[1] * y + n[2]) / sqrt(length);
}
