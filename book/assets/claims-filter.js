/* Show only the claims of a document, with a verdict, of a chapter, that contain some words; in one of two orders.
   The choice stands in the address. */
(() => {
  const form = document.querySelector("form.claims-filter");
  if (!form) return;
  const CHOICES = ["document", "verdict", "chapter", "order"];
  const rows = [...document.querySelectorAll("tr.claim-row")].filter(row => !row.closest?.("table.definitions"));
  const text = new Map(rows.map(row => [row, row.textContent.toLowerCase()]));
  const letters = [...form.elements.document.options].map(option => option.value);
  const place = row => {  // in the documents: claim-k-15 is the fifteenth of the first document
    const [, letter, number] = row.id.split("-");
    return 1000 * letters.indexOf(letter) + Number(number);
  };
  const orders = { "": rows, documents: [...rows].sort((a, b) => place(a) - place(b)) };
  const said = form.querySelector("output");
  let standing = "", told = true;  // whether the address says what is chosen
  const arrange = order => {
    if (order !== standing && rows.length) rows[0].parentNode.append(...orders[order]);
    standing = order;
  };
  const show = () => {
    const { document: letter, verdict, chapter, words, order } = Object.fromEntries(new FormData(form));
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [["document", letter], ["outcome", verdict], ["chapter", chapter]].filter(([, value]) => value);
    let shown = 0;
    for (const row of rows) {
      const fits = chosen.every(([kind, value]) => row.classList.contains(`${kind}-${value}`))
        && wanted.every(word => text.get(row).includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    arrange(order);
    said.textContent = `${shown} of ${rows.length} claims`;
    const query = new URLSearchParams(Object.entries({ document: letter, verdict, chapter, words, order }).filter(p => p[1]));
    try {
      history.replaceState(null, "", (query.size ? `?${query}` : location.pathname) + location.hash);
    } catch { told = false; /* file: */ }
  };
  const choose = () => {
    const address = new URLSearchParams(location.search);
    for (const name of CHOICES) {  // K and "Not reproduced" mean k and not-reproduced
      const wanted = (address.get(name) || "").trim().toLowerCase().replace(/\s+/g, "-");
      const field = form.elements[name];
      field.value = [...field.options].some(option => option.value === wanted) ? wanted : "";
    }
    form.elements.words.value = address.get("words") || "";
  };
  choose();
  form.addEventListener("input", show);
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(show));
  form.hidden = false;
  show();
  const meant = () => {  // a claim that the address leads to, as #claim-k-02, #K-02 or #K-2, is shown whatever the filter hides
    const id = location.hash.slice(1), named = `claim-${id.toLowerCase()}`;
    const row = rows.find(row => row.id && [id, named, named.replace(/-(\d)$/, "-0$1")].includes(row.id));
    if (!row) return;
    if (row.hidden) {
      for (const name of ["document", "verdict", "chapter", "words"]) form.elements[name].value = "";
      show();
    }
    row.scrollIntoView();
  };
  globalThis.addEventListener?.("popstate", () => { if (told) { choose(); show(); } });  // back to another choice
  globalThis.addEventListener?.("hashchange", meant);
  meant();
})();
