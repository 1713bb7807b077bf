// Draw the surface first, then the maps, then the slower parts.

(async () => {
  tooltips();
  const surface = new Surface(document.getElementById("gl"));
  surfaceControls(surface);
  methodTabs();
  listen((what) => { if (what.has("exhibit")) surface.show(); });
  await surface.show();
  await new Promise((resume) => requestAnimationFrame(() => setTimeout(resume)));
  new Maps(document.getElementById("maps"));
  new Reading(document.getElementById("reading"));
  new Compare(document.getElementById("compare"), document.getElementById("divider"));
  await thumbnails();
  document.documentElement.dataset.ready = "true";
})();
