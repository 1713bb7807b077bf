// The state of the page, its maps, and values computed from them: points, normals, errors.

const model = JSON.parse(document.getElementById("model").textContent);
const W = model.width, H = model.height;
const state = { exhibit: 0, pixel: null, zoom: { x: 0, y: 0, k: 1 } };
const listeners = [];
const kept = new Map();

function listen(action) { listeners.push(action); }
function changed(...what) { for (const action of listeners) action(new Set(what)); }

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// Buttons of which one is pressed; `choose` is called with the value of another.
function chips(label, values, chosen, choose, named = (value) => value) {
  const group = element("span", { class: "group", role: "group", "aria-label": label });
  for (const value of values) {
    const press = (event) => {
      for (const each of group.children) each.setAttribute("aria-pressed", String(each === event.currentTarget));
      choose(value);
    };
    group.append(element("button", { type: "button", class: "chip", "data-chip": value, "aria-pressed": String(value === chosen),
      text: named(value), onclick: press }));
  }
  return group;
}

function once(key, make) {
  if (!kept.has(key)) kept.set(key, make());
  return kept.get(key);
}

function has(kind, exhibit = state.exhibit) {
  if (kind === "image") return Boolean(model.image);
  if (kind === "normals" || kind === "surface") return true;
  if (kind === "error") return "truth" in model.layers;
  if (kind === "median") return "median" in model.layers || model.exhibits.some((each) => each.name === "median");
  return `${kind}-${exhibit}` in model.layers || kind in model.layers;
}

// A map by kind: of the exhibit shown (depth, sigma, ...), or of all (input, median, truth, residual-3).
function layer(kind, exhibit = state.exhibit) {
  let key = `${kind}-${exhibit}` in model.layers ? `${kind}-${exhibit}` : kind;
  if (kind === "median" && !("median" in model.layers)) {
    key = `depth-${model.exhibits.findIndex((each) => each.name === "median")}`;
  }
  if (kind === "error") return once(`error-${exhibit}`, () => errors(exhibit));
  return once(key, () => decodeLayer(model.layers[key]));
}

async function errors(exhibit) {
  const [depth, truth] = await Promise.all([layer("depth", exhibit), layer("truth")]);
  const values = new Float32Array(depth.values.length);
  for (let i = 0; i < values.length; i++) values[i] = depth.values[i] - truth.values[i];
  return { ...depth, values };
}

// The point of a pixel with this depth, in the frame of the camera: x right, y down, z forward.
function points(depth) {
  const xyz = new Float32Array(3 * W * H), camera = model.camera, up = model.heights ? -1 : 1;
  let pixel = 1;
  if (camera.kind === "none") {
    const [low, high] = percentile(depth, 1, 99);
    pixel = (2.5 * (high - low) || 1) / Math.max(W, H);
  }
  for (let v = 0, i = 0; v < H; v++) {
    for (let u = 0; u < W; u++, i++) {
      const z = up * depth[i];
      if (camera.kind === "pinhole") {
        xyz[3 * i] = ((u - camera.cx) / camera.fx) * z;
        xyz[3 * i + 1] = ((v - camera.cy) / camera.fy) * z;
      } else {
        const size = camera.kind === "orthographic" ? camera.pixel : pixel;
        xyz[3 * i] = (u - (camera.cx ?? W / 2)) * size;
        xyz[3 * i + 1] = (v - (camera.cy ?? H / 2)) * size;
      }
      xyz[3 * i + 2] = z;
    }
  }
  return xyz;
}

// The size of a pixel on the surface, which distinguishes a slope from an edge.
function footprint(xyz, i) {
  if (model.camera.kind === "pinhole") return xyz[3 * i + 2] / model.camera.fx;
  return Math.abs(xyz[3] - xyz[0]) || 1;
}

function normalsOf(xyz) {
  const found = new Float32Array(xyz.length).fill(NaN);
  const at = (i, c) => xyz[3 * i + c];
  for (let v = 0; v < H; v++) {
    for (let u = 0; u < W; u++) {
      const i = v * W + u;
      const a = u + 1 < W && !Number.isNaN(at(i + 1, 2)) ? [i, i + 1] : u > 0 ? [i - 1, i] : null;
      const b = v + 1 < H && !Number.isNaN(at(i + W, 2)) ? [i, i + W] : v > 0 ? [i - W, i] : null;
      if (!a || !b) continue;
      const ax = at(a[1], 0) - at(a[0], 0), ay = at(a[1], 1) - at(a[0], 1), az = at(a[1], 2) - at(a[0], 2);
      const bx = at(b[1], 0) - at(b[0], 0), by = at(b[1], 1) - at(b[0], 1), bz = at(b[1], 2) - at(b[0], 2);
      const nx = by * az - bz * ay, ny = bz * ax - bx * az, nz = bx * ay - by * ax;
      const length = Math.hypot(nx, ny, nz);
      if (length > 0) {
        found[3 * i] = nx / length;
        found[3 * i + 1] = ny / length;
        found[3 * i + 2] = nz / length;
      }
    }
  }
  return found;
}

// Points and normals of any map of depths: fused, input, median, truth.
function shape(kind, exhibit = state.exhibit) {
  const key = kind === "depth" ? `shape-${exhibit}` : `shape-${kind}`;
  return once(key, async () => {
    const xyz = points((await layer(kind, exhibit)).values);
    return { xyz, normals: normalsOf(xyz) };
  });
}

function shade(normals) {
  const light = [-0.45, -0.55, -0.7], values = new Float32Array(normals.length / 3);
  for (let i = 0; i < values.length; i++) {
    const facing = normals[3 * i] * light[0] + normals[3 * i + 1] * light[1] + normals[3 * i + 2] * light[2];
    values[i] = 0.12 + 0.88 * Math.max(0, facing);
  }
  return values;
}

function imagePixels() {
  return once("image", async () => {
    const picture = new Image();
    picture.src = model.image;
    await picture.decode();
    const canvas = element("canvas", { width: W, height: H }), context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0, W, H);
    return context.getImageData(0, 0, W, H).data;
  });
}

// Limits that all maps of one kind share, so that methods can be compared by eye.
function limits(kind) {
  return once(`limits-${kind}`, async () => {
    if (kind === "error") {
      const [size] = percentile((await layer("error", 0)).values.map(Math.abs), 98);
      return [-2 * size, 2 * size];
    }
    const [low, high] = percentile((await layer(kind, 0)).values, 1, 99);
    if (kind === "confidence") return [0, high || 1];
    if (kind === "provenance") return [0, Math.max(1, model.views.length, high)];
    return high > low ? [low, high] : [low - 1e-3 * Math.abs(low) - 1e-9, high + 1e-3 * Math.abs(high) + 1e-9];
  });
}

const RAMP_OF = { depth: "viridis", input: "viridis", median: "viridis", truth: "viridis", sigma: "inferno",
  confidence: "cividis", provenance: "viridis", error: "error", surface: "grey" };
const IS_DEPTH = new Set(["depth", "input", "median", "truth"]);

// A layer as colours (RGBA); `look` draws maps of depth as depth, surface or error.
function colours(kind, exhibit = state.exhibit, look = "depth") {
  const own = IS_DEPTH.has(kind) || kind === "surface" || kind === "normals";
  const key = `colours-${kind}-${own || kind === "error" || has(kind, exhibit) ? exhibit : ""}-${look}`;
  return once(key, async () => {
    if (kind === "image") return imagePixels();
    if (kind === "normals") return paintVectors((await shape("depth", exhibit)).normals);
    if (kind === "surface") return paint(shade((await shape("depth", exhibit)).normals), "grey", 0, 1);
    if (look === "surface") return paint(shade((await shape(kind, exhibit)).normals), "grey", 0, 1);
    if (look === "error" && kind !== "depth") {
      const [values, truth] = (await Promise.all([layer(kind, exhibit), layer("truth")])).map((each) => each.values);
      return paint(values.map((value, i) => value - truth[i]), "error", ...(await limits("error")));
    }
    if (look === "error") return paint((await layer("error", exhibit)).values, "error", ...(await limits("error")));
    const values = (await layer(kind, exhibit)).values;
    const [low, high] = await limits(IS_DEPTH.has(kind) ? "depth" : kind);
    return paint(values, RAMP_OF[kind], low, high, kind === "sigma");
  });
}

function picture(kind, exhibit = state.exhibit, look = "depth") {
  return once(`picture-${kind}-${exhibit}-${look}`, async () => {
    const canvas = element("canvas", { width: W, height: H });
    canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(await colours(kind, exhibit, look)), W, H), 0, 0);
    return canvas;
  });
}
