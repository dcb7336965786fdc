"use strict";
// The page: a slider a domain; every number is computed here from the fitted laws (laws.js).
const DATA = JSON.parse(document.getElementById("data").textContent);
const { domains } = DATA;
const at = id => document.getElementById(id);
const make = (tag, properties = {}, ...inside) => {
  const { data = {}, aria = {}, ...others } = properties;
  const made = Object.assign(document.createElement(tag), others);
  Object.assign(made.dataset, data);
  for (const [name, value] of Object.entries(aria)) made.setAttribute(`aria-${name}`, value);
  made.append(...inside);
  return made;
};
const percent = (value, digits = 2) => `${(100 * value).toFixed(digits)} %`;
const change = value => `${value > 0 ? "+" : value < 0 ? "−" : ""}${percent(Math.abs(value))}`.replace(" ", "\u00a0");

const state = {
  law: DATA.laws[0],
  mixture: { ...DATA.mixtures[DATA.start] },
  locked: new Set(),
  run: { ...DATA.run },
};

// Proportions ------------------------------------------------------------------------------------

// Set one share; the other open ones keep their ratios and take the rest.
function set(name, share) {
  const others = domains.filter(one => one !== name && !state.locked.has(one));
  const held = domains.reduce((sum, one) => sum + (state.locked.has(one) && one !== name ? state.mixture[one] : 0), 0);
  const own = others.length ? Math.min(Math.max(share, 0), 1 - held) : 1 - held;
  const before = others.reduce((sum, one) => sum + state.mixture[one], 0);
  const rest = Math.max(1 - held - own, 0);
  for (const one of others) state.mixture[one] = before > 0 ? (state.mixture[one] * rest) / before : rest / others.length;
  state.mixture[name] = own;
}

// Six decimals that sum to exactly 1, by largest remainders, as the workflow writes mixtures.
function rounded(mixture) {
  const millionths = domains.map(name => [name, Math.floor(mixture[name] * 1e6), (mixture[name] * 1e6) % 1]);
  let left = 1e6 - millionths.reduce((sum, [, whole]) => sum + whole, 0);
  const order = [...millionths].sort((a, b) => b[2] - a[2] || (a[0] < b[0] ? -1 : 1));
  for (const one of order) if (left-- > 0) one[1] += 1;
  return Object.fromEntries(millionths.map(([name, whole]) => [name, whole / 1e6]));
}

// What the laws say --------------------------------------------------------------------------------

const losses = mixture => Laws.losses(state.law.fitted, state.run, mixture);
const epochs = (name, mixture) =>
  state.run.pools?.[name] && state.run.tokens ? (mixture[name] * state.run.tokens) / state.run.pools[name] : null;

// The bounds of a share at the run that is set, of which its epochs are.
function bounds(name) {
  const [lower, upper] = DATA.bounds[name], pool = state.run.pools?.[name];
  const most = DATA.max_epochs && pool ? (DATA.max_epochs * pool) / state.run.tokens : 1;
  return [lower, Math.min(upper, most)];
}

// The losses that minimax and no_worse_than compare with: those of the objective's own reference.
const compared = () => losses(DATA.objective.reference ?? DATA.mixtures[DATA.reference]);

function objective(values, before) {
  const { kind, weights, groups } = DATA.objective;
  if (kind === "minimax") return Math.max(...Object.values(groups).map(members =>
    members.reduce((sum, name) => sum + values[name] / before[name] / members.length, 0)));
  return Object.entries(weights).reduce((sum, [name, weight]) => sum + (weight ? weight * values[name] : 0), 0);
}

// The ends of an interval over its estimate, at the requested step: beyond the last step fitted it is
// wider by what the curve over steps missed where it was fitted without the last evaluations.
function wider([low, high] = [], rate = 0) {
  if (!low || !rate) return [low, high];
  const { steps } = state.law.fitted, distance = step => rate * Math.max(0, Math.log(step / steps[steps.length - 1]));
  const more = distance(state.run.step) ** 2 - distance(DATA.run.step) ** 2;
  return [-1, 1].map((side, index) => Math.exp(side * Math.sqrt(Math.max(0, Math.log([low, high][index]) ** 2 + more))));
}

// The bounds and the promises that a mixture breaks, in words.
function broken(mixture, values, before = state.law && compared()) {
  const words = [];
  for (const name of domains) {
    const [lower, upper] = bounds(name), own = mixture[name];
    if (own < lower - 1e-6) words.push(`${name} is below its least share, ${percent(lower)}`);
    if (own > upper + 1e-6) words.push(`${name} is above its largest share, ${percent(upper)}`);
  }
  if (state.law && DATA.objective.kind === "no_worse_than") for (const name of Object.keys(values)) {
    const worse = values[name] / before[name] - state.law.limits[name];
    if (worse > 1e-6) words.push(`${name} ends ${percent(worse)} above what no_worse_than allows`);
  }
  return words;
}

function nearest(mixture) {
  let best = null;
  for (const [name, run] of Object.entries(DATA.runs)) {
    const apart = domains.reduce((sum, one) => sum + Math.abs(mixture[one] - run[one]), 0) / 2;
    if (!best || apart < best.apart) best = { name, apart };
  }
  return best;
}

// The page -----------------------------------------------------------------------------------------

function rows() {
  for (const [index, name] of domains.entries()) {
    const slider = make("input", { type: "range", min: 0, max: 1000, step: 1, id: `s${index}`, aria: { label: `share of ${name}` } });
    const number = make("input", { type: "number", min: 0, max: 100, step: 0.01, id: `n${index}`, aria: { label: `share of ${name} in per cent` } });
    const lock = make("input", { type: "checkbox", id: `l${index}`, aria: { label: `keep the share of ${name}` } });
    slider.oninput = () => { set(name, unscaled(slider.value)); show(slider); };
    number.onchange = () => { set(name, Number(number.value) / 100); show(); };
    lock.onchange = () => { state.locked[lock.checked ? "add" : "delete"](name); show(); };
    at("domains").append(make("tr", { id: `d${index}` }, make("th", { scope: "row", textContent: name }),
      make("td", {}, slider), make("td", {}, number), make("td", { className: "epochs" }), make("td", {}, lock)));
  }
  for (const [index, name] of DATA.losses.entries())
    at("losses").append(make("tr", { id: `r${index}` }, make("th", { scope: "row", textContent: name }),
      make("td"), make("td"), make("td"), make("td", { className: "plot" }, make("i"), make("b"))));
  for (const name of Object.keys(DATA.mixtures)) {
    const textContent = DATA.labels[name] || name;
    const button = make("button", { type: "button", textContent, data: { name }, aria: { pressed: "false" } });
    button.onclick = () => { state.mixture = { ...DATA.mixtures[name] }; show(); };
    at("mixtures").append(button);
  }
  DATA.laws.forEach((law, index) => at("law").append(make("option", { value: index, textContent: law.name })));
  if (state.law) at("law").onchange = () => { state.law = DATA.laws[at("law").value]; controls(); show(); };
  for (const name of Object.keys(DATA.exports)) at("format").append(make("option", { value: name, textContent: name }));
  at("export").onclick = () => {
    const [text, why] = exported(at("format").value, at("paths").value, rounded(state.mixture));
    at("refused").textContent = why;
    if (text !== null) save(DATA.exports[at("format").value].ending.slice(1), text);
  };
  at("json").onclick = () => save("json", `${JSON.stringify(rounded(state.mixture), null, 2)}\n`);
  at("csv").onclick = () => save("csv", `domain,proportion\n${Object.entries(rounded(state.mixture))
    .map(([name, share]) => `${/[",\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name},${share.toFixed(6)}\n`).join("")}`);
}

// Shares are shown by their cube root: one of a thousandth has room on a slider, too.
const scaled = share => Math.round(1000 * Math.cbrt(share)), unscaled = value => (value / 1000) ** 3;

// The run that is predicted: its steps where the law has a curve over steps, its size and tokens where
// the law is over sizes.
function controls() {
  if (!state.law) return;
  const table = Object.values(state.law.fitted.coefficients), steps = state.law.fitted.steps;
  state.run = { ...DATA.run };
  at("run").replaceChildren();
  const control = (label, value, options, changed) => {
    const input = make("input", { type: "number", value, min: options.min, max: options.max, step: "any", id: `run-${label}` });
    input.onchange = () => { if (input.checkValidity() && Number(input.value) > 0) { changed(Number(input.value)); show(); } };
    at("run").append(make("label", {}, `${label} `, input));
  };
  if (table[0].size) {
    control("parameters", state.run.parameters, { min: 1 }, value => { state.run.parameters = value; });
    if (state.run.tokens) control("tokens", state.run.tokens, { min: 1 }, value => { state.run.tokens = value; });
  } else if (table[0].B !== undefined) {
    control("steps", state.run.step, { min: 1, max: DATA.horizon * steps[steps.length - 1] }, value => {
      if (state.run.tokens) state.run.tokens *= value / state.run.step;
      state.run.step = value;
    });
  } else at("run").append(`The law was fitted at step ${state.run.step.toLocaleString("en")} alone.`);
}

const spread = name => wider(state.law.spread[name], state.law.ahead[name]);

function show(moving) {
  const { mixture } = state;
  domains.forEach((name, index) => {
    const row = at(`d${index}`), often = epochs(name, mixture);
    const slider = at(`s${index}`), number = at(`n${index}`);
    if (slider !== moving) slider.value = scaled(mixture[name]);
    slider.setAttribute("aria-valuetext", percent(mixture[name]));
    slider.disabled = number.disabled = state.locked.has(name);
    number.value = (100 * mixture[name]).toFixed(2);
    row.querySelector(".epochs").textContent = often === null ? "" : often.toFixed(2);
    const [lower, upper] = bounds(name);
    row.classList.toggle("broken", mixture[name] < lower - 1e-6 || mixture[name] > upper + 1e-6);
  });
  for (const button of at("mixtures").children) {
    const same = domains.every(name => Math.abs(DATA.mixtures[button.dataset.name][name] - mixture[name]) < 5e-7);
    button.setAttribute("aria-pressed", same);
  }
  const values = state.law ? losses(mixture) : {};
  if (state.law) predicted(values, losses(DATA.mixtures[DATA.reference]));
  where(broken(mixture, values));
}

function predicted(values, before) {
  const relative = DATA.losses.map(name => values[name] / before[name] - 1);
  const widest = Math.max(0.02, ...relative.map((one, index) => {
    const [low = 1, high = 1] = spread(DATA.losses[index]);
    return Math.max(Math.abs((1 + one) * low - 1), Math.abs((1 + one) * high - 1));
  }).filter(Number.isFinite));
  DATA.losses.forEach((name, index) => {
    const [low, high] = spread(name), cells = at(`r${index}`).children, one = relative[index];
    cells[1].textContent = values[name].toFixed(4);
    cells[2].textContent = low ? `${(values[name] * low).toFixed(4)} to ${(values[name] * high).toFixed(4)}` : "not known";
    cells[3].textContent = change(one);
    const [line, point] = cells[4].children, place = value => `${50 + (47 * value) / widest}%`;
    const [from, to] = [(1 + one) * (low ?? 1) - 1, (1 + one) * (high ?? 1) - 1];
    line.style.left = place(from);
    line.style.width = `${(47 * (to - from)) / widest}%`;
    point.style.left = place(one);
  });
  at("scale").textContent = `${change(-widest)} to ${change(widest)}`;
  const reference = compared(), [low, high] = wider(state.law.average ?? [], state.law.ahead_of_average);
  const own = objective(values, reference);
  const base = objective(before, reference);
  const gain = own / base - 1;
  at("objective").textContent = own.toFixed(4);
  at("interval").textContent = low ? `${(own * low).toFixed(4)} to ${(own * high).toFixed(4)} (${DATA.level})` : "interval not known";
  at("gain").textContent = gain === 0 ? `as ${DATA.reference}` : `${percent(Math.abs(gain))} ${gain < 0 ? "below" : "above"} ${DATA.reference}`;
}

// Epochs, the distance to the runs, and the bounds.
function where(faults) {
  const near = nearest(state.mixture);
  const most = domains.map(name => [epochs(name, state.mixture), name]).filter(([often]) => often !== null).sort((a, b) => b[0] - a[0])[0];
  at("epochs").textContent = most ? `${most[1]}, ${most[0].toFixed(1)} times` : "pools are not known";
  at("near").textContent = near ? `${near.name}, ${percent(near.apart, 1)} of the text apart` : "";
  at("far").hidden = !near || near.apart < DATA.far;
  const fresh = (state.law?.unseen ?? []).filter(name => state.mixture[name] > DATA.seen);
  at("unseen").textContent = fresh.length ? `No fitted run trains on ${fresh.join(", ")}: ${state.law.basis}, so intervals are too narrow here.` : "";
  at("faults").replaceChildren(...faults.map(text => make("li", { textContent: text })));
  at("held").textContent = faults.length ? "" : "all hold";
}

// Weights of nine decimals that sum to exactly 1 and are above 0, as exports have them.
function decimals(weights) {
  const units = 1e9, fine = weights.map(weight => Math.round(weight * units * 1000));
  const whole = fine.map(part => Math.max(1, Math.floor(part / 1000)));
  const rest = units - whole.reduce((sum, one) => sum + one, 0), order = whole.map((_, index) => index);
  if (rest < 0) whole[whole.indexOf(Math.max(...whole))] += rest;
  order.sort((a, b) => (whole[a] * 1000 - fine[a]) - (whole[b] * 1000 - fine[b]));
  for (const index of order.slice(0, Math.max(rest, 0))) whole[index] += 1;
  return whole.map(one => one / units);
}

// An export: the marks of its text filled in. A domain of share 0 has no line, nor a word in a line of all.
function exported(format, pattern, mixture) {
  const kept = domains.filter(name => mixture[name] > 0), weights = decimals(kept.map(name => mixture[name]));
  const named = name => pattern.replace("{domain}", name.replace(/[^A-Za-z0-9._-]/g, "_"));
  if (!/^[A-Za-z0-9_.\/][A-Za-z0-9_.\/-]*\{domain\}[A-Za-z0-9_.\/-]*$/.test(pattern) || !pattern.includes("/"))
    return [null, "a path of letters, digits and . _ - / with {domain} in it"];
  if (new Set(kept.map(named)).size < kept.length) return [null, "two domains would have one path"];
  const written = {
    d: weight => weight.toFixed(9).replace(/0+$/, "").replace(/\.$/, ".0"),
    w: weight => weight >= 1e-4 ? written.d(weight)
      : weight.toExponential().replace(/e-(\d)$/, "e-0$1").replace(/^(\d)e/, "$1.0e"),
  };
  const at = (kind, name) => kind === "p" ? named(name) : written[kind](weights[kept.indexOf(name)]);
  const gone = mark => !kept.includes(domains[mark.match(/\d+/)]), marks = /@@[dwp]\d+@@/g;
  const lines = DATA.exports[format].text.split("\n").filter(line => !line.match(marks)?.every(gone))
    .map(line => line.replace(/ \S*@@[dwp]\d+@@\S*/g, word => (gone(word.match(marks)[0]) ? "" : word)));
  const text = lines.join("\n").replace(/,(\n *\])/g, "$1");
  return [text.replace(/@@([dwp])(\d+)@@/g, (_, kind, index) => at(kind, domains[index])), ""];
}

function save(ending, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text])), download: `mixture.${ending}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

rows();
controls();
show();
