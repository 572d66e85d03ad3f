// Actividades de repaso (<mc-activity>). Las piezas de cada pregunta (opciones, pasos, tarjetas, explicaciones) se toman
// del HTML que ya está en la página; lo que escribe quien lee solo se trata como texto. Las respuestas se guardan en el
// dispositivo (localStorage); nada se envía.
(() => {
  "use strict";
  if (customElements.get("mc-activity")) return;

  const ACTIVITY = "multicabeza.activity.", PREDICT = "multicabeza.predict.";

  // --- Piezas comunes

  const el = (tag, given = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (name in node && name !== "role") node[name] = value;
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };
  const button = (label, onclick, given = {}) => {
    const node = el("button", { type: "button", ...given }, label);
    node.addEventListener("click", onclick);
    return node;
  };
  const textOf = (node) => node.textContent.trim().replace(/\s+/g, " ");
  const quoted = (node) => `«${textOf(node)}»`;
  const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;

  const store = {
    read(key) { try { return localStorage.getItem(key); } catch { return null; } },
    // Devuelve si de verdad ha quedado guardado (modo privado, marcos sin almacenamiento, disco lleno…).
    write(key, value) {
      try { localStorage.setItem(key, value); } catch { return false; }
      return localStorage.getItem(key) === value && !localStorage.forgetful; // la de reserva del libro se olvida
    },
    erase(key) { try { localStorage.removeItem(key); } catch { /* no hay nada que borrar */ } },
    keys() {
      try { return Object.keys(localStorage).filter((key) => key.startsWith(ACTIVITY) || key.startsWith(PREDICT)); } catch { return []; }
    },
    works() {
      const key = "multicabeza.prueba", ok = store.write(key, "1");
      store.erase(key);
      return ok;
    },
  };
  const object = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  // Lo que se guarda de cada pregunta, o null si no es nuestro.
  const readEntry = (text) => {
    try {
      const entry = JSON.parse(text);
      return validEntry(entry) ? entry : null;
    } catch { return null; }
  };
  const validEntry = (entry) => object(entry) && entry.v === 1 && typeof entry.version === "string" && object(entry.state)
    && ["right", "of", "tries", "at"].every((name) => Number.isFinite(entry[name]) && entry[name] >= 0) && entry.right <= entry.of;
  const validPrediction = (entry) => object(entry) && typeof entry.version === "string" && Number.isInteger(entry.choice);

  // Arrastrar con ratón desde cualquier parte de `node`; con el dedo, desde su asa, y así la página se desplaza igual.
  const draggable = (node, { over, drop }) => {
    node.addEventListener("pointerdown", (down) => {
      if (down.button || !down.isPrimary || (down.pointerType !== "mouse" && !down.target.closest(".mc-grip"))) return;
      if (down.target.closest(".mc-arrow")) return;
      const pane = node.closest(".jp-WindowedPanel-outer") ?? document.scrollingElement; // lo que se desplaza: en JupyterLab, el cuaderno
      let moving = false, scrolled = pane.scrollTop;
      const move = (event) => {
        if (event.pointerId !== down.pointerId) return;
        const x = event.clientX - down.clientX, y = event.clientY - down.clientY;
        if (!moving && Math.hypot(x, y) < 6) return;
        moving = true;
        node.classList.add("mc-dragged");
        if (event.clientY < 50) pane.scrollBy(0, -14);
        else if (event.clientY > innerHeight - 50) pane.scrollBy(0, 14);
        node.style.transform = `translate(${x}px, ${y + pane.scrollTop - scrolled}px)`;
        over(event.clientX, event.clientY);
      };
      const end = (event) => {
        if (event.pointerId !== down.pointerId) return;
        removeEventListener("pointermove", move);
        for (const name of ["pointerup", "pointercancel"]) removeEventListener(name, end);
        if (!moving) return;
        const block = (click) => { click.stopPropagation(); click.preventDefault(); };
        addEventListener("click", block, { capture: true, once: true });
        setTimeout(() => removeEventListener("click", block, { capture: true }));
        drop(event.clientX, event.clientY, event.type === "pointerup");
        node.classList.remove("mc-dragged");
        node.style.transform = "";
      };
      addEventListener("pointermove", move);
      for (const name of ["pointerup", "pointercancel"]) addEventListener(name, end);
    });
  };
  const grip = () => el("span", { className: "mc-grip", "aria-hidden": "true" }, "⠿");

  // «1.024», «1 024», «0,25», «.25», «1/4»: todo lo que puede querer decir un número escrito a mano.
  const readings = (written, unit) => {
    let text = written.replace(/[−–]/g, "-").replace(/[\s\u00a0\u202f]/g, "");
    const tail = unit.replace(/\s/g, "");
    if (tail && text.toLowerCase().endsWith(tail.toLowerCase())) text = text.slice(0, -tail.length);
    const fraction = /^([+-]?\d+)\/(\d+)$/.exec(text);
    if (fraction) return [fraction[1] / fraction[2]].filter(Number.isFinite);
    if (!/^[+-]?[\d.,]*\d[\d.,]*(e[+-]?\d+)?$/i.test(text)) return [];
    const found = new Set();
    for (const [group, decimal] of [[".", ","], [",", "."]]) {
      const [whole, ...rest] = text.split(decimal), groups = whole.split(group);
      if (rest.length > 1 || (groups.length > 1 && (!/^[+-]?[1-9]\d{0,2}$/.test(groups[0]) || !groups.slice(1).every((g) => /^\d{3}$/.test(g))))) continue;
      const value = Number([groups.join(""), ...rest].join("."));
      if (Number.isFinite(value)) found.add(value);
    }
    return [...found];
  };

  // Los que hay que mover: todos menos la sucesión más larga que ya va en orden.
  const misplaced = (ranks) => {
    const length = [], before = [];
    ranks.forEach((rank, i) => {
      length[i] = 1;
      before[i] = -1;
      for (let j = 0; j < i; j++) if (ranks[j] <= rank && length[j] >= length[i]) [length[i], before[i]] = [length[j] + 1, j];
    });
    const kept = new Set();
    for (let i = length.indexOf(Math.max(...length)); i >= 0; i = before[i]) kept.add(i);
    return ranks.map((_, i) => !kept.has(i));
  };

  const marker = () => el("span", { className: "mc-mark" });
  const mark = (node, ok, no = "✗ aquí no") => {
    node.textContent = ok === null ? "" : ok ? "✓ bien" : no;
    node.dataset.ok = ok === null ? "" : String(ok);
  };

  // --- Clases de preguntas. Cada una recibe `item` y devuelve: nodo, leer y poner su estado, qué falta, corregir,
  // quitar las marcas y a quién dar el foco al empezar de nuevo.

  const choice = (item) => {
    const whys = [...item.answer.querySelectorAll("ol > li")]; // verdadero o falso tiene una sola explicación
    const fieldset = el("fieldset", {}, el("legend", {}, item.prompt));
    const rows = [...item.take(".mc-options").children].map((option, i) => {
      const input = el("input", { type: "radio", name: item.name, value: String(i), autocomplete: "off" });
      input.addEventListener("change", item.changed);
      const text = el("span", {}, ...option.childNodes), tag = marker(), note = el("div", { className: "mc-why", hidden: true });
      if (whys[i]) note.append(...whys[i].cloneNode(true).childNodes);
      fieldset.append(el("label", { className: "mc-choice" }, input, text, tag), note);
      return { input, text, tag, note };
    });
    const chosen = () => rows.findIndex(({ input }) => input.checked);
    const clear = () => rows.forEach(({ tag, note }) => { mark(tag, null); note.hidden = true; });
    return {
      body: fieldset,
      read: () => ({ choice: chosen() }),
      write(state) {
        if (state && !rows[state.choice] && state.choice !== -1) return false;
        rows.forEach(({ input }, i) => { input.checked = i === state?.choice; });
        return true;
      },
      blank: () => chosen() < 0,
      missing: () => (chosen() < 0 ? "Elige antes una opción." : ""),
      check() {
        const i = chosen(), right = i === item.key.answer;
        mark(rows[i].tag, right, "✗ no");
        const words = whys[i] ? [...whys[i].cloneNode(true).childNodes].slice(1) : item.because();
        // Acertada, se explican también las demás.
        if (right) rows.forEach(({ note }, j) => { note.hidden = j === i || !whys[j]; });
        return { right: Number(right), of: 1, words };
      },
      clear,
      focus: () => rows[0].input.focus(),
    };
  };

  const numeric = (item) => {
    const input = el("input", { type: "text", inputMode: "decimal", autocomplete: "off", id: `${item.name}-n`, maxLength: 40 });
    const unit = el("span", { id: `${item.name}-u` }, item.key.unit);
    if (item.key.unit) input.setAttribute("aria-describedby", unit.id);
    input.addEventListener("input", item.changed);
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") item.press(); });
    const tag = marker();
    const row = el("p", { className: "mc-numeric" }, el("label", { htmlFor: input.id }, "Tu número "), input, unit, tag);
    const slips = [...item.answer.querySelectorAll(".mc-slips li")];
    const near = (value, target) => Math.abs(value - target) <= item.key.tolerance + 1e-9 * Math.abs(target);
    return {
      body: row,
      read: () => ({ text: input.value }),
      write(state) {
        if (state && typeof state.text !== "string") return false;
        input.value = state?.text ?? "";
        return true;
      },
      blank: () => !input.value.trim(),
      missing() {
        if (readings(input.value, item.key.unit).length) return "";
        input.setAttribute("aria-invalid", "true");
        return "Escribe un número: por ejemplo, 12, 0,25, 1/4 o 1 024.";
      },
      check() {
        const values = readings(input.value, item.key.unit), right = values.some((value) => near(value, item.key.answer));
        mark(tag, right, "✗ no");
        const slip = slips.find((li) => values.some((value) => near(value, Number(li.dataset.value))));
        const words = right ? item.because()
          : slip ? [...slip.querySelector("span").cloneNode(true).childNodes] : ["Repasa la cuenta o abre la respuesta."];
        return { right: Number(right), of: 1, words };
      },
      clear() { mark(tag, null); input.removeAttribute("aria-invalid"); },
      focus: () => input.focus(),
    };
  };

  const ordering = (item) => {
    const list = el("ol", { className: "mc-order" });
    const rows = [...item.take(".mc-parts").children].map((part) => {
      const text = el("span", { className: "mc-text" }, ...part.childNodes), tag = marker();
      const row = el("li", { className: "mc-card" }), name = quoted(text);
      const arrow = (sign, label, by) => button(sign, ({ currentTarget }) => {
        const from = [...list.children].indexOf(row);
        move(row, from + by);
        currentTarget.focus(); // mover un nodo le quita el foco
      }, { className: "mc-arrow", "aria-label": `${label} ${name}` });
      const up = arrow("↑", "Subir", -1), down = arrow("↓", "Bajar", 1);
      row.append(grip(), el("span", { className: "mc-step" }, text, tag), el("span", { className: "mc-arrows" }, up, down));
      const target = (y) => [...list.children].filter((other) => other !== row)
        .findIndex((other) => { const box = other.getBoundingClientRect(); return y < box.top + box.height / 2; });
      const shade = (place) => {
        const others = [...list.children].filter((other) => other !== row);
        others.forEach((other, i) => {
          other.classList.toggle("mc-before", i === place);
          other.classList.toggle("mc-after", place < 0 && i === others.length - 1);
        });
      };
      draggable(row, {
        over: (x, y) => shade(target(y)),
        drop(x, y, done) {
          const place = target(y);
          shade(NaN);
          if (done) move(row, place < 0 ? rows.length - 1 : place);
        },
      });
      return { row, k: Number(part.dataset.k), text, tag, up, down };
    });
    const first = rows.map(({ k }) => k);
    const order = () => [...list.children].map((row) => rows.find((one) => one.row === row).k);
    const place = (ks) => {
      list.replaceChildren(...ks.map((k) => rows.find((one) => one.k === k).row));
      ends();
    };
    const ends = () => rows.forEach(({ row, up, down }) => {
      up.setAttribute("aria-disabled", String(row === list.firstChild));
      down.setAttribute("aria-disabled", String(row === list.lastChild));
    });
    const move = (row, to) => {
      const ks = order(), from = [...list.children].indexOf(row);
      if (to < 0 || to >= ks.length || to === from) return;
      const others = [...list.children].filter((other) => other !== row);
      list.insertBefore(row, others[to] ?? null);
      ends();
      item.changed();
      item.say(`${quoted(row.querySelector(".mc-text"))}, en el lugar ${to + 1} de ${ks.length}.`);
    };
    place(first);
    return {
      body: list,
      read: () => ({ order: order() }),
      write(state) {
        const ks = state ? state.order : first;
        if (!Array.isArray(ks) || [...ks].sort((a, b) => a - b).some((k, i) => k !== i) || ks.length !== rows.length) return false;
        place(ks);
        return true;
      },
      blank: () => order().every((k, i) => k === first[i]),
      missing: () => "",
      check() {
        const ks = order(), wrong = misplaced(ks.map((k) => item.key.rank[k]));
        ks.forEach((k, i) => mark(rows.find((one) => one.k === k).tag, !wrong[i]));
        const faults = wrong.filter(Boolean).length;
        const words = faults ? [`${faults === 1 ? "Hay un paso" : `Hay ${faults} pasos`} fuera de su sitio; lo${faults === 1 ? "" : "s"} tienes marcado${faults === 1 ? "" : "s"}.`]
          : item.because();
        return { right: ks.length - faults, of: ks.length, words };
      },
      clear: () => rows.forEach(({ tag }) => mark(tag, null)),
      focus: () => list.querySelector(".mc-arrow[aria-disabled=false]").focus(),
    };
  };

  // Poner cada tarjeta en su sitio: clasificar (caben todas) y emparejar (cabe una).
  const placing = (item) => {
    const single = item.kind === "matching";
    let held = null;
    const site = (label, parts) => {
      const title = el("p", { className: "mc-place-name" }, ...parts), list = el("ul", { className: "mc-here" });
      const put = button("", (event) => drop(held, self, event.detail === 0), { className: "mc-put", hidden: true });
      const node = el("div", { role: "group", className: "mc-place", "aria-label": label }, title, list, put);
      const self = { node, list, put, label };
      node.addEventListener("click", (event) => { if (held && !event.target.closest("button")) drop(held, self, false); });
      return self;
    };
    const places = [...item.take(".mc-names").children].map((name) => site(textOf(name), name.childNodes));
    const bank = site("Por colocar", ["Por colocar"]);
    bank.node.classList.add("mc-bank");
    const cards = [...item.take(".mc-parts").children].map((part) => {
      const face = button("", (event) => (held === card ? release(true) : pick(card, event.detail === 0)), { className: "mc-face", "aria-pressed": "false" });
      face.append(...part.childNodes);
      const tag = marker(), node = el("li", { className: "mc-card" }, grip(), face, tag);
      const card = { node, face, tag, k: Number(part.dataset.k), at: -1 };
      const under = (x, y) => {
        const found = document.elementFromPoint(x, y)?.closest(".mc-place");
        return [...places, bank].find((one) => one.node === found);
      };
      draggable(node, {
        over(x, y) { const now = under(x, y); [...places, bank].forEach((one) => one.node.classList.toggle("mc-over", one === now)); },
        drop(x, y, done) {
          const now = under(x, y);
          [...places, bank].forEach((one) => one.node.classList.remove("mc-over"));
          if (held) release(false);
          if (done && now) drop(card, now, false);
        },
      });
      return card;
    });
    const order = cards.slice();
    const lay = () => {
      for (const card of order) (places[card.at] ?? bank).list.append(card.node);
      bank.node.classList.toggle("mc-empty", order.every((card) => card.at >= 0));
      for (const one of [...places, bank]) one.node.classList.toggle("mc-open", Boolean(held));
    };
    const pick = (card, byKeys) => {
      if (held) release(false);
      held = card;
      card.face.setAttribute("aria-pressed", "true");
      for (const one of [...places, bank]) {
        const own = one === (places[card.at] ?? bank);
        one.put.hidden = own;
        one.put.textContent = one === bank ? "Dejarla sin colocar" : "Poner aquí";
        one.put.setAttribute("aria-label", one === bank ? `Dejar sin colocar ${quoted(card.face)}` : `Poner aquí, en «${one.label}»: ${quoted(card.face)}`);
      }
      lay();
      const free = places.find((one) => !one.put.hidden && (!single || !one.list.children.length)) ?? places.find((one) => !one.put.hidden);
      if (byKeys) free.put.focus(); else card.face.focus({ preventScroll: true });
      item.say(`Tienes ${quoted(card.face)}. Elige dónde ponerla; con Escape la sueltas.`);
    };
    const release = (focus) => {
      const card = held;
      held = null;
      card.face.setAttribute("aria-pressed", "false");
      for (const one of [...places, bank]) one.put.hidden = true;
      lay();
      if (focus) card.face.focus({ preventScroll: true });
    };
    const drop = (card, where, byKeys) => {
      const to = places.indexOf(where), out = single && to >= 0 ? order.find((one) => one.at === to && one !== card) : null;
      if (out) out.at = -1;
      card.at = to;
      if (held) release(false); else lay();
      const next = order.find((one) => one.at < 0);
      (next ? next.face : item.button).focus({ preventScroll: !byKeys });
      item.changed();
      item.say(`${quoted(card.face)}, ${to < 0 ? "sin colocar" : `en «${where.label}»`}.${out ? ` ${quoted(out.face)} vuelve a estar sin colocar.` : ""}`);
    };
    const body = el("div", { className: single ? "mc-sites mc-single" : "mc-sites" }, bank.node, ...places.map(({ node }) => node));
    body.addEventListener("keydown", (event) => { if (event.key === "Escape" && held) { event.preventDefault(); release(true); item.say("Suelta."); } });
    lay();
    const wanted = (card) => item.key.places[card.k];
    return {
      body,
      read: () => { const at = []; for (const card of cards) at[card.k] = card.at; return { places: at }; },
      write(state) {
        const at = state ? state.places : cards.map(() => -1);
        if (!Array.isArray(at) || at.length !== cards.length || !at.every((p) => Number.isInteger(p) && p >= -1 && p < places.length)) return false;
        if (single && at.some((p, i) => p >= 0 && at.indexOf(p) !== i)) return false;
        if (held) release(false);
        for (const card of cards) card.at = at[card.k];
        lay();
        return true;
      },
      blank: () => cards.every((card) => card.at < 0),
      missing() {
        const left = single ? places.filter(({ list }) => !list.children.length).length : cards.filter((card) => card.at < 0).length;
        return left ? `Te ${left === 1 ? "falta" : "faltan"} ${single ? plural(left, "pareja", "parejas") : plural(left, "tarjeta", "tarjetas")} por colocar.` : "";
      },
      check() {
        const judged = cards.filter((card) => card.at >= 0);
        for (const card of judged) mark(card.tag, card.at === wanted(card));
        const of = single ? places.length : cards.length, right = judged.filter((card) => card.at === wanted(card)).length;
        const words = right === of ? item.because()
          : [`${right} de ${of} en su sitio; lo demás lo tienes marcado.`];
        return { right, of, words };
      },
      clear: () => cards.forEach(({ tag }) => mark(tag, null)),
      focus: () => (bank.list.querySelector("button") ?? cards[0].face).focus(),
    };
  };

  const open = (item) => {
    const area = el("textarea", { rows: 5, autocomplete: "off", spellcheck: true, "aria-label": "Tu respuesta", maxLength: 20000 });
    area.setAttribute("aria-describedby", item.prompt.id = `${item.name}-p`);
    area.addEventListener("input", () => item.typed());
    const rubric = item.answer.querySelector(".mc-rubric");
    const ticks = [...rubric.children].map((point) => {
      const input = el("input", { type: "checkbox", autocomplete: "off" });
      input.addEventListener("change", () => { if (made.missing()) input.checked = false; item.press(); });
      point.append(el("label", { className: "mc-choice" }, input, el("span", {}, ...point.childNodes)));
      return input;
    });
    item.answer.querySelector("summary").textContent = "Respuesta modelo y rúbrica";
    const score = () => ticks.filter(({ checked }) => checked).length;
    const made = {
      body: area,
      label: "Comparar con el modelo",
      read: () => ({ text: area.value, ticks: ticks.map(({ checked }) => checked) }),
      write(state) {
        if (state && (typeof state.text !== "string" || !Array.isArray(state.ticks))) return false;
        area.value = state?.text ?? "";
        ticks.forEach((input, i) => { input.checked = state?.ticks[i] === true; });
        if (!state) item.answer.open = false;
        return true;
      },
      blank: () => !area.value && !score(),
      missing: () => (area.value.trim() ? "" : "Escribe antes tu respuesta, aunque sean dos líneas: comparar sin haber escrito enseña poco."),
      check() {
        item.answer.open = true;
        return { right: score(), of: ticks.length, done: true, words: [] };
      },
      verdict: ({ right, of }) => (right ? `Te das ${right} de ${of}.` : "Debajo tienes la respuesta modelo. Marca en la rúbrica lo que la tuya dice."),
      clear() {},
      focus: () => area.focus(),
    };
    return made;
  };

  const flashcards = (item) => {
    const cards = [...item.node.querySelectorAll(".mc-cards > details")];
    let known = cards.map(() => null), turned = false;
    const count = el("p", { className: "mc-soft" }), face = el("div", { className: "mc-side", "aria-live": "polite" });
    const turn = button("Dar la vuelta", () => { turned = true; show(); yes.focus(); });
    const answer = (value) => () => {
      known[known.indexOf(null)] = value;
      turned = false;
      show();
      (turn.hidden ? (repeat.hidden ? restart : repeat) : turn).focus();
      item.record({ checked: !known.includes(null), right: known.filter(Boolean).length, of: cards.length, solved: known.every(Boolean) });
    };
    const yes = button("La sabía", answer(true)), no = button("No la sabía", answer(false));
    const again = (next) => () => { known = next(); turned = false; show(); turn.focus(); item.record({ checked: false }); };
    const repeat = button("Repasar las que no", again(() => known.map((one) => one || null)));
    const restart = button("Todas otra vez", again(() => cards.map(() => null)));
    const show = () => {
      const i = known.indexOf(null), done = i < 0, sure = known.filter(Boolean).length;
      count.textContent = done ? "Fin" : `Tarjeta ${i + 1} de ${cards.length}`;
      const copy = (node) => [...node.cloneNode(true).childNodes];
      face.replaceChildren(...(done ? [el("p", {}, `Sabías ${sure} de ${cards.length}.`)]
        : [el("p", { className: "mc-front" }, ...copy(cards[i].querySelector("summary"))), ...(turned ? copy(cards[i].querySelector("div")) : [])]));
      turn.hidden = done || turned;
      yes.hidden = no.hidden = done || !turned;
      repeat.hidden = !done || sure === cards.length;
      restart.hidden = !done;
    };
    show();
    return {
      body: el("div", { className: "mc-deck" }, count, face, el("div", { className: "mc-bar" }, turn, yes, no, repeat, restart)),
      own: true,
      read: () => ({ known }),
      write(state) {
        const next = state ? state.known : cards.map(() => null);
        if (!Array.isArray(next) || next.length !== cards.length || !next.every((one) => [true, false, null].includes(one))) return false;
        known = [...next];
        turned = false;
        show();
        return true;
      },
      blank: () => known.every((one) => one === null),
    };
  };

  const KINDS = { choice, truefalse: choice, numeric, ordering, sorting: placing, matching: placing, open, flashcards };

  // --- Una pregunta: el marco común

  let serial = 0;

  const startItem = (node, activity) => {
    const { id, kind, version } = node.dataset, key = ACTIVITY + id;
    const feedback = el("div", { className: "mc-feedback" }), spoken = el("p", { className: "mc-hidden", role: "status" });
    let entry = null, waiting;
    const item = {
      node, kind,
      name: `mc-item-${++serial}`,
      key: JSON.parse(node.dataset.key),
      prompt: node.querySelector(".mc-prompt"),
      answer: node.querySelector(".mc-answer"),
      take(selector) { const found = node.querySelector(selector); found.remove(); return found; },
      because: () => [...(item.answer.querySelector(".mc-because")?.cloneNode(true).childNodes ?? [])],
      say(text) { spoken.textContent = text; },
      // Ha cambiado lo respondido: lo dicho sobre lo de antes ya no vale.
      changed() {
        made.clear();
        feedback.replaceChildren();
        item.record({ checked: false });
      },
      typed() { clearTimeout(waiting); waiting = setTimeout(() => item.record({}), 300); },
      press: () => check(),
      record(change) {
        clearTimeout(waiting);
        waiting = 0;
        if (made.blank() && !change.checked) { // nada respondido: no se guarda nada
          entry = null;
          store.erase(key);
        } else {
          const before = entry ?? { v: 1, version, kind, checked: false, solved: false, right: 0, of: 0, tries: 0 };
          entry = { ...before, ...change, solved: before.solved || Boolean(change.solved), state: made.read(), at: Date.now() };
          activity.kept(store.write(key, JSON.stringify(entry)));
        }
        reset.hidden = made.own || !entry;
        activity.count();
      },
      get solved() { return Boolean(entry?.solved); },
      flush: () => { if (waiting) item.record({}); },
      load,
      // Otra pestaña ha cambiado lo guardado: seguir con lo de antes lo borraría al responder aquí.
      changedElsewhere(which) {
        if (waiting || (which !== null && which !== key)) return;
        load();
        activity.count();
      },
    };
    const made = KINDS[kind](item);
    const press = button(made.label ?? "Comprobar", () => check(), { className: "mc-main" });
    const reset = button("Empezar de nuevo", () => {
      made.write(null);
      made.clear();
      feedback.replaceChildren();
      spoken.textContent = "Pregunta en blanco.";
      made.focus();
      item.record({});
    }, { hidden: true });
    item.button = press;

    function verdict(result) {
      const right = result.right === result.of;
      const text = made.verdict?.(result) ?? (right ? "Correcto." : "Todavía no.");
      const words = el("div", {}, el("strong", {}, text), " ");
      // Párrafos enteros, detrás; un texto suelto, en la misma línea.
      words.append(...result.words);
      words.dataset.ok = made.verdict ? "" : String(right);
      feedback.replaceChildren(words);
    }
    function check() {
      made.clear();
      const missing = made.missing();
      if (missing) { feedback.replaceChildren(el("div", {}, missing)); return; }
      spoken.textContent = "";
      const result = made.check();
      verdict(result);
      item.record({ checked: true, right: result.right, of: result.of, solved: result.done || result.right === result.of, tries: (entry?.tries ?? 0) + 1 });
    }
    function load() {
      entry = null;
      made.write(null);
      made.clear?.();
      feedback.replaceChildren();
      const saved = readEntry(store.read(key));
      // Lo guardado solo vale para esta misma pregunta con estas mismas piezas.
      if (saved && saved.version === version && made.write(saved.state)) {
        entry = saved;
        if (saved.checked && !made.own && !made.missing()) verdict(made.check());
      }
      reset.hidden = made.own || !entry;
    }

    item.answer?.before(made.body);
    if (!made.own) {
      const bar = el("div", { className: "mc-bar" }, press, reset);
      if (item.answer) item.answer.before(bar, feedback, spoken); else node.append(bar, feedback, spoken);
    } else node.append(made.body);
    load();
    feedback.setAttribute("role", "status"); // lo recordado al abrir la página no se anuncia
    return item;
  };

  // --- <mc-activity>

  const ready = (node, start) => {
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start, { once: true });
    else start();
  };
  // Colab enseña cada salida en un marco suyo, con otra dirección cada vez.
  const colab = () => Boolean(globalThis.google?.colab) || /\.googleusercontent\.com$/.test(location.hostname);

  customElements.define("mc-activity", class extends HTMLElement {
    connectedCallback() { ready(this, () => this.start()); }

    start() {
      if (this.dataset.ready || !this.querySelector(".mc-item")) return;
      this.dataset.ready = "1";
      const head = el("p", { className: "mc-head" }), total = el("span", {}), notice = el("p", { className: "mc-notice", role: "status" });
      let items = [];
      const activity = {
        kept(ok) {
          notice.textContent = !ok ? "Este navegador no deja guardar tus respuestas, o ya no le cabe nada más: puedes responder, y se olvidarán al cerrar la página."
            : colab() ? "En Colab tus respuestas pueden perderse al cerrar el cuaderno; en el libro se guardan en tu dispositivo." : "";
        },
        count() { total.textContent = `Resueltas: ${items.filter(({ solved }) => solved).length} de ${items.length}. `; },
      };
      this.querySelector(".mc-noscript").replaceWith(head, notice);
      items = [...this.querySelectorAll(".mc-item")].map((node) => startItem(node, activity));
      activity.kept(store.works());
      activity.count();
      head.append(total);
      const root = document.documentElement.dataset.content_root;
      if (root !== undefined) head.append(el("a", { href: `${root}book/progreso.html` }, "Mi progreso"));
      addEventListener("storage", (event) => items.forEach((one) => one.changedElsewhere(event.key)));
      addEventListener("pagehide", () => items.forEach(({ flush }) => flush()));
      // Al volver atrás, lo guardado puede haber cambiado en otra página.
      addEventListener("pageshow", (event) => { if (event.persisted) { items.forEach(({ load }) => load()); activity.count(); } });
    }
  });

  // Lo que «Mi progreso» (progress.js) también usa, y lo que se prueba por su cuenta.
  globalThis.mcActivity = {
    ACTIVITY, PREDICT, el, button, object, plural, store, validEntry, validPrediction, ready, readings, misplaced,
  };
})();
