// Colours of values; every ramp is perceptually uniform and readable without colour vision.

const RAMPS = {
  viridis: [[68,1,84],[71,45,123],[59,82,139],[44,114,142],[33,145,140],[40,174,128],[94,201,98],[173,220,48],[253,231,37]],
  inferno: [[0,0,4],[31,12,72],[85,15,109],[136,34,106],[186,54,85],[227,89,51],[249,140,10],[249,201,50],[252,255,164]],
  cividis: [[0,34,78],[18,53,112],[59,73,108],[87,93,109],[112,113,115],[138,134,120],[165,156,116],[195,179,105],[254,232,56]],
  error: [[33,102,172],[67,147,195],[146,197,222],[209,229,240],[247,247,247],[253,219,199],[244,165,130],[214,96,77],[178,24,43]],
  grey: [[18,18,20],[255,255,255]],
};

const TABLES = {};
for (const [name, ramp] of Object.entries(RAMPS)) {
  const table = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (ramp.length - 1), at = Math.min(Math.floor(place), ramp.length - 2), t = place - at;
    for (let c = 0; c < 3; c++) table[3 * i + c] = Math.round(ramp[at][c] * (1 - t) + ramp[at + 1][c] * t);
  }
  TABLES[name] = table;
}

function percentile(values, ...percents) {
  const every = Math.max(1, Math.floor(values.length / 40000)), known = [];
  for (let i = 0; i < values.length; i += every) if (!Number.isNaN(values[i])) known.push(values[i]);
  if (!known.length) return percents.map((_, i) => i);
  known.sort((a, b) => a - b);
  return percents.map((p) => known[Math.min(known.length - 1, Math.round((p / 100) * (known.length - 1)))]);
}

function paint(values, ramp, low, high, logarithmic) {
  const table = TABLES[ramp], pixels = new Uint8ClampedArray(4 * values.length);
  const from = logarithmic ? Math.log(low) : low, span = (logarithmic ? Math.log(high) : high) - from || 1;
  for (let i = 0; i < values.length; i++) {
    const value = logarithmic ? Math.log(values[i]) : values[i];
    if (Number.isNaN(value)) continue;
    const place = 3 * Math.max(0, Math.min(255, Math.round((255 * (value - from)) / span)));
    pixels[4 * i] = table[place];
    pixels[4 * i + 1] = table[place + 1];
    pixels[4 * i + 2] = table[place + 2];
    pixels[4 * i + 3] = 255;
  }
  return pixels;
}

function paintVectors(vectors) {
  const size = vectors.length / 3, pixels = new Uint8ClampedArray(4 * size);
  for (let i = 0; i < size; i++) {
    if (Number.isNaN(vectors[3 * i])) continue;
    pixels[4 * i] = 127.5 * (vectors[3 * i] + 1);
    pixels[4 * i + 1] = 127.5 * (1 - vectors[3 * i + 1]);
    pixels[4 * i + 2] = 127.5 * (1 - vectors[3 * i + 2]);
    pixels[4 * i + 3] = 255;
  }
  return pixels;
}

function gradient(ramp) {
  return `linear-gradient(90deg, ${RAMPS[ramp].map((c) => `rgb(${c.join(",")})`).join(", ")})`;
}

function written(value, step) {
  if (value === null || Number.isNaN(value)) return "unknown";
  if (step) {
    const digits = Math.max(0, Math.min(7, Math.ceil(-Math.log10(step))));
    const text = value.toFixed(digits);
    return Number(text) === 0 ? text.replace("-", "") : text;
  }
  return Number(value.toPrecision(3)).toString();
}
