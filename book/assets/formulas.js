// A formula that is a little wider than its column is set smaller, so that it is seen whole with its comma; what is wider
// still is set as small as can be read, and scrolls.
(() => {
  "use strict";
  const LEAST = 0.7;
  const FORMULAS = ".bd-article mjx-container";
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
  addEventListener("load", () => window.MathJax?.startup?.promise?.then(all(fit)));
  for (const change of ["resize", "click", "toggle"]) addEventListener(change, later, true);
  addEventListener("beforeprint", all(lift));
  addEventListener("afterprint", later);
})();
