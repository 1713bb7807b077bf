// The surface in 3-D: one mesh, cut at edges, drawn by two small shaders.

const VERTEX = `#version 300 es
in vec3 place; in vec3 normal; in vec4 colour;
uniform mat4 clip_from_world; uniform mat3 turn; uniform float size;
out vec3 facing; out vec4 paint;
void main() {
  gl_Position = clip_from_world * vec4(place, 1.0);
  gl_PointSize = size;
  facing = turn * normal; paint = colour;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec3 facing; in vec4 paint; out vec4 seen;
uniform vec3 light; uniform float lit;
void main() {
  if (paint.a < 0.5) discard;
  float size = length(facing);
  vec3 n = size > 0.01 ? facing / size : vec3(0.0, 0.0, 1.0);
  if (n.z < 0.0) n = -n;
  float shade = 0.30 + 0.62 * max(dot(n, light), 0.0) + 0.22 * n.z;
  seen = vec4(paint.rgb * mix(1.0, shade, lit), 1.0);
}`;
const CUT = 15.0; // times the size of a pixel: steeper than that is an edge between two surfaces

class Surface {
  constructor(canvas) {
    this.canvas = canvas;
    this.gl = canvas.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true });
    this.view = { yaw: -0.5, pitch: 0.28, distance: 1, target: [0, 0, 0], radius: 1 };
    this.look = { colour: "surface", of: "depth", lit: true, light: 315 };
    this.pointers = new Map();
    if (!this.gl) {
      document.getElementById("no-gl").hidden = false;
      canvas.hidden = true;
      return;
    }
    this.program = this.link();
    this.buffers = Object.fromEntries(["place", "normal", "colour", "index"].map((name) => [name, this.gl.createBuffer()]));
    this.steer();
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  link() {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    return program;
  }

  async show() {
    if (!this.gl) return;
    const { of, colour } = this.look, exhibit = state.exhibit, wanted = (this.wanted = Symbol());
    const kind = of === "depth" || has(of) ? of : "depth";
    const painted = colour === "surface" ? null : await colours(colour, exhibit);
    const { xyz, normals } = await shape(kind, exhibit);
    if (wanted !== this.wanted) return;
    const key = kind === "depth" ? `${kind}-${exhibit}` : kind;
    if (key !== this.shown) {
      this.fill("place", Float32Array.from(xyz, (value, i) => (i % 3 ? -value : value)));
      this.fill("normal", Int8Array.from(normals, (n, i) => 127 * (i % 3 ? -n : n) || 0));
      this.mesh(xyz);
      if (this.shown === undefined) this.frame(xyz);
      this.shown = key;
    }
    const plain = new Uint8Array(4 * W * H).fill(214);
    for (let i = 3; i < plain.length; i += 4) plain[i] = 255;
    this.fill("colour", painted ? new Uint8Array(painted) : plain);
    this.ready = true;
    this.draw();
  }

  fill(name, content) {
    const gl = this.gl, kind = name === "index" ? gl.ELEMENT_ARRAY_BUFFER : gl.ARRAY_BUFFER;
    gl.bindBuffer(kind, this.buffers[name]);
    gl.bufferData(kind, content, gl.STATIC_DRAW);
  }

  // Two triangles per pixel; none across an edge or a hole. A map that is all edges (noise) is drawn as points.
  mesh(xyz) {
    const index = new Uint32Array(6 * W * H);
    let used = 0, known = 0, cut = 0;
    const near = (a, b, limit) => Math.abs(xyz[3 * a + 2] - xyz[3 * b + 2]) <= limit;
    for (let v = 0; v + 1 < H; v++) {
      for (let u = 0; u + 1 < W; u++) {
        const a = v * W + u, b = a + 1, c = a + W, d = c + 1;
        const limit = CUT * footprint(xyz, a);
        if (!Number.isNaN(xyz[3 * a + 2] + xyz[3 * b + 2])) {
          known++;
          if (!near(a, b, limit)) cut++;
        }
        if (near(a, b, limit) && near(a, c, limit) && near(b, c, limit)) {
          index[used] = a; index[used + 1] = c; index[used + 2] = b;
          used += 3;
        }
        if (near(b, c, limit) && near(b, d, limit) && near(c, d, limit)) {
          index[used] = b; index[used + 1] = c; index[used + 2] = d;
          used += 3;
        }
      }
    }
    this.asPoints = cut > 0.4 * known;
    this.count = this.asPoints ? W * H : used;
    if (!this.asPoints) this.fill("index", index.subarray(0, used));
  }

  // Look at the centre of the points.
  frame(xyz) {
    const axis = (c) => percentile(xyz.filter((_, i) => i % 3 === c && !Number.isNaN(xyz[3 * Math.floor(i / 3) + 2])), 0.5, 99.5);
    const [x, y, z] = [axis(0), axis(1), axis(2)];
    const middle = (pair) => 0.5 * (pair[0] + pair[1]), span = (pair) => pair[1] - pair[0];
    const radius = 0.5 * Math.hypot(Math.max(span(x), span(y)), 0.5 * Math.min(span(x), span(y)), 0.5 * span(z)) || 1;
    this.home = { yaw: -0.5, pitch: 0.28, distance: 2.9 * radius, target: [middle(x), -middle(y), -middle(z)], radius };
    this.view = { ...this.home, target: [...this.home.target] };
  }

  draw() {
    if (!this.ready || this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.render();
    });
  }

  render() {
    const gl = this.gl, canvas = this.canvas, ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(canvas.clientWidth * ratio)), height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    gl.viewport(0, 0, width, height);
    const ground = getComputedStyle(canvas).getPropertyValue("--stage").trim();
    gl.clearColor(...[1, 3, 5].map((at) => parseInt(ground.slice(at, at + 2), 16) / 255), 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST);
    gl.useProgram(this.program);
    const { turn, matrix } = this.matrices(width / height);
    const place = (name) => gl.getUniformLocation(this.program, name);
    gl.uniformMatrix4fv(place("clip_from_world"), false, matrix);
    gl.uniformMatrix3fv(place("turn"), false, turn);
    const angle = (this.look.light * Math.PI) / 180;
    const light = [0.75 * Math.sin(angle), 0.75 * Math.cos(angle), 0.66];
    gl.uniform3fv(place("light"), light);
    gl.uniform1f(place("lit"), this.look.lit ? 1 : 0);
    gl.uniform1f(place("size"), Math.max(1.5, (1.2 * height * this.home.radius) / (H * this.view.distance)));
    this.attribute("place", 3, gl.FLOAT, false);
    this.attribute("normal", 3, gl.BYTE, true);
    this.attribute("colour", 4, gl.UNSIGNED_BYTE, true);
    if (this.asPoints) gl.drawArrays(gl.POINTS, 0, this.count);
    else {
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.buffers.index);
      gl.drawElements(gl.TRIANGLES, this.count, gl.UNSIGNED_INT, 0);
    }
    if (!this.first) {
      this.first = performance.now();
      document.documentElement.dataset.firstDraw = String(Math.round(this.first));
    }
    document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn || 0) + 1);
  }

  attribute(name, size, type, normalised) {
    const gl = this.gl, at = gl.getAttribLocation(this.program, name);
    if (at < 0) return;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, size, type, normalised, 0, 0);
  }

  matrices(aspect) {
    const { yaw, pitch, distance, target, radius } = this.view;
    const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    // rows: right, up, back of the eye
    const right = [cy, 0, -sy], back = [sy * cp, sp, cy * cp], up = [-sy * sp, cp, -cy * sp];
    const eye = target.map((t, i) => t + distance * back[i]);
    const dot = (a) => -(a[0] * eye[0] + a[1] * eye[1] + a[2] * eye[2]);
    const f = 1 / Math.tan(0.36), near = Math.max(distance - 8 * radius, 0.01 * distance), far = distance + 12 * radius;
    const fx = aspect >= 1.1 ? f / aspect : f / 1.1, fy = aspect >= 1.1 ? f : (f * aspect) / 1.1;
    const c = (near + far) / (near - far), d = (2 * near * far) / (near - far);
    const matrix = new Float32Array([
      fx * right[0], fy * up[0], c * back[0], -back[0],
      fx * right[1], fy * up[1], c * back[1], -back[1],
      fx * right[2], fy * up[2], c * back[2], -back[2],
      fx * dot(right), fy * dot(up), c * dot(back) + d, -dot(back),
    ]);
    const turn = new Float32Array([right[0], up[0], back[0], right[1], up[1], back[1], right[2], up[2], back[2]]);
    return { matrix, turn, right, up };
  }

  move(dx, dy) {
    const { right, up } = this.matrices(1), scale = (0.75 * this.view.distance) / this.canvas.clientHeight;
    this.view.target = this.view.target.map((t, i) => t + scale * (-dx * right[i] + dy * up[i]));
  }

  turn(dx, dy) {
    this.view.yaw -= dx;
    this.view.pitch = Math.max(-1.5, Math.min(1.5, this.view.pitch + dy));
  }

  zoom(factor) {
    this.view.distance = Math.max(0.05 * this.home.radius, Math.min(20 * this.home.radius, this.view.distance * factor));
  }

  reset() { this.view = { ...this.home, target: [...this.home.target] }; }

  steer() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = this.pointers.get(event.pointerId);
      if (!before || !this.ready) return;
      const dx = event.clientX - before[0], dy = event.clientY - before[1];
      if (this.pointers.size > 1) {
        const [a, b] = [...this.pointers.values()], apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
        this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
        const [c, d] = [...this.pointers.values()];
        this.zoom(apart / Math.max(1, Math.hypot(c[0] - d[0], c[1] - d[1])));
        this.move(dx / 2, dy / 2);
      } else if (event.shiftKey || event.buttons === 2) this.move(dx, dy);
      else this.turn(dx * 0.008, dy * 0.008);
      this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
      this.draw();
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => {
      if (!this.ready || !(event.ctrlKey || document.activeElement === canvas)) return;
      event.preventDefault();
      this.zoom(Math.exp(0.0012 * event.deltaY));
      this.draw();
    }, { passive: false });
    const KEYS = {
      ArrowLeft: () => this.turn(-0.08, 0), ArrowRight: () => this.turn(0.08, 0),
      ArrowUp: () => this.turn(0, -0.08), ArrowDown: () => this.turn(0, 0.08),
      "+": () => this.zoom(0.9), "=": () => this.zoom(0.9), "-": () => this.zoom(1.1), r: () => this.reset(), R: () => this.reset(),
    };
    canvas.addEventListener("keydown", (event) => {
      if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || !this.ready) return;
      event.preventDefault();
      KEYS[event.key]();
      this.draw();
    });
  }
}
