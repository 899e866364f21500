// The search page. Words are marked on the page of a result, not on whichever page comes next; and from a file, where a
// browser lets no script read other pages, results are shown without the lines that it would take from them.
(() => {
  "use strict";
  const KEY = "sphinx_highlight_terms";  // what the search leaves there, the next page marks and removes
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  let words = null;
  addEventListener("load", () => { words = localStorage.getItem(KEY); localStorage.removeItem(KEY); });
  for (const press of ["click", "auxclick"]) addEventListener(press, event => {
    if (words && event.target.closest("#search-results a")) localStorage.setItem(KEY, words);
  }, true);
})();
