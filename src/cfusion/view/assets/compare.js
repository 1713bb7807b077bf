// Any two of input, median, fused, truth (and other methods), divided by a slider.

class Compare {
  constructor(canvas, divider) {
    this.canvas = canvas;
    this.divider = divider;
    this.options = this.choices();
    if (this.options.length < 2) {
      document.getElementById("compare-section").hidden = true;
      return;
    }
    const find = (name) => this.options.findIndex((option) => option.label === name);
    const left = ["input", "reference", "median"].map(find).find((at) => at >= 0) ?? 1;
    this.chosen = [left, 0];
    this.look = "surface";
    this.controls();
    this.pane = new Pane(canvas, (context, width, height, scale) => this.paint(context, width, height, scale));
    divider.addEventListener("input", () => this.place());
    listen((what) => {
      if (what.has("exhibit")) this.load();
      else this.pane.draw();
    });
    new ResizeObserver(() => this.place()).observe(canvas);
    this.load();
  }

  choices() {
    const found = [{ label: model.exhibits.length > 1 ? "shown above" : "fused", kind: "depth", exhibit: null }];
    for (const kind of ["input", "median", "truth"]) if (kind in model.layers) found.push({ label: kind, kind, exhibit: 0 });
    if (model.exhibits.length > 1) model.exhibits.forEach((each, at) => found.push({ label: each.name, kind: "depth", exhibit: at }));
    return found;
  }

  controls() {
    const place = document.getElementById("compare-controls");
    ["left", "right"].forEach((side, which) => {
      const select = element("select", { id: `compare-${side}`, "aria-label": `Map on the ${side}`, onchange: (event) => {
        this.chosen[which] = Number(event.target.value);
        this.load();
      } });
      this.options.forEach((option, at) => select.append(element("option", { value: at, text: option.label, selected: at === this.chosen[which] })));
      place.append(element("label", {}, element("span", { text: side }), select));
    });
    const looks = ["surface", "depth", ...("truth" in model.layers ? ["error"] : [])];
    place.append(chips("Shown as", looks, this.look, (look) => {
      this.look = look;
      this.load();
    }));
  }

  async load() {
    const wanted = (this.wanted = Symbol());
    const sides = this.chosen.map((at) => this.options[at]);
    const pictures = await Promise.all(sides.map((side) => picture(side.kind, side.exhibit ?? state.exhibit, this.look)));
    if (wanted !== this.wanted) return;
    this.pictures = pictures;
    this.place();
  }

  place() {
    this.canvas.parentElement.style.setProperty("--divider", `${this.divider.value / 10}%`);
    this.pane.draw();
  }

  paint(context, width, height, scale) {
    if (!this.pictures) return;
    const at = (this.divider.value / 1000) * width;
    this.pictures.forEach((each, side) => {
      context.save();
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.beginPath();
      if (side === 0) context.rect(0, 0, at, height);
      else context.rect(at, 0, width - at, height);
      context.clip();
      context.setTransform(scale, 0, 0, scale, -state.zoom.x * scale, -state.zoom.y * scale);
      context.drawImage(each, 0, 0);
      context.restore();
    });
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = "#fff";
    context.fillRect(at - 1, 0, 2, height);
    context.restore();
  }
}
