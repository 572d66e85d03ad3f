// El laboratorio: un transformer de dos capas, solo de atención, que se calcula aquí mismo cada vez que algo cambia.
// Las cuentas están en tensor.js; el modelo, en `forward`; lo demás es leer lo que se escribe y dibujar lo que sale.
(() => {
  "use strict";
  const LAYERS = 2, HEADS = 4, WIDTH = 64; // el modelo de multicabeza/toys/induction.py
  const NAMES = ["0.0", "0.1", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3"];
  const PAUSE = 1200; // milisegundos entre pasos al ver el entrenamiento

  // Los textos entran como texto, nunca como HTML.
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const range = (size) => [...Array(size).keys()];
  const clip = (value, size) => Math.min(Math.max(value, 0), size - 1);
  const number = (value) => value.toFixed(2).replace(".", ",");
  const percent = (value) => `${value > 0 && value < 0.01 ? "< 1" : value < 1 && value > 0.99 ? "> 99" : Math.round(100 * value)}\u00a0%`;
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const plain = (text) => text.toLowerCase().normalize("NFD").replace(/\p{M}/gu, "");
  const several = (count, one, many) => `${count} ${count === 1 ? one : many}`;

  // --- El modelo: de los tokens a los logits, con la misma forma que `InductionModel.forward`.
  // `off` son las cabezas apagadas, como «0.1». Devuelve logits (n, 64) y pesos (2, 4, n, n), planos.
  const forward = (w, ids, off = []) => {
    const { linear, add, embed, columns, layerNorm, attention } = window.mcTensor, n = ids.length;
    let x = add(embed(w["tokens.weight"], ids, WIDTH), embed(w["positions.weight"], range(n), WIDTH));
    const maps = new Float64Array(LAYERS * HEADS * n * n);
    for (const layer of range(LAYERS)) {
      const normed = layerNorm(x, n, w[`norms.${layer}.weight`], w[`norms.${layer}.bias`]);
      const qkv = linear(normed, n, w[`layers.${layer}.qkv_proj.weight`]);
      const [query, key, value] = range(3).map((part) => columns(qkv, n, part * WIDTH, (part + 1) * WIDTH));
      const gates = range(HEADS).map((head) => (off.includes(`${layer}.${head}`) ? 0 : 1));
      const { output, weights } = attention(query, key, value, { nQ: n, heads: HEADS, causal: true, gates });
      maps.set(weights, layer * HEADS * n * n);
      x = add(x, linear(output, n, w[`layers.${layer}.out_proj.weight`]));
    }
    const logits = linear(layerNorm(x, n, w["final_norm.weight"], w["final_norm.bias"]), n, w["unembed.weight"]);
    return { logits, weights: maps };
  };

  // Cuántas letras hay que cambiar, quitar o poner para ir de una palabra a otra (Levenshtein).
  const distance = (a, b) => {
    let row = range(b.length + 1);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++) next.push(Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)));
      row = next;
    }
    return row[b.length];
  };

  const start = async (block) => {
    block.dataset.ready = "1";
    const data = JSON.parse(block.querySelector('script[type="application/json"]').textContent);
    const { words, steps, length, losses } = data, vocabulary = words.length;
    const find = (name) => block.querySelector(`.${name}`), all = (query) => [...block.querySelectorAll(query)];
    const code = new Map(data.plain.map((word, id) => [word, id]));
    const state = { ids: [], query: 0, off: new Set(), step: steps.at(-1) };

    // --- Pesos: los de la página ya están; los demás se piden al libro la primera vez que hacen falta
    const models = {};
    const packed = (step) => data.weights[step] ?? window.mcLabWeights?.[step];
    const model = (step) => (models[step] ??= load(step).catch((error) => { delete models[step]; throw error; }));
    const load = async (step) => {
      if (!packed(step)) await window.mcTensor.fetchScript(`lab-${String(step).padStart(4, "0")}.js`);
      return window.mcTensor.unpack(packed(step), data.shapes);
    };
    // Para las pruebas: la misma función que dibuja la página.
    block.mcLab = {
      steps,
      forward: async (ids, { step = state.step, off = [] } = {}) => {
        const { logits, weights } = forward(await model(step), ids, off);
        return { logits: [...logits], weights: [...weights] };
      },
    };
    if (typeof DecompressionStream === "undefined") throw new Error("este navegador es demasiado antiguo y no sabe descomprimir los pesos");
    let now = await model(state.step); // los pesos que se ven

    // --- Escribir
    const box = block.querySelector("textarea"), message = find("message");
    const SEPARATORS = /[\s,;.:…·¡!¿?«»"“”()]+/;
    const write = (text) => { box.value = text; read(); };
    const written = () => box.value.trim().split(SEPARATORS).filter(Boolean);
    const near = (word) => {
      const typed = plain(word).slice(0, 20);
      const far = data.plain.map((other, id) => [other.startsWith(typed) ? 0.5 : distance(typed, other), id]);
      return far.filter(([d]) => d <= Math.max(1, Math.min(2, typed.length - 2))).sort((a, b) => a[0] - b[0]).slice(0, 3).map(([, id]) => words[id]);
    };
    const short = (word) => (word.length > 20 ? `${word.slice(0, 20)}…` : word);
    const read = () => {
      const typed = box.value.slice(0, 5000), found = typed.split(SEPARATORS).filter(Boolean);
      // La palabra que se está escribiendo, si es el principio de alguna, no es un error: todavía no.
      const half = found.length && !SEPARATORS.test(typed.at(-1)) && !code.has(plain(found.at(-1))) && data.plain.some((word) => word.startsWith(plain(found.at(-1)))) ? found.pop() : null;
      const strange = [...new Set(found.filter((word) => !code.has(plain(word))))];
      const ids = found.map((word) => code.get(plain(word))).filter((id) => id !== undefined);
      const lines = strange.slice(0, 3).map((word) => {
        const close = near(word), line = make("p", {}, `«${short(word)}» no está en la lista${close.length ? ". ¿Querías decir…?" : ": elige otra palabra."}`);
        for (const other of close) line.append(" ", fix(`${other}`, `Cambiar «${short(word)}» por «${other}»`, () => swap(word, other)));
        return line;
      });
      if (strange.length > 3) lines.push(make("p", {}, `Y ${several(strange.length - 3, "palabra más", "palabras más")} que no están.`));
      if (strange.length && ids.length) lines.push(make("p", {}, "El modelo lee la secuencia sin ellas."));
      if (half) lines.push(make("p", {}, "Sigue, o elige: ", ...near(half).flatMap((word) => [fix(word, `Poner «${word}»`, () => swap(half, word)), " "])));
      if (ids.length > length) lines.push(make("p", {}, `Son ${ids.length} palabras y el modelo tiene ${length} posiciones: lee las ${length} primeras.`));
      if (!ids.length && !strange.length && !half) lines.push(make("p", {}, "Escribe una palabra, elígela de la lista o toma un ejemplo."));
      message.replaceChildren(...lines);
      message.hidden = !lines.length;
      box.setAttribute("aria-invalid", strange.length > 0 || ids.length > length);
      state.ids = ids.slice(0, length);
      state.query = state.ids.length - 1;
      show(lines.map((line) => line.textContent).join(" "));
    };
    const fix = (text, name, use) => {
      const button = make("button", { type: "button", "aria-label": name }, text);
      button.addEventListener("click", () => { use(); box.focus(); });
      return button;
    };
    const swap = (old, word) => write(`${written().map((other) => (other === old ? word : other)).join(" ")} `);
    const append = (id) => write(`${[...written(), words[id]].join(" ")} `);
    const example = (k) => {
      let list = data.examples[k];
      if (typeof list[0] === "number") {
        const [period, turns] = list, order = range(vocabulary);
        for (const i of range(period)) { // los primeros de una baraja
          const j = i + Math.floor(Math.random() * (vocabulary - i));
          [order[i], order[j]] = [order[j], order[i]];
        }
        const turn = order.slice(0, period).map((id) => words[id]);
        list = range(turns).flatMap(() => turn);
        if (turns > 1) list.push(turn[0]);
      }
      write(`${list.join(" ")} `);
    };
    box.addEventListener("input", read);
    for (const button of all("[data-word]")) button.addEventListener("click", () => append(Number(button.dataset.word)));
    for (const button of all("[data-example]")) button.addEventListener("click", () => example(Number(button.dataset.example)));

    // --- Botones
    const actions = {
      predicted: () => { if (last && state.ids.length < length) append(last.chosen); },
      back: () => write(`${written().slice(0, -1).join(" ")} `),
      clear: () => { write(""); box.focus(); },
      all: () => { if (state.off.size) { state.off.clear(); show("Todas las cabezas encendidas."); } },
      play: () => (timer.play ? stop() : play()),
    };
    for (const [name, action] of Object.entries(actions)) block.querySelector(`[data-do=${name}]`).addEventListener("click", action);
    const toggles = all("[data-head]");
    for (const toggle of toggles) {
      toggle.addEventListener("click", () => {
        const { head } = toggle.dataset, off = state.off.delete(head) ? false : state.off.add(head);
        show(`Cabeza ${head} ${off ? "apagada" : "encendida"}.`);
      });
    }

    // --- Entrenamiento
    const slider = block.querySelector("input[type=range]"), timer = {}, exam = find("exam"), playing = block.querySelector("[data-do=play]");
    const go = async (step) => {
      slider.value = steps.indexOf(step);
      state.wanted = step;
      block.setAttribute("aria-busy", "true");
      try {
        const weights = await model(step);
        if (state.wanted !== step) return false; // ya se ha pedido otro
        now = weights;
        state.step = step;
        show(`Paso ${step}.`);
        return true;
      } catch (error) {
        if (state.wanted !== step) return false;
        stop();
        slider.value = steps.indexOf(state.step);
        show(`No se puede ver el paso ${step}: ${error.message}. Sigues en el paso ${state.step}.`, true);
        return false;
      } finally {
        if (state.wanted === step) block.removeAttribute("aria-busy");
      }
    };
    const stop = () => {
      clearTimeout(timer.play);
      timer.play = 0;
      playing.textContent = "Ver el entrenamiento";
    };
    const play = () => {
      playing.textContent = "Parar";
      const next = async (k) => {
        if (!(await go(steps[k])) || !timer.play) return;
        if (k + 1 < steps.length) timer.play = setTimeout(next, PAUSE, k + 1);
        else stop();
      };
      timer.play = -1;
      next(state.step === steps.at(-1) ? 0 : steps.indexOf(state.step) + 1);
    };
    slider.addEventListener("input", () => { stop(); go(steps[slider.value]); });

    // --- Qué probar: de una en una
    const tries = all(".tries li"), counter = block.querySelector(".count span"), turn = find("turn");
    let trial = 0;
    const turnTo = (k) => {
      trial = (k + tries.length) % tries.length;
      tries.forEach((item, i) => { item.hidden = i !== trial; });
      counter.textContent = ` (${trial + 1} de ${tries.length})`;
    };
    for (const button of all("[data-turn]")) {
      button.addEventListener("click", () => {
        turnTo(trial + Number(button.dataset.turn));
        say(tries[trial].querySelector("p").textContent);
      });
    }
    for (const button of all("[data-try]")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        const { example: k = 0, off = [], step = steps.at(-1) } = JSON.parse(button.dataset.try);
        stop();
        state.off = new Set(off);
        example(k);
        if (step !== state.step) await go(step);
        find("write").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      });
    }
    turnTo(0);
    turn.hidden = false;

    // --- Calcular
    let last = null; // lo que sale de la última cuenta
    const compute = () => {
      const { ids, query } = state, n = ids.length, off = [...state.off];
      const run = (heads) => {
        const { logits, weights } = forward(now, ids, heads), { softmax } = window.mcTensor;
        const chances = range(n).map((i) => softmax(logits.subarray(i * vocabulary, (i + 1) * vocabulary)));
        const loss = range(n).map((i) => (i ? -Math.log(chances[i - 1][ids[i]]) : null)); // la primera no la predice nadie
        return { weights, chances, loss };
      };
      const shown = run(off), whole = off.length ? run([]) : shown;
      // Se puede copiar la palabra i si la anterior ya había salido seguida de ella.
      const copied = range(n).filter((i) => i && range(i - 1).some((j) => ids[j] === ids[i - 1] && ids[j + 1] === ids[i]));
      const fresh = range(n).filter((i) => i && !copied.includes(i));
      const order = range(vocabulary).sort((a, b) => shown.chances[query][b] - shown.chances[query][a]);
      const after = new Set(range(query).filter((j) => ids[j] === ids[query]).map((j) => ids[j + 1])); // lo que la siguió
      const end = shown.chances[n - 1], chosen = end.indexOf(Math.max(...end)); // la que se añadiría al final
      return { ...shown, whole, copied, fresh, order, after, chosen };
    };
    // Índices, como en multicabeza/heads.py: peso en la palabra anterior, y peso en las que siguieron a la actual.
    const scores = (weight, k) => {
      const { ids } = state, n = ids.length;
      if (k < HEADS) return n > 1 ? mean(range(n - 1).map((i) => weight(k, i + 1, i))) : null;
      const follows = (i) => range(i + 1).filter((j) => j && ids[j - 1] === ids[i]);
      const known = range(n).filter((i) => follows(i).length);
      return known.length ? mean(known.map((i) => follows(i).reduce((sum, j) => sum + weight(k, i, j), 0))) : null;
    };
    block.mcLab.scores = (weights, ids) => {
      const before = state.ids, n = ids.length;
      state.ids = ids;
      const found = range(LAYERS * HEADS).map((k) => scores((h, i, j) => weights[(h * n + i) * n + j], k));
      state.ids = before;
      return found;
    };

    // --- Dibujar
    const word = (i) => {
      const { ids } = state, time = ids.slice(0, i + 1).filter((id) => id === ids[i]).length;
      return `«${words[ids[i]]}»${time > 1 ? ` (${time}.ª vez)` : ""}`;
    };
    // Un lienzo con un punto por peso, del blanco al color de la cabeza; la hoja de estilo lo agranda.
    const paint = (canvas, columns, values, color) => {
      Object.assign(canvas, { width: columns, height: values.length / columns });
      const tint = [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16)), context = canvas.getContext("2d");
      const image = context.createImageData(canvas.width, canvas.height);
      values.forEach((value, k) => image.data.set([...tint.map((part) => 255 + (part - 255) * value), 255], 4 * k));
      context.putImageData(image, 0, 0);
    };
    const sentence = find("sentence"), columns = all(".looks .columns"), strips = all(".strip"), units = all(".unit");
    const ask = (i) => { state.query = i; show(""); };
    // Las palabras: se hacen otra vez solo si cambian, para que el foco no se pierda.
    const chips = () => {
      const { ids } = state, same = ids.join() === sentence.dataset.ids;
      if (same) return;
      sentence.dataset.ids = ids.join();
      sentence.replaceChildren(...ids.map((id, i) => {
        const chip = make("button", { type: "button" }, make("bdi", {}, words[id]), make("span", { class: "mc-hidden" }, " pérdida "), make("span", { class: "loss" }));
        chip.addEventListener("click", () => ask(i));
        chip.addEventListener("keydown", (event) => {
          const to = { ArrowLeft: i - 1, ArrowUp: i - 1, ArrowRight: i + 1, ArrowDown: i + 1, Home: 0, End: ids.length - 1 }[event.key];
          if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
          event.preventDefault();
          ask(clip(to, ids.length));
          sentence.children[state.query].focus();
        });
        return chip;
      }));
    };
    units.forEach((unit, k) => unit.querySelector(".map").addEventListener("click", (event) => {
      const area = event.currentTarget.getBoundingClientRect();
      ask(clip(Math.floor(((event.clientY - area.top) / area.height) * state.ids.length), state.ids.length));
    }));

    // Los rótulos que no caben, unos encima de otros, se esconden; el de la palabra elegida, nunca.
    const thin = () => {
      const [labels] = columns, { query } = state, every = Math.ceil((14 * labels.childElementCount) / (labels.clientWidth || 300));
      [...labels.children].forEach((label, i) => label.classList.toggle("spare", i !== query && (i % every > 0 || Math.abs(i - query) < every)));
    };
    new ResizeObserver(thin).observe(columns[0]);
    const grow = () => {
      box.style.height = "auto";
      box.style.height = `${Math.min(box.scrollHeight + 2, 240)}px`;
    };

    const render = () => {
      const { ids, query, off, step } = state, n = ids.length;
      chips();
      grow();
      find("results").hidden = !n;
      const useless = { predicted: !n || n >= length, back: !box.value.trim(), clear: !box.value.trim(), all: !off.size };
      // No se desactivan del todo: el foco se perdería al usarlos.
      for (const [name, yes] of Object.entries(useless)) block.querySelector(`[data-do=${name}]`).setAttribute("aria-disabled", yes);
      for (const toggle of toggles) toggle.setAttribute("aria-pressed", !off.has(toggle.dataset.head));
      block.querySelector("output").textContent = `paso ${step}`;
      slider.setAttribute("aria-valuetext", `paso ${step}`);
      exam.textContent = `Pérdida con 128 secuencias de examen: ${number(losses[steps.indexOf(step)])}`;
      all(".curve i").forEach((bar, k) => bar.classList.toggle("on", steps[k] === step));
      if (!n) {
        last = null;
        find("now").textContent = "";
        return "";
      }
      last = compute();
      const { weights, chances, loss, whole, copied, fresh, order, after } = last;
      const weight = (k, i, j) => weights[(k * n + i) * n + j], changed = off.size > 0, here = chances[query], before = whole.chances[query];

      // La secuencia, con la pérdida de cada palabra
      [...sentence.children].forEach((chip, i) => {
        chip.tabIndex = i === query ? 0 : -1;
        chip.setAttribute("aria-pressed", i === query);
        chip.lastChild.textContent = i ? number(loss[i]) : "—";
        chip.style.setProperty("--loss", Math.min((loss[i] ?? 0) / 6, 1));
      });

      // Lo que predice desde la palabra elegida
      find("after").querySelector(".part").textContent = `Después de ${word(query)}`;
      const listed = order.slice(0, 5);
      const next = ids[query + 1];
      for (const id of [...after, next]) if (id !== undefined && !listed.includes(id)) listed.push(id);
      const rows = listed.slice(0, 7).map((id) => {
        const marks = [after.has(id) && "ya la siguió", id === next && "la que viene"].filter(Boolean).join("; ");
        const row = make("li", { class: after.has(id) ? "copy" : "" },
          make("span", { class: "word" }, words[id], ...(marks ? [make("small", {}, ` ${marks}`)] : [])),
          make("span", { class: "bar", "aria-hidden": "true" }, make("i"), ...(changed ? [make("b")] : [])),
          make("span", { class: "value" }, percent(here[id]), ...(changed ? [make("small", {}, ` antes ${percent(before[id])}`)] : [])));
        row.style.setProperty("--p", here[id]);
        row.style.setProperty("--q", before[id]);
        return row;
      });
      find("candidates").replaceChildren(...rows);
      const rest = 1 - listed.slice(0, 7).reduce((sum, id) => sum + here[id], 0);
      find("rest").textContent = `Las otras ${vocabulary - rows.length}, juntas: ${percent(Math.max(rest, 0))}.${changed ? " La raya es lo que daba con todas encendidas." : ""}`;

      // Los ocho mapas
      units.forEach((unit, k) => {
        const canvas = unit.querySelector("canvas"), index = scores(weight, k), layer = Math.floor(k / HEADS);
        paint(canvas, n, range(n * n).map((p) => weights[k * n * n + p]), data.colors[k % HEADS]);
        unit.querySelector("p b").textContent = index === null ? "—" : number(index);
        unit.classList.toggle("dead", off.has(NAMES[k]));
        unit.style.setProperty("--row", query / n);
        unit.style.setProperty("--tall", 1 / n);
        canvas.setAttribute("aria-label", `Mapa de ${n} × ${n} pesos de la cabeza ${NAMES[k]}${off.has(NAMES[k]) ? ", apagada" : ""}. ${index === null ? "" : `Peso medio en ${layer ? "las palabras que siguieron a la actual" : "la palabra anterior"}: ${number(index)}.`}`);
      });

      // La fila de la palabra elegida, en grande, y la pérdida
      find("looks").querySelector(".part").textContent = `A quién mira ${word(query)}, cabeza a cabeza`;
      strips.forEach((strip, k) => {
        const row = range(n).map((j) => weight(k, query, j)), best = row.indexOf(Math.max(...row));
        paint(strip.querySelector("canvas"), n, row, data.colors[k % HEADS]);
        strip.classList.toggle("dead", off.has(NAMES[k]));
        strip.querySelector(".best").replaceChildren(make("span", {}, best === query ? "a sí misma" : word(best)), ` ${number(row[best])}`);
      });
      const [labels, bars] = columns;
      for (const column of columns) column.style.setProperty("--n", n);
      labels.replaceChildren(...ids.map((id, i) => make("span", { class: i === query ? "here" : "" }, words[id])));
      thin();
      bars.replaceChildren(...range(n).map((i) => {
        const bar = make("i", {}, ...(changed && i ? [make("b")] : []));
        bar.style.setProperty("--loss", Math.min((loss[i] ?? 0) / 8, 1));
        bar.style.setProperty("--was", Math.min((whole.loss[i] ?? 0) / 8, 1));
        if (copied.includes(i)) bar.classList.add("copied");
        return bar;
      }));
      const part = (list, text) => (list.length ? `${number(mean(list.map((i) => loss[i])))} en ${text(list.length)}${changed ? ` (antes ${number(mean(list.map((i) => whole.loss[i])))})` : ""}` : "");
      const means = [part(copied, (m) => `${m === 1 ? "la que" : `las ${m} que`} se ${m === 1 ? "podía" : "podían"} copiar`), part(fresh, (m) => (m === 1 ? "la nueva" : `las ${m} nuevas`))].filter(Boolean);
      find("mean").textContent = means.length ? `Pérdida media: ${means.join("; ")}. A ciegas serían ${number(Math.log(vocabulary))}.` : "Con una sola palabra no hay nada que predecir todavía: escribe otra.";
      const end = chances[n - 1], first = range(vocabulary).sort((a, b) => end[b] - end[a]).slice(0, 3);
      find("now").replaceChildren("Sigue: ", ...first.flatMap((id, k) => [k ? " · " : "", make(k ? "span" : "strong", {}, words[id]), ` ${percent(end[id])}`]));
      const copy = [...after].at(-1) ?? order[0];
      return `Después de ${word(query)}, «${words[order[0]]}», ${percent(here[order[0]])}${copy === order[0] ? "" : `; «${words[copy]}», que ya la siguió, ${percent(here[copy])}`}${changed ? ` (con todas encendidas, ${percent(before[copy])})` : ""}. ${means[0] ? `Pérdida: ${means[0]}.` : ""}`;
    };

    // Se anuncia cuando quien elige se queda quieto.
    const say = (text) => {
      clearTimeout(timer.say);
      timer.say = setTimeout(() => { find("mc-live").textContent = text; }, 700);
    };
    const show = (reason, fault = false) => {
      const text = render();
      find("trouble").textContent = fault ? reason : "";
      say(fault ? reason : `${reason} ${text}`.trim());
    };

    find("panel").hidden = false;
    find("mc-lab-still").hidden = true;
    example(0);
    clearTimeout(timer.say);
  };

  const startAll = () => document.querySelectorAll(".mc-lab:not([data-ready])").forEach((block) =>
    start(block).catch((error) => {
      const failure = block.querySelector(".failure");
      failure.textContent = `El laboratorio no se ha podido poner en marcha: ${error.message}.`;
    }));
  // En el libro, tensor.js llega después que este guion.
  if (window.mcTensor) startAll();
  else document.addEventListener("DOMContentLoaded", startAll);
})();
