// Dentro del marco: lo que BertViz pide (D3 y jQuery, sin RequireJS) y lo que le falta: los colores del libro, nombres
// y manejo con el teclado, la descripción en palabras y el alto del marco. BertViz rehace su dibujo cuando quiere; un
// observador vuelve a poner lo nuestro cada vez.
const mcParams = window.mcParams;

function mcBefore() {
  "use strict";
  // Los pesos viajan en diezmilésimas enteras.
  for (const data of mcParams.attention) {
    data.attn = data.attn.map((layer) => layer.map((head) => head.map((row) => row.map((weight) => weight / 10000))));
  }
  const ready = window.d3 && window.jQuery;
  window.require = { config() {} };
  window.requirejs = (_names, run) => {
    if (ready) run(window.jQuery, Object.assign({}, window.d3, { schemeCategory10: mcParams.colors }));
  };
  if (!ready) {
    const warning = document.createElement("p");
    warning.className = "warn";
    warning.textContent = "No se han podido cargar D3 y jQuery, que dibujan la vista (¿sin conexión?). Debajo está lo principal, en palabras.";
    document.getElementById("vis").append(warning);
  }
}

function mcAfter() {
  "use strict";
  const { tokens, colors, kind } = mcParams;
  const attention = mcParams.attention[0].attn;
  const vis = document.getElementById("vis");
  const status = document.getElementById("status");
  const comma = (x, digits = 2) => x.toFixed(digits).replace(".", ",");
  const color = (head) => colors[head % colors.length];

  // Negro o blanco sobre un color «#rrggbb», lo que mejor se lea.
  const ink = (hex) => {
    const [r, g, b] = [1, 3, 5].map((i) => {
      const c = parseInt(hex.slice(i, i + 2), 16) / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
  };

  const mean = (heads) => heads[0].map((row, i) => row.map((_, j) => heads.reduce((sum, head) => sum + head[i][j], 0) / heads.length));

  // La descripción en palabras: de cada token, a quién mira más.
  const describe = (weights, which) => {
    document.getElementById("which").textContent = which;
    document.querySelector("#words tbody").replaceChildren(...weights.map((row, i) => {
      const j = row.indexOf(Math.max(...row));
      const tr = document.createElement("tr");
      [tokens[i], tokens[j], comma(row[j])].forEach((text, k) => {
        const cell = document.createElement(k ? "td" : "th");
        if (!k) cell.scope = "row";
        cell.textContent = text;
        tr.append(cell);
      });
      return tr;
    }));
  };

  const press = (event, single, double) => {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    (event.shiftKey && double ? double : single)();
  };

  // Una sola parada de tabulador para muchos elementos; entre ellos se va con las flechas.
  const rove = (items, columns, act) => {
    let current = Math.max(0, items.findIndex((item) => item.dataset.current));
    items.forEach((item, i) => {
      item.setAttribute("tabindex", i === current ? "0" : "-1");
      item.addEventListener("keydown", (event) => {
        const step = { ArrowRight: columns > 1 ? 1 : 0, ArrowLeft: columns > 1 ? -1 : 0, ArrowDown: columns, ArrowUp: -columns }[event.key];
        if (!step) return act && press(event, () => act(i));
        event.preventDefault();
        const next = items[i + step];
        if (!next) return;
        items[current].setAttribute("tabindex", "-1");
        current = i + step;
        next.setAttribute("tabindex", "0");
        next.focus();
      });
    });
  };

  const svgElement = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };

  // ---- Vista por cabezas ----
  const DRAWING = 337; // lo que mide de ancho un dibujo de BertViz
  const layerSelect = document.getElementById("layer");
  const boxes = () => [...vis.querySelectorAll(".heads > rect")];
  const isOn = (box, head) => box.getAttribute("fill") === color(head);

  const headState = () => {
    const layer = Number(layerSelect.value);
    const heads = boxes();
    const on = heads.map(isOn);
    heads.forEach((box, head) => {
      box.setAttribute("aria-checked", String(on[head]));
      const number = vis.querySelector(`.number[data-head="${head}"]`);
      if (number) number.setAttribute("fill", on[head] ? ink(color(head)) : "#1f2933");
    });
    const active = heads.map((_, head) => head).filter((head) => on[head]);
    const shown = attention[mcParams.include_layers.indexOf(layer)];
    const which = active.length === 1
      ? `Cabeza ${layer}.${active[0]}`
      : `Capa ${layer}, media de ${active.length} cabezas encendidas: ${active.map((head) => `${layer}.${head}`).join(", ")}`;
    describe(mean(active.map((head) => shown[head])), which);
    return which;
  };

  const dressHeads = () => {
    const svg = vis.querySelector("svg");
    if (!svg || svg.dataset.dressed) return;
    svg.dataset.dressed = "1";
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", `Vista por cabezas de la capa ${layerSelect.value}`);
    svg.querySelector("#attention")?.setAttribute("aria-hidden", "true");
    const layer = layerSelect.value;
    // BertViz dibuja los cuadros al final; con el teclado se llega antes a ellos que a las palabras.
    svg.lastElementChild.classList.add("heads");
    svg.prepend(svg.lastElementChild);
    const squares = boxes();
    // Los cuadros de BertViz miden 20 px: pequeños para un dedo. Se reparten el ancho del dibujo; el alto, hasta las palabras.
    const [wide, tall] = [Math.min(40, Math.max(24, Math.floor(DRAWING / squares.length))), 26];
    svg.style.minWidth = `${Math.max(DRAWING, squares.length * wide + 2)}px`;
    squares.forEach((box, head) => {
      for (const [name, value] of Object.entries({ x: head * wide, width: wide, height: tall })) box.setAttribute(name, value);
      box.setAttribute("role", "checkbox");
      box.setAttribute("tabindex", "0");
      box.setAttribute("aria-label", `Cabeza ${layer}.${head}`);
      box.style.stroke = color(head);
      const fire = (type) => box.dispatchEvent(new MouseEvent(type, { bubbles: true }));
      box.addEventListener("keydown", (event) => press(event, () => fire("click"), () => fire("dblclick")));
      const number = svgElement("text", { class: "number", x: (head + 0.5) * wide, y: tall / 2 + 4, "data-head": head, "aria-hidden": "true" });
      number.textContent = head;
      box.parentNode.append(number);
    });
    // Las palabras de la izquierda se recorren con las flechas: hacen lo mismo que el ratón.
    const words = [...svg.querySelectorAll("#left > g:last-child > g")];
    svg.querySelectorAll("#right > g:last-child").forEach((side) => side.setAttribute("aria-hidden", "true"));
    words.forEach((word, i) => {
      word.classList.add("token");
      word.setAttribute("role", "button");
      word.setAttribute("aria-label", `«${tokens[i]}»: ver solo sus líneas`);
      word.addEventListener("focus", () => {
        if (word.matches(":focus-visible")) word.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
      });
      word.addEventListener("blur", () => svg.querySelector("#left").dispatchEvent(new MouseEvent("mouseleave")));
    });
    rove(words, 1);
    headState();
  };

  // ---- Vista del modelo ----
  const { include_layers: layers, include_heads: heads } = mcParams;
  const thumbnails = () => [...vis.querySelectorAll(".attn_background")].map((background) => background.parentNode);

  const dressModel = () => {
    const svg = vis.querySelector("svg");
    if (!svg) return;
    const selected = thumbnails().findIndex((group) => Number(group.querySelector(".attn_background").getAttribute("stroke-opacity")) > 0);
    // El detalle lleva el color de su cabeza.
    svg.querySelectorAll(".detail").forEach((part) => { if (selected >= 0) part.classList.add(`head-${heads[selected % heads.length]}`); });
    thumbnails().forEach((group, i) => group.lastElementChild.setAttribute("aria-pressed", String(i === selected)));
    if (selected >= 0) {
      const [l, h] = [Math.floor(selected / heads.length), selected % heads.length];
      describe(attention[l][h], `Cabeza ${layers[l]}.${heads[h]}`);
    } else {
      describe(mean(attention.flat()), `Media de las ${layers.length * heads.length} cabezas dibujadas`);
    }
    if (svg.dataset.dressed) return;
    svg.dataset.dressed = "1";
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", "Vista del modelo: una miniatura por cabeza; filas, capas; columnas, cabezas");
    const style = document.createElement("style");
    style.textContent = heads.map((head) => `svg .head-${head} line, svg line.head-${head}, svg .head-${head} .attn_background, svg rect.detail.head-${head} { stroke: ${color(head)}; }`).join("\n");
    document.head.append(style);
    const regions = thumbnails().map((group, i) => {
      const [layer, head] = [layers[Math.floor(i / heads.length)], heads[i % heads.length]];
      group.classList.add(`head-${head}`);
      const region = group.lastElementChild;
      region.setAttribute("role", "button");
      region.setAttribute("aria-label", `Cabeza ${layer}.${head}: ver en grande`);
      region.setAttribute("aria-pressed", "false");
      region.style.setProperty("--focus-fill", "0");
      return region;
    });
    rove(regions, heads.length, (i) => regions[i].dispatchEvent(new MouseEvent("click", { bubbles: true })));
  };

  // ---- Mantener lo nuestro al día ----
  const dress = kind === "head" ? dressHeads : dressModel;
  const observer = new MutationObserver(() => { update(); });
  const update = () => {
    observer.disconnect();
    if (vis.querySelector("svg")) {
      dress();
      if (kind === "head") headState();
    }
    observer.observe(vis, { childList: true, subtree: true, attributes: true, attributeFilter: ["fill", "stroke-opacity"] });
    report();
  };
  const report = () => parent.postMessage({ mcHeight: document.querySelector("main").scrollHeight + 16 }, "*");

  if (!vis.querySelector("svg")) describe(mean(attention[0]), "Media de las cabezas de la primera capa");
  update();
  layerSelect?.addEventListener("change", () => {
    update(); // BertViz acaba de rehacer el dibujo
    status.textContent = headState();
  });
  vis.addEventListener("click", () => { status.textContent = document.getElementById("which").textContent; });
  new ResizeObserver(report).observe(document.querySelector("main"));
}
