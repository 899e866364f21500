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

// What scrolls takes the keyboard's focus, so that arrow keys can scroll it. The theme sees to code, once a page is
// loaded; this sees to tables, figures and HTML outputs as well, and after a fold was opened. A figure that is wider than a phone says so above its caption.
(() => {
  "use strict";
  const PARTS = "div.verdict p, .bd-article pre, .bd-article .pst-scrollable-table-container, .bd-article .cell_output div, .bd-article .figure-frame, .bd-article div.math, .bd-article mjx-container";
  const mark = () => {
    for (const frame of document.querySelectorAll(".figure-frame"))
      frame.classList.toggle("scrolls", frame.scrollWidth > frame.clientWidth + 1);
    for (const part of document.querySelectorAll(PARTS)) {
      if (part.tabIndex >= 0 || part.scrollWidth <= part.clientWidth) continue;
      if (["auto", "scroll"].includes(getComputedStyle(part).overflowX)) part.tabIndex = 0;
    }
  };
  let waiting;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(mark, 400); };  // the theme waits 300 ms
  addEventListener("load", mark);
  for (const change of ["load", "resize", "click", "toggle", "typeset"]) addEventListener(change, later, true);
  document.fonts.addEventListener("loadingdone", later);  // a font that comes late makes lines longer
})();

// A click or a tap on a figure shows it as large as the window allows, on a phone larger, to be scrolled. The button
// in the menu below each figure does the same for the keyboard. Escape, a click, or the button of the dialog closes it.
(() => {
  "use strict";
  const FIGURES = ".bd-article figure img, .bd-article .cell_output img";
  const dialog = document.createElement("dialog");
  dialog.className = "enlarged";
  dialog.setAttribute("aria-label", "Enlarged figure");
  dialog.innerHTML = '<button type="button" autofocus>Close</button><div><img alt=""></div>';
  dialog.addEventListener("click", () => dialog.close());
  const show = figure => {
    const picture = dialog.querySelector("img");
    picture.src = figure.src;
    picture.alt = figure.alt;
    dialog.showModal();
  };
  addEventListener("DOMContentLoaded", () => {
    document.body.append(dialog);
    for (const figure of document.querySelectorAll(FIGURES)) {
      if (figure.closest("a, figure:has(> .play)")) continue;  // a viewer takes the place of its picture
      figure.classList.add("can-enlarge");
      figure.addEventListener("click", () => show(figure));
      const links = figure.closest("figure")?.querySelector("figcaption details.downloads p");
      if (!links) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "enlarge";
      button.textContent = "Enlarge";
      button.addEventListener("click", () => show(figure));
      links.prepend(button, " · ");
    }
  });
})();

// On paper a page is light, whatever theme the screen has: dark boxes would hide the black text.
(() => {
  "use strict";
  const root = document.documentElement;
  let theme = null;
  const lay = () => {
    if (theme !== null || root.dataset.theme !== "dark") return;
    theme = root.dataset.theme;
    root.dataset.theme = "light";
  };
  const lift = () => {
    if (theme !== null) root.dataset.theme = theme;
    theme = null;
  };
  matchMedia("print").addEventListener("change", event => (event.matches ? lay() : lift()));
  addEventListener("beforeprint", lay);
  addEventListener("afterprint", lift);
})();

// Formulas in tables and folds, which MathJax passes over, are set when they come near the window, or are printed.
// A formula that is a little wider than its column is set smaller, so that it is seen whole with its comma; what is wider
// still is set as small as can be read, and scrolls.
(() => {
  "use strict";
  const LEAST = 0.7, NEAR = "600px";
  const FORMULAS = ".bd-article mjx-container", LATER = ".bd-article :is(tr, caption, details > *):has(.math)";
  const unset = new Set();
  const take = parts => parts.filter(part => unset.delete(part));
  const told = () => dispatchEvent(new Event("typeset"));
  const near = new IntersectionObserver(seen => {
    const parts = take(seen.filter(one => one.isIntersecting).map(one => one.target));
    for (const part of parts) near.unobserve(part);
    if (parts.length) window.MathJax.typesetPromise(parts).then(told);
  }, { rootMargin: NEAR });
  const lift = formula => {
    if (formula.dataset.size === undefined) return;
    formula.style.fontSize = formula.dataset.size;
    delete formula.dataset.size;
  };
  const fit = formula => {
    lift(formula);
    const room = formula.clientWidth, width = formula.querySelector("mjx-math")?.getBoundingClientRect().width;
    if (!room || !(width > room + 1)) return;  // no room: in a fold that is closed
    formula.dataset.size = formula.style.fontSize;
    const size = parseFloat(getComputedStyle(formula).fontSize) * Math.max(LEAST, 0.95 * room / width);
    formula.style.setProperty("font-size", `${size}px`, "important");
  };
  const all = step => () => document.querySelectorAll(FORMULAS).forEach(step);
  let waiting;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(all(fit), 200); };
  addEventListener("load", () => window.MathJax?.startup?.promise?.then(() => {
    if (window.MathJax.typesetPromise) for (const part of document.querySelectorAll(LATER)) {
      unset.add(part);
      near.observe(part);
    }
    told();
  }));
  for (const change of ["resize", "click", "toggle", "typeset"]) addEventListener(change, later, true);
  addEventListener("beforeprint", () => {
    if (unset.size) window.MathJax.typeset(take([...unset]));
    all(lift)();
  });
  addEventListener("afterprint", later);
})();
