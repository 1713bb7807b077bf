// Maps side by side: one zoom and one pointed pixel for all.

const KINDS = ["depth", "surface", "sigma", "confidence", "provenance", "error", "normals", "image"];
const TITLES = { depth: "depth", surface: "surface", sigma: "sigma", confidence: "confidence", provenance: "views",
  error: "error", normals: "normals", image: "image", input: "input", median: "median", truth: "truth" };
if (model.heights) Object.assign(TITLES, { depth: "height", provenance: "rasters" });

// A canvas that shows a part of the image, and finds the pixel under a point of it.
class Pane {
  constructor(canvas, paint) {
    this.canvas = canvas;
    this.paint = paint;
    canvas.style.aspectRatio = `${W} / ${H}`;
    new ResizeObserver(() => this.draw()).observe(canvas);
    this.steer();
  }

  draw() {
    const canvas = this.canvas, ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round((canvas.clientWidth * ratio * H) / W);
    if (!width) return;
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d"), scale = (width / W) * state.zoom.k;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = scale < 1.5;
    context.setTransform(scale, 0, 0, scale, -state.zoom.x * scale, -state.zoom.y * scale);
    this.paint(context, width, height, scale);
    if (state.pixel) this.mark(context, scale, ratio);
  }

  mark(context, scale, ratio) {
    const [u, v] = state.pixel, half = Math.max(0.5, (6 * ratio) / scale);
    for (const [colour, width] of [["rgba(0,0,0,.65)", 3], ["#fff", 1.4]]) {
      context.strokeStyle = colour;
      context.lineWidth = (width * ratio) / scale;
      context.strokeRect(u + 0.5 - half, v + 0.5 - half, 2 * half, 2 * half);
    }
  }

  pixel(event) {
    const box = this.canvas.getBoundingClientRect(), scale = (box.width / W) * state.zoom.k;
    return [(event.clientX - box.left) / scale + state.zoom.x, (event.clientY - box.top) / scale + state.zoom.y];
  }

  steer() {
    const canvas = this.canvas, pointers = new Map();
    let dragged = false;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.focus({ preventScroll: true });
      if (event.pointerType !== "touch") canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
      dragged = false;
      read(this.pixel(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return read(this.pixel(event));
      const scale = (canvas.clientWidth / W) * state.zoom.k;
      if (pointers.size > 1) {
        const apart = (list) => Math.hypot(list[0].clientX - list[1].clientX, list[0].clientY - list[1].clientY);
        const old = apart([...pointers.values()]);
        pointers.set(event.pointerId, event);
        zoomTo(this.pixel(event), apart([...pointers.values()]) / Math.max(1, old));
      } else {
        dragged = dragged || Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY) > 3;
        if (dragged) {
          pan((before.clientX - event.clientX) / scale, (before.clientY - event.clientY) / scale);
          pointers.set(event.pointerId, event);
        }
      }
    });
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
    canvas.addEventListener("wheel", (event) => {
      if (!(event.ctrlKey || document.activeElement === canvas)) return;
      event.preventDefault();
      zoomTo(this.pixel(event), Math.exp(-0.0015 * event.deltaY));
    }, { passive: false });
    canvas.addEventListener("dblclick", () => zoomTo([0, 0], 0));
    canvas.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 10 : 1, at = state.pixel || [W >> 1, H >> 1];
      const KEYS = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      if (event.key in KEYS) read([at[0] + KEYS[event.key][0], at[1] + KEYS[event.key][1]]);
      else if (event.key === "+" || event.key === "=") zoomTo([at[0] + 0.5, at[1] + 0.5], 1.3);
      else if (event.key === "-") zoomTo([at[0] + 0.5, at[1] + 0.5], 1 / 1.3);
      else if (event.key === "0") zoomTo([0, 0], 0);
      else return;
      event.preventDefault();
    });
  }
}

// Names of views usually differ at their end.
function ending(name) { return name.length > 10 ? `…${name.slice(-9)}` : name; }

function read([x, y]) {
  const pixel = [Math.max(0, Math.min(W - 1, Math.floor(x))), Math.max(0, Math.min(H - 1, Math.floor(y)))];
  if (state.pixel && state.pixel[0] === pixel[0] && state.pixel[1] === pixel[1]) return;
  state.pixel = pixel;
  changed("pixel");
}

function pan(dx, dy) {
  const zoom = state.zoom;
  zoom.x = Math.max(0, Math.min(W - W / zoom.k, zoom.x + dx));
  zoom.y = Math.max(0, Math.min(H - H / zoom.k, zoom.y + dy));
  changed("zoom");
}

function zoomTo([x, y], factor) {
  const zoom = state.zoom, before = zoom.k;
  zoom.k = Math.max(1, Math.min(64, before * factor));
  zoom.x = x - (x - zoom.x) * (before / zoom.k);
  zoom.y = y - (y - zoom.y) * (before / zoom.k);
  pan(0, 0);
}

class Maps {
  constructor(place) {
    this.place = place;
    this.panes = [];
    this.kinds = KINDS.filter((kind) => has(kind, 0));
    this.hidden = new Set(this.kinds.filter((kind) => kind === "normals" || kind === "surface"));
    this.buttons();
    this.build();
    listen((what) => {
      if (what.has("exhibit")) this.build();
      else this.panes.forEach((pane) => pane.draw());
    });
  }

  buttons() {
    const controls = document.getElementById("map-controls");
    for (const kind of this.kinds) {
      const button = element("button", { type: "button", class: "chip", "aria-pressed": String(!this.hidden.has(kind)), text: TITLES[kind],
        onclick: () => {
          if (!this.hidden.delete(kind)) this.hidden.add(kind);
          button.setAttribute("aria-pressed", String(!this.hidden.has(kind)));
          this.build();
        } });
      controls.append(button);
    }
  }

  build() {
    this.panes = [];
    this.place.replaceChildren();
    for (const kind of this.kinds) {
      if (this.hidden.has(kind) || !has(kind)) continue;
      const canvas = element("canvas", { tabindex: "0", "data-kind": kind, "aria-label": `Map of ${TITLES[kind]}` });
      const label = element("abbr", { text: TITLES[kind], tabindex: "0", "data-words": model.words[kind] });
      const legend = element("span", { class: "legend" });
      this.place.append(element("figure", {}, element("figcaption", {}, label, legend), canvas));
      let shown = null;
      const pane = new Pane(canvas, (context) => shown && context.drawImage(shown, 0, 0));
      this.panes.push(pane);
      picture(kind).then((made) => { shown = made; pane.draw(); });
      this.legend(kind, legend);
    }
  }

  async legend(kind, place) {
    if (!(kind in RAMP_OF) || kind === "surface") return;
    const [low, high] = await limits(kind), unit = ["depth", "sigma", "error"].includes(kind) ? ` ${model.unit}` : "";
    const bar = element("i", {});
    bar.style.background = gradient(RAMP_OF[kind]);
    place.append(element("small", { text: written(low) }), bar, element("small", { text: written(high) + unit }));
  }
}

// All values of the pixel pointed at.
class Reading {
  constructor(place) {
    this.place = place;
    listen((what) => { if (what.has("pixel") || what.has("exhibit")) this.draw(); });
    this.draw();
  }

  async draw() {
    const wanted = (this.wanted = Symbol());
    if (!state.pixel) {
      this.place.replaceChildren(element("p", { class: "hint", text: "Point at a map to read a pixel." }));
      return;
    }
    const [u, v] = state.pixel, at = v * W + u, rows = [];
    const kinds = ["depth", "sigma", "confidence", "provenance", "error", "input", "median", "truth"].filter((kind) => has(kind));
    const found = await Promise.all(kinds.map((kind) => layer(kind)));
    const held = model.views.map((_, k) => (`residual-${k}` in model.layers ? layer(`residual-${k}`) : null));
    const residuals = await Promise.all(held);
    if (wanted !== this.wanted) return;
    kinds.forEach((kind, i) => rows.push([kind, this.value(kind, found[i], at)]));
    const head = element("h3", { text: `column ${u * model.stride}, row ${v * model.stride}` });
    const list = element("dl");
    for (const [kind, text] of rows) {
      list.append(element("dt", { text: TITLES[kind] }), element("dd", { "data-read": kind, text }));
    }
    this.place.replaceChildren(head, list);
    if (residuals.some(Boolean)) this.place.append(this.views(residuals, u, v));
  }

  value(kind, map, at) {
    const value = map.values[at];
    if (kind === "provenance") return Number.isNaN(value) ? "nothing known" : value === 0 ? "filled" : `${value} ${value === 1 ? "view" : "views"}`;
    if (Number.isNaN(value)) return "unknown";
    const unit = kind === "confidence" ? "" : ` ${model.unit}`;
    return (map.log ? Number(value.toPrecision(3)).toString() : written(value, map.step)) + unit;
  }

  // Measurement of each view minus the fused depth, as a bar to either side.
  views(residuals, u, v) {
    const list = element("div", { class: "residuals" }, element("h4", { text: `residual of each view [${model.unit}]` }));
    const every = Math.max(...residuals.filter(Boolean).map((map) => map.stride));
    if (every > 1) list.append(element("p", { class: "hint", text: `kept at every ${every}. pixel` }));
    const largest = 4 * (model.noise || 1);
    residuals.forEach((map, k) => {
      if (!map) return;
      const value = map.values[Math.floor(v / map.stride) * map.width + Math.floor(u / map.stride)], known = !Number.isNaN(value), share = known ? Math.max(-1, Math.min(1, value / largest)) : 0;
      const bar = element("i", { class: value > 0 ? "far" : "near" });
      bar.style.width = `${50 * Math.abs(share)}%`;
      bar.style[value > 0 ? "left" : "right"] = "50%";
      const text = known ? (value > 0 ? "+" : "") + written(value, map.step) : "-";
      list.append(element("div", { class: known ? "row" : "row absent" }, element("span", { text: ending(model.views[k]), title: model.views[k] }),
        element("span", { class: "bar" }, bar), element("span", { "data-residual": k, text })));
    });
    return list;
  }
}
