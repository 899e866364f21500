// The claims as a game: ten rows of the table, drawn by a seed. An address that ends in #game-SEED-SCORE gives the same ten
// again, and the score of who sent it.
(() => {
  "use strict";
  const root = document.querySelector("div.claims-game"), COUNT = 10;
  if (!root) return;
  const ANSWERS = ["It holds", "It needs a correction or a condition", "It fails"];
  const KINDS = { reproduced: 0, "holds-on-a-stand-in": 0, corrected: 1, conditional: 1, "not-reproduced": 2, "fails-on-a-stand-in": 2 };
  const kind = row => KINDS[[...row.classList].find(name => name.startsWith("outcome-")).slice("outcome-".length)];
  const rows = [...document.querySelectorAll("table.claims:not(.definitions) tr.claim-row")]
    .filter(row => kind(row) !== undefined).sort((a, b) => (a.id < b.id ? -1 : 1));
  const sent = location.hash.match(/^#game-(\d{1,6})(?:-(\d{1,2}))?$/);
  const made = (name, attributes, ...children) => {
    const one = Object.assign(document.createElement(name), attributes);
    one.append(...children);
    return one;
  };
  const button = (textContent, onclick) => made("button", { type: "button", textContent, onclick });
  function draw(seed) {          // a small generator of numbers (mulberry32), so that a seed always draws the same
    const left = [...rows];
    return Array.from({ length: Math.min(COUNT, left.length) }, () => {
      seed = (seed + 0x6D2B79F5) | 0;
      let x = Math.imul(seed ^ (seed >>> 15), seed | 1);
      x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
      return left.splice(((x ^ (x >>> 14)) >>> 0) % left.length, 1)[0];
    });
  }
  function cell(row, at) {       // a copy of what a cell of the table holds
    const copy = made("div", {}, ...[...row.cells[at].childNodes].map(node => node.cloneNode(true)));
    for (const named of copy.querySelectorAll("[id]")) named.removeAttribute("id");
    return copy;
  }
  function show(...children) {
    root.replaceChildren(...children);
    window.MathJax?.typesetPromise?.([root]);   // where the page's formulas are not set yet
  }
  function ask(seed, drawn, at, right) {
    if (at === drawn.length) return end(seed, drawn.length, right);
    const row = drawn[at], due = kind(row), said = made("p", { className: "bet-said" }), more = made("div", { hidden: true });
    said.setAttribute("role", "status");
    const buttons = ANSWERS.map((words, k) => button(words, () => {
      if (!more.hidden) return;
      buttons.forEach((one, n) => one.setAttribute("aria-pressed", n === k));
      right += k === due;
      said.textContent = k === due ? "You were right." : `Not this time: ${ANSWERS[due].toLowerCase()}.`;
      more.append(cell(row, 2), cell(row, 3), button(at + 1 < drawn.length ? "Next claim" : "Your score", () => ask(seed, drawn, at + 1, right)));
      more.hidden = false;
      window.MathJax?.typesetPromise?.([more]);
    }));
    show(made("p", { className: "bet-score" }, `Claim ${at + 1} of ${drawn.length}; right so far: ${right}`), cell(row, 1), made("div", { className: "bet-answers" }, ...buttons), said, more);
    if (at) buttons[0].focus();
  }
  function end(seed, count, right) {
    const theirs = sent?.[2] && Number(sent[1]) === seed ? ` The sender was right in ${sent[2]}.` : "";
    const link = made("a", { href: `#game-${seed}-${right}`, textContent: "Link to the same ten and this score", onclick() { this.textContent = "The address bar has the link now"; } });
    const said = made("p", { className: "bet-score" }, `You were right in ${right} of ${count}; guessing gives ${(count / 3).toFixed(1)}.${theirs} `, link, button("Ten others", begin));
    said.setAttribute("role", "status");
    show(said);
  }
  function begin() { const seed = Math.floor(1e6 * Math.random()); ask(seed, draw(seed), 0, 0); }
  root.hidden = false;
  if (sent) ask(Number(sent[1]), draw(Number(sent[1])), 0, 0);
  else root.append(button("Begin", begin));
})();
