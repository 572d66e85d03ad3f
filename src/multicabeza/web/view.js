// Vistas de BertViz: el marco se crea cuando se acerca a la pantalla o cuando alguien lo pide. Su documento viaja en
// la página como texto y se escribe en `srcdoc`, sin acceso a la página (sandbox): los tokens pueden venir de quien lee.
(() => {
  "use strict";

  // Carpeta `_static` del libro, como dirección completa (en un `srcdoc` las relativas parten de la página).
  const staticRoot = () => new URL(`${document.documentElement.dataset.content_root ?? "./"}_static/`, document.baseURI).href;

  const open = (block) => {
    if (block.querySelector("iframe")) return block.querySelector("iframe");
    const source = JSON.parse(block.querySelector('script[type="application/json"]').textContent);
    const frame = document.createElement("iframe");
    frame.title = block.dataset.title;
    // Abierto como archivo no hay jaula: un marco sin origen no podría leer `_static`, y darle origen y guiones a la vez
    // no encierra nada.
    if (location.protocol !== "file:") frame.setAttribute("sandbox", "allow-scripts");
    frame.srcdoc = source.replaceAll("%STATIC%", staticRoot().replaceAll("&", "&amp;").replaceAll('"', "%22"));
    window.addEventListener("message", (event) => {
      if (event.source !== frame.contentWindow) return;
      const height = Number(event.data?.mcHeight);
      if (height > 0) frame.style.height = `${Math.min(height + 2, 4000)}px`;
    });
    const button = block.querySelector(".mc-button");
    block.querySelector(".mc-view-still").hidden = true;
    // Si el foco está en el botón (se ha llegado con el tabulador), se queda hasta que siga: escondido, se perdería.
    if (document.activeElement === button) button.addEventListener("blur", () => { button.hidden = true; }, { once: true });
    else button.hidden = true;
    block.append(frame);
    return frame;
  };

  const saveData = () => navigator.connection?.saveData || matchMedia("(prefers-reduced-data: reduce)").matches;

  const start = (block) => {
    block.dataset.ready = "1";
    const button = block.querySelector(".mc-button");
    button.hidden = false;
    button.addEventListener("click", () => { open(block).focus(); });
    if (!("IntersectionObserver" in window) || saveData()) return;
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      open(block);
    }, { rootMargin: "300px 0px" });
    observer.observe(block);
  };

  const startAll = () => document.querySelectorAll(".mc-view:not([data-ready])").forEach(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
  startAll();
})();
