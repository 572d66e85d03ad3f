// Los comentarios (utteranc.es) se cargan cuando se pulsa el botón; antes, la página no pide nada fuera.
for (const caja of document.querySelectorAll(".libro-comentarios")) {
  caja.querySelector("button").addEventListener("click", () => {
    const oscuro = document.documentElement.dataset.theme === "dark";
    const script = document.createElement("script");
    Object.assign(script, { src: "https://utteranc.es/client.js", async: true, crossOrigin: "anonymous" });
    script.setAttribute("repo", caja.dataset.repo);
    script.setAttribute("issue-term", "pathname");
    script.setAttribute("theme", oscuro ? "github-dark" : "github-light");
    caja.replaceChildren(script);
  });
}
