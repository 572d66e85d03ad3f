// Los pesos de todas las cabezas: un mapa para elegir cabeza, la frase teñida por los pesos y el mapa n × n.
// Lo que se ve sale de los mismos números (milésimas); el color es el peso: opacidad = peso.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const LETTERS = "ABCDEF";
  const STRONG = 0.655; // desde este peso la letra cambia de color: con ambos fondos, 4,5:1 o más (tokens.css)
  const WIDE = 16; // con más capas que esto, las capas van en columnas: en un teléfono el mapa ocupa menos alto

  const fill = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children); // los textos entran como texto, nunca como HTML
    return node;
  };
  const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const number = (weight) => (Math.round(weight * 100) / 100).toFixed(2).replace(".", ",");
  const short = (text) => { const signs = [...text]; return signs.length > 9 ? `${signs.slice(0, 8).join("")}…` : text; };
  const range = (size) => [...Array(size).keys()];
  const most = (values) => values.reduce((best, value, k) => (value > (values[best] ?? 0) ? k : best), -1);

  const start = (block) => {
    block.dataset.ready = "1";
    const data = JSON.parse(block.querySelector('script[type="application/json"]').textContent);
    const { tokens, layers, heads, causal, roles } = data, n = tokens.length;

    // --- Números: dos cifras en base 36 por peso; si ningún token mira a los de después, solo medio triángulo
    const size = causal ? (n * (n + 1)) / 2 : n * n;
    const packed = Uint16Array.from({ length: layers * heads * size }, (_, k) => parseInt(data.weights.slice(2 * k, 2 * k + 2), 36));
    const weight = (layer, head, i, j) => {
      if (causal && j > i) return 0;
      return packed[(layer * heads + head) * size + (causal ? (i * (i + 1)) / 2 : i * n) + j] / 1000;
    };
    const sharpness = (layer, head) =>
      range(n).reduce((sum, i) => sum + Math.max(...range(n).map((j) => weight(layer, head, i, j))), 0) / n;
    const rolesOf = (layer, head) => roles.map((_, r) => r).filter((r) => roles[r][1].some(([a, b]) => a === layer && b === head));
    const nameOf = (layer, head) => [`Cabeza ${layer}.${head}`, rolesOf(layer, head).map((r) => roles[r][0]).join(", ")].filter(Boolean).join(" · ");
    // Una palabra repetida dice cuál de las veces es.
    const word = (i) => {
      const time = tokens.slice(0, i + 1).filter((token) => token === tokens[i]).length;
      return `«${tokens[i]}»${time > 1 ? ` (${time}.ª vez)` : ""}`;
    };

    const state = { layer: data.layer, head: data.head, query: data.query, from: true, preview: null };
    let timer = 0;

    // --- Mapa: una fila por capa (o por cabeza, si las capas son muchas)
    const wide = layers > WIDE, rows = wide ? heads : layers, columns = wide ? layers : heads;
    const place = (row, column) => (wide ? [column, row] : [row, column]);
    const cells = range(rows).map((row) => range(columns).map((column) => {
      const [layer, head] = place(row, column), mine = rolesOf(layer, head), value = sharpness(layer, head);
      const label = mine.length ? nameOf(layer, head) : `${nameOf(layer, head)} · concentración ${number(value)}`;
      const cell = make("div", { role: "gridcell", class: "cell", "aria-label": label, style: `--w:${value.toFixed(3)}` });
      if (mine.length) {
        cell.dataset.roles = mine.length;
        cell.append(mine.map((r) => LETTERS[r]).join(""));
        const part = 100 / mine.length;
        cell.style.background = `linear-gradient(90deg,${mine.map((r, k) => `var(--r${r}) ${k * part}% ${(k + 1) * part}%`)})`;
      }
      cell.addEventListener("click", () => { choose(layer, head); cell.focus({ preventScroll: true }); });
      cell.addEventListener("keydown", (event) => {
        const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -columns], End: [0, columns] };
        const step = steps[event.key];
        if (!step || event.altKey || event.metaKey) return;
        event.preventDefault();
        const all = event.ctrlKey ? rows * Math.sign(step[1]) : 0; // Ctrl + Inicio o Fin: la primera o la última de todas
        const clip = (value, limit) => Math.min(Math.max(value, 0), limit - 1);
        const next = [clip(row + step[0] + all, rows), clip(column + step[1], columns)];
        choose(...place(...next));
        cells[next[0]][next[1]].focus();
      });
      return cell;
    }));
    const tick = (k, total) => (total <= 12 || k % 5 === 0 ? String(k) : "");
    const map = make("div", { class: "map", style: `--columns:${columns}` },
      make("div", { class: "axes", "aria-hidden": "true" }, make("span", {}, wide ? "cabeza ↓" : "capa ↓"), make("span", {}, wide ? "capa →" : "cabeza →")),
      make("div", { class: "row", "aria-hidden": "true" }, make("span"), ...range(columns).map((k) => make("span", {}, tick(k, columns)))),
      make("div", { role: "grid", "aria-label": `Mapa de ${layers * heads} cabezas, una fila por ${wide ? "cabeza y una columna por capa" : "capa y una columna por cabeza"}` },
        ...cells.map((line, row) => make("div", { role: "row", class: "row" }, make("span", { "aria-hidden": "true" }, String(row)), ...line))));

    // --- Leyenda: cada papel abre sus cabezas, una tras otra
    const legend = make("ul", { class: "legend" }, ...roles.map(([name, list], r) => {
      const count = list.length === 1 ? "1 cabeza" : `${list.length || "ninguna"} cabeza${list.length ? "s" : ""}`;
      const parts = [make("b", { style: `background:var(--r${r})`, "aria-hidden": "true" }, LETTERS[r]), make("span", {}, `${name} `, make("small", {}, count))];
      if (!list.length) return make("li", {}, make("span", { class: "none" }, ...parts));
      const button = make("button", { type: "button" }, ...parts, make("span", { class: "mc-hidden" }, ", abrir la siguiente"));
      button.addEventListener("click", () => {
        const now = list.findIndex(([a, b]) => a === state.layer && b === state.head);
        choose(...list[(now + 1) % list.length]);
      });
      return make("li", {}, button);
    }));
    const scale = (text) => make("span", { class: "scale" }, "0", make("i", { "aria-hidden": "true" }), `1 ${text}`);
    const note = make("p", { class: "small" }, `${roles.length ? "Las demás" : "Color"}: concentración, la media del peso mayor de cada token. `, scale(""));

    // --- Cabeza elegida, también con listas (los cuadros del mapa pueden ser pequeños para un dedo)
    const list = (label, count) => {
      const select = make("select", { autocomplete: "off" }, ...range(count).map((k) => make("option", { value: k }, String(k))));
      return [make("label", {}, `${label} `, select), select];
    };
    const [layerLabel, layerList] = list("Capa", layers), [headLabel, headList] = list("Cabeza", heads);
    for (const select of [layerList, headList]) select.addEventListener("change", () => choose(Number(layerList.value), Number(headList.value)));
    const title = make("p", { class: "head" });

    // --- Frase
    const radio = (text, from) => {
      const input = make("input", { type: "radio", name: `${block.id}-from`, autocomplete: "off" });
      input.checked = from;
      input.addEventListener("change", () => { state.from = from; update(); });
      return make("label", {}, input, make("span", {}, text));
    };
    const numbers = make("input", { type: "checkbox", autocomplete: "off" });
    numbers.addEventListener("change", () => sentence.classList.toggle("all", numbers.checked));
    const words = tokens.map((token, i) => {
      const button = make("button", { type: "button", class: "word" },
        make("span", { class: "mc-hidden" }), make("bdi", {}, token), make("span", { class: "mc-hidden" }, ", "), make("span", { class: "number" }));
      button.addEventListener("click", () => ask(i));
      button.addEventListener("focus", () => words.forEach((other) => { other.tabIndex = other === button ? 0 : -1; }));
      button.addEventListener("keydown", (event) => {
        const to = { ArrowLeft: i - 1, ArrowUp: i - 1, ArrowRight: i + 1, ArrowDown: i + 1, Home: 0, End: n - 1 }[event.key];
        if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        words[Math.min(Math.max(to, 0), n - 1)].focus();
      });
      button.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") look(i); });
      button.tabIndex = i === state.query ? 0 : -1;
      return button;
    });
    const sentence = make("div", { class: "sentence", role: "toolbar", "aria-label": "Frase: elige el token del que se ven los pesos" }, ...words);
    sentence.addEventListener("pointerleave", () => look(null));
    const summary = make("p", { class: "summary" });

    // --- Mapa n × n de la cabeza elegida
    const labels = tokens.map(short), left = 6.4 * Math.max(...labels.map((text) => [...text].length)) + 10;
    const cell = Math.min((340 - left) / n, 34), side = cell * n, every = Math.ceil(9 / cell), font = Math.min(11, cell + 1);
    const squares = range(n * n).filter((k) => !causal || k % n <= Math.floor(k / n)).map((k) => {
      const square = draw("rect", { x: left + (k % n) * cell, y: left + Math.floor(k / n) * cell, width: cell, height: cell, class: "weight" });
      square.dataset.k = k;
      return square;
    });
    const tags = (down) => labels.map((text, i) => draw("text", {
      "font-size": font, x: down ? left - 5 : 0, y: down ? left + (i + 0.5) * cell : 0, dy: ".35em", "text-anchor": down ? "end" : "start",
      ...(down ? {} : { transform: `translate(${left + (i + 0.5) * cell} ${left - 5}) rotate(-90)` }), ...(i % every ? { class: "spare" } : {}),
    }, text));
    const down = tags(true), across = tags(false);
    const band = draw("rect", { class: "band" }), ring = draw("rect", { class: "ring", width: cell, height: cell });
    const chart = draw("svg", { viewBox: `0 0 ${left + side + 3} ${left + side + 3}`, role: "img", style: `max-width:${(left + side) * 1.25}px` },
      ...down, ...across, ...squares, band, ring);
    const readout = make("p", { class: "small readout" });
    const point = (event, fix) => {
      const k = Number(event.target.dataset?.k ?? NaN);
      if (Number.isNaN(k)) return;
      const i = Math.floor(k / n), j = k % n, shown = state.from ? i : j;
      if (fix) ask(shown); else look(shown);
      readout.textContent = `${word(i)} → ${word(j)}: ${number(weight(state.layer, state.head, i, j))}`;
    };
    chart.addEventListener("click", (event) => point(event, true));
    chart.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") point(event, false); });
    chart.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") look(null); });

    // --- Escribir el estado
    const live = make("p", { class: "mc-live", "aria-live": "polite" });
    const shownWeights = (query) => range(n).map((k) => (state.from ? weight(state.layer, state.head, query, k) : weight(state.layer, state.head, k, query)));
    const said = (query, values, best) => {
      if (best < 0) return state.from ? `${word(query)} no mira a ningún token.` : `A ${word(query)} no lo mira ningún token.`;
      const end = `: ${number(values[best])}.`;
      if (best === query) return (state.from ? `${word(query)} se mira sobre todo a sí mismo` : `A ${word(query)} lo mira sobre todo él mismo`) + end;
      return (state.from ? `${word(query)} mira sobre todo a ${word(best)}` : `A ${word(query)} lo mira sobre todo ${word(best)}`) + end;
    };
    const paint = () => {
      const query = state.preview ?? state.query, values = shownWeights(query), best = most(values);
      words.forEach((button, k) => {
        button.style.setProperty("--w", values[k]);
        button.classList.toggle("strong", values[k] > STRONG);
        button.classList.toggle("best", k === best);
        button.classList.toggle("query", k === query);
        button.classList.toggle("never", causal && (state.from ? k > query : k < query));
        button.setAttribute("aria-pressed", k === state.query);
        button.lastChild.textContent = number(values[k]);
        button.firstChild.textContent = k === best ? "el mayor, " : "";
      });
      summary.textContent = said(query, values, best);
      const [x, y, w, h] = state.from ? [0, query, n, 1] : [query, 0, 1, n];
      fill(band, { x: left + x * cell, y: left + y * cell, width: w * cell, height: h * cell }, []);
      ring.style.display = best < 0 ? "none" : "";
      const [i, j] = state.from ? [query, best] : [best, query];
      fill(ring, { x: left + j * cell, y: left + i * cell }, []);
      down.forEach((text, k) => text.classList.toggle("on", k === i));
      across.forEach((text, k) => text.classList.toggle("on", k === j));
      readout.textContent = "";
    };
    const update = (quiet) => {
      const { layer, head } = state, name = nameOf(layer, head);
      cells.forEach((line, row) => line.forEach((node, column) => {
        const [a, b] = place(row, column), chosen = a === layer && b === head;
        node.setAttribute("aria-selected", chosen);
        node.tabIndex = chosen ? 0 : -1;
      }));
      layerList.value = layer;
      headList.value = head;
      title.textContent = name;
      for (const square of squares) square.style.fillOpacity = weight(layer, head, Math.floor(square.dataset.k / n), square.dataset.k % n);
      const strongest = range(n).map((i) => {
        const values = range(n).map((j) => weight(layer, head, i, j)), best = most(values);
        return best < 0 ? "" : `${word(i)} → ${word(best)}, ${number(values[best])}`;
      });
      chart.setAttribute("aria-label", `Mapa de ${n} × ${n} pesos de la cabeza ${layer}.${head}. El mayor de cada fila: ${strongest.filter(Boolean).join("; ")}.`);
      paint();
      clearTimeout(timer);
      // Se anuncia cuando quien elige se queda quieto.
      if (!quiet) timer = setTimeout(() => { live.textContent = `${name}. ${summary.textContent}`; }, 500);
    };
    const choose = (layer, head) => { Object.assign(state, { layer, head, preview: null }); update(); };
    const ask = (query) => { Object.assign(state, { query, preview: null }); update(); };
    const look = (query) => { state.preview = query; paint(); };

    const panel = make("div", { class: "panel" },
      make("p", { class: "small" }, "Cada cuadro es una cabeza. Elige una y después un token de la frase: los demás se tiñen con los pesos."),
      ...(roles.length ? [legend] : []), map, note,
      make("div", { class: "bar" }, title, make("div", { class: "lists" }, layerLabel, headLabel)),
      make("div", { class: "views" },
        make("div", {}, make("fieldset", {}, make("legend", { class: "mc-hidden" }, "Qué pesos se ven"), radio("A quién mira", true), radio("Quién lo mira", false)),
          sentence, summary, make("label", { class: "numbers" }, numbers, make("span", {}, "Ver todos los pesos"))),
        make("div", {}, make("p", { class: "small axis" }, "Filas: quién mira. Columnas: a quién. ", scale("")), chart, readout)),
      live);
    update(true);
    block.querySelector(".mc-tokens-still").hidden = true;
    block.querySelector(".mc-tokens-still").before(panel);
  };

  const startAll = () => document.querySelectorAll(".mc-tokens:not([data-ready])").forEach(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
  startAll();
})();
