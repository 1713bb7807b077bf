// Monitoring of a solve by itself: whether to go on, from the energy and the displacement of planes.
//
// Every block adds up the pixels of its tile (sweep.cu). The last one sums up in the order of the blocks, corrects the
// steps (solvers/steps.py) and decides (solvers/pdhg.py). The others wait for the decision. New steps take another
// launch: those of a launch are stored where they cost no registers.

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
    unsigned measured, decided;
};

__device__ __forceinline__ double length(const double* d, int count) {
    double square = 0;
    for (int m = 0; m < count; m++) square += d[m] * d[m];
    return sqrt(square);
}

__device__ __forceinline__ void wait_until(const unsigned* counter, unsigned goal) {
    while (*(volatile const unsigned*)counter < goal) __nanosleep(20);
    __threadfence();
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

// Decide together whether to go on, from the sums over each thread's pixels; without `ways` the displacement is unknown.
// The last block writes the outcome to the host. `ways` becomes whether the next look needs the displacement.
__device__ __forceinline__ int look(
    const double (&sums)[FOUND], Board* board, double* parts, double* out, const Plan& plan, int done, int most,
    bool& ways, Scratch& scratch
) {
    double(&of_warps)[WARPS][FOUND] = scratch.of_warps;
    Course& now = scratch.now;
    const unsigned look = done / plan.block;  // counts from one
    const unsigned blocks = gridDim.x * gridDim.y, block = blockIdx.y * gridDim.x + blockIdx.x;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
#pragma unroll
    for (int k = 0; k < FOUND; k++) {
        if (k >= TERMS && !ways) break;
        const double mine = over_warp(sums[k], Add());
        if (lane == 0) of_warps[warp][k] = mine;
    }
    __syncthreads();
    for (int k = warp; k < FOUND; k += warps) {
        const double all = over_warp(lane < warps && (k < TERMS || ways) ? of_warps[lane][k] : 0., Add());
        if (lane == 0) parts[block * FOUND + k] = all;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) scratch.before = atomicAdd(&board->measured, 1u);
    __syncthreads();
    if (scratch.before == look * blocks - 1) {
        __threadfence();
        for (int k = warp; k < FOUND; k += warps) {
            const int at_once = 6;  // loads that do not wait for one another
            double mine = 0;
            for (unsigned first = lane; first < blocks; first += 32 * at_once) {
                double of_block[at_once];
#pragma unroll
                for (int j = 0; j < at_once; j++)
                    of_block[j] = first + 32 * j < blocks ? __ldcg(parts + (first + 32 * j) * FOUND + k) : 0.;
#pragma unroll
                for (int j = 0; j < at_once; j++) mine += of_block[j];
            }
            mine = over_warp(mine, Add());
            if (lane == 0) of_warps[0][k] = mine;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            if (look == 1) now = {plan.step_scale, plan.before, plan.floor, plan.checked, GO_ON};
            else hear(now, board->course);
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
    ways = now.checks < plan.checks;
    __syncthreads();  // packets may arrive again
    return stop;
}
