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
