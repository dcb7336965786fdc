"use strict";
// What a fitted law says of a mixture: the arithmetic of bimix/laws on the same JSON (coefficients.json).
// A mixture is {domain: proportion}; a run is {step, parameters, tokens, pools}, pools {domain: unique
// tokens} or null; what is not known is null. Losses are {loss domain: nats per token, or the metric}.
const Laws = (() => {
  const SAME_SIZE = 1.05; // models within this factor are of one size
  const total = (names, of) => names.reduce((sum, name) => sum + of(name), 0);

  // B / s^beta + C, with the A of the paper's law; a law of one step has A alone.
  function curve(c, step) {
    const a = c.A ?? 1;
    return c.B === undefined ? a : a * Math.exp(Math.log(c.B) - c.beta * Math.log(step)) + a * c.C;
  }

  // How much of what mixtures do is there at a step: straight in log step between those fitted.
  function effect(effects, step) {
    const known = Object.entries(effects ?? { 1: 1 }).map(([at, e]) => [Number(at), e]).sort((a, b) => a[0] - b[0]);
    const next = known.findIndex(([at]) => at >= step);
    if (next <= 0) return known[next < 0 ? known.length - 1 : 0][1];
    const [[before, low], [after, high]] = known.slice(next - 1, next + 1);
    return low + (high - low) * (Math.log(step / before) / Math.log(after / before));
  }

  function bimix(law, run, mixture) {
    return name => {
      const c = law.coefficients[name], own = mixture[name];
      return (c.alpha === 0 ? 1 : own > 0 ? own ** -c.alpha : NaN) * curve(c, run.step);
    };
  }

  // Epochs of a domain's pool that a whole share would read; 0: it is never repeated.
  const perShare = (run, name) => (run.pools?.[name] && run.tokens ? run.tokens / run.pools[name] : 0);

  // The share that counts: text that is read again counts less, and ever less (2305.16264).
  function counted(share, per, R) {
    const again = share * per - 1;
    return again > 0 ? (1 + R * (1 - Math.exp(-again / R))) / per : share;
  }

  // The level of a loss at a model's size and tokens, the power nu of the mixing factor there, and the
  // c of the harm that only a larger model shows.
  function sized(size, run) {
    const [parameters, tokens] = [run.parameters, run.tokens];
    const fall = (height, power, at, middle) => height * (middle ? (at / middle) ** -power : 1);
    let level = Math.log(
      fall(size.B, size.b, tokens, size.tokens) + fall(size.D, size.g, parameters, size.parameters) + size.C);
    let [nu, c] = [1, 0];
    const same = size.sizes.filter(one => Math.abs(Math.log(one.parameters / parameters)) <= Math.log(SAME_SIZE));
    const apart = one => (tokens == null || one.tokens == null ? 0 : Math.abs(Math.log(one.tokens / tokens)));
    const largest = size.sizes[size.sizes.length - 1];
    if (same.length) {
      const near = same.reduce((best, one) => (apart(one) < apart(best) ? one : best));
      level += near.shift;
      [nu, c] = [near.nu, near.c ?? 0];
    } else if (parameters > largest.parameters) [nu, c] = [largest.nu, largest.c ?? 0];
    return [level + (1 - nu) * size.centre, nu, c];
  }

  function transfer(law, run, mixture) {
    const forms = Object.values(law.coefficients).map(c => c.repetition).filter(Boolean);
    const form = forms.length ? forms.reduce((a, b) => (b.P > a.P ? b : a)) : { R: 15.4, P: 0, mu: 1.5, kappa: 0.5, scale: null };
    // Without pools, or where neither sizes nor repetition were fitted, shares count as they are.
    const per = name => perShare(run, name);
    const rho = Object.fromEntries(law.domains.map(name => [name, counted(mixture[name], per(name), form.R)]));
    return name => {
      const c = law.coefficients[name];
      const [level, nu, larger] = c.size ? sized(c.size, run) : [0, 1, c.run?.c ?? 0];
      const terms = c.terms.map(term => {
        const sum = total(law.domains, from => term.transfer[from] * rho[from] ** c.gamma);
        return term.alpha > 0 ? (sum > 0 ? term.A * sum ** -term.alpha : NaN) : term.A;
      });
      const straight = c.t ? total(law.domains, from => c.t[from] * mixture[from]) : 0;
      const factor = Math.log(terms.reduce((a, b) => a + b, 0)) + straight;
      const over = c.size ? 1 : curve({ B: c.B, beta: c.beta, C: c.C }, run.step);
      let [harm, bend] = [0, 0];
      const own = c.own ?? name;
      const again = mixture[own] * per(own) - 1;
      if (law.domains.includes(own) && again > 0) bend = larger * mixture[own] * (again * again / (1 + again));
      if (law.domains.includes(own) && c.repetition?.P && again > 0) {
        const both = law.domains.filter(one => isFinite(form.pools?.[one]) && isFinite(run.pools[one]));
        const grown = total(both, one => Math.log(run.pools[one] / form.pools[one])) / (both.length || 1);
        const scale = (form.scale || run.parameters || 1) * Math.exp(grown);
        const height = c.repetition.P * (scale / run.pools[own]) ** form.kappa;
        harm = height * mixture[own] ** form.mu * (again * again / (1 + again));
      }
      return Math.exp(level + nu * effect(c.effects, run.step) * factor + bend) * over + harm;
    };
  }

  const atStep = (law, run, name) => law.coefficients[name].steps[String(run.step)];

  function exponential(law, run, mixture) {
    return name => {
      const n = atStep(law, run, name);
      return n ? n.c + n.k * Math.exp(total(law.domains, from => n.t[from] * mixture[from])) : NaN;
    };
  }

  const forms = { bimix, transfer, exponential, olmix: exponential };
  return {
    known: Object.keys(forms),
    losses(law, run, mixture) {
      const of = forms[law.law](law, run, mixture);
      return Object.fromEntries(law.loss_domains.map(name => [name, of(name)]));
    },
  };
})();
