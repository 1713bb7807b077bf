"""Fuse every view of a scene with its best neighbours, write the data set back with new maps, and one point cloud."""

import argparse
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.cli import correction, settings, talk
from cfusion.cli.report import PAGE, add_no_report
from cfusion.cli.talk import shown
from cfusion.errors import CFusionError, FileError, InputError

if TYPE_CHECKING:
    from cfusion.cli.progress import ProgressCallback
    from cfusion.scene.job import Job
    from cfusion.scene.runner import Runner
    from cfusion.scene.whole import Report, Scene

NAME, SUMMARY = "scene", "fuse every view of a scene, written back as the data set it came from"
FAILED = 1  # exit code: some views failed
USUAL_PIXELS = 640.0 * 480.0
MOST_LINES = 40  # of the table on the screen
SAMPLE = 8  # views, about, that are asked before the fusion whether another format can store them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DATA -o OUT, neighbours, what to write, where to run."""
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="folder of a data set in a known format; see `cfusion formats`")
    add("-o", "--output", type=Path, required=True, metavar="OUT", help="folder for the data set with fused maps")
    add("--neighbours", type=int, default=10, metavar="N", help="most other views fused into each view (default: 10)")
    add(
        "--write",
        metavar="FORMAT",
        help="convert to bundle, tum, colmap, mvsnet, openmvs, open3d or nerfstudio (default: the input's own layout, "
        "with its own files; `cfusion formats` says which can be written back)",
    )
    add("--cloud", action=argparse.BooleanOptionalAction, default=True, help="OUT/scene.ply, one cloud of all maps")
    add("--mesh", action="store_true", help="OUT/mesh.ply and OUT/mesh.glb, a coloured mesh of all maps")
    voxel = "with --mesh: a length (default: sigma / 2, half a pixel to a pixel)"
    add("--voxel", type=float, metavar="SIZE", help=voxel)
    add("--method", default="auto", help="see `cfusion methods` (default: auto)")
    add("--backend", default="auto", help="auto, cuda, cpu or numpy (default: auto)")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the method; repeatable")
    settings.add_reading(parser)
    add("--force", action="store_true", help="continue although the data look wrong; overwrite files in OUT")
    add_no_report(parser)
    talk.add_arguments(
        parser,
        quiet="no progress, no summary; failed views are named all the same",
        verbose="every line of the table, and the neighbours of every view",
    )
    correction.add_arguments(parser)
    cluster = parser.add_argument_group("on several processes or machines (extra `cluster`)").add_argument
    cluster("--workers", type=int, metavar="N", help="start N worker processes on this machine")
    cluster("--scheduler", metavar="ADDRESS", help="use the workers of a dask scheduler, e.g. tcp://host:8786")
    cluster("--worker-memory", metavar="SIZE", help="memory of each process of --workers, e.g. 4GB")


def run(arguments: argparse.Namespace) -> int:
    """Check everything first, then fuse, write back, merge."""
    from cfusion.arrays import share_of
    from cfusion.cli import parts
    from cfusion.cli.compiling import compile_kernels
    from cfusion.cli.progress import Step, showing
    from cfusion.cli.report_of_many import write_scene_page
    from cfusion.datasets.write_views import require_storable
    from cfusion.scene import places
    from cfusion.scene.job import open_job
    from cfusion.scene.runner import InProcess
    from cfusion.scene.whole import fuse_scene, prepare, with_aligned_scales, write_summary

    began = time.monotonic()
    job, runner, other = _checked(arguments)
    open_job(job)  # a data set that cannot be read at all leaves no OUT behind
    if arguments.align_scales:
        job = with_aligned_scales(job)
    if other is not None:
        with suppress(FileError):
            views = open_job(job).dataset
            require_storable(views[:: share_of(len(views), SAMPLE)], other)  # after the fusion all views are asked
    if arguments.neighbours > 0:  # poses do not matter to a view fused alone
        with suppress(FileError):  # an unreadable view is reported later and stops no other
            correction.require_plausible(open_job(job).dataset, job.correction, force=arguments.force)
    with places.lock_output(arguments.output):
        about: dict[str, object] = {"format": job.format, "written": other or job.format, "method": job.method}
        read_as = {
            "options": dict(job.options),
            "correction": vars(job.correction),
            "scales": [vars(each) for each in job.scales],
        }
        places.write_mark(arguments.data, arguments.output, about | read_as)
        if runner.workers == 1 and not arguments.scheduler:
            places.sweep(arguments.output)
        try:
            with showing("scene", quiet=arguments.quiet) as callback:
                asked = {"cloud": arguments.cloud, "mesh": arguments.mesh, "page": not arguments.no_report}
                count, pixels = _extent(job)
                callback.plan(parts.of_scene(job.method, count, pixels, **asked), job.method)
                scene = prepare(job, arguments.neighbours, callback)
                _print_graph(arguments, scene)
                if scene.todo and isinstance(runner, InProcess):
                    compile_kernels([job.method], job.backend, callback)
                with runner.open() if scene.todo else nullcontext(runner) as ready:
                    report = fuse_scene(scene, ready, callback)
                    report = _more(arguments, job, scene, report, ready, other, callback)
                lines = write_summary(job, report)
                if not arguments.no_report:
                    callback(Step(parts.PAGE, 0.0))
                    write_scene_page(job, report)
        except KeyboardInterrupt:
            message = f"fused views are in {arguments.output}; run the same command again to continue"
            raise KeyboardInterrupt(message) from None
        places.sweep(arguments.output)
    camera = _camera(job, report) if other == "tum" else ""
    _print_summary(arguments, report, lines, time.monotonic() - began, other, camera)
    return FAILED if report.failed else 0


def _extent(job: "Job") -> tuple[int, float]:
    """The number of views, and the pixels of the first (or of a typical one)."""
    from cfusion.scene.job import open_job

    opened = open_job(job)
    try:
        return len(opened.dataset), float(opened.views[0].depth.size)
    except CFusionError:  # the view is reported as unreadable later
        return len(opened.dataset), USUAL_PIXELS


def _checked(arguments: argparse.Namespace) -> "tuple[Job, Runner, str | None]":
    """The job, its runner, and the other format to write, if any; all mistakes in the arguments are found here."""
    from cfusion import kernels, methods
    from cfusion.datasets.write_back import LAYOUTS
    from cfusion.parameters import refine
    from cfusion.scene import mesh, places
    from cfusion.scene.cluster import Cluster, require_dask
    from cfusion.scene.job import Job, code_version
    from cfusion.scene.runner import InProcess

    if arguments.neighbours < 0:
        raise InputError(f"--neighbours is {arguments.neighbours}; give a whole number from 0")
    if arguments.workers is not None and arguments.workers < 1:
        raise InputError(f"--workers is {arguments.workers}; give at least 1")
    if arguments.workers is not None and arguments.scheduler is not None:
        raise InputError("--workers starts a cluster, --scheduler uses one; give only one of them")
    if arguments.voxel is not None and not arguments.mesh:
        raise InputError("--voxel is for the mesh; pass --mesh as well")
    if arguments.voxel is not None:
        mesh.require_voxel(arguments.voxel)
    if arguments.worker_memory is not None and arguments.workers is None:
        raise InputError("--worker-memory is for workers on this machine; pass --workers as well")
    # cloud, mesh and later tools need the other maps
    parameters = methods.keeping_plausible(arguments.method, settings.parameters(arguments.set))
    refine(methods.get(arguments.method), parameters)
    kernels.load(arguments.backend)
    format = places.format_of(arguments.data, arguments.format)
    places.require_apart(arguments.data, arguments.output)
    mended = correction.chosen(arguments)
    other = _other_format(arguments.write, format, mended.options)
    places.require_own_output(arguments.data, arguments.output, written=other or format, force=arguments.force)
    if arguments.mesh:
        mesh.require_libraries()
    runner: Runner = InProcess()
    if arguments.workers is not None or arguments.scheduler is not None:
        require_dask()
        runner = Cluster(arguments.workers or 0, arguments.scheduler or "", arguments.worker_memory or "auto")
    job = Job(
        data=str(arguments.data.resolve()),
        format=format,
        output=str(arguments.output.resolve()),
        version=code_version(),
        options=tuple(sorted(settings.parameters(arguments.option, "--option").items())),
        correction=mended,
        method=arguments.method,
        parameters=tuple(sorted(parameters.items())),
        backend=arguments.backend,
        write_back=other is None and format in LAYOUTS,
    )
    return job, runner, other


def _other_format(given: str | None, format: str, mended: str) -> str | None:
    """The format that the output is converted to; None to write back the input's own layout.

    mended: options that correct the data. Their poses, cameras and unit are then not taken over.
    """
    from cfusion.datasets.read import known
    from cfusion.datasets.write_back import LAYOUTS
    from cfusion.datasets.write_views import WRITERS

    wanted = format if given is None else known(given)
    if wanted == format and format in LAYOUTS and not mended:
        return None
    if given is None:
        return "bundle"
    if wanted not in WRITERS and mended:
        raise InputError(f"with {mended}, DATA's own files are not taken over; choose from {', '.join(WRITERS)}")
    if wanted not in WRITERS:
        raise InputError(f"{format!r} cannot be written as {wanted!r}; choose from {', '.join(WRITERS)}")
    return wanted


def _print_graph(arguments: argparse.Namespace, scene: "Scene") -> None:
    from cfusion.scene.job import open_job
    from cfusion.scene.summary import graph_sentence

    for view, reason in scene.unreadable:
        print(f"cfusion: view {view}: {reason}", file=sys.stderr)
    damaged = {view for view, _ in scene.unreadable}
    groups, lonely = scene.graph.groups, [view for view in scene.graph.lonely if view not in damaged]
    if len(scene.graph) == 1:
        print("cfusion: the scene has one view, which is fused alone", file=sys.stderr)
    elif lonely and arguments.neighbours > 0:
        numbers = ", ".join(str(view) for view in lonely[:5]) + (", ..." if len(lonely) > 5 else "")
        count = "1 view shares" if len(lonely) == 1 else f"{len(lonely)} views share"
        print(
            f"cfusion: {count} nothing with any other ({numbers}): fused alone; empty, or misplaced?", file=sys.stderr
        )
    together = [len(group) for group in groups if len(group) > 1]
    if len(together) > 1:
        sizes = " and ".join(str(size) for size in together)
        print(f"cfusion: the views fall into {len(together)} groups that share nothing: {sizes}", file=sys.stderr)
    if arguments.quiet or arguments.json:
        return
    sentence = open_job(scene.job).dataset.sentence
    if sentence:
        print(shown(sentence))
    print(graph_sentence(scene.graph.neighbours, scene.graph.source))
    if scene.done:
        print(f"{len(scene.done)} of {len(scene.tasks)} views exist already with the same settings")
    if arguments.verbose:
        for view, neighbours in enumerate(scene.graph.neighbours):
            print(f"view {view} from {', '.join(map(str, neighbours)) or 'itself alone'}")


def _more(
    arguments: argparse.Namespace,
    job: "Job",
    scene: "Scene",
    report: "Report",
    runner: "Runner",
    other: str | None,
    callback: "ProgressCallback",
) -> "Report":
    """Write another format, the cloud and the mesh, as requested."""
    from dataclasses import replace

    from cfusion.datasets import write_views
    from cfusion.scene import cloud, mesh
    from cfusion.scene.convert import fused_views

    fused = [record.view for record in report.records if not record.failure]
    if other is not None and fused:
        write_views(fused_views(job, fused), job.output, other, overwrite=True)  # an own output, or --force
    if arguments.cloud and fused:
        report = replace(report, points=cloud.write_cloud(job, scene.graph, fused, runner, callback))
    if arguments.mesh and fused:
        report = replace(report, triangles=mesh.write_mesh(job, fused, arguments.voxel, callback))
    elif scene.todo and (arguments.output / "mesh.ply").exists():
        print("cfusion: mesh.ply and mesh.glb are of earlier maps; pass --mesh to make them again", file=sys.stderr)
    return report


def _print_summary(
    arguments: argparse.Namespace,
    report: "Report",
    lines: list[str],
    seconds: float,
    other: str | None = None,
    camera: str = "",
) -> None:
    page = arguments.output / PAGE if not arguments.no_report and len(report.failed) < len(report.records) else None
    if arguments.json:
        _print_json(arguments, report, seconds, page)
    elif not arguments.quiet:
        every = arguments.verbose or len(lines) <= MOST_LINES + 1
        told = lines if every else [*lines[:MOST_LINES], f"... {len(lines) - MOST_LINES} more"]
        print("\n".join(told))
        done = len(report.records) - len(report.failed)
        print(f"{done} of {len(report.records)} views fused with {arguments.method} in {seconds:.1f} s")
        if report.points:
            print(f"{report.points} points in {arguments.output / 'scene.ply'}")
        if report.triangles:
            print(f"{report.triangles} triangles in {arguments.output / 'mesh.ply'} and mesh.glb")
        form = "" if other is None else f" as {other}"
        print(f"written to {arguments.output}{form}; the table is in {arguments.output / 'cfusion' / 'summary.txt'}")
        if camera:
            print(f"{other} stores no camera; read it with --option camera={camera}")
        if page is not None:
            print(f"open {page}, or look at all of it: cfusion view {arguments.output}")
    for record in report.failed:
        print(f"cfusion: {record.name} failed: {record.failure}", file=sys.stderr)
    if report.failed:
        count = "1 view" if len(report.failed) == 1 else f"{len(report.failed)} views"
        print(f"cfusion: {count} failed; mend the data, then run the same again", file=sys.stderr)


def _camera(job: "Job", report: "Report") -> str:
    """fx,fy,cx,cy of the first fused view, as the option of tum takes them; empty if all failed."""
    from cfusion.geometry import Pinhole
    from cfusion.scene.job import open_job

    fused = [record.view for record in report.records if not record.failure]
    if not fused:
        return ""
    camera = open_job(job).views[fused[0]].camera
    assert isinstance(camera, Pinhole)  # others were refused
    return ",".join(f"{number:.10g}" for number in (camera.fx, camera.fy, camera.cx, camera.cy))


def _print_json(arguments: argparse.Namespace, report: "Report", seconds: float, page: Path | None) -> None:
    """The summary as one JSON object; OUT/cfusion/summary.json has every view."""
    summary: dict[str, object] = {"views": len(report.records), "failed": [each.name for each in report.failed]}
    summary |= {"method": arguments.method, "seconds": seconds, "points": report.points, "triangles": report.triangles}
    summary |= {"output": str(arguments.output), "report": None if page is None else str(page)}
    talk.print_json(summary)
