  'use strict';
  const SVG = 'http://www.w3.org/2000/svg';
  const $ = (id) => document.getElementById(id);
  const el = (tag, attrs = {}, ...inner) => {
    const e = document.createElement(tag);
    for (const k in attrs) e.setAttribute(k, attrs[k]);
    e.append(...inner);
    return e;
  };
  const shape = (tag, attrs, text) => {
    const e = document.createElementNS(SVG, tag);
    for (const k in attrs) e.setAttribute(k, attrs[k]);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const put = (e, text) => {
    if (e.textContent !== text) e.textContent = text;
  };

  const bytes = (v) => {
    const steps = [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [1024, 'KiB'], [1, 'B']];
    const [f, name] = steps.find(([f]) => v >= f) || steps[4];
    return Number((v / f).toPrecision(3)) + ' ' + name;
  };
  const count = (v) => Math.round(v).toLocaleString('en');
  const percent = (v) => (100 * v).toFixed(v < 0.1 && v > 0 ? 1 : 0) + ' %';
  const seconds = (v) => v >= 100 ? count(v) + ' s' : v >= 1 ? v.toFixed(1) + ' s' : (1000 * v).toFixed(0) + ' ms';
  const span = (v) => v >= 86400 ? (v / 86400).toFixed(1) + ' days' : v >= 3600 ? (v / 3600).toFixed(1) + ' h' : v >= 60 ? Math.floor(v / 60) + ' min' : Math.floor(v) + ' s';
  const tiles = (list) => $('tiles').replaceChildren(...list.map(([name, value]) =>
    el('div', {}, el('dt', {}, name), el('dd', {}, value))));

  // A row of a table that carries its bar: the number is read, the bar is seen.
  const row = (name, style, value, text, more = []) => {
    const bar = shape('svg', { viewBox: '0 0 100 14', preserveAspectRatio: 'none', 'aria-hidden': 'true', class: 'k' + style });
    bar.append(shape('rect', { class: 'fill', width: Math.max(0, Math.min(100, 100 * value)), height: 14 }));
    return el('tr', {}, el('th', { scope: 'row' }, name), el('td', { class: 'bar' }, bar),
      el('td', { class: 'num' }, text), ...more.map((m) => el('td', { class: 'num' }, m)));
  };
  const table = (label, heads, rows) => el('table', { 'aria-label': label },
    el('thead', {}, el('tr', {}, ...heads.map((h, i) => el(h ? 'th' : 'td', { ...(h && { scope: 'col' }), class: i > 1 ? 'num' : '' }, h)))),
    el('tbody', {}, ...rows));

  const modes = ['auto', 'light', 'dark'], theme = $('theme');
  let mode = 'auto';
  const wear = (m) => {
    mode = m;
    if (m === 'auto') delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = m;
    put(theme, 'Theme: ' + m);
  };
  wear('auto');
  theme.hidden = false;
  theme.onclick = () => wear(modes[(modes.indexOf(mode) + 1) % 3]);

  const get = async (path) => {
    const answer = await fetch(path, { cache: 'no-store' });
    if (!answer.ok) throw new Error(path + ': ' + answer.status);
    return answer.json();
  };
