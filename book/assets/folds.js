// One switch above the text opens or closes all folded code of a page; what was chosen holds for the next page, too.
(() => {
  "use strict";
  const KEY = "code-open", FOLDS = ".bd-article div.cell details.hide.above-input";
  addEventListener("DOMContentLoaded", () => {
    const folds = document.querySelectorAll(FOLDS), title = document.querySelector(".bd-article h1");
    if (folds.length < 3 || !title) return;
    const button = document.createElement("button");
    button.className = "code-switch";
    const set = open => {
      for (const fold of folds) fold.open = open;
      button.textContent = open ? "Hide all code" : "Show all code";
      button.setAttribute("aria-pressed", open);
    };
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-pressed") !== "true";
      try { localStorage.setItem(KEY, open ? "1" : ""); } catch { /* a browser may keep nothing */ }
      set(open);
    });
    let kept = "";
    try { kept = localStorage.getItem(KEY); } catch { /* as above */ }
    set(Boolean(kept));
    title.after(button);
  });
})();
