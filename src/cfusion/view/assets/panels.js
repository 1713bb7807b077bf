// Controls around the pictures: methods, colours, explanations.

function methodTabs() {
  const place = document.getElementById("methods");
  if (model.exhibits.length < 2) return;
  place.hidden = false;
  const words = document.getElementById("method-words");
  const show = (at) => {
    state.exhibit = at;
    [...place.children].forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === at));
      tab.tabIndex = i === at ? 0 : -1;
    });
    words.hidden = false;
    words.textContent = model.exhibits[at].words;
    for (const part of document.querySelectorAll(".exhibit")) part.hidden = Number(part.dataset.exhibit) !== at;
    changed("exhibit");
  };
  model.exhibits.forEach((each, at) => {
    const tab = element("button", { type: "button", role: "tab", "aria-selected": String(at === 0), tabindex: at === 0 ? "0" : "-1", text: each.name,
      onclick: () => show(at),
      onkeydown: (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!move) return;
        const next = (at + move + model.exhibits.length) % model.exhibits.length;
        show(next);
        place.children[next].focus();
      } });
    place.append(tab);
  });
  words.hidden = false;
  words.textContent = model.exhibits[0].words;
}

function surfaceControls(surface) {
  const place = document.getElementById("surface-controls");
  const colourings = ["surface", "depth", "sigma", "confidence", "provenance", "normals", "image", "error"].filter((kind) => has(kind, 0));
  place.append(chips("Colour by", colourings, surface.look.colour, (kind) => {
    surface.look.colour = kind;
    surface.show();
  }, (kind) => (kind === "surface" ? "plain" : TITLES[kind])));
  const kinds = ["depth", ...["input", "median", "truth"].filter((kind) => kind in model.layers)];
  if (kinds.length > 1) {
    const select = element("select", { "aria-label": "Surface of", onchange: (event) => {
      surface.look.of = event.target.value;
      surface.show();
    } });
    for (const kind of kinds) select.append(element("option", { value: kind, text: kind === "depth" ? "fused" : kind }));
    place.append(element("label", {}, element("span", { text: "surface of" }), select));
  }
  const lit = element("input", { type: "checkbox", checked: true, onchange: (event) => {
    surface.look.lit = event.target.checked;
    surface.draw();
  } });
  const light = element("input", { type: "range", min: 0, max: 360, value: surface.look.light, "aria-label": "Direction of the light", oninput: (event) => {
    surface.look.light = Number(event.target.value);
    surface.draw();
  } });
  place.append(element("label", {}, lit, element("span", { text: "light from" }), light));
  place.append(element("button", { type: "button", class: "chip", text: "reset", onclick: () => { surface.reset(); surface.draw(); } }));
}

// The explanation of the pointed or focused element, in one box that no table clips.
function tooltips() {
  const box = document.getElementById("words");
  const show = (event) => {
    const target = event.target.closest?.("[data-words]");
    if (!target || !target.dataset.words) return;
    box.textContent = target.dataset.words;
    box.hidden = false;
    const place = target.getBoundingClientRect(), room = document.documentElement.clientWidth - box.offsetWidth - 8;
    box.style.left = `${Math.max(8, Math.min(room, place.left))}px`;
    const below = place.bottom + 8 + box.offsetHeight < window.innerHeight;
    box.style.top = `${below ? place.bottom + 8 : place.top - box.offsetHeight - 8}px`;
  };
  const hide = () => { box.hidden = true; };
  for (const name of ["pointerover", "focusin"]) document.addEventListener(name, show);
  for (const name of ["pointerout", "focusout"]) document.addEventListener(name, hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
}

// Thumbnails of the residuals of each view: red is further than the fused surface, blue nearer.
async function thumbnails() {
  for (const canvas of document.querySelectorAll(".thumbnail")) {
    const key = `residual-${canvas.dataset.view}`;
    if (!(key in model.layers)) {
      canvas.remove();
      continue;
    }
    const map = await layer(key), limit = 3 * (model.noise || 1);
    const full = element("canvas", { width: map.width, height: map.height });
    full.getContext("2d").putImageData(new ImageData(paint(map.values, "error", -limit, limit), map.width, map.height), 0, 0);
    canvas.height = Math.round((canvas.width * H) / W);
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(full, 0, 0, canvas.width, canvas.height);
    await new Promise((resume) => setTimeout(resume));
  }
}
