// Fuera del libro. En JupyterLab y Notebook, con el foco en una salida, las teclas son órdenes del cuaderno: «x» corta la
// celda, «d d» la borra, las flechas van a otra. Aquí son de lo que hay en la salida, menos las combinaciones (Ctrl+S…) y,
// fuera de un texto, Mayús+Intro, que ejecuta la celda y pasa a la siguiente.
(() => {
  "use strict";
  const script = document.currentScript;
  (script?.closest(".jp-OutputArea") ?? script?.parentElement)?.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && event.shiftKey && !event.target.matches(":read-write")) return;
    event.stopPropagation();
  });
})();
