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
