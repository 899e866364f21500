// Bets: choices become buttons, and what was chosen stays in this browser. The list of all bets counts them; an address
// that ends in #bets-9-14-35 shows someone's score: right in 9 of 14, where guessing gives 3.5.
(() => {
  "use strict";
  const KEY = "bets", SCORE = /^#bets-(\d+)-(\d+)-(\d+)$/;
  const made = (name, attributes) => Object.assign(document.createElement(name), attributes);
  let kept = {};                                  // by name: whether it was right, which was chosen, among how many
  try { kept = JSON.parse(localStorage.getItem(KEY)) ?? {}; } catch { /* a browser may keep nothing */ }
  const keep = () => { try { localStorage.setItem(KEY, JSON.stringify(kept)); } catch { /* as above */ } };

  for (const bet of document.querySelectorAll("div.bet")) {
    const choices = [...bet.querySelectorAll(":scope > ol > li")], fold = bet.querySelector(".bet-outcome");
    const right = choices.findIndex(choice => choice.classList.contains("right")), name = bet.id.slice("bet-".length);
    const said = made("p", { className: "bet-said", role: "status" });
    fold.before(said);
    const show = chosen => {
      bet.classList.add("done");
      choices.forEach((choice, k) => choice.firstChild.setAttribute("aria-pressed", k === chosen));
      said.textContent = chosen === right ? "You were right." : `Not this time: it's ${"ABCD"[right]}.`;
      fold.open = true;
    };
    choices.forEach((choice, k) => {
      const button = made("button", { type: "button", onclick() {
        if (bet.classList.contains("done")) return;     // the first bet counts
        kept[name] = [Number(k === right), k, choices.length];
        keep();
        show(k);
      } });
      button.append(...(choice.querySelector("p") ?? choice).childNodes);
      choice.replaceChildren(button);
    });
    if (choices[kept[name]?.[1]]) show(kept[name][1]);
  }

  const list = document.querySelector("div.bets");
  if (!list) return;
  const rows = [...list.querySelectorAll("li")].map(row => [row, kept[row.querySelector('a[href*="#bet-"]').hash.slice("#bet-".length)]]);
  for (const [row, bet] of rows) (row.querySelector("p") ?? row).prepend(made("span", { className: "bet-mark", textContent: !bet ? "not yet" : bet[0] ? "right" : "wrong" }));
  const taken = rows.map(row => row[1]).filter(Boolean), right = taken.filter(bet => bet[0]).length, open = rows.length - taken.length;
  const guess = Math.round(10 * taken.reduce((sum, bet) => sum + 1 / bet[2], 0)), theirs = location.hash.match(SCORE);
  const said = made("p", { className: "bet-score", role: "status" });
  said.append(theirs ? `The sender was right in ${theirs[1]} of ${theirs[2]}; guessing gives ${theirs[3] / 10}. ` : "",
    taken.length ? `You were right in ${right} of ${taken.length}; guessing gives ${guess / 10}. ` : "You haven't bet yet. ",
    open ? `Still open: ${open} of ${rows.length} bets. ` : "");
  if (taken.length) said.append(
    made("a", { href: `#bets-${right}-${taken.length}-${guess}`, textContent: "Link to this score", onclick() { this.textContent = "The address bar has the link now"; } }),
    made("button", { type: "button", textContent: "Forget my bets", onclick() { kept = {}; keep(); location.reload(); } }));
  list.prepend(said);
})();
