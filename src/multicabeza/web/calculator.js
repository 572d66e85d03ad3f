// Calculadoras: números que se rehacen al cambiar otros. Las cuentas son las de `cost.py`, y una prueba compara ambas.
// Una calculadora es una entrada de `specs`; leer los campos, avisar y escribir los resultados es igual para todas.
(() => {
  "use strict";

  // --- Fórmulas: exactas, porque los límites de los campos dejan todo por debajo de 2^53
  const cost = {
    params: (dModel, h) => 4 * dModel * h * (dModel / h),
    projections: (dModel, h, n) => 2 * n * cost.params(dModel, h),
    attention: (dModel, h, n) => 4 * h * n * n * (dModel / h),
    scores: (h, n) => h * n * n,
    // Un modelo de `cost.MODELS`: {layers, g, dK, latent, window, local}.
    cache: ({ layers, g, dK, latent, window, local }, n, batch, bytes) =>
      (latent ?? 2 * g * dK) * ((layers - local) * n + local * Math.min(n, window ?? n)) * batch * bytes,
    wholeCache: ({ layers, h, dK }, n, batch, bytes) => 2 * layers * h * dK * n * batch * bytes,
    divisors: (size) => Array.from({ length: size }, (_, i) => i + 1).filter((k) => size % k === 0),
    // Los divisores más próximos a un número que no lo es: el de debajo y el de encima, si lo hay.
    nearest(size, wanted) {
      const all = cost.divisors(size);
      return [all.filter((k) => k < wanted).pop(), all.find((k) => k > wanted)].filter(Boolean);
    },
  };

  // --- Cómo se escriben los números
  const comma = (text) => text.replace(".", ",");
  const format = {
    whole: (n) => (n < 10000 ? String(n) : String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f")),
    // Tres cifras y prefijo: 302 M.
    rounded(x) {
      if (x < 1000) return String(x);
      let k = 0;
      for (; x >= 999.5 && k < 5; k++) x /= 1000;
      return `${comma(x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0))} ${" kMGTP"[k]}`;
    },
    bytes(b) {
      let k = 0;
      for (; b >= 1024 && k < 5; k++) b /= 1024;
      return `${comma(String(Number(b.toFixed(2))))} ${["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"][k]}`;
    },
    percent: (share) => `${comma((100 * share).toFixed(1))} %`,
  };
  const { whole, rounded } = format;
  const shape = (...sizes) => sizes.map(whole).join(" × ");

  const specs = {
    heads: {
      // Valores por los que pasa una barra que depende de otro campo.
      stops: { h: ({ d_model }) => cost.divisors(d_model) },
      // Lo que ningún campo puede ver por su cuenta: {campo: [mensaje, valores que sí valen]}.
      check({ d_model, h }) {
        if (d_model % h === 0) return {};
        const near = cost.nearest(d_model, h);
        const why = h > d_model
          ? `h = ${whole(h)} es más que d_model = ${whole(d_model)}: a cada cabeza le tocaría menos de una dimensión.`
          : `${whole(h)} no divide a ${whole(d_model)}: tocarían ${comma((d_model / h).toFixed(2))} dimensiones por cabeza.`;
        return { h: [`${why} ${near.length > 1 ? "Los más próximos que sí dividen" : "El más próximo que sí divide"}:`, near] };
      },
      texts({ d_model, h, n, bytes }) {
        const dK = d_model / h, projections = cost.projections(d_model, h, n), attention = cost.attention(d_model, h, n);
        const total = projections + attention, elements = cost.scores(h, n);
        return {
          state: `d_model = ${whole(d_model)}, h = ${whole(h)}, n = ${whole(n)}, ${bytes} bytes por número`,
          split: `${whole(d_model)} columnas = ${whole(h)} ${h > 1 ? "cabezas" : "cabeza"} × ${whole(dK)}`,
          d_k: whole(dK),
          params: whole(cost.params(d_model, h)),
          total: whole(total), projections: whole(projections), attention: whole(attention),
          projectionsShare: format.percent(projections / total), attentionShare: format.percent(attention / total),
          crossing: whole(2 * d_model),
          elements: whole(elements),
          memory: format.bytes(elements * bytes), bytes: `${whole(elements * bytes)} bytes`,
          tokens: shape(n, d_model), tokensCount: whole(n * d_model),
          matrix: shape(d_model, d_model), matrixCount: whole(d_model * d_model),
          perHead: shape(h, n, dK), scores: shape(h, n, n),
        };
      },
      styles: ({ d_model, h, n }) => ({ "--h": h, "--attention": `${(100 * n) / (2 * d_model + n)}%` }),
      // Filas de la comparación: [es la elegida, cabecera, [texto, tanto por ciento de la barra o nada]…].
      rows({ d_model, h, n, bytes }) {
        if (!d_model || !n) return [];
        const all = cost.divisors(d_model), powers = all.filter((k) => k <= 128 && Number.isInteger(Math.log2(k)));
        const heads = all.length <= 8 ? all : powers.length > 3 ? powers : all.slice(0, 8);
        if (d_model % h === 0 && !heads.includes(h)) heads.push(h);
        const most = Math.max(...heads);
        return heads.sort((a, b) => a - b).map((k) => [
          k === h, whole(k), [whole(d_model / k)], [rounded(cost.params(d_model, k)), 100],
          [rounded(cost.projections(d_model, k, n) + cost.attention(d_model, k, n)), 100],
          [format.bytes(cost.scores(k, n) * bytes), (100 * k) / most],
        ]);
      },
      spoken: (t) => `d_k = ${t.d_k}. ${t.params} parámetros y ${t.total} FLOPs. Puntuaciones: ${t.elements} números, ${t.memory}.`,
    },
    // Los modelos llegan de Python, en `data-given`.
    kv_cache: {
      check: () => ({}),
      texts({ modelo, n, lote, bytes }, models) {
        const m = models[modelo], memory = cost.cache(m, n, lote, bytes), all = cost.wholeCache(m, n, lote, bytes);
        const kept = Math.min(n, m.window ?? n), saved = m.latent ? whole(m.latent) : `2 × ${whole(m.g)} × ${whole(m.dK)}`;
        const parts = [[m.layers - m.local, n], [m.local, kept]].filter(([k]) => k).map(([k, t]) => `${whole(k)} × ${whole(t)}`);
        return {
          state: `${m.name}, n = ${whole(n)}, lote = ${whole(lote)}, ${bytes} bytes por número`,
          name: m.name, kind: m.kind,
          shared: m.latent ? `${whole(m.latent)} números`
            : `${m.g > 1 ? `${whole(m.g)} claves y ${whole(m.g)} valores` : "1 clave y 1 valor"} de ${whole(m.dK)}`,
          memory: format.bytes(memory), bytes: `${whole(memory)} bytes`, token: format.bytes(cost.cache(m, 1, 1, bytes)),
          factors: `${saved} × ${parts.length > 1 ? `(${parts.join(" + ")})` : parts[0]} × ${whole(lote)} × ${bytes}`,
          whole: format.bytes(all), times: `${comma((all / memory).toFixed(1))} veces`, note: m.note,
        };
      },
      styles: () => ({}),
      rows({ modelo, n, lote, bytes }, models) {
        if (!n || !lote) return [];
        const sizes = models.map((m) => cost.cache(m, n, lote, bytes)), most = Math.max(...sizes);
        return models.map((m, k) => [k === modelo, m.name, [m.kind], [format.bytes(sizes[k]), (100 * sizes[k]) / most]]);
      },
      spoken: (t) => `${t.name}: la caché ocupa ${t.memory}, y ${t.token} por token. Sin compartir, ${t.whole}.`,
    },
  };

  // --- Lo común
  const element = (tag, text, className) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };

  // Lo escrito en un campo: [número] o [undefined, mensaje].
  const read = (input) => {
    if (input.tagName === "SELECT") return [Number(input.value)];
    const { value, validity, dataset: { field: name } } = input, limits = `un número entero de 1 a ${whole(Number(input.max))}`;
    if (validity.badInput || value.trim() === "") return [undefined, `Escribe en ${name} ${limits}.`];
    const number = Number(value), came = comma(value.slice(0, 24)).replace("-", "−");
    if (!Number.isInteger(number)) return [undefined, `${name} = ${came} no es entero. Escribe ${limits}.`];
    if (number < 1 || number > Number(input.max)) return [undefined, `${name} = ${came} no vale aquí. Escribe ${limits}.`];
    return [number];
  };

  const start = (block) => {
    const spec = specs[block.dataset.calculator];
    if (!spec) return;
    block.dataset.ready = "1";
    const given = block.dataset.given && JSON.parse(block.dataset.given);
    const find = (selector) => [...block.querySelectorAll(selector)];
    const inputs = Object.fromEntries(find("[data-field]").map((input) => [input.dataset.field, input]));
    const sliders = find("[data-slides]");
    const live = block.querySelector(".mc-live"), table = block.querySelector("[data-rows]");
    const stopsOf = {};
    let timer = 0;

    const choose = (key, value) => { inputs[key].value = value; refresh(); announce(); };

    const message = (key, text, suggestions = []) => {
      const place = document.getElementById(`${inputs[key].id}-m`);
      if (!place) return;
      inputs[key].setAttribute("aria-invalid", Boolean(text));
      place.hidden = !text;
      place.replaceChildren(element("span", text), ...suggestions.map((value) => {
        const button = element("button", `${key} = ${whole(value)}`);
        button.type = "button";
        button.addEventListener("click", () => { choose(key, value); inputs[key].focus(); });
        return button;
      }));
    };

    const slide = (slider, values) => {
      const key = slider.dataset.slides, fixed = slider.dataset.stops;
      const stops = fixed ? JSON.parse(fixed) : spec.stops[key](values);
      if (!stops.length) return;
      stopsOf[key] = stops;
      slider.max = stops.length - 1;
      if (values[key] === undefined) return;
      slider.value = Math.max(0, stops.filter((stop) => stop <= values[key]).length - 1);
      slider.setAttribute("aria-valuetext", whole(values[key]));
    };

    const row = ([chosen, head, ...cells]) => {
      const made = element("tr");
      if (chosen) made.setAttribute("aria-current", "true");
      const title = element("th", head);
      title.scope = "row";
      made.append(title, ...cells.map(([text, share]) => {
        const cell = element("td");
        cell.append(element("span", text));
        if (share !== undefined) {
          const bar = element("span", "", "mc-bar");
          bar.style.setProperty("--share", `${share}%`);
          cell.append(bar);
        }
        return cell;
      }));
      return made;
    };

    let spoken = "";
    const refresh = () => {
      const values = {}, faults = {};
      for (const [key, input] of Object.entries(inputs)) {
        const [value, fault] = read(input);
        values[key] = value;
        if (fault) faults[key] = [fault];
      }
      if (!Object.keys(faults).length) Object.assign(faults, spec.check(values));
      for (const key of Object.keys(inputs)) message(key, ...(faults[key] ?? []));
      for (const slider of sliders) slide(slider, values);
      const wrong = Object.values(faults);
      const texts = wrong.length ? {} : spec.texts(values, given);
      block.toggleAttribute("data-wrong", wrong.length > 0);
      for (const node of find("[data-out]")) node.textContent = texts[node.dataset.out] ?? "—";
      for (const [name, value] of wrong.length ? [] : Object.entries(spec.styles(values))) block.style.setProperty(name, value);
      table?.replaceChildren(...spec.rows(values, given).map(row));
      spoken = wrong.length ? wrong.map(([text, near = []]) => `${text} ${near.join(" o ")}`).join(" ") : spec.spoken(texts);
    };
    // Se anuncia cuando quien escribe se queda quieto, no en cada tecla.
    const announce = () => { clearTimeout(timer); timer = setTimeout(() => { live.textContent = spoken; }, 700); };

    for (const input of Object.values(inputs)) input.addEventListener("input", () => { refresh(); announce(); });
    for (const slider of sliders) {
      slider.addEventListener("input", () => choose(slider.dataset.slides, stopsOf[slider.dataset.slides][slider.value]));
    }
    // Al volver a la página o recargarla, hay navegadores que devuelven los campos a donde estaban.
    window.addEventListener("pageshow", refresh);
    refresh();
    block.querySelector(".mc-controls").hidden = false;
  };

  window.mcCalculator = { cost, format, specs };
  const startAll = () => document.querySelectorAll(".mc-calculator:not([data-ready])").forEach(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
  startAll();
})();
