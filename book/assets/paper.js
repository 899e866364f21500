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
