// The search page. Every word can be searched for, such as "constructor", which any object of the language has: the
// tables of the index get a bare prototype. Words are marked on the page of a result, not on whichever page comes next;
// and from a file, where a browser lets no script read other pages, results are shown without the lines that it would
// take from them.
(() => {
  "use strict";
  const KEY = "sphinx_highlight_terms";  // what the search leaves there, the next page marks and removes
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  function has(key) { return Object.prototype.hasOwnProperty.call(this, key); }
  has[Symbol.iterator] = function* none() {};  // who searches for "hasOwnProperty" finds a list without entries
  has.forEach = () => {};
  const bare = Object.create(null, { hasOwnProperty: { value: has } });
  const perform = Search.performTermsSearch;
  Search.performTermsSearch = (...query) => {
    for (const table of [Search._index.terms, Search._index.titleterms]) Object.setPrototypeOf(table, bare);
    return perform(...query);
  };
  let words = null;
  addEventListener("load", () => { words = localStorage.getItem(KEY); localStorage.removeItem(KEY); });
  for (const press of ["click", "auxclick"]) addEventListener(press, event => {
    if (words && event.target.closest("#search-results a")) localStorage.setItem(KEY, words);
  }, true);
})();
