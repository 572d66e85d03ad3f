// Las cuentas de un transformer, sin bibliotecas: lo que PyTorch hace en C++, aquí en bucles que se pueden leer.
//
// Una matriz de r filas y c columnas es un array plano, por filas: el elemento (i, j) está en la posición i·c + j.
// Una fila es un token. Los pesos llegan en float32 y las cuentas se hacen en float64.
window.mcTensor ??= (() => {
  "use strict";

  // y = x · Wᵀ + b, como nn.Linear: `weight` es (salidas, entradas) y `x`, (rows, entradas).
  // Es el producto de matrices de siempre: cada salida, el producto escalar de una fila de x y una fila de W.
  const linear = (x, rows, weight, bias = null) => {
    const ins = x.length / rows, outs = weight.length / ins, y = new Float64Array(rows * outs);
    for (let i = 0; i < rows; i++) {
      for (let o = 0; o < outs; o++) {
        let sum = bias ? bias[o] : 0;
        for (let k = 0; k < ins; k++) sum += x[i * ins + k] * weight[o * ins + k];
        y[i * outs + o] = sum;
      }
    }
    return y;
  };

  // x + y, elemento a elemento: lo que una capa escribe en el flujo residual.
  const add = (x, y) => x.map((value, k) => value + y[k]);

  // Las filas `ids` de una tabla de `width` columnas, como nn.Embedding.
  const embed = (table, ids, width) => {
    const x = new Float64Array(ids.length * width);
    ids.forEach((id, i) => x.set(table.subarray(id * width, (id + 1) * width), i * width));
    return x;
  };

  // Las columnas `from` … `to − 1` de una matriz.
  const columns = (x, rows, from, to) => {
    const width = x.length / rows, y = new Float64Array(rows * (to - from));
    for (let i = 0; i < rows; i++) y.set(x.subarray(i * width + from, i * width + to), i * (to - from));
    return y;
  };

  // Cada fila con media 0 y varianza 1, y después una escala y un desplazamiento por columna, como nn.LayerNorm.
  const layerNorm = (x, rows, gain, bias, epsilon = 1e-5) => {
    const width = x.length / rows, y = new Float64Array(x.length);
    for (let i = 0; i < rows; i++) {
      const row = x.subarray(i * width, (i + 1) * width);
      let mean = 0, variance = 0;
      for (const value of row) mean += value / width;
      for (const value of row) variance += (value - mean) ** 2 / width;
      for (let k = 0; k < width; k++) y[i * width + k] = ((row[k] - mean) / Math.sqrt(variance + epsilon)) * gain[k] + bias[k];
    }
    return y;
  };

  // Softmax de unas puntuaciones. Restar la mayor no cambia el resultado y evita que la exponencial se desborde.
  // Si ninguna es finita (una consulta sin claves permitidas), todo ceros.
  const softmax = (scores) => {
    let top = -Infinity, sum = 0;
    for (const score of scores) top = Math.max(top, score);
    if (top === -Infinity) return scores.map(() => 0);
    const y = scores.map((score) => Math.exp(score - top));
    for (const value of y) sum += value;
    return y.map((value) => value / sum);
  };

  // Atención de `heads` cabezas, antes de W^O. `query` es (nQ, d_model); `key` y `value`, (nK, d_model); la cabeza h usa
  // las columnas h·d_k … (h + 1)·d_k − 1. Con `causal`, la última consulta ve todas las claves y cada una anterior, una
  // menos. `allowed(i, j)`, si está, dice qué claves puede ver una consulta. Lo que escribe la cabeza h se multiplica por
  // `gates[h]`: con 0 está apagada.
  // Devuelve la salida (nQ, d_model) y los pesos (heads, nQ, nK).
  const attention = (query, key, value, { nQ, nK = nQ, heads, causal = false, allowed = null, gates = null }) => {
    const width = query.length / nQ, dk = width / heads;
    const output = new Float64Array(nQ * width), weights = new Float64Array(heads * nQ * nK);
    const scores = new Float64Array(nK);
    for (let h = 0; h < heads; h++) {
      const gate = gates ? gates[h] : 1;
      for (let i = 0; i < nQ; i++) {
        for (let j = 0; j < nK; j++) {
          scores[j] = -Infinity;
          if ((causal && j > i + nK - nQ) || (allowed && !allowed(i, j))) continue;
          let dot = 0;
          for (let k = h * dk; k < (h + 1) * dk; k++) dot += query[i * width + k] * key[j * width + k];
          scores[j] = dot / Math.sqrt(dk);
        }
        const row = softmax(scores);
        weights.set(row, (h * nQ + i) * nK);
        for (let j = 0; j < nK; j++) {
          if (!row[j]) continue;
          for (let k = h * dk; k < (h + 1) * dk; k++) output[i * width + k] += gate * row[j] * value[j * width + k];
        }
      }
    }
    return { output, weights };
  };

  // --- Leer los pesos: números de 16 bits, con sus bytes altos delante de los bajos (así se comprimen mejor),
  // comprimidos con «deflate» y escritos con 85 letras, cinco por cada cuatro bytes.

  const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%:()*+-;,=.?@^_`{|}~";
  const fromBase85 = (text) => {
    const digit = new Map([...LETTERS].map((letter, k) => [letter, k]));
    const bytes = new Uint8Array(Math.ceil(text.length / 5) * 4), view = new DataView(bytes.buffer);
    for (let k = 0; k * 5 < text.length; k++) {
      let value = 0;
      for (const letter of text.slice(5 * k, 5 * k + 5).padEnd(5, "~")) value = value * 85 + digit.get(letter);
      view.setUint32(4 * k, value);
    }
    return bytes.subarray(0, Math.floor((text.length * 4) / 5));
  };

  // De float16 a número: un bit de signo, cinco de exponente y diez de mantisa.
  const half = (bits) => {
    const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    if (exponent === 31) return mantissa ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + mantissa / 1024) : 2 ** -14 * (mantissa / 1024));
  };

  // Los tensores de un texto: `shapes` es {nombre: forma}, en el orden en que están escritos.
  const unpack = async (text, shapes) => {
    const stream = new Blob([fromBase85(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer()), total = bytes.length / 2, tensors = {};
    let start = 0;
    for (const [name, shape] of Object.entries(shapes)) {
      const size = shape.reduce((product, side) => product * side, 1), from = start;
      tensors[name] = Float32Array.from({ length: size }, (_, k) => half((bytes[from + k] << 8) | bytes[total + from + k]));
      start += size;
    }
    if (start !== total) throw new Error(`Se esperaban ${start} números y llegaron ${total}.`);
    return tensors;
  };

  // Carga un programa de `_static`, en el libro: así llegan los pesos que no van dentro de la página.
  const fetchScript = async (file) => {
    const root = document.documentElement.dataset.content_root;
    if (root === undefined) throw new Error("los pesos no están en esta página");
    const script = document.createElement("script");
    script.src = `${root}_static/${file}`;
    await new Promise((done, fail) => {
      script.onload = done;
      script.onerror = () => fail(new Error("el libro no ha podido leer ese archivo"));
      document.head.append(script);
    }).finally(() => script.remove());
  };

  return { fetchScript, linear, add, embed, columns, layerNorm, softmax, attention, unpack };
})();
