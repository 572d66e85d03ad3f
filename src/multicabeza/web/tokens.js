// Los pesos de todas las cabezas: un mapa para elegir una, la frase teñida con sus pesos y su mapa n × n.
// Todo sale de los mismos números, y el color es el peso: opacidad = peso.
(() => {
  "use strict";
  const STRONG = 0.655; // desde este peso la letra cambia de color: siempre 4,5:1 o más (tokens.css)

  // Los textos entran como texto, nunca como HTML.
  const fill = (node, attributes, ...children) => {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const make = (tag, ...rest) => fill(document.createElement(tag), ...rest);
  const draw = (tag, ...rest) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), ...rest);
  const number = (weight) => (Math.round(weight * 100) / 100).toFixed(2).replace(".", ",");
  const range = (size) => [...Array(size).keys()];
  const most = (values) => values.reduce((best, value, k) => (value > (values[best] ?? 0) ? k : best), -1);
  const clip = (value, size) => Math.min(Math.max(value, 0), size - 1);
  const modified = (event) => event.altKey || event.ctrlKey || event.metaKey;

  const start = (block) => {
    block.dataset.ready = "1";
    const data = JSON.parse(block.querySelector('script[type="application/json"]').textContent);
    const { tokens, layers, heads, causal, roles, wide } = data, n = tokens.length;
    const find = (name) => block.querySelector(`.${name}`);
    const state = { layer: data.layer, head: data.head, query: data.query, from: true, preview: null };

    // --- Números: dos cifras en base 36 por peso; en un modelo causal, solo medio triángulo
    const size = causal ? (n * (n + 1)) / 2 : n * n;
    const packed = Uint16Array.from({ length: layers * heads * size }, (_, k) => parseInt(data.weights.slice(2 * k, 2 * k + 2), 36));
    const weight = (i, j, layer = state.layer, head = state.head) =>
      causal && j > i ? 0 : packed[(layer * heads + head) * size + (causal ? (i * (i + 1)) / 2 : i * n) + j] / 1000;
    const row = (i, ...which) => range(n).map((j) => weight(i, j, ...which));

    // --- Palabras: de un token repetido se dice cuál de las veces es
    const word = (i) => {
      const time = tokens.slice(0, i + 1).filter((token) => token === tokens[i]).length;
      return `«${tokens[i]}»${time > 1 ? ` (${time}.ª vez)` : ""}`;
    };
    const rolesOf = (layer, head) => range(roles.length).filter((r) => roles[r][1].some(([a, b]) => a === layer && b === head));
    const nameOf = (layer, head) => [`Cabeza ${layer}.${head}`, rolesOf(layer, head).map((r) => roles[r][0]).join(", ")].filter(Boolean).join(" · ");

    // --- Mapa: una fila por capa o, si las capas son muchas, una columna por capa
    const columns = wide ? layers : heads, rows = wide ? heads : layers;
    const place = (k) => (wide ? [k % columns, Math.floor(k / columns)] : [Math.floor(k / columns), k % columns]);
    const cells = range(layers * heads).map((k) => {
      const mine = rolesOf(...place(k)), part = 100 / mine.length;
      const value = range(n).reduce((sum, i) => sum + Math.max(...row(i, ...place(k))), 0) / n;
      const cell = make("div", { role: "gridcell", class: "square", style: `--w:${value.toFixed(3)}` }, mine.map((r) => "ABCDEF"[r]).join(""));
      cell.setAttribute("aria-label", nameOf(...place(k)) + (mine.length ? "" : ` · concentración ${number(value)}`));
      if (mine.length) {
        cell.classList.add("role");
        cell.style.background = `linear-gradient(${wide ? 180 : 90}deg,${mine.map((r, p) => `var(--r${r}) ${p * part}% ${(p + 1) * part}%`)})`;
      }
      cell.addEventListener("click", () => { choose(...place(k)); cell.focus({ preventScroll: true }); });
      cell.addEventListener("keydown", (event) => {
        const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -columns], End: [0, columns] }[event.key] ?? [];
        if (down === undefined || modified(event)) return;
        event.preventDefault();
        const next = clip(Math.floor(k / columns) + down, rows) * columns + clip((k % columns) + right, columns);
        choose(...place(next));
        cells[next].focus();
      });
      return cell;
    });
    const grid = find("heads");
    grid.before(make("div", { class: "line", "aria-hidden": "true" }, make("span", {}),
      ...range(columns).map((k) => make("span", {}, columns <= 12 || k % 5 === 0 ? String(k) : ""))));
    grid.append(...range(rows).map((r) => make("div", { role: "row", class: "line" }, make("span", { "aria-hidden": "true" }, String(r)),
      ...cells.slice(r * columns, (r + 1) * columns))));
    // Con el dedo (o el botón) puesto se recorre el mapa de lado a lado.
    grid.addEventListener("pointermove", (event) => {
      const cell = event.buttons && document.elementFromPoint(event.clientX, event.clientY)?.closest(".square");
      if (cell?.tabIndex && grid.contains(cell)) cell.click();
    });
    // Cada papel abre sus cabezas, una tras otra.
    for (const button of block.querySelectorAll(".roles button")) {
      const list = roles[button.value][1];
      button.addEventListener("click", () =>
        choose(...list[(list.findIndex(([a, b]) => a === state.layer && b === state.head) + 1) % list.length]));
    }
    const lists = block.querySelectorAll("select");
    for (const list of lists) list.addEventListener("change", () => choose(...[...lists].map((other) => Number(other.value))));

    // --- Frase
    for (const input of block.querySelectorAll("fieldset input")) {
      input.addEventListener("change", () => { state.from = input.value === "from"; update(); });
    }
    const words = tokens.map((token, i) => {
      const button = make("button", { type: "button", class: "word" }, make("bdi", {}, token), make("span", {}), make("span", { class: "mc-hidden" }));
      button.addEventListener("click", () => ask(i));
      button.addEventListener("focus", () => { for (const other of words) other.tabIndex = other === button ? 0 : -1; });
      button.addEventListener("keydown", (event) => {
        const to = { ArrowLeft: i - 1, ArrowUp: i - 1, ArrowRight: i + 1, ArrowDown: i + 1, Home: 0, End: n - 1 }[event.key];
        if (to === undefined || modified(event)) return;
        event.preventDefault();
        words[clip(to, n)].focus();
      });
      button.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") look(i); });
      button.tabIndex = i === state.query ? 0 : -1;
      return button;
    });
    const sentence = find("sentence"), summary = find("summary"), title = find("head"), axis = find("axis"), axisText = axis.textContent;
    sentence.append(...words);
    sentence.addEventListener("pointerleave", () => look(null));

    // --- Mapa n × n
    const labels = tokens.map((token) => ([...token].length > 9 ? `${[...token].slice(0, 8).join("")}…` : token));
    const left = 6.6 * Math.max(...labels.map((text) => [...text].length)) + 10;
    const cell = Math.min((340 - left) / n, 34), every = Math.ceil(9 / cell), edge = left + cell * n + 2;
    const at = (k) => left + k * cell;
    const squares = range(n * n).filter((k) => !causal || k % n <= Math.floor(k / n)).map((k) =>
      draw("rect", { class: "weight", x: at(k % n), y: at(Math.floor(k / n)), width: cell, height: cell, "data-k": k }));
    const tags = (turn) => labels.map((text, k) =>
      draw("text", { "font-size": Math.min(11, cell + 1), dy: ".35em", class: k % every ? "spare" : "", ...turn(k) }, text));
    const down = tags((k) => ({ x: left - 5, y: at(k + 0.5), "text-anchor": "end" }));
    const across = tags((k) => ({ transform: `translate(${at(k + 0.5)} ${left - 5}) rotate(-90)` }));
    const band = draw("rect", { class: "band" }), ring = draw("rect", { class: "ring", width: cell, height: cell });
    const chart = draw("svg", { viewBox: `0 0 ${edge} ${edge}`, role: "img", style: `max-width:${edge * 1.2}px` }, ...down, ...across, ...squares, band, ring);
    axis.after(chart);
    const point = (event, use) => {
      const k = event.target.dataset.k;
      if (k === undefined) return;
      const i = Math.floor(k / n), j = k % n;
      use(state.from ? i : j);
      axis.textContent = `${word(i)} → ${word(j)}: ${number(weight(i, j))}`;
    };
    chart.addEventListener("click", (event) => point(event, ask));
    chart.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") point(event, look); });
    chart.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") look(null); });

    // --- Escribir el estado
    const said = (query, best, value) => {
      const who = word(query), end = `: ${number(value)}.`, itself = best === query;
      if (best < 0) return state.from ? `${who} no mira a ningún token.` : `A ${who} no lo mira ningún token.`;
      return state.from ? `${who} ${itself ? "se mira sobre todo a sí mismo" : `mira sobre todo a ${word(best)}`}${end}` : `A ${who} lo mira sobre todo ${itself ? "él mismo" : word(best)}${end}`;
    };
    const look = (preview) => {
      state.preview = preview;
      const query = preview ?? state.query, { from } = state;
      const values = from ? row(query) : range(n).map((k) => weight(k, query)), best = most(values);
      words.forEach((button, k) => {
        button.style.setProperty("--w", values[k]);
        const classes = { strong: values[k] > STRONG, best: k === best, query: k === query, never: causal && (from ? k > query : k < query) };
        for (const [name, on] of Object.entries(classes)) button.classList.toggle(name, on);
        button.setAttribute("aria-pressed", k === state.query);
        button.children[1].textContent = number(values[k]);
        button.lastChild.textContent = k === best ? "el mayor" : "";
      });
      summary.textContent = said(query, best, values[best]);
      axis.textContent = axisText;
      const [i, j] = from ? [query, best] : [best, query];
      fill(band, { x: at(from ? 0 : j), y: at(from ? i : 0), width: cell * (from ? n : 1), height: cell * (from ? 1 : n) });
      fill(ring, { x: at(j), y: at(i), visibility: best < 0 ? "hidden" : "visible" });
      down.forEach((text, k) => text.classList.toggle("on", k === i));
      across.forEach((text, k) => text.classList.toggle("on", k === j));
    };
    let timer = 0;
    const update = () => {
      const { layer, head } = state, name = nameOf(layer, head);
      cells.forEach((node, k) => {
        const chosen = place(k).join() === `${layer},${head}`;
        node.setAttribute("aria-selected", chosen);
        node.tabIndex = chosen ? 0 : -1;
      });
      [lists[0].value, lists[1].value] = [layer, head];
      title.textContent = name;
      for (const square of squares) square.style.fillOpacity = weight(Math.floor(square.dataset.k / n), square.dataset.k % n);
      const links = range(n).map((i) => [i, most(row(i))]).filter(([, j]) => j >= 0).map(([i, j]) => `${word(i)} → ${word(j)}, ${number(weight(i, j))}`);
      chart.setAttribute("aria-label", `Mapa de ${n} × ${n} pesos de la cabeza ${layer}.${head}. El mayor de cada fila: ${links.join("; ")}.`);
      look(null);
      // Se anuncia cuando quien elige se queda quieto.
      clearTimeout(timer);
      timer = setTimeout(() => { find("mc-live").textContent = `${name}. ${summary.textContent}`; }, 500);
    };
    const choose = (layer, head) => { Object.assign(state, { layer, head }); update(); };
    const ask = (query) => { state.query = query; update(); };

    update();
    clearTimeout(timer);
    find("panel").hidden = false;
    find("mc-tokens-still").hidden = true;
  };

  const startAll = () => document.querySelectorAll(".mc-tokens:not([data-ready])").forEach(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
  startAll();
})();
