/* Show of a table its first rows, or all, or those that contain some words. */
(() => {
  for (const form of document.querySelectorAll("form.table-filter")) {
    const table = [...document.querySelectorAll("table")]
      .find(each => form.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (!table) continue;
    const rows = [...table.tBodies[0].rows], first = Number(form.dataset.first), said = form.querySelector("output");
    const text = rows.map(row => row.textContent.toLowerCase());
    const show = () => {
      const wanted = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, k) => {
        const fits = wanted.length ? wanted.every(word => text[k].includes(word)) : form.elements.all.checked || k < first;
        row.hidden = !fits;
        shown += fits;
      });
      said.textContent = `${shown} of ${rows.length} rows`;
    };
    form.addEventListener("input", show);
    form.addEventListener("submit", event => event.preventDefault());
    form.hidden = false;
    show();
  }
})();
