// Completa la búsqueda de Sphinx: palabras sin tildes, textos en español y un resumen en prosa bajo cada resultado.
{
  const Original = Stemmer;
  Stemmer = function () {
    const raiz = new Original();
    this.stemWord = (palabra) => raiz.stemWord(sinTildes(palabra));
  };

  Documentation.addTranslations({
    messages: {
      "Searching": "Buscando",
      "Search Results": "Resultados",
      "Preparing search...": "Preparando la búsqueda…",
      "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
        "No hay ninguna página con esas palabras. Prueba con menos, o con otras.",
      "Search finished, found ${resultCount} page(s) matching the search query.": "Resultados encontrados: ${resultCount}.",
    },
  });

  const buscadas = palabras(new URLSearchParams(location.search).get("q") ?? "");
  const LARGO = 220;

  // Dónde está la primera palabra buscada; el texto sin tildes mide lo mismo que el original.
  const posicion = (texto) => {
    const plano = [...texto].map((letra) => sinTildes(letra)[0] ?? letra).join("");
    const lugares = buscadas.map((b) => plano.search(new RegExp(`(?<![\\p{L}\\p{N}])${b}`, "u"))).filter((i) => i >= 0);
    return lugares.length ? Math.min(...lugares) : -1;
  };

  // Pone la palabra buscada en <mark>; el texto se escribe siempre como texto, nunca como HTML.
  const resaltar = (parrafo, texto) => {
    for (const trozo of texto.split(/([\p{L}\p{N}]+)/u)) {
      const hallada = buscadas.some((b) => trozo && sinTildes(trozo).startsWith(b));
      const nodo = hallada ? document.createElement("mark") : document.createTextNode(trozo);
      if (hallada) nodo.textContent = trozo;
      parrafo.append(nodo);
    }
  };

  const resumen = (pagina, ancla) => {
    const apartados = globalThis.PROSA_DEL_LIBRO?.[pagina] ?? [];
    const texto = apartados.find(([id]) => id === ancla)?.[1] || apartados[0]?.[1];
    if (!texto) return null;
    const centro = Math.max(posicion(texto), 0);
    let desde = centro > 80 ? texto.indexOf(" ", centro - 80) + 1 : 0;
    const trozo = texto.slice(desde, desde + LARGO).replace(/\s\S*$/u, (fin) => (desde + LARGO < texto.length ? "" : fin));
    const parrafo = document.createElement("p");
    parrafo.className = "libro-resumen";
    resaltar(parrafo, (desde ? "… " : "") + trozo + (desde + trozo.length < texto.length ? " …" : ""));
    return parrafo;
  };

  new MutationObserver((cambios) => {
    for (const elemento of cambios.flatMap((c) => [...c.addedNodes])) {
      const enlace = elemento.matches?.("ul.search > li") && elemento.querySelector("a");
      if (!enlace || elemento.querySelector(".libro-resumen")) continue;
      const [ruta, ancla = ""] = enlace.getAttribute("href").split("#");
      const parrafo = resumen(ruta.replace(/\.html$/, ""), ancla);
      if (parrafo) elemento.append(parrafo);
    }
  }).observe(document.getElementById("search-results"), { childList: true, subtree: true });
}
