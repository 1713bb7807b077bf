"""Fuse a built-in scene with every method, print the scores, and write a page."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.cli import report, settings, talk

if TYPE_CHECKING:
    from cfusion.arrays import DepthMap
    from cfusion.geometry import Camera, View
    from cfusion.report.tables import Row, Table
    from cfusion.result import Result
    from cfusion.view.content import Event

NAME, SUMMARY = "demo", "fuse a built-in scene with every method and write a page"
VIEWS = 11
NOISE = {"object": 0.6, "city": 6.0, "room": 0.1}  # Laplace scales: those of the paper's tables, and less for the room
CITY_SPACING = 4.0  # metres between views


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The scene, its noise and size, and the output."""
    add = parser.add_argument
    add("-o", "--output", type=Path, default=Path("demo-out"), metavar="OUT", help="default: demo-out")
    add("--scene", choices=tuple(NOISE), default="object", help="default: object")
    add("--noise", type=float, metavar="SCALE", help="scale of Laplace noise (default: object 0.6, city 6, room 0.1)")
    add("--size", type=settings.size, default=(640, 480), metavar="WxH", help="default: 640x480")
    add("--seed", type=int, default=0, help="seed of the noise (default: 0)")
    add("--methods", type=settings.names, metavar="NAMES", help="methods, separated by commas (default: all)")
    add("--backend", default="auto", help="auto, cuda, cpu or numpy (default: auto)")
    report.add_no_report(parser)
    talk.add_arguments(
        parser, quiet="no progress", verbose="also how each method was solved", json="print the scores as JSON"
    )


def run(arguments: argparse.Namespace) -> int:
    """Render, compile, fuse, score, print, write."""
    from cfusion.cli import parts
    from cfusion.cli.compiling import kernels_ready
    from cfusion.cli.progress import Step, prefixed, showing
    from cfusion.fuse import fuse
    from cfusion.io.atomic import require_writable
    from cfusion.metrics import evaluate
    from cfusion.report.tables import Table, result_row
    from cfusion.view.sections import sentences

    require_writable(arguments.output)
    names = _methods(arguments)
    results, rows, traces = [], [], {}
    with showing("demo", quiet=arguments.quiet) as progress:
        pixels = float(arguments.size[0] * arguments.size[1])
        progress.plan(parts.of_demo(names, pixels, page=not arguments.no_report))
        progress(Step(f"rendering {VIEWS} views", 0.0))
        views, truth, baseline = _scene(arguments)
        with kernels_ready(names, arguments.backend, progress):
            for name in names:
                recorder = report.Recorder(prefixed(name, progress))
                progress(Step(f"{name}:", 0.0))
                result = fuse(
                    views, name, reference=VIEWS // 2, backend=arguments.backend, progress=recorder, check=False
                )
                results.append(result)
                traces[name] = recorder.events
                rows.append(result_row(result, evaluate(result.depth, truth, result.camera, baseline)))
        table = Table(rows)
        page = None
        if not arguments.no_report:
            progress(Step(parts.PAGE, 0.0))
            page = _page(arguments, results, views, truth, rows, traces)
        _write(arguments.output, table, page)
    if arguments.json:
        talk.print_json(table.rows)
    else:
        print(table.text())
    if arguments.verbose:
        print("\n".join(f"{result.method}: {' '.join(sentences(result))}" for result in results))
    if not (arguments.no_report or arguments.json):
        print(f"\nopen {arguments.output / report.PAGE}")
    return 0


def _methods(arguments: argparse.Namespace) -> list[str]:
    """The chosen methods in the given order, or all, in the order of the README's table."""
    from cfusion.methods import METHODS, get

    names = list(arguments.methods or (name for name in METHODS if ":" not in name))
    for name in names:
        get(name)  # refused before anything is rendered
    return names


def _scene(arguments: argparse.Namespace) -> "tuple[Sequence[View], DepthMap, float]":
    """Noisy views, the true depth of the middle one, and the baseline for disparities."""
    import numpy as np

    from cfusion.errors import InputError
    from cfusion.synthetic import ORBIT_BASELINE, Laplace, blob, city_bundle, object_bundle, room

    if arguments.seed < 0:
        raise InputError(f"--seed is {arguments.seed}; give a whole number from 0")
    rng = np.random.default_rng(arguments.seed)
    noise = Laplace(_noise_scale(arguments))
    camera = _camera(arguments.size)
    if arguments.scene == "city":
        views, truth = city_bundle(None, noise, rng, VIEWS, CITY_SPACING, camera)
        return views, truth, CITY_SPACING
    seen = room() if arguments.scene == "room" else blob()
    views, truth = object_bundle(seen, noise, rng, VIEWS, camera=camera)
    return views, truth, ORBIT_BASELINE


def _noise_scale(arguments: argparse.Namespace) -> float:
    return NOISE[arguments.scene] if arguments.noise is None else float(arguments.noise)


def _camera(size: tuple[int, int]) -> "Camera":
    """The paper's camera, resized; its height is cropped or extended around the centre."""
    from dataclasses import replace

    from cfusion.synthetic import PAPER_CAMERA

    width, height = size
    camera = PAPER_CAMERA.scaled(width / PAPER_CAMERA.width)
    return replace(camera, width=width, height=height, cy=camera.cy + 0.5 * (height - camera.height))


def _write(folder: Path, table: "Table", page: str | None) -> None:
    """Write scores.md, scores.json and the page: all of one run, or none."""
    import json

    from cfusion.io.atomic import filling
    from cfusion.io.to_json import to_json

    with filling(folder, (report.PAGE,)) as draft:
        (draft / "scores.md").write_text(table.markdown() + "\n", encoding="utf-8")
        (draft / "scores.json").write_text(json.dumps(to_json(table.rows), indent=1), encoding="utf-8")
        if page is not None:
            (draft / report.PAGE).write_text(page, encoding="utf-8")


def _page(
    arguments: argparse.Namespace,
    results: "Sequence[Result]",
    views: "Sequence[View]",
    truth: "DepthMap",
    rows: "Sequence[Row]",
    traces: "Mapping[str, Sequence[Event]]",
) -> str:
    """The page of all results; it opens with the first one that was chosen, or with `auto`."""
    from cfusion.view.content import Content
    from cfusion.view.page import page

    width, height = arguments.size
    note = (
        f"{VIEWS} views of a built-in scene ({arguments.scene}), {width} x {height} pixels, Laplace noise "
        f"of scale {_noise_scale(arguments):g} on each depth (seed {arguments.seed}), fused into the middle."
    )
    content = Content(
        "cfusion demo",
        results if arguments.methods else sorted(results, key=lambda result: result.method != "auto"),
        views=views,
        reference=VIEWS // 2,
        truth=truth,
        scores=rows,
        traces=traces,
        notes=[note],
        command=report.command_line(),
    )
    return page(content)
