// Semi-global matching: paths through a cost volume, and the disparities of least cost; frontends/mc_cnn/semi_global.py.
// One warp follows one line of the image; lane l holds disparities l, l + 32, ..., OF_LANE of them.

#define FAR 1e6f  // the cost of no disparity
#define ALL 0xffffffffu

// P1 and P2 where none, one or both images have an edge.
struct Penalties {
    float small[3], large[3];
};

// (2, height, width): 1 where the value changes by at most `edge` from the previous pixel of the row, of the column.
extern "C" __global__ void __launch_bounds__(256) smooth_steps(
    const float* __restrict__ image, float edge, int height, int width, unsigned char* __restrict__ out
) {
    const int u = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y;
    if (u >= width) return;
    const size_t p = (size_t)v * width + u;
    out[p] = u > 0 && fabsf(image[p] - image[p - 1]) < edge;
    out[(size_t)height * width + p] = v > 0 && fabsf(image[p] - image[p - width]) < edge;
}

// Values of the maps for one step.
struct Step {
    float cost[OF_LANE], total[OF_LANE];
    int edges[OF_LANE];
};

// Follow the lines of one direction, and add (or, if `first`, write) their costs times `scale` to the total.
extern "C" __global__ void __launch_bounds__(64) walk(
    const float* __restrict__ cost, float* __restrict__ total, const unsigned char* __restrict__ ours,
    const unsigned char* __restrict__ theirs, Penalties penalties, int height, int width, int count, bool vertical,
    bool backwards, float rise, float fall, bool first, float scale
) {
    const int line = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const int lines = vertical ? width : height, steps = vertical ? height : width;
    if (line >= lines) return;

    auto look = [&](int k, Step& at) {
        const int place = backwards ? steps - 1 - k : k, gate = backwards ? min(place + 1, steps - 1) : place;
        const size_t pixel = vertical ? (size_t)place * width + line : (size_t)line * width + place;
        const size_t gated = vertical ? (size_t)gate * width + line : (size_t)line * width + gate;
        const int column = vertical ? line : gate, edge = 1 - ours[gated];
#pragma unroll
        for (int j = 0; j < OF_LANE; j++) {
            const int d = 32 * j + lane;
            const bool is = d < count;
            at.cost[j] = is ? cost[pixel * count + d] : FAR;
            at.total[j] = is && !first ? total[pixel * count + d] : 0.f;
            at.edges[j] = edge + 1 - (d <= column ? theirs[gated - d] : 0);
        }
    };

    float before[OF_LANE] = {}, floor = 0;
    Step now, next;
    look(0, next);
    for (int k = 0; k < steps; k++) {
        now = next;
        if (k + 1 < steps) look(k + 1, next);  // while this one is computed
        float lower[OF_LANE], upper[OF_LANE], least = FAR;
#pragma unroll
        for (int j = 0; j < OF_LANE; j++) {
            lower[j] = __shfl_sync(ALL, before[j], (lane + 31) % 32);
            upper[j] = __shfl_sync(ALL, before[j], (lane + 1) % 32);
        }
        const int place = backwards ? steps - 1 - k : k;
        const size_t pixel = vertical ? (size_t)place * width + line : (size_t)line * width + place;
#pragma unroll
        for (int j = OF_LANE - 1; j >= 0; j--) {
            const float below = lane > 0 ? lower[j] : j > 0 ? lower[j > 0 ? j - 1 : 0] : FAR;
            const float above = lane < 31 ? upper[j] : j < OF_LANE - 1 ? upper[j < OF_LANE - 1 ? j + 1 : 0] : FAR;
            const int edges = now.edges[j];
            const float small = edges == 0 ? penalties.small[0] : edges == 1 ? penalties.small[1] : penalties.small[2];
            const float large = edges == 0 ? penalties.large[0] : edges == 1 ? penalties.large[1] : penalties.large[2];
            const float beside = fminf(below + small * rise, above + small * fall);
            const float best = k == 0 ? 0.f : fminf(fminf(before[j], beside), floor + large);
            const float here = now.cost[j] + (best - floor);
            const int d = 32 * j + lane;
            if (d < count) total[pixel * count + d] = (now.total[j] + here) * scale;
            before[j] = d < count ? here : FAR;
            least = fminf(least, before[j]);
        }
        for (int away = 16; away > 0; away /= 2) least = fminf(least, __shfl_xor_sync(ALL, least, away));
        floor = least;
    }
}

// The least value over a warp, and its first place.
__device__ __forceinline__ void least_of(float& value, int& place) {
    for (int away = 16; away > 0; away /= 2) {
        const float other = __shfl_xor_sync(ALL, value, away);
        const int there = __shfl_xor_sync(ALL, place, away);
        if (other < value || (other == value && there < place)) value = other, place = there;
    }
}

// (4, height, width): disparity of least cost, to a fraction of a pixel; its cost; the least cost more than a pixel
// away; the cost before the paths. One warp per pixel.
extern "C" __global__ void __launch_bounds__(128) winners(
    const float* __restrict__ total, const float* __restrict__ cost, unsigned pixels, int width, int count,
    float* __restrict__ out
) {
    const unsigned p = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (p >= pixels) return;
    const float* curve = total + (size_t)p * count;
    const int end = min(count, (int)(p % width) + 1);
    float best = __int_as_float(0x7f800000), second = best;
    int at = 0, unused = 0;  // the first, where no cost is a number
    for (int d = lane; d < end; d += 32)
        if (curve[d] < best) best = curve[d], at = d;
    least_of(best, at);
    for (int d = lane; d < end; d += 32)
        if (abs(d - at) > 1) second = fminf(second, curve[d]);
    least_of(second, unused);
    if (lane > 0) return;
    float shift = 0;
    if (at > 0 && at + 1 < end) {
        const float bend = curve[at - 1] - 2 * curve[at] + curve[at + 1];
        if (bend > 0) shift = fminf(fmaxf(0.5f * (curve[at - 1] - curve[at + 1]) / bend, -0.5f), 0.5f);
    }
    const float disparity = at + shift;
    out[p] = disparity;
    out[(size_t)pixels + p] = best;
    out[2 * (size_t)pixels + p] = second;
    out[3 * (size_t)pixels + p] = cost[(size_t)p * count + (int)rintf(disparity)];
}
