import sys, time, cProfile, pstats
import numpy as np, cupy
from dataclasses import replace
from benchmarks import cuda as b
from cfusion import kernels
from cfusion.kernels.cuda import iteration as it
from cfusion.kernels.contract import State
be=kernels.load('cuda'); fig={}
def ev(go,reps=7,pre=lambda:None):
    ts=[]
    for _ in range(reps):
        pre(); s,e=cupy.cuda.Event(),cupy.cuda.Event(); s.record(); go(); e.record(); e.synchronize(); ts.append(cupy.cuda.get_elapsed_time(s,e)*1e3)
    return float(np.median(ts))
def attempt(tag,shape=(480,640,11),weighted=False,counts=(24,240),pure=False,**consts):
    old={k:getattr(it,k) for k in consts}
    for k,v in consts.items(): setattr(it,k,v)
    it._on_chip.cache_clear(); it._per_pass.cache_clear(); it._sweep_kernel.cache_clear()
    try:
        p,s,st,_=b.example(*shape,weighted)
        til=it._on_chip(*shape[:2],132*it.BLOCKS)
        f=State(s.primal.copy(),s.dual.copy())
        def pre(): s.primal[...]=f.primal; s.dual[...]=f.dual
        if pure: go=lambda n: it._sweep(p,s,st,n,replace(til,exchange=False))
        else: go=lambda n: be.iterate(p,s,st,n)
        go(counts[0])
        a,c=[ev(lambda: go(n),pre=pre) for n in counts]
        go(100); la,lc=[ev(lambda: go(n)) for n in counts]
        d=counts[1]-counts[0]
        print(f'{tag:28s} {shape} w={weighted:d} {"no exchange" if pure else ""} per it {(c-a)/d:.3f} late {(lc-la)/d:.3f} us; {counts[0]} its {a:.1f}/{la:.1f} us', f'chip {til.warps} warps {til.across}x{til.down}' if til else 'pass', flush=True)
    except Exception as e: print(tag,'FAILED',repr(e)[:300], flush=True)
    for k,v in old.items(): setattr(it,k,v)
    it._on_chip.cache_clear(); it._per_pass.cache_clear(); it._sweep_kernel.cache_clear()
b.ceilings(fig)
attempt('base'); attempt('base',pure=True); attempt('base',weighted=True)
attempt('two blocks',BLOCKS=2,WARPS=6); attempt('two blocks',BLOCKS=2,WARPS=6,pure=True); attempt('two blocks',BLOCKS=2,WARPS=6,weighted=True)
attempt('rows3',ROWS=3,WARPS=16); attempt('rows3',ROWS=3,WARPS=16,pure=True)
attempt('rows3 two',ROWS=3,WARPS=8,BLOCKS=2)
attempt('rows2',ROWS=2,WARPS=24)
for L in (4,6,8): attempt(f'kitti L{L}',shape=(375,1242,5),LEVELS_PER_PASS=L)
for L in (2,4,6): attempt(f'big L{L}',shape=(4096,4096,5),counts=(24,72),LEVELS_PER_PASS=L)
attempt('big two',shape=(4096,4096,5),counts=(24,72),BLOCKS=2,WARPS=6)
attempt('big rows3',shape=(4096,4096,5),counts=(24,72),ROWS=3,WARPS=16)
attempt('big weighted',shape=(4096,4096,5),counts=(24,72),weighted=True)
b.surroundings(be,fig)
b.solves(be,fig)
# profile of a solve and of ACS
from cfusion.energy import *; from cfusion.solvers import *; from cfusion.geometry import Stack
p,s,st,box=b.example(480,640,11,False)
stack=Stack(cupy.asnumpy(p.observations.values)+np.float32(5))
e=Energy(L1(),TGV(2,b.ALPHA)); t=prepare(e,stack,be); 
for what,go in {'minimise':lambda: PDHG().minimise(t,t.problem(cupy.ones((480,640),np.float32)),t.initial_state()),'prepare':lambda: prepare(e,stack,be),'ACS':lambda: solve(Energy(L1(),TGV(2,b.ALPHA),Prior()),stack,ACS(),backend=be)}.items():
    go(); pr=cProfile.Profile(); pr.enable(); [go() for _ in range(5)]; cupy.cuda.Device().synchronize(); pr.disable()
    print('----',what); pstats.Stats(pr).sort_stats('tottime').print_stats(14)
