// A small GPT-2 or GPT-NeoX in plain JavaScript: byte-level BPE, forward pass, each score in four parts. Weights come
// from book.publish.weights_script in half precision; sums are in double precision.
(() => {
  "use strict";
  const SPLIT = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

  // ---- tokenizer: GPT-2's bytes, each as one visible character, joined by ranked merges ----
  function byteCharacters() {
    const shown = [[33, 126], [161, 172], [174, 255]], characters = [];
    for (let b = 0, next = 256; b < 256; b++)
      characters.push(String.fromCodePoint(shown.some(([low, high]) => low <= b && b <= high) ? b : next++));
    return characters;
  }
  const BYTES = byteCharacters(), BACK = new Map(BYTES.map((character, b) => [character, b]));

  class Tokenizer {
    constructor(tokens, merges) {
      this.tokens = tokens;
      this.ids = new Map(tokens.map((token, id) => [token, id]));
      this.ranks = new Map(merges.map((pair, rank) => [pair, rank]));
    }
    join(word) {
      let parts = Array.from(word);
      while (parts.length > 1) {
        let best = Infinity, at = -1;
        for (let k = 0; k + 1 < parts.length; k++) {
          const rank = this.ranks.get(`${parts[k]} ${parts[k + 1]}`);
          if (rank < best) { best = rank; at = k; }
        }
        if (at < 0) break;
        const pair = [parts[at], parts[at + 1]], joined = [];
        for (let k = 0; k < parts.length; k++)    // every place of this pair, from the left
          if (parts[k] === pair[0] && parts[k + 1] === pair[1]) { joined.push(pair.join("")); k++; } else joined.push(parts[k]);
        parts = joined;
      }
      return parts;
    }
    encode(text) {
      const out = [];
      for (const [piece] of text.matchAll(SPLIT)) {
        const word = Array.from(new TextEncoder().encode(piece), b => BYTES[b]).join("");
        for (const part of this.join(word)) out.push(this.ids.get(part));
      }
      return out;
    }
    decode(id) {
      const raw = Array.from(this.tokens[id], character => BACK.get(character));
      return raw.includes(undefined) ? this.tokens[id] : new TextDecoder().decode(new Uint8Array(raw));
    }
  }

  // ---- the layers; x is (n, width), row by row ----
  function linear(x, n, weight, bias, wide, out) {
    const y = new Float64Array(n * out);
    for (let i = 0; i < n; i++) {
      if (bias) for (let o = 0; o < out; o++) y[i * out + o] = bias[o];
      for (let k = 0; k < wide; k++) {
        const a = x[i * wide + k];
        if (a) for (let o = 0, w = k * out; o < out; o++, w++) y[i * out + o] += a * weight[w];
      }
    }
    return y;
  }
  // Each head's part of a bias, made LONG times as long as its part of another.
  const LONG = 4;
  function lengthened(bias, other, c) {
    const out = Float64Array.from(bias), length = row => Math.hypot(...row);
    for (let at = 0; at < bias.length; at += c) {
      const factor = LONG * length(other.subarray(at, at + c)) / length(bias.subarray(at, at + c));
      for (let m = at; m < at + c; m++) out[m] *= factor;
    }
    return out;
  }
  function layerNorm(x, n, width, gain, bias, epsilon) {
    const y = new Float64Array(n * width), sigma = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      let mean = 0, square = 0;
      for (let k = 0; k < width; k++) mean += x[i * width + k] / width;
      for (let k = 0; k < width; k++) square += (x[i * width + k] - mean) ** 2 / width;
      sigma[i] = Math.sqrt(square + epsilon);
      for (let k = 0; k < width; k++) y[i * width + k] = (x[i * width + k] - mean) / sigma[i] * gain[k] + bias[k];
    }
    return { y, sigma };
  }
  // The exact GELU; the error function by Abramowitz and Stegun 7.1.26, to 2e-7.
  function exactGelu(x) {
    const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + .3275911 * z);
    const tail = t * (.254829592 + t * (-.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-z * z);
    return x * (x < 0 ? tail / 2 : 1 - tail / 2);
  }
  const gelu = x => .5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + .044715 * x ** 3)));
  function softmax(row) {
    const top = Math.max(...row), e = row.map(a => Math.exp(a - top)), sum = e.reduce((s, a) => s + a, 0);
    return e.map(a => a / sum);
  }

  class Model {
    constructor({ name, config, tokens, merges, tensors, data }) {
      const all = Play.halves(data);
      this.name = name;
      this.config = config;
      this.tokenizer = new Tokenizer(tokens, merges);
      this.weights = {};
      for (const [key, [start, length]] of Object.entries(tensors)) this.weights[key] = all.subarray(start, start + length);
    }
    // Columns [start, start + width) of W, a stored (width, 3 width) matrix: queries, keys or values of all heads.
    part(layer, which) {
      const d = this.config.width, stored = this.weights[`h.${layer}.attn.c_attn.weight`], out = new Float32Array(d * d);
      for (let k = 0; k < d; k++) out.set(stored.subarray(k * 3 * d + which * d, k * 3 * d + (which + 1) * d), k * d);
      const bias = this.weights[`h.${layer}.attn.c_attn.bias`].subarray(which * d, (which + 1) * d);
      return { W: out, b: bias };
    }
    // `without` holds names of what is switched off: b_Q b_K b_V positions T^p T^pp; and of what is put in: long_b_K.
    run(ids, without = new Set()) {
      const { width: d, layers, epsilon, hidden } = this.config, n = ids.length, w = this.weights;
      let x = new Float64Array(n * d), read = [];
      const positions = new Float64Array(n * d);
      for (let i = 0; i < n; i++) for (let k = 0; k < d; k++) {
        positions[i * d + k] = without.has("positions") || this.config.rotary ? 0 : w["wpe.weight"][i * d + k];
        x[i * d + k] = w["wte.weight"][ids[i] * d + k] + positions[i * d + k];
      }
      for (let layer = 0; layer < layers; layer++) {
        const at = `h.${layer}.`;
        const ln = layerNorm(x, n, d, w[`${at}ln_1.weight`], w[`${at}ln_1.bias`], epsilon);
        const own = layer || this.config.rotary ? null : { positions, sigma: ln.sigma };
        const { heads, mixed } = this.attend(layer, ln.y, n, without, own);
        read.push(heads);
        const back = linear(mixed, n, w[`${at}attn.c_proj.weight`], w[`${at}attn.c_proj.bias`], d, d);
        const after = x.map((a, k) => a + back[k]);   // with rotary positions the MLP reads what the attention read
        const second = layerNorm(this.config.rotary ? x : after, n, d, w[`${at}ln_2.weight`], w[`${at}ln_2.bias`], epsilon).y;
        const inner = linear(second, n, w[`${at}mlp.c_fc.weight`], w[`${at}mlp.c_fc.bias`], d, hidden).map(this.config.rotary ? exactGelu : gelu);
        const outer = linear(inner, n, w[`${at}mlp.c_proj.weight`], w[`${at}mlp.c_proj.bias`], hidden, d);
        x = after.map((a, k) => a + outer[k]);
      }
      const last = layerNorm(x, n, d, w["ln_f.weight"], w["ln_f.bias"], epsilon).y;
      return { ids, layers: read, next: position => this.next(last.subarray(position * d, (position + 1) * d)) };
    }
    next(row) {                   // probabilities of the next token
      const { width: d, vocabulary } = this.config, table = this.weights["wte.weight"];
      return softmax(Float64Array.from({ length: vocabulary }, (_, v) => {
        let sum = 0;
        for (let k = 0; k < d; k++) sum += row[k] * table[v * d + k];
        return sum;
      }));
    }
    attend(layer, x, n, without, own) {
      const { width: d, heads: count } = this.config, c = d / count, root = Math.sqrt(c);
      const [q, k, v] = [0, 1, 2].map(which => this.part(layer, which));
      const turn = rows => this.turn(rows, n, without), repeat = row => Float64Array.from({ length: n * d }, (_, k) => row[k % d]);
      const [queries, keys] = [q, k].map(one => turn(linear(x, n, one.W, null, d, d)));
      const values = linear(x, n, v.W, without.has("b_V") ? null : v.b, d, d);
      const none = new Float32Array(d), bQ = without.has("b_Q") ? none : q.b, bK = without.has("b_K") ? none : without.has("long_b_K") ? lengthened(k.b, q.b, c) : k.b;
      const [queryBias, keyBias] = [bQ, bK].map(row => turn(repeat(row)));
      const taken = own ? this.positional(layer, own, n, q, k, bQ, without) : null;
      const mixed = new Float64Array(n * d), heads = [], keysOf = Array.from({ length: n }, (_, j) => j);
      for (let h = 0; h < count; h++) {
        const dot = (a, i, b, j) => {
          let sum = 0;
          for (let m = h * c; m < (h + 1) * c; m++) sum += a[i * d + m] * b[j * d + m];
          return sum / root;
        };
        const head = { content: [], semiBias: [], constants: [], scores: [], weights: [] };
        for (let i = 0; i < n; i++) {
          const less = j => (taken ? taken(h, i, j) : { p: 0, pp: 0 });
          head.content.push(keysOf.map(j => dot(queries, i, keys, j) - less(j).pp));
          head.semiBias.push(keysOf.map(j => dot(queryBias, i, keys, j) - less(j).p));
          head.constants.push(keysOf.map(j => dot(queries, i, keyBias, j) + dot(queryBias, i, keyBias, j)));
          head.scores.push(keysOf.map(j => head.content[i][j] + head.semiBias[i][j] + head.constants[i][j]));
          const weights = softmax(head.scores[i].slice(0, i + 1));
          head.weights.push(keysOf.map(j => weights[j] || 0));
          for (let j = 0; j <= i; j++) for (let m = h * c; m < (h + 1) * c; m++) mixed[i * d + m] += weights[j] * values[j * d + m];
        }
        heads.push(head);
      }
      return { heads, mixed };
    }
    // Rotary positions: in each head channel m and its partner m + c/2 are turned by position times base^(-2m/c).
    turn(rows, n, without) {
      const { width: d, heads, rotary: base } = this.config, c = d / heads, out = Float64Array.from(rows);
      if (!base || without.has("positions")) return out;
      for (let i = 0; i < n; i++) for (let start = i * d; start < (i + 1) * d; start += c) for (let m = 0; m < c / 2; m++) {
        const angle = i * base ** (-2 * m / c), [a, b] = [rows[start + m], rows[start + m + c / 2]];
        out[start + m] = a * Math.cos(angle) - b * Math.sin(angle);
        out[start + m + c / 2] = b * Math.cos(angle) + a * Math.sin(angle);
      }
      return out;
    }
    // T^p_j and T^pp_ij of the first layer, its LayerNorm folded in: what the switches take away.
    positional(layer, { positions, sigma }, n, q, k, bQ, without) {
      const { width: d, heads: count } = this.config, c = d / count, root = Math.sqrt(c);
      if (!without.has("T^p") && !without.has("T^pp")) return null;
      const gain = this.weights[`h.${layer}.ln_1.weight`], shift = this.weights[`h.${layer}.ln_1.bias`];
      const rows = new Float64Array(n * d);
      for (let i = 0; i < n; i++) {
        let mean = 0;
        for (let m = 0; m < d; m++) mean += positions[i * d + m] / d;
        for (let m = 0; m < d; m++) rows[i * d + m] = (positions[i * d + m] - mean) * gain[m] / sigma[i];
      }
      const [asQueries, asKeys] = [q, k].map(one => linear(rows, n, one.W, null, d, d));
      const bias = linear(shift, 1, q.W, bQ, d, d);
      const sum = (h, a, i, j) => {
        let s = 0;
        for (let m = h * c; m < (h + 1) * c; m++) s += a[i * d + m] * asKeys[j * d + m];
        return s / root;
      };
      return (h, i, j) => ({ p: without.has("T^p") ? sum(h, bias, 0, j) : 0, pp: without.has("T^pp") ? sum(h, asQueries, i, j) : 0 });
    }
  }
  Play.Model = Model;
  Play.model = async name => {
    await Play.load(`${name}.js`);
    return Play.models[name] = Play.models[name] instanceof Model ? Play.models[name] : new Model(Play.models[name]);
  };
})();
