// Fuera del libro. En JupyterLab y Notebook, con el foco en una salida, las teclas son órdenes del cuaderno: «x» corta la
// celda, «d d» la borra, las flechas van a otra. Aquí son de lo que hay en la salida, menos las combinaciones (Ctrl+S…) y,
// fuera de un texto, Mayús+Intro, que ejecuta la celda y pasa a la siguiente. El atributo es el que Jupyter mira en el
// elemento que tiene el foco; Notebook lo hace en `document` antes de que la tecla llegue a él: por eso aquí, en `window`.
(() => {
  "use strict";
  const script = document.currentScript;
  (script?.closest(".jp-OutputArea") ?? script?.parentElement)?.setAttribute("data-mc-keys", "");
  if (globalThis.mcKeys) return;
  globalThis.mcKeys = true;
  addEventListener("keydown", ({ target, key, ctrlKey, metaKey, altKey, shiftKey }) => {
    if (!target.closest?.("[data-mc-keys]")) return;
    const run = key === "Enter" && shiftKey && !target.matches(":read-write");
    target.toggleAttribute("data-lm-suppress-shortcuts", !(ctrlKey || metaKey || altKey || run));
  }, { capture: true });
})();
