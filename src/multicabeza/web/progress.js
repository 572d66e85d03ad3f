// «Mi progreso» (<mc-progress>): lo respondido en todos los capítulos, con lo que se guarda de cada pregunta en este
// dispositivo. Se exporta, se importa y se borra; nada se envía. Usa las piezas de `activity.js`, que va delante.
(() => {
  "use strict";
  if (customElements.get("mc-progress")) return;
  const { ACTIVITY, PREDICT, el, button, object, plural, store, validEntry, validPrediction, ready } = globalThis.mcActivity;

  const FORMAT = "multicabeza-progreso";

  // Lee lo exportado. Lanza un error con la explicación si algo no es lo que parece; entonces no se toca nada.
  const readFile = (text) => {
    let data;
    try { data = JSON.parse(text); } catch { throw new Error("El archivo no se puede leer: está dañado, cortado o no es el que exportó esta página."); }
    if (!object(data) || data.format !== FORMAT) throw new Error("Ese archivo no es un progreso de este libro.");
    if (data.version !== 1) throw new Error("Ese archivo lo exportó una versión del libro más nueva que esta.");
    if (!object(data.entries)) throw new Error("Al archivo le faltan las respuestas: está dañado.");
    for (const [key, entry] of Object.entries(data.entries)) {
      const [prefix, valid] = key.startsWith(ACTIVITY) ? [ACTIVITY, validEntry] : [PREDICT, validPrediction];
      if (!key.startsWith(prefix) || !/^[a-z0-9-]+$/.test(key.slice(prefix.length)) || !valid(entry)) {
        throw new Error("Una de las respuestas del archivo no se entiende: está dañado.");
      }
    }
    return data.entries;
  };

  customElements.define("mc-progress", class extends HTMLElement {
    connectedCallback() { ready(this, () => this.start()); }

    start() {
      if (this.dataset.ready) return;
      this.dataset.ready = "1";
      this.chapters = JSON.parse(this.querySelector("script").textContent);
      this.say = el("p", { className: "mc-feedback", role: "status" });
      this.rows = el("div", {});
      const file = el("input", { type: "file", accept: ".json,application/json", hidden: true });
      file.addEventListener("change", () => { if (file.files[0]) this.take(file.files[0]); file.value = ""; });
      const erase = button("Borrar todo", () => this.ask(erase));
      this.bar = el("div", { className: "mc-bar" }, button("Exportar", () => this.give()), button("Importar", () => file.click()), erase, file);
      this.question = el("div", { className: "mc-question", role: "group", hidden: true });
      const notice = el("p", { className: "mc-notice" }, store.works() ? "" : "Este navegador no deja guardar nada de este libro: no hay progreso que enseñar.");
      this.replaceChildren(notice, this.rows, this.bar, this.question, this.say);
      this.show();
      for (const name of ["pageshow", "storage"]) addEventListener(name, () => this.show());
    }

    entries() {
      const found = {};
      for (const key of store.keys()) {
        try {
          const entry = JSON.parse(store.read(key));
          if (key.startsWith(ACTIVITY) ? validEntry(entry) : validPrediction(entry)) found[key] = entry;
        } catch { /* no es nuestro */ }
      }
      return found;
    }

    show() {
      const entries = this.entries(), opened = new Set([...this.rows.querySelectorAll("details[open]")].map((one) => one.dataset.chapter));
      let solved = 0, all = 0;
      const blocks = this.chapters.map(({ chapter, title, href, predictions, items }) => {
        const rows = items.map(({ id, kind, title: name }) => {
          const entry = entries[ACTIVITY + id], seen = entry?.checked || entry?.solved;
          const state = entry?.solved ? (entry.kind === "open" ? `✓ respondida; te das ${entry.right} de ${entry.of}` : "✓ resuelta")
            : seen ? `empezada: ${entry.right} de ${entry.of}` : entry ? "empezada" : "sin empezar";
          const cell = el("td", {}, el("span", {}, `${kind}: ${name}`));
          if (entry?.kind === "open" && typeof entry.state.text === "string" && entry.state.text.trim()) {
            cell.append(el("details", {}, el("summary", {}, "Tu respuesta"), el("p", { className: "mc-own" }, entry.state.text)));
          }
          return el("tr", {}, cell, el("td", {}, state));
        });
        const done = items.filter(({ id }) => entries[ACTIVITY + id]?.solved).length;
        solved += done;
        all += items.length;
        const own = Object.entries(entries).filter(([key]) => key.startsWith(`${PREDICT}${chapter}-`)).map(([, entry]) => entry);
        const hits = own.filter((entry) => entry.right === true).length;
        const guess = own.length ? ` · Predicciones: ${own.length}${predictions ? ` de ${Math.max(predictions, own.length)}` : ""}, ${plural(hits, "cumplida", "cumplidas")}` : "";
        const block = el("details", { className: "mc-chapter" },
          el("summary", {}, el("strong", {}, title), el("span", {}, `${done} de ${items.length} resueltas${guess}`)),
          el("div", { className: "mc-meter", "aria-hidden": "true" }, el("span", {})),
          el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Pregunta"), el("th", { scope: "col" }, "Estado"))), el("tbody", {}, ...rows)),
          el("p", {}, el("a", { href }, "Ir al repaso")));
        block.querySelector(".mc-meter span").style.width = `${(100 * done) / Math.max(items.length, 1)}%`;
        block.dataset.chapter = chapter;
        block.open = opened.has(chapter);
        return block;
      });
      const held = this.rows.contains(document.activeElement); // no quitar el foco a quien está dentro
      if (!held) this.rows.replaceChildren(el("p", { className: "mc-total" }, `Llevas ${solved} de ${all} preguntas resueltas.`), ...blocks);
    }

    give() {
      const entries = this.entries(), day = new Date().toISOString().slice(0, 10);
      const text = JSON.stringify({ format: FORMAT, version: 1, saved: day, entries }, null, 1);
      const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: `${FORMAT}-${day}.json` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      this.say.textContent = `Exportado: ${plural(Object.keys(entries).length, "respuesta", "respuestas")}, en ${link.download}.`;
    }

    async take(file) {
      try {
        if (file.size > 10e6) throw new Error("Ese archivo es demasiado grande para ser un progreso de este libro.");
        const incoming = readFile(await file.text()), before = this.entries();
        // De dos respuestas a la misma pregunta se queda la más reciente; una predicción ya hecha no se cambia.
        const wanted = Object.entries(incoming).filter(([key, entry]) => !before[key] || entry.at > (before[key].at ?? Infinity));
        const undo = wanted.map(([key]) => [key, store.read(key)]);
        if (!wanted.every(([key, entry]) => store.write(key, JSON.stringify(entry)))) {
          for (const [key, text] of undo) if (text === null) store.erase(key); else store.write(key, text);
          throw new Error("Este navegador no deja guardarlo, o no le cabe.");
        }
        const kept = Object.keys(incoming).length - wanted.length;
        this.say.textContent = `Importado: ${plural(wanted.length, "respuesta", "respuestas")}.`
          + (kept ? ` ${kept === 1 ? "Otra se queda" : `Otras ${kept} se quedan`} como estaba${kept === 1 ? "" : "n"}: las de este dispositivo son iguales o más recientes.` : "");
      } catch (error) {
        this.say.textContent = `${error.message} No se ha cambiado nada.`;
      }
      this.show();
    }

    ask(erase) {
      const keys = Object.keys(this.entries());
      const close = () => { this.question.hidden = true; this.question.replaceChildren(); erase.focus(); };
      if (!keys.length) { this.say.textContent = "No hay nada que borrar."; return; }
      const no = button("No, dejarlo", () => { close(); this.say.textContent = "No se ha borrado nada."; });
      const yes = button("Sí, borrar", () => {
        for (const key of store.keys()) store.erase(key);
        close();
        this.say.textContent = `Borrado: ${plural(keys.length, "respuesta", "respuestas")}.`;
        this.show();
      });
      const text = el("p", { id: "mc-erase" }, `Se borrará${keys.length === 1 ? "" : "n"} ${plural(keys.length, "respuesta", "respuestas")} de este dispositivo. Si no las has exportado, no se pueden recuperar.`);
      this.question.setAttribute("aria-labelledby", "mc-erase");
      this.question.replaceChildren(text, el("div", { className: "mc-bar" }, no, yes));
      this.question.onkeydown = (event) => { if (event.key === "Escape") no.click(); };
      this.question.hidden = false;
      no.focus();
    }
  });
})();
