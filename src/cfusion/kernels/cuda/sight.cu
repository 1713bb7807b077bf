// A surface as seen by other cameras; definitions in numpy/sight.py.

#define UNKNOWN __int_as_float(0x7fc00000)
#define INFINITE __int_as_float(0x7f800000)
#define NOWHERE (-1)

struct Vector {
    double x, y, z;
};

// A point in the other camera, and its derivative by the depth.
struct Moving {
    Vector at, rate;
};

__device__ __forceinline__ Moving moved(const Camera& camera, const Motion& motion, int j, int i, double here) {
    const Slopes s = camera.slopes(j, i);
    double at[3], rate[3];
    for (int k = 0; k < 3; k++) {
        const double tilted = motion.m[k][0] * s.x + motion.m[k][1] * s.y;
        const bool pinhole = camera.kind == 0;
        rate[k] = pinhole ? tilted + motion.m[k][2] : motion.m[k][2];
        at[k] = (pinhole ? motion.m[k][3] : tilted + motion.m[k][3]) + rate[k] * here;
    }
    return {{at[0], at[1], at[2]}, {rate[0], rate[1], rate[2]}};
}

extern "C" __global__ void __launch_bounds__(256) parallax(
    const float* __restrict__ surface, Camera camera, const Placed* __restrict__ views, int height, int width,
    float* __restrict__ out
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const Placed& view = views[blockIdx.z];
    const Moving point = moved(camera, view.motion, j, i, surface[(size_t)i * width + j]);
    double across = point.rate.x, down = point.rate.y;
    if (view.camera.kind == 0) {
        const double inverse = point.at.z > 0 ? 1 / point.at.z : (double)UNKNOWN;
        across = (across - point.at.x * inverse * point.rate.z) * inverse;
        down = (down - point.at.y * inverse * point.rate.z) * inverse;
    }
    across *= view.camera.fx;
    down *= view.camera.fy;
    out[((size_t)blockIdx.z * height + i) * width + j] = sqrt(across * across + down * down) + 0 * point.at.z;
}

// Every point's depth in the view and the pixel it lands on; the nearest depth of each pixel, as bits of a float, which
// have the order of positive depths.
extern "C" __global__ void __launch_bounds__(256) land(
    const float* __restrict__ surface, Camera camera, const Placed* __restrict__ views, const int2* __restrict__ shapes,
    int height, int width, unsigned largest, float* __restrict__ depth, int* __restrict__ landing,
    unsigned* __restrict__ nearest
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const Placed& view = views[blockIdx.z];
    const int rows = shapes[blockIdx.z].x, columns = shapes[blockIdx.z].y;
    const size_t p = ((size_t)blockIdx.z * height + i) * width + j;
    const Vector point = moved(camera, view.motion, j, i, surface[(size_t)i * width + j]).at;
    const bool in_front = point.z > 0;
    depth[p] = in_front ? (float)point.z : UNKNOWN;
    int at = NOWHERE;
    if (in_front) {
        const double over = view.camera.kind == 0 ? point.z : 1;
        const Slopes pixel = view.camera.pixel({point.x / over, point.y / over});
        const double column = floor(pixel.x + 0.5), row = floor(pixel.y + 0.5);
        if (column >= 0 && column < columns && row >= 0 && row < rows) {
            at = (int)row * columns + (int)column;
            atomicMin(nearest + (size_t)blockIdx.z * largest + at, __float_as_uint((float)point.z));
        }
    }
    landing[p] = at;
}

// The smaller of the known values; zero if neither is known.
__device__ __forceinline__ float least_of(float one, float other) {
    const float least = fminf(one, other);  // the known one where one is not
    return least < INFINITE ? least : 0.f;
}

extern "C" __global__ void __launch_bounds__(256) hide(
    const float* __restrict__ depth, const int* __restrict__ landing, const unsigned* __restrict__ nearest,
    const float* __restrict__ tolerance, int height, int width, unsigned largest, float relative, float slopes,
    bool* __restrict__ out
) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    const size_t p = ((size_t)blockIdx.z * height + i) * width + j;
    const float here = depth[p];
    bool behind = false;
    if (landing[p] != NOWHERE) {
        const float before = __uint_as_float(nearest[(size_t)blockIdx.z * largest + landing[p]]);
        const float up = i > 0 ? fabsf(here - depth[p - width]) : INFINITE;
        const float down = i + 1 < height ? fabsf(here - depth[p + width]) : INFINITE;
        const float left = j > 0 ? fabsf(here - depth[p - 1]) : INFINITE;
        const float right = j + 1 < width ? fabsf(here - depth[p + 1]) : INFINITE;
        const float slope = fmaxf(least_of(up, down), least_of(left, right));
        const float least = fmaxf(fmaxf(relative * here, tolerance[(size_t)i * width + j]), slopes * slope);
        behind = here > before + least;
    }
    out[p] = behind;
}
