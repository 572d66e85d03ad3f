// «Antes de ejecutar, predice»: la explicación no aparece hasta que quien lee se compromete con una opción.
// La elección se guarda en el dispositivo (localStorage); nada se envía.
(() => {
  "use strict";
  const PREFIX = "multicabeza.predict.";

  const store = {
    read(key) { try { return localStorage.getItem(PREFIX + key); } catch { return null; } },
    // Devuelve si de verdad ha quedado guardado (modo privado, marcos sin almacenamiento, disco lleno…).
    write(key, value) {
      try { localStorage.setItem(PREFIX + key, value); } catch { return false; }
      return localStorage.getItem(PREFIX + key) === value && !localStorage.forgetful; // la de reserva del libro se olvida
    },
    erase(key) { try { localStorage.removeItem(PREFIX + key); } catch { /* no hay nada que borrar */ } },
  };

  const element = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text) node.textContent = text;
    return node;
  };

  const start = (block, serial) => {
    block.dataset.ready = "1";
    const { id, version, answer } = block.dataset;
    const list = block.querySelector(".mc-predict-options");
    const details = block.querySelector(".mc-predict-answer");
    const options = [...list.children];
    const name = `mc-predict-${id}-${serial}`;

    const form = element("form");
    const fieldset = element("fieldset");
    const legend = element("legend");
    legend.append(block.querySelector(".mc-predict-question"));
    fieldset.append(legend);
    const rows = options.map((option, i) => {
      const row = element("label", "mc-choice");
      const input = element("input");
      Object.assign(input, { type: "radio", name, value: String(i), required: true });
      const text = element("span");
      text.append(...option.childNodes);
      row.append(input, text);
      fieldset.append(row);
      return { row, input, text };
    });
    const commit = element("button", "", "Esta es mi predicción");
    commit.type = "submit";
    const change = element("button", "", "Cambiar mi respuesta");
    change.type = "button";
    change.hidden = true;
    const advice = element("p", "mc-note-small");
    const feedback = element("div", "mc-feedback");
    feedback.setAttribute("aria-live", "polite");
    form.append(fieldset, commit, change, advice, feedback);
    list.replaceWith(form);
    // La respuesta sale del documento hasta que haga falta: ni plegada se puede leer antes.
    details.remove();
    const explanation = [...details.children].filter((node) => node.tagName === "P").slice(1);

    const reveal = (choice, remembered) => {
      rows.forEach(({ input, text }, i) => {
        input.disabled = true;
        input.checked = i === choice;
        const mark = i === Number(answer) ? " ✓ (lo que ocurre)" : i === choice ? " ← tu predicción" : "";
        if (mark) text.append(element("span", "mc-mark", mark));
      });
      const right = choice === Number(answer);
      const verdict = element("p");
      verdict.append(element("strong", "", right ? "Tu predicción se cumple." : "No es lo que ocurre."));
      feedback.replaceChildren(verdict, ...explanation.map((node) => node.cloneNode(true)));
      commit.hidden = true;
      change.hidden = false;
      advice.textContent = remembered ? "" : "Este navegador no deja guardar tu respuesta: se olvidará al cerrar la página.";
    };

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const chosen = rows.findIndex(({ input }) => input.checked);
      if (chosen < 0) { advice.textContent = "Elige antes una opción."; return; }
      const remembered = store.write(id, JSON.stringify({ version, choice: chosen, right: chosen === Number(answer) }));
      reveal(chosen, remembered);
      change.focus();
    });

    const blank = () => {
      for (const { input, text } of rows) {
        input.disabled = false;
        text.querySelector(".mc-mark")?.remove();
      }
      feedback.replaceChildren();
      advice.textContent = "";
      commit.hidden = false;
      change.hidden = true;
    };
    change.addEventListener("click", () => {
      store.erase(id);
      blank();
      (rows.find(({ input }) => input.checked) ?? rows[0]).input.focus();
    });

    // Lo guardado solo vale para esta misma pregunta con estas mismas opciones.
    const restore = () => {
      try {
        const saved = JSON.parse(store.read(id));
        if (saved && saved.version === version && rows[saved.choice]) reveal(saved.choice, true);
      } catch { store.erase(id); }
    };
    restore();
    // Otra pestaña ha predicho, ha cambiado de idea o ha borrado el progreso.
    addEventListener("storage", ({ key }) => { if (key === null || key === PREFIX + id) { blank(); restore(); } });
  };

  let serial = 0;
  const startAll = () => document.querySelectorAll(".mc-predict:not([data-ready])").forEach((block) => start(block, serial++));
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
  startAll();
})();
