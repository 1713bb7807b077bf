// Decoding of maps: base64, inflate, join two bytes, undo the zigzag, add the prediction.

async function inflate(text) {
  const raw = atob(text.trim());
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function undoPrediction(difference, width, height, predictor) {
  const counts = new Uint16Array(width * height);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      let predicted = 0;
      if (predictor !== "none") {
        const left = x > 0 ? counts[i - 1] : 0;
        predicted = left;
        if (predictor === "median") {
          const above = y > 0 ? counts[i - width] : 0;
          const corner = x > 0 && y > 0 ? counts[i - width - 1] : 0;
          const low = left < above ? left : above, high = left < above ? above : left;
          const plane = left + above - corner;
          predicted = plane < low ? low : plane > high ? high : plane;
        }
      }
      counts[i] = predicted + difference[i];
    }
  }
  return counts;
}

async function decodeLayer(about) {
  const bytes = await inflate(document.getElementById(about.id).textContent);
  const size = about.width * about.height, wide = bytes.length === 2 * size;
  const difference = new Int16Array(size);
  for (let i = 0; i < size; i++) {
    const code = wide ? bytes[i] | (bytes[size + i] << 8) : bytes[i];
    difference[i] = (code >>> 1) ^ -(code & 1);
  }
  const counts = undoPrediction(difference, about.width, about.height, about.predictor);
  const values = new Float32Array(size);
  for (let i = 0; i < size; i++) {
    if (counts[i] === 0) values[i] = NaN;
    else {
      const linear = about.offset + about.scale * counts[i];
      values[i] = about.log ? Math.exp(linear) : linear;
    }
  }
  return { values, width: about.width, height: about.height, step: about.scale, log: about.log, stride: about.stride };
}
