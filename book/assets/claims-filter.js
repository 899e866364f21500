/* Show only the claims of a document, with a verdict, that contain some words. The choice stands in the address. */
(() => {
  const form = document.querySelector("form.claims-filter");
  if (!form) return;
  const rows = [...document.querySelectorAll("tr.claim-row")];
  const text = new Map(rows.map(row => [row, row.textContent.toLowerCase()]));
  const said = form.querySelector("output");
  const show = () => {
    const { document: letter, verdict, words } = Object.fromEntries(new FormData(form));
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = (!letter || row.classList.contains(`document-${letter}`))
        && (!verdict || row.classList.contains(`outcome-${verdict}`))
        && wanted.every(word => text.get(row).includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    for (const section of document.querySelectorAll("section:has(> * table.claims), section:has(> table.claims)"))
      section.hidden = !section.querySelector("tr.claim-row:not([hidden])");
    said.textContent = `${shown} of ${rows.length} claims`;
    const query = new URLSearchParams([["document", letter], ["verdict", verdict], ["words", words]].filter(p => p[1]));
    try { history.replaceState(null, "", (query.size ? `?${query}` : location.pathname) + location.hash); } catch { /* file: */ }
  };
  const address = new URLSearchParams(location.search);
  for (const name of ["document", "verdict"]) {  // K and "Not reproduced" mean k and not-reproduced
    const wanted = (address.get(name) || "").trim().toLowerCase().replace(/\s+/g, "-");
    const field = form.elements[name];
    field.value = [...field.options].some(option => option.value === wanted) ? wanted : "";
  }
  form.elements.words.value = address.get("words") || "";
  form.addEventListener("input", show);
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(show));
  form.hidden = false;
  show();
  const meant = () => {  // a claim that the address leads to, as #claim-k-15 or #K-15, is shown whatever the filter hides
    const id = location.hash.slice(1);
    const row = rows.find(row => row.id && [id, `claim-${id.toLowerCase()}`].includes(row.id));
    if (!row) return;
    if (row.hidden) {
      for (const name of ["document", "verdict", "words"]) form.elements[name].value = "";
      show();
    }
    row.scrollIntoView();
  };
  globalThis.addEventListener?.("hashchange", meant);
  meant();
})();
