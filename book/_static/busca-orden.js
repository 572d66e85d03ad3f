// Orden de los resultados: manda el título, y a igual título un capítulo va antes que sus ejercicios y que lo demás.
// Se carga antes que searchtools.js, que usa este `Scorer` si existe.
const sinTildes = (texto) =>
  texto.toLowerCase().normalize("NFD").replace(/(?!\u0303)[\u0300-\u036f]/g, "").normalize("NFC");

const palabras = (texto) => sinTildes(texto).split(/[^\p{Letter}\p{Number}]+/u).filter(Boolean);

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([docname, title, anchor, , score]) => {
    const buscadas = palabras(new URLSearchParams(location.search).get("q") ?? "");
    const pagina = palabras(title.split(" > ")[0]);
    const apartado = palabras(title.split(" > ").at(-1));
    const todas = (lista) => buscadas.length > 0 && buscadas.every((b) => lista.includes(b));
    let puntos = score;
    if (todas(pagina)) {
      // Cuanto antes aparece en el título y menos palabras lo acompañan, más trata la página de eso.
      puntos += 400 - 10 * pagina.indexOf(buscadas[0]) - pagina.length;
      puntos += docname.startsWith("notebooks/") ? 300 : docname.startsWith("exercises/") ? 100 : 0;
      puntos += anchor ? -250 : 0;
    } else if (todas(apartado)) puntos += 80 - apartado.length;
    return puntos;
  },
};
