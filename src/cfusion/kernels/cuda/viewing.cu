// Points of a depth map in another camera, and the angles a surface is seen at; definitions in reference/viewing.py.

#define UNKNOWN __int_as_float(0x7fc00000)

extern "C" __global__ void __launch_bounds__(256) reproject(
    const float* __restrict__ depth, Camera from, Camera onto, Motion onto_from, int height, int width,
    double* __restrict__ u, double* __restrict__ v, double* __restrict__ z
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const size_t p = (size_t)i * width + j;
    const double here = depth[p], reach = from.kind == 0 ? here : here * 0 + 1;
    const double x = from.across(j) * reach, y = from.down(i) * reach;
    double q[3];
    for (int k = 0; k < 3; k++) q[k] = onto_from.m[k][0] * x + onto_from.m[k][1] * y + onto_from.m[k][2] * here + onto_from.m[k][3];
    const double in_front = onto.kind != 0 ? 1 : q[2] > 0 ? q[2] : (double)UNKNOWN;
    u[p] = onto.fx * (q[0] / in_front) + onto.cx;
    v[p] = onto.fy * (q[1] / in_front) + onto.cy;
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
    double x = camera.across(j), y = camera.down(i);
    const double x_beside = camera.across(j + beside), y_below = camera.down(i + below);
    double a[3] = {x_beside - x, 0, next_x - here}, b[3] = {0, y_below - y, next_y - here};
    if (camera.kind == 0) {
        a[0] = x_beside * next_x - x * here;
        a[1] = y * (next_x - here);
        b[0] = x * (next_y - here);
        b[1] = y_below * next_y - y * here;
    } else x = y = 0;
    const double n[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
    const double length = (n[0] * n[0] + n[1] * n[1] + n[2] * n[2]) * (x * x + y * y + 1);
    if (length > 0) out[p] = fabs(n[0] * x + n[1] * y + n[2]) / sqrt(length);
}
