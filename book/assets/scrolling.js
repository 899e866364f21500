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
})();
