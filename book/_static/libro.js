// Lo que se desplaza dentro de su caja (fórmulas y tablas anchas) se alcanza con el teclado y tiene nombre.
{
  const CAJAS = [
    ["div.math", "Fórmula"],
    ["span.math", "Fórmula"],
    [".pst-scrollable-table-container", "Tabla"],
  ];

  // Una fórmula dentro de un párrafo no tiene caja propia: se compara con el párrafo.
  const sobra = (caja) => {
    if (!caja.matches("span.math")) return caja.scrollWidth > caja.clientWidth + 1;
    const parrafo = caja.closest("p, li, td, dd, dt, figcaption, summary");
    const formula = caja.querySelector("mjx-container");
    return Boolean(parrafo && formula) && formula.offsetWidth > parrafo.clientWidth + 1;
  };

  const marcar = (caja, nombre) => {
    const desliza = sobra(caja);
    caja.classList.toggle("libro-desliza", desliza);
    if (desliza) {
      caja.tabIndex = 0;
      caja.setAttribute("role", "group");
      caja.setAttribute("aria-label", nombre);
    } else if (!caja.matches(".pst-scrollable-table-container")) {
      for (const atributo of ["tabindex", "role", "aria-label"]) caja.removeAttribute(atributo);
    }
  };

  // Mientras quede algo a la derecha, el borde se desvanece: se ve que la tabla, la fórmula o el código siguen.
  const ANCHAS = "article :is(div.highlight pre, div.math, .pst-scrollable-table-container)";
  const asomar = (caja) =>
    caja.classList.toggle("libro-sigue", caja.scrollWidth - caja.clientWidth - Math.abs(caja.scrollLeft) > 2);

  const revisar = () => {
    for (const [selector, nombre] of CAJAS) for (const caja of document.querySelectorAll(selector)) marcar(caja, nombre);
    for (const caja of document.querySelectorAll(ANCHAS)) asomar(caja);
  };

  const esperar = async () => {
    await globalThis.MathJax?.startup?.promise;
    revisar();
  };

  addEventListener("load", esperar);
  let pendiente;
  addEventListener("resize", () => {
    clearTimeout(pendiente);
    pendiente = setTimeout(revisar, 200);
  });
  // Una tabla plegada no mide nada hasta que se abre.
  addEventListener("toggle", revisar, true);
  const alDeslizar = ({ target }) => { if (target.matches?.(ANCHAS)) asomar(target); };
  addEventListener("scroll", alDeslizar, { capture: true, passive: true });
}

// En papel no se despliega nada: las respuestas salen abiertas, y después vuelven a como estaban. El papel es blanco
// también para quien lee en oscuro.
{
  const raiz = document.documentElement;
  let abiertas = [];
  let tema;
  addEventListener("beforeprint", () => {
    abiertas = [...document.querySelectorAll("article details:not([open], .mc-source)")];
    for (const pliegue of abiertas) pliegue.open = true;
    tema ??= raiz.dataset.theme;
    raiz.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    for (const pliegue of abiertas.splice(0)) pliegue.open = false;
    if (tema) raiz.dataset.theme = tema;
    tema = undefined;
  });
}

// Lo plegado se abre con un botón para todo, al llegar por un enlace y si dentro está lo que se buscaba.
{
  const pliegues = [...document.querySelectorAll("details.libro-pliegue")];
  const abrir = () => {
    const sitio = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const suyo = ":scope > details.libro-pliegue";
    // De un nombre de la referencia, el destino es una marca delante de su título.
    const pliegue = sitio?.querySelector(suyo) ?? sitio?.closest("details.libro-pliegue") ?? sitio?.parentElement?.querySelector(suyo);
    if (pliegue) pliegue.open = true;
  };
  if (pliegues.length > 5) {
    const boton = document.createElement("button");
    boton.type = "button";
    boton.className = "libro-boton libro-desplegar";
    const nombrar = () => {
      boton.textContent = pliegues.every((uno) => uno.open) ? "Plegar todo" : "Desplegar todo";
    };
    boton.addEventListener("click", () => {
      const abierto = !pliegues.every((uno) => uno.open);
      for (const uno of pliegues) uno.open = abierto;
    });
    addEventListener("toggle", nombrar, true);
    nombrar();
    pliegues[0].closest("section:has(> h2)").before(boton);
  }
  abrir();
  addEventListener("hashchange", abrir);
  addEventListener("load", () => {
    for (const marca of document.querySelectorAll("details.libro-pliegue .highlighted")) marca.closest("details").open = true;
  });
}
