"""CUDA's kernels run by a C++ compiler: one block after the other, the threads of a block as fibres that take turns.

A fibre runs until it has to wait for others, at `__syncthreads` for its block, at a shuffle for its warp.
"""

import ctypes
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SOURCES = Path(__file__).parent.parent / "src" / "cfusion" / "kernels" / "cuda"
PRELUDE = r"""
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>
using std::max;
using std::min;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
struct Three { unsigned x, y, z; };
static Three threadIdx, blockIdx, blockDim, gridDim;

namespace fibres {
struct Meeting { int here = 0, round = 0; };
struct Fibre { ucontext_t context; std::vector<char> stack; bool done; };
static std::vector<Fibre> all;
static std::vector<Meeting> warps;
static std::vector<unsigned long long> shown;
static Meeting block;
static ucontext_t home;
static int current, running;
static void (*body)(void*);
static void* given;

static int left_in(int first, int end) {
    int count = 0;
    for (int t = first; t < end; t++) count += !all[t].done;
    return count;
}
static void yield() {
    const int me = current;
    do current = (current + 1) % (int)all.size(); while (all[current].done);
    if (current != me) swapcontext(&all[me].context, &all[current].context);
    current = me;
    threadIdx = {me % blockDim.x, me / blockDim.x % blockDim.y, me / blockDim.x / blockDim.y};
}
static void meet(Meeting& meeting, int first, int end) {
    const int round = meeting.round;
    if (++meeting.here == left_in(first, end)) meeting.here = 0, meeting.round++;
    while (meeting.round == round) {
        yield();
        const bool others_left = meeting.round == round && meeting.here == left_in(first, end);
        if (others_left) meeting.here = 0, meeting.round++;
    }
}
static void meet_block() { meet(block, 0, all.size()); }
static void meet_warp() {
    const int first = current / 32 * 32;
    meet(warps[current / 32], first, std::min<int>(first + 32, all.size()));
}
static void enter() {
    threadIdx = {current % blockDim.x, current / blockDim.x % blockDim.y, current / blockDim.x / blockDim.y};
    body(given);
    all[current].done = true;
    if (--running == 0) setcontext(&home);
    do current = (current + 1) % (int)all.size(); while (all[current].done);
    setcontext(&all[current].context);
}
static void run_block() {
    all.resize(blockDim.x * blockDim.y * blockDim.z);
    warps.assign((all.size() + 31) / 32, {});
    shown.resize(all.size());
    block = {};
    running = all.size();
    for (auto& each : all) {
        each.done = false;
        each.stack.resize(1 << 16);
        getcontext(&each.context);
        each.context.uc_stack.ss_sp = each.stack.data(), each.context.uc_stack.ss_size = each.stack.size();
        each.context.uc_link = nullptr;
        makecontext(&each.context, enter, 0);
    }
    current = 0;
    swapcontext(&home, &all[0].context);
}
template <class T> T shuffled(T value, int from) {
    memcpy(&shown[current], &value, sizeof value);
    meet_warp();
    T out;
    memcpy(&out, &shown[current / 32 * 32 + from], sizeof out);
    meet_warp();
    return out;
}
static unsigned alike(unsigned value) {
    const int first = current / 32 * 32;
    shown[current] = value;
    meet_warp();
    unsigned out = 0;
    for (int lane = 0; lane < 32; lane++) out |= (unsigned)(shown[first + lane] == value) << lane;
    meet_warp();
    return out;
}
template <class... A> struct Call { void (*kernel)(A...); void** places; };
template <class... A, size_t... I> void apply(Call<A...>* call, std::index_sequence<I...>) {
    call->kernel(*(A*)call->places[I]...);
}
template <class... A> void launch(void (*kernel)(A...), const unsigned* sizes, void** places) {
    Call<A...> call{kernel, places};
    given = &call;
    body = [](void* it) { apply((Call<A...>*)it, std::index_sequence_for<A...>{}); };
    gridDim = {sizes[0], sizes[1], sizes[2]}, blockDim = {sizes[3], sizes[4], sizes[5]};
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) run_block();
}
}
static inline void __syncthreads() { fibres::meet_block(); }
template <class T> T __shfl_sync(unsigned, T value, int from) { return fibres::shuffled(value, from % 32); }
template <class T> T __shfl_xor_sync(unsigned, T value, int away) {
    return fibres::shuffled(value, (fibres::current % 32) ^ away);
}
static inline void __syncwarp() { fibres::meet_warp(); }
static inline unsigned __match_any_sync(unsigned, unsigned value) { return fibres::alike(value); }
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline float __int_as_float(int bits) { float out; memcpy(&out, &bits, 4); return out; }
static inline float __uint_as_float(unsigned bits) { float out; memcpy(&out, &bits, 4); return out; }
static inline unsigned __float_as_uint(float value) { unsigned out; memcpy(&out, &value, 4); return out; }
static inline double __longlong_as_double(long long bits) { double out; memcpy(&out, &bits, 8); return out; }
static inline long long __double_as_longlong(double value) { long long out; memcpy(&out, &value, 8); return out; }
static inline void __threadfence() {}
static inline void __nanosleep(unsigned) {}
template <class T> T __ldcg(const T* place) { return *place; }
template <class T> T atomicMin(T* place, T value) { const T was = *place; if (value < was) *place = value; return was; }
template <class T> T atomicAdd(T* place, T value) { const T was = *place; *place = was + value; return was; }
"""


class Emulator:
    """Kernels of `cfusion.kernels.cuda`, as `device.kernel` gives them, on NumPy's arrays."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("g++")
        if compiler is None:
            pytest.skip("no C++ compiler here")
        self.compiler, self.folder = compiler, folder

    def kernel(self, sources: tuple[str, ...], name: str, defines: tuple[str, ...] = ()) -> Callable[..., None]:
        launch = getattr(self._library(sources, defines), f"launch_{name}")

        def run(grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any]) -> None:
            kept = [_storage(each) for each in arguments]
            places = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(each) for each in kept))
            launch((ctypes.c_uint * 6)(*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3]), places)

        return run

    def _library(self, sources: tuple[str, ...], defines: tuple[str, ...]) -> Any:
        macros = [f"#define {each.replace('=', ' ', 1)}" for each in defines]
        texts = [(SOURCES / each).read_text() for each in sources]
        names = re.findall(r'extern "C" __global__ void(?: __launch_bounds__\(\w+\))? (\w+)\(', "\n".join(texts))
        launches = [
            f'extern "C" void launch_{name}(const unsigned* sizes, void** places) '
            f"{{ fibres::launch({name}, sizes, places); }}"
            for name in names
        ]
        code = "\n".join([PRELUDE, *macros, *texts, *launches])
        library = self.folder / f"{hashlib.sha256(code.encode()).hexdigest()[:16]}.so"
        if not library.exists():
            text = library.with_suffix(".cpp")
            text.write_text(code)
            options = ["-std=c++17", "-O2", "-ffp-contract=off", "-w", "-shared", "-fPIC"]
            subprocess.run([self.compiler, *options, str(text), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


def _storage(argument: Any) -> Any:
    """Memory that holds an argument: the address of an array, a number, a structure."""
    if isinstance(argument, np.ndarray):
        assert argument.flags.c_contiguous
        return ctypes.c_void_p(argument.ctypes.data)
    raw = argument if isinstance(argument, bytes) else argument.tobytes()
    return (ctypes.c_char * len(raw)).from_buffer_copy(raw)
