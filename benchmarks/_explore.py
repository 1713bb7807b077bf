import sys
import time

import cupy
import numpy as np

sys.path.insert(0, "src")
from benchmarks import cuda as b
from cfusion import kernels
from cfusion.kernels.contract import State
from cfusion.kernels.cuda import iteration as it

be = kernels.load("cuda")
fig = {}
t = time.time()
b.check(be, fig)
print("check s", time.time() - t)
b.ceilings(fig)


def timed(problem, state, steps, count, reps=9):
    f = State(state.primal.copy(), state.dual.copy())

    def go():
        be.iterate(problem, state, steps, count)

    ts = []
    for _ in range(reps):
        state.primal[...] = f.primal
        state.dual[...] = f.dual
        s, e = cupy.cuda.Event(), cupy.cuda.Event()
        s.record()
        go()
        e.record()
        e.synchronize()
        ts.append(cupy.cuda.get_elapsed_time(s, e) * 1e3)
    go()
    late = []
    for _ in range(reps):
        s, e = cupy.cuda.Event(), cupy.cuda.Event()
        s.record()
        go()
        e.record()
        e.synchronize()
        late.append(cupy.cuda.get_elapsed_time(s, e) * 1e3)
    return np.median(ts), np.median(late)


def attempt(tag, shape=(480, 640, 11), weighted=False, counts=(24, 240), **consts):
    old = {k: getattr(it, k) for k in consts}
    for k, v in consts.items():
        setattr(it, k, v)
    it._on_chip.cache_clear()
    it._per_pass.cache_clear()
    try:
        p, s, st, _ = b.example(*shape, weighted)
        til = it._on_chip(*shape[:2], 132)
        a = timed(p, s, st, counts[0])
        c = timed(p, s, st, counts[1])
        d = (c[0] - a[0]) / (counts[1] - counts[0])
        l = (c[1] - a[1]) / (counts[1] - counts[0])
        print(
            f"{tag:40s} {shape} w={weighted} per it {d:.3f} us late {l:.3f}; {counts[0]} its {a[0]:.1f}/{a[1]:.1f} us",
            "chip" if til else "pass",
            til.warps if til else "",
            flush=True,
        )
    except Exception as e:
        print(tag, "FAILED", repr(e)[:300], flush=True)
    for k, v in old.items():
        setattr(it, k, v)
    it._on_chip.cache_clear()
    it._per_pass.cache_clear()


def pure(tag, shape=(480, 640, 11), counts=(24, 240), **consts):
    old = {k: getattr(it, k) for k in consts}
    for k, v in consts.items():
        setattr(it, k, v)
    it._on_chip.cache_clear()
    from dataclasses import replace

    try:
        p, s, st, _ = b.example(*shape, False)
        be.iterate(p, s, st, 200)
        til = replace(it._on_chip(*shape[:2], 132), exchange=False)
        f = State(s.primal.copy(), s.dual.copy())
        out = []
        for n in counts:
            ts = []
            for _ in range(7):
                s.primal[...] = f.primal
                s.dual[...] = f.dual
                a, e = cupy.cuda.Event(), cupy.cuda.Event()
                a.record()
                it._sweep(p, s, st, n, til)
                e.record()
                e.synchronize()
                ts.append(cupy.cuda.get_elapsed_time(a, e) * 1e3)
            out.append(np.median(ts))
        print(
            f"{tag:40s} no exchange: per it {(out[1] - out[0]) / (counts[1] - counts[0]):.3f} us; {counts[0]} its {out[0]:.1f} us",
            til,
            flush=True,
        )
    except Exception as e:
        print(tag, "FAILED", repr(e)[:300], flush=True)
    for k, v in old.items():
        setattr(it, k, v)
    it._on_chip.cache_clear()


t = time.time()
attempt("base")
print("first attempt s", time.time() - t)
attempt("base", weighted=True)
pure("base")
attempt("rows3", ROWS=3, WARPS=16)
pure("rows3", ROWS=3, WARPS=16)
attempt("rows2", ROWS=2, WARPS=24)
pure("rows2", ROWS=2, WARPS=24)
attempt("rows4 warps16", ROWS=4, WARPS=16)
attempt("rows4 warps16", shape=(375, 1242, 5), ROWS=4, WARPS=16)
attempt("kitti", shape=(375, 1242, 5))
attempt("kitti L6", shape=(375, 1242, 5), LEVELS_PER_PASS=6)
for L in (2, 4, 6, 8):
    attempt(f"big L{L}", shape=(4096, 4096, 5), counts=(24, 72), LEVELS_PER_PASS=L)
attempt("big weighted", shape=(4096, 4096, 5), counts=(8, 40), weighted=True)
p, s, st, box = b.example(480, 640, 11, False)
print("plain 640x480", b.seconds(lambda: it._plain(p, s, st, 50)) / 50 * 1e6, "us")
b.surroundings(be, fig)
