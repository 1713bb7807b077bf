// Monitoring of a solve by itself: the energy, the displacement of planes, and whether to go on.
//
// Every tile stores its state; all blocks then measure it together, as sums.cu does, and the last one sums up in the
// order of the blocks, corrects the steps (solvers/steps.py) and decides (solvers/pdhg.py). The others wait for the
// decision. New steps take another launch: those of a launch are stored where they cost no registers.

#define INSIDE 512  // the bit of `links` that marks a pixel of the domain
#define HALF_ROOT 0.70710678118654752440
#define PRIMAL (ORDER * (ORDER + 1) / 2)
#define PLANES (PRIMAL + ORDER * (ORDER + 3) / 2)
#define TERMS 5  // both orders of the regulariser without alpha, fidelity, mass of the data, pixels
#define FOUND (TERMS + PLANES)

// `Settling` of the contract; `_plan` of kernels/cuda/iteration.py lays it out.
struct Plan {
    double tolerance, step_scale, per_scale, norm, shortest, usual, longest, correction;
    double floor_share, floor_mass, floor_pixel, alpha_1, alpha_2, before, floor;
    int block, checks, every, least, done, checked;  // the last two, `before` and `floor`: where the launch before ended
};

enum { GO_ON, USED_UP, SETTLED, OTHER_STEPS };

// Values kept between two looks.
struct Course {
    double step_scale, before, floor;
    int checks, stop;
};

// Values shared by blocks: initially zero.
struct Board {
    Course course;
    unsigned stored, measured, decided;
};

__device__ __forceinline__ float lately(const float* at) { return __ldcg(at); }  // others have just written it

__device__ __forceinline__ double length(const double* d, int count) {
    double square = 0;
    for (int m = 0; m < count; m++) square += d[m] * d[m];
    return sqrt(square);
}

__device__ __forceinline__ void wait_until(const unsigned* counter, unsigned goal) {
    while (*(volatile const unsigned*)counter < goal) __nanosleep(20);
    __threadfence();
}

// sum_k w_k |x - d_k| of some pixels, each in the order of prox.cuh. There are few threads here: as many loads as
// registers allow have to be in flight.
#define TOGETHER 3
#define AT_ONCE 8
__device__ __forceinline__ void misfits_of(
    const float (&x)[TOGETHER], const unsigned (&pixel)[TOGETHER], const float* __restrict__ values,
    const float* __restrict__ weights, size_t plane, int views, float (&sums)[TOGETHER]
) {
    for (int c = 0; c < TOGETHER; c++) sums[c] = 0;
    for (int first = 0; first < views; first += AT_ONCE) {
        float d[AT_ONCE][TOGETHER], w[AT_ONCE][TOGETHER];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const size_t start = min(first + j, views - 1) * plane;
#pragma unroll
            for (int c = 0; c < TOGETHER; c++) {
                d[j][c] = __ldg(values + start + pixel[c]);
                w[j][c] = WEIGHTED ? __ldg(weights + start + pixel[c]) : 1.f;
            }
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
            for (int c = 0; c < TOGETHER; c++)
                if (first + j < views && !isinf(d[j][c])) sums[c] += w[j][c] * fabsf(x[c] - d[j][c]);
    }
}

// The data's sums over this thread's pixels: fidelity, mass, number of pixels.
__device__ __forceinline__ void measure_data(
    const float* primal, const float* __restrict__ values, const float* __restrict__ weights,
    const float* __restrict__ total, const float* __restrict__ confidence, const unsigned short* __restrict__ links,
    int views, unsigned n, unsigned first, unsigned threads, double (&sums)[FOUND]
) {
    for (unsigned start = first; start < n; start += TOGETHER * threads) {
        unsigned pixel[TOGETHER];
        float x[TOGETHER], lam[TOGETHER], mass[TOGETHER], misfits[TOGETHER];
        bool inside[TOGETHER];
#pragma unroll
        for (int c = 0; c < TOGETHER; c++) {
            const unsigned p = start + c * threads;
            pixel[c] = min(p, n - 1);
            inside[c] = p < n && __ldg(links + pixel[c]) & INSIDE;
            x[c] = lately(primal + pixel[c]);
            lam[c] = __ldg(confidence + pixel[c]);
            mass[c] = __ldg(total + pixel[c]);
        }
        misfits_of(x, pixel, values, weights, n, views, misfits);
#pragma unroll
        for (int c = 0; c < TOGETHER; c++) {
            if (!inside[c]) continue;
            sums[2] += (double)lam[c] * misfits[c];
            sums[3] += (double)lam[c] * mass[c];
            sums[4] += 1;
        }
    }
}

// All sums over this thread's pixels.
__device__ __forceinline__ void measure_pixels(
    const float* primal, const float* dual, const float* primal_before, const float* dual_before,
    const float* __restrict__ values, const float* __restrict__ weights, const float* __restrict__ total,
    const float* __restrict__ confidence, const unsigned short* __restrict__ links, const float* __restrict__ edge,
    int views, int height, int width, int every, bool ways, double (&sums)[FOUND]
) {
    const unsigned n = height * width, threads = gridDim.x * gridDim.y * blockDim.x;
    const unsigned first = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    measure_data(primal, values, weights, total, confidence, links, views, n, first, threads, sums);
#pragma unroll 2
    for (unsigned p = first; p < n; p += threads) {
        const unsigned bits = __ldg(links + p);
        if (!(bits & INSIDE)) continue;
        const float x = lately(primal + p);
        double d[3];
        d[0] = bits & 1 ? (double)lately(primal + p + 1) - x : 0;
        d[1] = bits & 2 ? (double)lately(primal + p + width) - x : 0;
#if ORDER == 2
        const float *to_v1 = primal + n + p, *to_v2 = primal + 2 * n + p;
        const double v1 = lately(to_v1), v2 = lately(to_v2);
        if (bits & 1) d[0] -= v1;
        if (bits & 2) d[1] -= v2;
#endif
        sums[0] += (EDGE ? (double)edge[p] : 1.) * length(d, 2);
#if ORDER == 2
        d[0] = bits & 4 ? v1 - lately(to_v1 - 1) : 0;
        d[1] = bits & 8 ? HALF_ROOT * ((v2 - lately(to_v2 - 1)) + (v1 - lately(to_v1 - width))) : 0;
        d[2] = bits & 16 ? v2 - lately(to_v2 - width) : 0;
        sums[1] += length(d, 3);
#endif
    }
    if (!ways) return;
    const unsigned amount = (height + every - 1) / every * width;
    for (unsigned k = first; k < amount; k += threads) {
        const unsigned p = k / width * every * width + k % width;
#pragma unroll
        for (int plane = 0; plane < PLANES; plane++) {
            const size_t at = (size_t)(plane < PRIMAL ? plane : plane - PRIMAL) * n + p;
            const float now = plane < PRIMAL ? lately(primal + at) : lately(dual + at);
            const double moved = now - (plane < PRIMAL ? primal_before[at] : dual_before[at]);
            sums[TERMS + plane] += moved * moved;
        }
    }
}

// Correct the steps by the displacement, and stop if the energy has settled.
__device__ void decide(Course& course, const double* found, const Plan& plan, int done, int most) {
    double moved = 0, pushed = 0;
    for (int level = 0, plane = 0; level < ORDER; level++)
        for (int m = 0; m <= level; m++) moved += (level ? 4. : 1.) * found[TERMS + plane++];
    for (int level = 0, plane = PRIMAL; level < ORDER; level++)
        for (int m = 0; m < level + 2; m++) pushed += (level ? 0.25 : 1.) * found[TERMS + plane++];
    moved = sqrt(moved), pushed = sqrt(pushed);
    if (course.checks < plan.checks && (moved > 0 || pushed > 0)) {
        course.checks++;
        const double way = pushed > 0 ? moved / pushed / (plan.per_scale * course.step_scale) : 1e300;
        if (!(plan.shortest < way && way < plan.longest))
            course.step_scale *= min(max(way / plan.usual, 1 / plan.correction), plan.correction);
    }
    const double now = plan.alpha_1 * found[0] + plan.alpha_2 * found[1] + found[2];
    if (plan.done + done == plan.block) {
        course.floor = max(plan.floor_share * now, plan.floor_mass * found[3] + plan.floor_pixel * found[4]);
        course.floor = max(course.floor, 1e-300);
    }
    const bool settled = fabs(course.before - now) / max(now, course.floor) <= plan.tolerance;
    course.before = now;
    course.stop = settled && plan.done + done >= plan.least  ? SETTLED
                  : done >= most                             ? USED_UP
                  : course.step_scale != plan.step_scale     ? OTHER_STEPS
                                                             : GO_ON;
}

__device__ __forceinline__ void hear(Course& now, const volatile Course& told) {
    now.step_scale = told.step_scale, now.before = told.before, now.floor = told.floor;
    now.checks = told.checks, now.stop = told.stop;
}

// Where a block sums up and reads the decision.
struct Scratch {
    double of_warps[WARPS][FOUND];
    Course now;
    unsigned before;
};
static_assert(sizeof(Scratch) <= sizeof(((Mail*)0)->arrived), "it lies where packets arrive");

// Measure the stored state together, and decide whether to go on. The last block writes the outcome to the host.
__device__ __noinline__ int look(
    Board* board, double* parts, double* out, const Plan& plan, int done, int most, const float* primal,
    const float* dual, const float* primal_before, const float* dual_before, const float* values, const float* weights,
    const float* total, const float* confidence, const unsigned short* links, const float* edge, int views, int height,
    int width, Scratch& scratch
) {
    double(&of_warps)[WARPS][FOUND] = scratch.of_warps;
    Course& now = scratch.now;
    const unsigned look = done / plan.block;  // counts from one
    const unsigned blocks = gridDim.x * gridDim.y, block = blockIdx.y * gridDim.x + blockIdx.x;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&board->stored, 1u);
        wait_until(&board->stored, look * blocks);
        if (look == 1) now = {plan.step_scale, plan.before, plan.floor, plan.checked, GO_ON};
        else hear(now, board->course);
    }
    __syncthreads();
    double sums[FOUND];
    for (int k = 0; k < FOUND; k++) sums[k] = 0;
    measure_pixels(primal, dual, primal_before, dual_before, values, weights, total, confidence, links, edge, views, height,
                   width, plan.every, now.checks < plan.checks, sums);
    for (int k = 0; k < FOUND; k++) {
        const double mine = over_warp(sums[k], Add());
        if (lane == 0) of_warps[warp][k] = mine;
    }
    __syncthreads();
    for (int k = warp; k < FOUND; k += warps) {
        const double all = over_warp(lane < warps ? of_warps[lane][k] : 0., Add());
        if (lane == 0) parts[block * FOUND + k] = all;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) scratch.before = atomicAdd(&board->measured, 1u);
    __syncthreads();
    if (scratch.before == look * blocks - 1) {
        __threadfence();
        for (int k = warp; k < FOUND; k += warps) {
            double mine = 0;
            for (unsigned b = lane; b < blocks; b += 32) mine += __ldcg(parts + b * FOUND + k);
            mine = over_warp(mine, Add());
            if (lane == 0) of_warps[0][k] = mine;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            decide(now, of_warps[0], plan, done, most);
            board->course = now;
            if (now.stop) {
                for (int k = 0; k < TERMS; k++) out[k] = of_warps[0][k];
                out[TERMS] = now.step_scale, out[TERMS + 1] = now.floor;
                out[TERMS + 2] = plan.done + done, out[TERMS + 3] = now.stop;
                out[TERMS + 4] = now.before, out[TERMS + 5] = now.checks;
            }
            __threadfence();
            atomicExch(&board->decided, look);
        }
    } else if (threadIdx.x == 0) {
        wait_until(&board->decided, look);
        hear(now, board->course);
    }
    __syncthreads();
    const int stop = now.stop;
    __syncthreads();  // packets may arrive again
    return stop;
}
