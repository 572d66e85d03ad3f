// Completa la búsqueda de Sphinx: palabras sin tildes, textos en español y un resumen en prosa bajo cada resultado.
{
  const Original = Stemmer;
  Stemmer = function () {
    const raiz = new Original();
    this.stemWord = (palabra) => raiz.stemWord(sinTildes(palabra));
  };

  // Sphinx compara los títulos y las entradas del índice con sus tildes. Aquí se le dan sin ellas, y a cada resultado se
  // le devuelve su título; el de una definición lleva detrás su término.
  const conTildes = new Map();
  const terminos = new Map();
  const plano = (titulo) => {
    const texto = sinTildes(titulo);
    if (!conTildes.has(texto)) conTildes.set(texto, titulo);
    return texto;
  };
  const claves = (tabla) => {
    const nueva = Object.create(null); // «constructor» es una palabra como otra
    for (const [clave, lugares] of Object.entries(tabla)) (nueva[plano(clave)] ??= []).push(...lugares);
    return nueva;
  };
  const preparar = (indice) => {
    if (conTildes.size) return;
    for (const [termino, lugares] of Object.entries(indice.indexentries)) {
      for (const [archivo, ancla] of lugares) terminos.set(`${indice.docnames[archivo]}#${ancla}`, termino);
    }
    // De Object, lo único que Sphinx usa; con mayúsculas, no coincide con ninguna palabra buscada.
    const heredado = { __proto__: null, hasOwnProperty: Object.prototype.hasOwnProperty };
    for (const tabla of ["terms", "titleterms"]) Object.setPrototypeOf(indice[tabla], heredado);
    indice.titles = indice.titles.map(plano);
    indice.alltitles = claves(indice.alltitles);
    indice.indexentries = claves(indice.indexentries);
  };
  const buscar = Search._performSearch;
  Search._performSearch = (consulta, ...resto) => {
    preparar(Search._index);
    return buscar(sinTildes(consulta), ...resto).map(([pagina, titulo, ancla, ...mas]) => {
      const partes = titulo.split(" > ").map((parte) => conTildes.get(parte) ?? parte);
      const termino = terminos.get(pagina + ancla);
      return [pagina, [...partes, ...(termino ? [termino] : [])].join(" > "), ancla, ...mas];
    });
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
    const texto = apartados.find(([id]) => id === ancla)?.[1] || apartados.map(([, trozo]) => trozo).join(" ");
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
