// El cuadro de interruptores: un traductor entero que traduce aquí mismo cada vez que se apaga una cabeza.
// Las cuentas están en tensor.js; el modelo, en `encode` y `decode`; lo demás es contar y dibujar lo que sale.
(() => {
  "use strict";
  const LAYERS = 4, HEADS = 8, DECODER_HEADS = 4, WIDTH = 64; // el modelo de multicabeza/toys/translator.py
  const BOS = 1, EOS = 2, LIMIT = 40;
  const SLICE = 30; // milisegundos de cuentas entre dos repintados
  const SHOWN = 4; // frases que se enseñan traducidas

  // Los textos entran como texto, nunca como HTML.
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const range = (size) => [...Array(size).keys()];
  const number = (value) => value.toFixed(1).replace(".", ",");
  const several = (count, one, many) => `${count} ${count === 1 ? one : many}`;
  const pause = () => new Promise((done) => setTimeout(done));

  // --- El modelo, con la misma forma que `Translator.forward`. `off` son las cabezas apagadas, como «1.2».

  // √64 por el vector de cada palabra, más su posición: columnas pares seno, impares coseno.
  const words = (table, ids) => {
    const x = window.mcTensor.embed(table, ids, WIDTH);
    for (const i of range(ids.length)) {
      for (let k = 0; k < WIDTH; k++) {
        const angle = i / 10000 ** ((k - (k % 2)) / WIDTH);
        x[i * WIDTH + k] = 8 * x[i * WIDTH + k] + (k % 2 ? Math.cos(angle) : Math.sin(angle));
      }
    }
    return x;
  };
  const norm = (w, name, x, n) => window.mcTensor.layerNorm(x, n, w[`${name}.weight`], w[`${name}.bias`]);
  const feedForward = (w, name, x, n) => {
    const { linear } = window.mcTensor, inner = linear(x, n, w[`${name}.inner.weight`], w[`${name}.inner.bias`]);
    return linear(inner.map((value) => Math.max(value, 0)), n, w[`${name}.outer.weight`], w[`${name}.outer.bias`]);
  };
  // Atención de x a `memory`: la misma x en la autoatención. Los tercios de `qkv_proj` son W^Q, W^K y W^V.
  const attend = (w, name, x, n, memory, nK, options) => {
    const { linear, attention } = window.mcTensor, third = WIDTH * WIDTH;
    const [q, k, v] = range(3).map((part) => w[`${name}.qkv_proj.weight`].subarray(part * third, (part + 1) * third));
    const { output } = attention(linear(x, n, q), linear(memory, nK, k), linear(memory, nK, v), { nQ: n, nK, ...options });
    return linear(output, n, w[`${name}.out_proj.weight`]);
  };
  // Lo que el codificador deja de cada palabra española: (n, 64).
  const encode = (w, ids, off) => {
    const { add } = window.mcTensor, n = ids.length;
    let x = words(w["encoder.tokens.weight"], ids);
    for (const l of range(LAYERS)) {
      const gates = range(HEADS).map((head) => (off.has(`${l}.${head}`) ? 0 : 1));
      const normed = norm(w, `encoder.attention_norms.${l}`, x, n);
      if (gates.includes(1)) x = add(x, attend(w, `encoder.attention.${l}`, normed, n, normed, n, { heads: HEADS, gates }));
      x = add(x, feedForward(w, `encoder.feed_forward.${l}`, norm(w, `encoder.feed_forward_norms.${l}`, x, n), n));
    }
    return norm(w, "encoder.final_norm", x, n);
  };
  // Los logits de la palabra inglesa siguiente en cada posición: (n, palabras).
  const decode = (w, ids, memory) => {
    const { add, linear } = window.mcTensor, n = ids.length, heads = DECODER_HEADS;
    let x = words(w["decoder.tokens.weight"], ids);
    const normed = norm(w, "decoder.norms.0", x, n);
    x = add(x, attend(w, "decoder.attention", normed, n, normed, n, { heads, causal: true }));
    x = add(x, attend(w, "decoder.cross_attention", norm(w, "decoder.norms.1", x, n), n, memory, memory.length / WIDTH, { heads }));
    x = add(x, feedForward(w, "decoder.feed_forward", norm(w, "decoder.norms.2", x, n), n));
    return linear(norm(w, "decoder.final_norm", x, n), n, w["decoder.tokens.weight"]);
  };
  const best = (logits, n) => {
    const size = logits.length / n;
    return range(n).map((i) => {
      const row = logits.subarray(i * size, (i + 1) * size);
      return row.indexOf(row.reduce((top, value) => Math.max(top, value)));
    });
  };
  // ¿Sale exacta? Con la buena delante, cada palabra más probable tiene que ser la buena.
  const exact = (w, { source, target }, off) => {
    const guessed = best(decode(w, target.slice(0, -1), encode(w, source, off)), target.length - 1);
    return guessed.every((id, i) => id === target[i + 1]);
  };
  // Traduce de verdad, palabra a palabra, quedándose con la más probable.
  const translate = (w, source, off) => {
    const memory = encode(w, source, off), ids = [BOS];
    while (ids.length < LIMIT && ids.at(-1) !== EOS) ids.push(best(decode(w, ids, memory), ids.length).at(-1));
    return ids.slice(1, ids.at(-1) === EOS ? -1 : undefined);
  };

  // Qué palabras de `said` no están, en orden, en `good`: las que no caben en la subsecuencia común más larga.
  const misplaced = (said, good) => {
    const long = range(said.length + 1).map(() => new Array(good.length + 1).fill(0));
    for (let i = said.length - 1; i >= 0; i--) {
      for (let j = good.length - 1; j >= 0; j--) {
        long[i][j] = said[i] === good[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
      }
    }
    const wrong = new Set();
    for (let i = 0, j = 0; i < said.length; ) {
      if (j < good.length && said[i] === good[j]) { i++; j++; }
      else if (j < good.length && long[i][j + 1] >= long[i + 1][j]) j++;
      else wrong.add(i++);
    }
    return wrong;
  };

  // Intervalo de Wilson del 95 % para una proporción, en tanto por ciento.
  const wilson = (right, n) => {
    const z = 1.959964, p = right / n, wide = 1 + z ** 2 / n;
    const middle = (p + z ** 2 / (2 * n)) / wide, half = (z * Math.sqrt((p * (1 - p)) / n + z ** 2 / (4 * n ** 2))) / wide;
    return [100 * (middle - half), 100 * (middle + half)];
  };
  // El valor de una curva del registro en un número de cabezas: recta entre los dos medidos más cercanos.
  const between = (kept, values, k) => {
    const i = kept.findIndex((other) => other <= k);
    if (kept[i] === k) return values[i];
    const part = (k - kept[i]) / (kept[i - 1] - kept[i]);
    return values[i] + part * (values[i - 1] - values[i]);
  };

  const start = (block) => {
    block.dataset.ready = "1";
    const data = JSON.parse(block.querySelector('script[type="application/json"]').textContent);
    const { sentences, spanish, english, curves } = data, total = LAYERS * HEADS;
    const find = (name) => block.querySelector(`.${name}`), all = (query) => [...block.querySelectorAll(query)];
    const toggles = all("[data-head]"), names = toggles.map((toggle) => toggle.dataset.head);
    const state = { off: new Set(), turn: 0 };
    const timer = {}, text = (ids, list) => ids.map((id) => list[id]);

    // --- Pesos: en el libro se piden la primera vez que hacen falta
    let weights = null;
    const model = () => (weights ??= load().catch((error) => { weights = null; throw error; }));
    const load = async () => {
      if (typeof DecompressionStream === "undefined") throw new Error("este navegador es demasiado antiguo y no sabe descomprimir los pesos");
      const packed = () => data.weights ?? window.mcSwitchboardWeights;
      if (!packed()) await window.mcTensor.fetchScript("switchboard-weights.js");
      return window.mcTensor.unpack(packed(), data.shapes);
    };
    // Para las pruebas: las mismas funciones que cuentan en la página.
    block.mcSwitchboard = {
      logits: async ({ source, target }, off) => [...decode(await model(), target, encode(await model(), source, new Set(off)))],
      exact: async (index, off) => exact(await model(), sentences[index], new Set(off)),
      translate: async (source, off) => translate(await model(), source, new Set(off)),
      misplaced: (said, good) => [...misplaced(said, good)],
      wilson,
    };

    // --- La gráfica: las curvas del registro, de fondo, y lo que lleva quien apaga
    const [left, right, top, bottom] = [34, 312, 8, 168];
    const across = (kept) => left + ((total - kept) / total) * (right - left), down = (share) => bottom - (share / 100) * (bottom - top);
    const drawn = (tag, attributes, ...children) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
      node.append(...children);
      return node;
    };
    const path = (values) => values.map((value, i) => `${i ? "L" : "M"}${across(curves.kept[i]).toFixed(1)} ${down(value).toFixed(1)}`).join("");
    const chart = drawn("svg", { viewBox: "0 0 324 206", role: "img", "aria-labelledby": `${block.id}-c` });
    for (const share of [0, 25, 50, 75, 100]) {
      chart.append(drawn("line", { class: "grid", x1: left, x2: right, y1: down(share), y2: down(share) }));
      chart.append(drawn("text", { x: left - 5, y: down(share) + 4, "text-anchor": "end" }, `${share}`));
    }
    for (const kept of [32, 24, 16, 8, 0]) chart.append(drawn("text", { x: across(kept), y: bottom + 16, "text-anchor": "middle" }, `${kept}`));
    chart.append(drawn("text", { x: (left + right) / 2, y: bottom + 31, "text-anchor": "middle" }, "cabezas que quedan"));
    for (const row of curves.random) chart.append(drawn("path", { class: "random", d: path(row) }));
    chart.append(drawn("path", { class: "michel", d: path(curves.michel) }));
    const trail = drawn("g", { class: "trail" }), dot = drawn("circle", { class: "dot", r: 5.5, cx: across(total), cy: down(data.whole) });
    chart.append(trail, dot);
    find("chart").append(chart);
    const mark = (kept, share) => {
      if (!trail.querySelector(`[data-at="${kept} ${share}"]`)) trail.append(drawn("circle", { r: 2.6, cx: across(kept), cy: down(share), "data-at": `${kept} ${share}` }));
      dot.setAttribute("cx", across(kept));
      dot.setAttribute("cy", down(share));
    };

    // --- Traducciones: primero las que salen mal
    const lines = (w, wrong) => {
      const shown = [...wrong, ...range(sentences.length).filter((i) => !wrong.includes(i))].slice(0, SHOWN);
      return shown.map((i) => {
        const { source, target } = sentences[i], good = text(target.slice(1, -1), english);
        const said = text(w ? translate(w, source, state.off) : data.said[i] ?? target.slice(1, -1), english), faults = misplaced(said, good), right = !wrong.includes(i);
        const marked = said.flatMap((word, k) => [k ? " " : "", faults.has(k) ? make("mark", {}, word) : word]);
        return make("li", { class: right ? "right" : "" },
          make("span", { class: "sign", "aria-hidden": "true" }, right ? "✓" : "✗"),
          make("p", {}, make("span", { class: "mc-hidden" }, right ? "Exacta: " : "Con fallos: "), make("span", { lang: "es" }, text(source.slice(0, -1), spanish).join(" ")),
            make("span", { class: "out", lang: "en" }, ...(said.length ? marked : ["(nada)"])),
            ...(right ? [] : [make("span", { class: "good", lang: "en" }, make("span", { class: "mc-hidden", lang: "es" }, "La buena: "), good.join(" "))])));
      });
    };

    // --- Contar, a trozos, para que la página no se pare
    const say = (message) => {
      clearTimeout(timer.say);
      timer.say = setTimeout(() => { find("mc-live").textContent = message; }, 700);
    };
    const report = (w, wrong) => {
      const n = sentences.length, hits = n - wrong.length, share = (100 * hits) / n, kept = total - state.off.size;
      const [low, high] = wilson(hits, n), [michel, chance] = [curves.michel, curves.mean].map((values) => between(curves.kept, values, kept));
      find("score").textContent = `${number(share)}\u00a0%`;
      find("detail").textContent = `${hits} de ${n} frases de prueba; intervalo del 95 %, de ${number(low)} a ${number(high)}`;
      const others = state.off.size ? `Si se apagan ${total - kept} por orden de importancia quedan en ${number(michel)}\u00a0%; al azar, en ${number(chance)}\u00a0% de media.` : "Apaga las que quieras.";
      find("compare").textContent = others;
      mark(kept, share);
      find("sentences").replaceChildren(...lines(w, wrong));
      find("list").textContent = wrong.length > SHOWN ? `Cuatro de las ${wrong.length} que fallan` : wrong.length ? "Las que fallan, delante" : "No falla ninguna";
      return `Quedan ${several(kept, "cabeza", "cabezas")}: ${hits} de ${n} frases exactas. ${others}`;
    };
    const count = async (reason) => {
      const turn = ++state.turn, kept = total - state.off.size;
      for (const toggle of toggles) toggle.setAttribute("aria-pressed", !state.off.has(toggle.dataset.head));
      for (const toggle of all("[data-layer]")) toggle.setAttribute("aria-pressed", range(HEADS).some((head) => !state.off.has(`${toggle.dataset.layer}.${head}`)));
      find("kept").textContent = `Quedan ${kept} de ${total}`;
      block.querySelector("[data-do=all]").setAttribute("aria-disabled", !state.off.size);
      for (const name of ["least", "random"]) block.querySelector(`[data-do=${name}]`).setAttribute("aria-disabled", !kept);
      block.setAttribute("aria-busy", "true");
      find("trouble").textContent = "";
      try {
        const w = await model(), wrong = [], off = new Set(state.off);
        let until = performance.now() + SLICE;
        for (const [i, sentence] of sentences.entries()) {
          if (!exact(w, sentence, off)) wrong.push(i);
          if (performance.now() < until) continue;
          await pause();
          if (turn !== state.turn) return; // ya se ha tocado otra cosa
          find("detail").textContent = `traduciendo… ${i + 1} de ${sentences.length}`;
          until = performance.now() + SLICE;
        }
        if (turn === state.turn) say(`${reason} ${report(w, wrong)}`);
      } catch (error) {
        if (turn !== state.turn) return;
        const message = `No se puede traducir: ${error.message}. Lo que ves es de antes; toca otra cabeza para volver a intentarlo.`;
        find("trouble").textContent = message;
        find("detail").textContent = "";
        say(message);
      } finally {
        if (turn === state.turn) block.removeAttribute("aria-busy");
      }
    };

    // --- Botones
    const flip = (heads, off) => heads.forEach((head) => (off ? state.off.add(head) : state.off.delete(head)));
    for (const toggle of toggles) {
      toggle.addEventListener("click", () => {
        const { head } = toggle.dataset, off = !state.off.has(head);
        flip([head], off);
        count(`Cabeza ${head} ${off ? "apagada" : "encendida"}.`);
      });
    }
    for (const toggle of all("[data-layer]")) {
      toggle.addEventListener("click", () => {
        const { layer } = toggle.dataset, heads = range(HEADS).map((head) => `${layer}.${head}`), off = heads.some((head) => !state.off.has(head));
        flip(heads, off);
        count(`Capa ${layer} ${off ? "apagada" : "encendida"}.`);
      });
    }
    const turnOff = (head) => {
      if (head === undefined) return;
      flip([head], true);
      count(`Cabeza ${head} apagada.`);
    };
    const actions = {
      least: () => turnOff(data.order.find((head) => !state.off.has(head))),
      random: () => {
        const left = names.filter((head) => !state.off.has(head));
        turnOff(left[Math.floor(Math.random() * left.length)]);
      },
      all: () => {
        if (!state.off.size) return;
        state.off.clear();
        trail.replaceChildren();
        count("Todas encendidas.");
      },
    };
    for (const [name, action] of Object.entries(actions)) block.querySelector(`[data-do=${name}]`).addEventListener("click", action);
    // Con las flechas se va de una cabeza a otra; con Tab, también.
    toggles.forEach((toggle, i) => toggle.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: i - 1, ArrowRight: i + 1, ArrowUp: i - HEADS, ArrowDown: i + HEADS }[event.key];
      if (to === undefined || event.altKey || event.ctrlKey || event.metaKey || !toggles[to]) return;
      event.preventDefault();
      toggles[to].focus();
    }));

    // Al abrir, lo medido al hacer la página: los pesos no se piden hasta que alguien toca algo.
    find("panel").hidden = false;
    find("mc-still").hidden = true;
    block.querySelector("[data-do=all]").setAttribute("aria-disabled", "true");
    report(null, data.wrong);
  };

  const startAll = () => document.querySelectorAll(".mc-switchboard:not([data-ready])").forEach(start);
  // En el libro, tensor.js llega después que este guion.
  if (window.mcTensor) startAll();
  else document.addEventListener("DOMContentLoaded", startAll);
})();
