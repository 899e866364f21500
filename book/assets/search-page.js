// The search page. Sphinx looks for pages that have every word of a query, and takes a result's line of text from the
// page itself, which no browser allows from a file. Here the passages of all pages, which the build writes into
// search-texts.js, are ranked: a passage counts the more words it has, and the rarer they are; where no page has all
// words, those come first that have most. A result leads to the section of its best passage and shows it. What Sphinx
// finds by names of functions, by titles and in code stays in the list.
(() => {
  "use strict";
  // Where a browser allows a page to keep nothing, asking for its storage throws, and Sphinx's search would end there.
  try { globalThis.localStorage.getItem(""); } catch {
    const kept = new Map();
    const storage = { getItem: key => kept.get(key) ?? null, setItem: (key, value) => { kept.set(key, `${value}`); },
      removeItem: key => { kept.delete(key); } };
    Object.defineProperty(globalThis, "localStorage", { value: storage });
  }
  const MARKED = "sphinx_highlight_terms";  // what the search leaves there, whichever page comes next would mark
  const ASKING = new Set(`a an am any are be been but can could do does did explain find from get has had have how i if it
    its me my no of our out please s say says see show shows so some tell than that the them they there these this those
    us was we were what when where which who whom whose why will work works would you your and about as at by for in
    into is not on or such then to with book reader author`.split(/\s+/));
  const SAME = new Map(Object.entries({  // what readers say, and what the book says
    lecture: "slides", lectures: "slides", talk: "slides", homework: "exercise", problems: "exercise",
    answers: "solution", answer: "solution", license: "licence", copyright: "licence", color: "colour", center: "centre",
    rope: "rotary", speed: "seconds", runtime: "costs", take: "costs", long: "seconds", run: "executed", ram: "memory",
    invariance: "constant", invariant: "constant", logits: "scores", heatmap: "map", encodings: "embedding",
    encoding: "embedding", dna: "gene", blog: "post", article: "paper", reproducibility: "reproduce", meaning: "glossary",
    wrong: "corrected", errors: "corrected", mistakes: "corrected", baseline: "control", baselines: "control" }));
  const SPELT = [[/\bsqrt\b/g, "square root of"], [/\blayer[ -]?norm\w*/g, "layernorm"], [/\bdot[ -]products?\b/g, "score"],
    [/\bgpt\b(?!-)/g, "gpt-2"], [/\bquery,? key(,| and)? value\b/g, "query"]];  // of what is defined: as the glossary has it
  const KINDS = [["book/api", .7], ["book/references", .7]];
  const BEST = 14, LEAST = .5, EXCERPT = 240, FEW = 3, DEFINITION = 101;  // in Sphinx's count an exact title has 15, an entry of the index 100
  const TOKEN = /[\p{L}\p{N}_]+(?:[.-][\p{L}\p{N}]+)*/gu;

  const stemmer = new Stemmer(), stems = new Map();
  const stem = word => { if (!stems.has(word)) stems.set(word, stemmer.stemWord(word)); return stems.get(word); };
  const tokens = text => text.toLowerCase().replace(/\u2019/g, "'").match(TOKEN) || [];
  const parts = token => (/[-.]/.test(token) && /\p{L}/u.test(token) ? [token, ...token.split(/[-.]/)] : [token]);
  const words = text => new Set(tokens(text).flatMap(parts).map(stem));

  // ---- the passages, read once ----
  let pages = null, known = null;
  function read() {
    pages = Object.entries(window.SEARCH_TEXTS || {}).map(([name, [title, sections]]) => ({
      name, title, kind: (KINDS.find(([start]) => name.startsWith(start)) || ["", 1])[1], titleWords: words(title),
      passages: sections.flatMap(([anchor, heading, texts]) => { const head = words(heading);
        return texts.map(text => ({ anchor, heading, head, text, words: words(text) })); }) }));
    known = new Map();             // of each word, on how many pages it is
    for (const page of pages) {
      page.words = new Set([...page.titleWords, ...page.passages.flatMap(p => [...p.head, ...p.words])]);
      for (const word of page.words) known.set(word, (known.get(word) || 0) + 1);
    }
  }
  function alternatives(token) {   // a word of the query, what else it may be called, and what begins with it
    const own = [token, SAME.get(token) || token, token.replace(/iz(e[drs]?|ing|ations?)$/, "is$1")].map(stem);
    const there = own.filter(word => known.has(word));
    if (there.length || token.length < 3) return there;
    return [...known.keys()].filter(word => word.startsWith(own[0]));
  }
  function terms(query) {
    const asked = tokens(query), meant = asked.filter(token => !ASKING.has(token));
    const split = (meant.length ? meant : asked).flatMap(token => (alternatives(token).length ? [token] : parts(token)));
    return [...new Set(split)].map(alternatives).filter(list => list.length).map(list => ({ list,
      weight: Math.log(1 + pages.length / Math.max(...list.map(word => known.get(word)))) }));
  }

  // ---- ranking ----
  const has = (set, term) => term.list.some(word => set.has(word));
  // Who asks for a term gets its definition first. Sphinx knows terms too, but forgets those of pages it did not read anew.
  const named = text => tokens(text.replaceAll("-", " ")).filter(token => !ASKING.has(token)).map(stem);
  const names = ({ text }) => text.slice(0, Math.max(0, text.indexOf(": "))).split(", ").map(named);
  function defined(passages, query) {  // the definition of the longest term that has more than half of the words
    const asked = named(SPELT.reduce((text, [from, to]) => text.replace(from, to), query));
    let most = asked.length / 2, found = null;
    for (const passage of passages) for (const name of names(passage))
      if (name.length > most && name.every(word => asked.includes(word))) { most = name.length; found = passage; }
    return found;
  }
  function best(page, asked, whole, query) {
    const definition = page.name === "book/glossary" && defined(page.passages, query);
    if (definition) return { page, passage: definition, score: 1, defines: true };
    const share = set => asked.reduce((sum, term) => sum + (has(set, term) ? term.weight : 0), 0) / whole;
    const anywhere = share(page.words);
    if (!anywhere) return null;
    let top = { place: -1 };
    for (const passage of page.passages) {
      let own = 0;
      for (const term of asked)
        own += term.weight * (has(passage.words, term) ? 1 : has(passage.head, term) ? .7 : has(page.titleWords, term) ? .4 : 0);
      const score = own / whole * (1 - .05 * Math.log(1 + passage.text.length / 300)), place = score + .3 * share(passage.head);
      if (place > top.place) top = { score, place, passage };  // a heading that has the words decides between passages
    }
    if (!top.passage) return null;
    const score = (.6 * top.score + .15 * share(top.passage.head) + .15 * share(page.titleWords) + .1 * anywhere) * page.kind;
    return { page, passage: top.passage, score };
  }
  function ranked(query) {
    if (!pages) read();
    const asked = terms(query), whole = asked.reduce((sum, term) => sum + term.weight, 0);
    const found = pages.map(page => best(page, asked, whole, query.trim().toLowerCase())).filter(Boolean).sort((a, b) => b.score - a.score);
    return { asked, found: found.filter(one => one.score >= LEAST * found[0].score) };
  }

  // ---- Sphinx's own search of titles, terms, names and code, in tables that any word can be looked up in ----
  function own(key) { return Object.prototype.hasOwnProperty.call(this, key); }
  own[Symbol.iterator] = function* none() {};  // who searches for "hasOwnProperty" finds a list without entries
  own.forEach = () => {};
  const bare = Object.create(null, { hasOwnProperty: { value: own } });
  const perform = Search.performTermsSearch;
  Search.performTermsSearch = (...query) => {
    for (const table of [Search._index.terms, Search._index.titleterms]) Object.setPrototypeOf(table, bare);
    return perform(...query);
  };
  const plain = title => title.replace(/<[^>]*>/g, "");
  function all(query) {
    const { asked, found } = ranked(query), results = new Map();
    const add = (address, result) => { if (!(results.get(address)?.score >= result.score)) results.set(address, result); };
    for (const { page, passage, score, defines } of found)
      add(page.name, { score: defines ? DEFINITION : BEST * score, name: page.name, anchor: passage.anchor, text: passage.text,
        title: passage.heading && passage.heading !== page.title ? `${page.title} \u203a ${passage.heading}` : page.title });
    const [given, searched, excluded, marked, objects] = Search._parseQuery(query), named = /[_.]|[a-z][A-Z]/.test(query);
    localStorage.removeItem(MARKED);  // a result's own address has them
    for (const [name, title, hash, description, score] of Search._performSearch(given, new Set(), excluded, new Set(), objects)) {
      const anchor = hash.slice(1), text = plain(description || "") || pages.find(page => page.name === name)?.passages.find(p => p.anchor === anchor)?.text;
      const isPackage = name.startsWith("book/api");  // behind the chapters, unless such a name was typed
      add(isPackage ? name + hash : name, { score: isPackage && !named ? 1 : score, name, anchor, title: plain(title), text });
    }
    if (results.size < FEW) for (const [name, title] of Search.performTermsSearch(searched, excluded))  // perhaps in code
      add(name, { score: 0, name, anchor: "", title: plain(title) });
    return { asked, marked: [...marked].join(" "), results: [...results.values()].sort((a, b) => b.score - a.score) };
  }

  // ---- the list ----
  function excerpt(text, asked) {  // the part of a passage that has most of the words, which are marked
    const hits = [...text.matchAll(TOKEN)].filter(({ 0: word }) => asked.some(term => has(words(word), term)));
    const starts = hits.map(hit => hit.index), inside = from => starts.filter(at => at >= from && at < from + EXCERPT).length;
    const first = starts.reduce((one, at) => (inside(at) > inside(one) ? at : one), starts[0] ?? 0);
    let from = text.length <= EXCERPT ? 0 : Math.max(0, first - 60);
    if (from) from = text.indexOf(" ", from) + 1;
    const to = text.length - from <= EXCERPT ? text.length : text.lastIndexOf(" ", from + EXCERPT);
    const line = document.createElement("p");
    line.className = "context";
    let at = from;
    if (from) line.append("\u2026 ");
    for (const hit of hits.filter(({ index }) => index >= from && index < to)) {
      const mark = document.createElement("mark");
      mark.textContent = hit[0];
      line.append(text.slice(at, hit.index), mark);
      at = hit.index + hit[0].length;
    }
    line.append(text.slice(at, to), ...(to < text.length ? [" \u2026"] : []));
    return line;
  }
  function entry({ name, anchor, title, text }, asked, marked) {
    const item = document.createElement("li"), link = item.appendChild(document.createElement("a"));
    const root = document.documentElement.dataset.content_root || "";
    link.href = `${root}${name}.html?highlight=${encodeURIComponent(marked)}${anchor ? `#${anchor}` : ""}`;
    link.textContent = title;
    if (text) item.append(excerpt(text, asked));
    return item;
  }
  Search.query = query => {
    const { asked, marked, results } = all(query);
    Search.stopPulse();
    Search.title.innerText = _("Search Results");
    Search.status.innerText = results.length
      ? `Search finished, ${results.length === 1 ? "one result" : `${results.length} results`}.`
      : "Your search did not match any page. Try fewer or other words.";
    Search.output.replaceChildren(...results.map(result => entry(result, asked, marked)));
  };
})();
