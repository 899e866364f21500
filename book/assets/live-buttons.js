// All that a page which is only read has of its live cells: the buttons that load live.js.
document.addEventListener("DOMContentLoaded", () => {
  const made = (name, attributes) => Object.assign(document.createElement(name), attributes);
  const notebook = document.querySelector('p.downloads a[href$=".ipynb"]');
  let loaded;
  for (const cell of document.querySelectorAll(":is(.cell, .check):not(:has(details .cell_input)):has(.cell_input)")) {
    const needs = made("p", { className: "live-needs", textContent: "You need the package to change this cell" });
    if (notebook) needs.append(": ", notebook.cloneNode(true));
    const textContent = cell.matches(".check") ? "Try it" : "Change it";
    const button = made("button", { type: "button", className: "live-change", textContent, onclick() {
      loaded ??= new Promise(done => document.head.append(made("script",
        { src: document.documentElement.dataset.content_root + "_static/live.js", onload: done })));
      loaded.then(() => Live.toggle(cell, this));
    } });
    cell.querySelector(".cell_input").after(cell.matches(".tag_live") ? button : needs);
  }
});
