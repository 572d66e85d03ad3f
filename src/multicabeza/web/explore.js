// Figuras con control: al moverlo se cambia la imagen por la de ese estado, ya dibujada.
(() => {
  "use strict";

  const start = (block) => {
    block.dataset.ready = "1";
    const { frames, index, alts, sizes } = JSON.parse(block.querySelector('script[type="application/json"]').textContent);
    const image = block.querySelector("img");
    frames[0] = image.src; // la primera ya está en la página
    const live = block.querySelector(".mc-live");
    const controls = [...block.querySelectorAll(".mc-controls input, .mc-controls select")];
    let timer = 0;

    const show = () => {
      // Posición del estado: el último control es el que varía más deprisa.
      const state = controls.reduce((place, control, k) => place * sizes[k] + Number(control.value), 0);
      const source = frames[index[state]];
      if (image.src !== source) image.src = source;
      image.alt = alts[state];
      for (const control of controls) {
        if (control.type !== "range") continue;
        const text = JSON.parse(control.dataset.texts)[control.value];
        control.setAttribute("aria-valuetext", text);
        control.nextElementSibling.textContent = text;
      }
    };
    const update = () => {
      show();
      // Se anuncia cuando el control se queda quieto, no en cada paso.
      clearTimeout(timer);
      timer = setTimeout(() => { live.textContent = image.alt; }, 600);
    };

    for (const control of controls) control.addEventListener("input", update);
    // Al volver a la página o recargarla, hay navegadores que devuelven el control a donde estaba: la figura va con él.
    window.addEventListener("pageshow", show);
    block.querySelector(".mc-controls").hidden = false;
    block.querySelector(".mc-still").style.display = "none";
    // En papel sale el primer estado, con el texto que le corresponde.
    window.addEventListener("beforeprint", () => { image.src = frames[index[0]]; image.alt = alts[0]; });
    window.addEventListener("afterprint", show);
  };

  const startAll = () => document.querySelectorAll(".mc-explore:not([data-ready])").forEach(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
  startAll();
})();
