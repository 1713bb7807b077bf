// Code shared by kernels that keep a tile of the image in registers.
//
// A block holds a tile of 64 columns: every lane of a warp owns 2 columns of ROWS rows, warps are stacked downwards.
// Neighbours to the side are read by shuffle, above and below through shared memory. Around the tile lies a rim (halo)
// of LEVELS pixels that belongs to other tiles; values computed there become wrong from the outside in, by one pixel
// for every pixel that a step depends on, so the tile itself stays right until the rim is used up. Then the rim is
// exchanged: every tile sends its border and waits for those around it.

#define FULL 0xffffffffu
#define INFINITE __int_as_float(0x7f800000)

// Three values and the number of their round, in one indivisible access: a reader that sees the number has the values.
__device__ __forceinline__ void send_packet(float4* to, float4 packet) {
    unsigned long long low = __float_as_uint(packet.x) | (unsigned long long)__float_as_uint(packet.y) << 32;
    unsigned long long high = __float_as_uint(packet.z) | (unsigned long long)__float_as_uint(packet.w) << 32;
    asm volatile("{.reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.gpu.global.b128 [%0], t;}"
                 :: "l"(to), "l"(low), "l"(high) : "memory");
}

__device__ __forceinline__ float4 receive_packet(const float4* from) {
    unsigned long long low, high;
    asm volatile("{.reg .b128 t; ld.relaxed.gpu.global.b128 t, [%2]; mov.b128 {%0, %1}, t;}"
                 : "=l"(low), "=l"(high) : "l"(from) : "memory");
    return make_float4(__uint_as_float((unsigned)low), __uint_as_float((unsigned)(low >> 32)),
                       __uint_as_float((unsigned)high), __uint_as_float((unsigned)(high >> 32)));
}

// A pair of pixels: always read from inside the image, so that no load waits behind a branch.
__device__ __forceinline__ void load(const float* __restrict__ plane, const Place& place, int r, float outside, float* pair) {
    const size_t line = (size_t)min(max(place.row + r, 0), place.height - 1) * place.width;
    if (!(place.width & 1)) {  // pairs are aligned, and inside the image or not as one
        const float2 both = __ldg((const float2*)(plane + line + min(max(place.column, 0), place.width - 2)));
        pair[0] = both.x;
        pair[1] = both.y;
    } else {
        for (int c = 0; c < 2; c++) pair[c] = __ldg(plane + line + min(max(place.column + c, 0), place.width - 1));
    }
    for (int c = 0; c < 2; c++) pair[c] = place.inside(r, c) ? pair[c] : outside;
}

__device__ __forceinline__ void store(float* __restrict__ plane, const Place& place, int r, const float* pair) {
    if (!(place.width & 1)) {
        if (place.inside(r, 0)) *(float2*)(plane + place.pixel(r, 0)) = make_float2(pair[0], pair[1]);
    } else {
        for (int c = 0; c < 2; c++) if (place.inside(r, c)) plane[place.pixel(r, c)] = pair[c];
    }
}

// Two alternating mailboxes suffice: a neighbour that has sent round n has read round n - 1 of all its neighbours.
__device__ __forceinline__ float4* box_of(float4* mailbox, unsigned round) {
    return mailbox + (round & 1) * (size_t)gridDim.x * gridDim.y * PARTS * RIM;
}

// Send the values of the border, with the number of the round.
__device__ __forceinline__ void post(Mail& mail, float4* box, int pairs, unsigned round) {
    const float stamp = __uint_as_float(round);
    const float4(&values)[KEPT][RIM] = mail.sent();
    float4* mine = box + (blockIdx.y * gridDim.x + blockIdx.x) * PARTS * RIM;
    for (int k = threadIdx.x; k < pairs; k += blockDim.x) {
        const float4 a = values[0][k], b = values[1][k];
        send_packet(mine + k, make_float4(a.x, a.y, a.z, stamp));
        send_packet(mine + k + RIM, make_float4(a.w, b.x, b.y, stamp));
#if ORDER == 2
        const float4 c = values[2][k], d = values[3][k];
        send_packet(mine + k + 2 * RIM, make_float4(b.z, b.w, c.x, stamp));
        send_packet(mine + k + 3 * RIM, make_float4(c.y, c.z, c.w, stamp));
        send_packet(mine + k + 4 * RIM, make_float4(d.x, d.y, d.z, stamp));
        send_packet(mine + k + 5 * RIM, make_float4(d.w, 0.f, 0.f, stamp));
#endif
    }
}

// Wait for the values of the rim of this round.
__device__ __forceinline__ void receive(Mail& mail, const float4* box, unsigned round) {
    for (int k = blockDim.x - 1 - threadIdx.x; k < mail.pairs; k += blockDim.x) {  // those who send least, first
        const float4* from = box + mail.address(k);
        float4 p[PARTS];
        bool waiting;
        do {  // ask for all of them at once, also again
#pragma unroll
            for (int m = 0; m < PARTS; m++) p[m] = receive_packet(from + m * RIM);
            waiting = false;
#pragma unroll
            for (int m = 0; m < PARTS; m++) waiting |= __float_as_uint(p[m].w) != round;
        } while (waiting);
        const int slot = mail.slot(k);
#if ORDER == 2
        mail.arrived[0][slot] = make_float4(p[0].x, p[0].y, p[0].z, p[1].x);
        mail.arrived[1][slot] = make_float4(p[1].y, p[1].z, p[2].x, p[2].y);
        mail.arrived[2][slot] = make_float4(p[2].z, p[3].x, p[3].y, p[3].z);
        mail.arrived[3][slot] = make_float4(p[4].x, p[4].y, p[4].z, p[5].x);
#else
        mail.arrived[0][slot] = make_float4(p[0].x, p[0].y, p[0].z, p[1].x);
        mail.arrived[1][slot] = make_float4(p[1].y, p[1].z, 0.f, 0.f);
#endif
    }
}
