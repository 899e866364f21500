// The search page. Every word can be searched for, such as "constructor", which any object of the language has, as the
// index too would have, were it not for the bare tables made here. Words are marked on the page of a result, not on whichever page comes next; and from a file, where a
// browser lets no script read other pages, results are shown without the lines that it would take from them.
(() => {
  "use strict";
  const KEY = "sphinx_highlight_terms";  // what the search leaves there, the next page marks and removes
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  const table = entries => Object.assign(
    Object.create(null, { hasOwnProperty: { value: Object.prototype.hasOwnProperty } }), entries);
  const setIndex = Search.setIndex;
  Search.setIndex = index => setIndex({ ...index, terms: table(index.terms), titleterms: table(index.titleterms) });
  let words = null;
  addEventListener("load", () => { words = localStorage.getItem(KEY); localStorage.removeItem(KEY); });
  for (const press of ["click", "auxclick"]) addEventListener(press, event => {
    if (words && event.target.closest("#search-results a")) localStorage.setItem(KEY, words);
  }, true);
})();
