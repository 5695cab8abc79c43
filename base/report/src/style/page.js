(() => {
  'use strict';
  const SVG = 'http://www.w3.org/2000/svg';
  const root = document.documentElement;
  const all = (s, at = document) => [...at.querySelectorAll(s)];
  const make = (tag, text, label) => {
    const b = document.createElement(tag);
    b.textContent = text;
    if (label) b.setAttribute('aria-label', label);
    return b;
  };

  // Light, dark, or as the reader's system has it.
  const modes = ['auto', 'light', 'dark'];
  let mode = 'auto';
  const theme = make('button', '');
  theme.type = 'button';
  theme.className = 'theme';
  const wear = (m) => {
    mode = m;
    if (m === 'auto') delete root.dataset.theme; else root.dataset.theme = m;
    theme.textContent = 'Theme: ' + m;
  };
  const fromAddress = () => {
    const m = location.hash.slice(1);
    if (modes.includes(m)) wear(m);
  };
  wear('auto');
  fromAddress();
  addEventListener('hashchange', fromAddress);
  theme.onclick = () => wear(modes[(modes.indexOf(mode) + 1) % 3]);
  document.querySelector('main').prepend(theme);

  // Numbers as the report writes them.
  const STEPS = {
    s: [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']],
    bytes: [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [1024, 'KiB'], [1, 'B']],
    share: [[0.01, '%']],
    J: [[1e3, 'kJ'], [1, 'J'], [1e-3, 'mJ'], [1e-6, 'µJ']],
    W: [[1, 'W'], [1e-3, 'mW']],
  };
  const say = (v, unit) => {
    const steps = STEPS[unit] || [[1, unit === 'count' ? '' : unit]];
    const [f, name] = steps.find(([f]) => Math.abs(v) >= f * 0.9995) || steps[v === 0 ? 0 : steps.length - 1];
    const n = v / f;
    const text = Math.abs(n) >= 1000 ? Math.round(n).toLocaleString('en') : String(Number(n.toPrecision(3)));
    return text.replace('-', '−') + (name ? ' ' + name : '');
  };

  // The tooltip.
  const tip = document.createElement('div');
  tip.id = 'tip';
  tip.hidden = true;
  tip.setAttribute('role', 'status');
  document.body.append(tip);
  const show = (e, text) => {
    tip.textContent = text;
    tip.hidden = false;
    const w = tip.offsetWidth, h = tip.offsetHeight, edge = root.clientWidth - 8;
    const x = e.clientX + 14 + w > edge ? Math.max(8, e.clientX - 14 - w) : e.clientX + 14;
    const y = e.clientY - h - 12 < 4 ? e.clientY + 18 : e.clientY - h - 12;
    tip.style.left = x + scrollX + 'px';
    tip.style.top = y + scrollY + 'px';
  };
  const hide = () => {
    tip.hidden = true;
    all('.spot').forEach((s) => s.remove());
  };

  const points = (path) => path.pts ||= [...path.getAttribute('d').matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)]
    .map((m) => [Number(m[1]), Number(m[2])]);
  const read = (el) => {
    if (el.scales) return el.scales;
    const [l, t, r, b] = el.dataset.frame.split(' ').map(Number);
    const axis = (text, from, to) => {
      const [lo, hi, kind, ...unit] = text.split(' ');
      const a = Number(lo), z = Number(hi);
      const at = (p) => {
        const q = (p - from) / (to - from);
        return kind === 'log' ? a * (z / a) ** q : a + (z - a) * q;
      };
      return { at, unit: unit.join(' ') };
    };
    return el.scales = { l, t, r, b, x: axis(el.dataset.x, l, r), y: axis(el.dataset.y, b, t) };
  };

  for (const svg of all('svg.fig')) {
    // Titles are tooltips for readers without scripts; with scripts there is one that reads better.
    for (const title of all('rect > title', svg)) {
      title.parentNode.dataset.tip = title.textContent;
      title.remove();
    }
    const here = (e) => new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const panels = all('.panel', svg);
    const panelAt = (p) => panels.find((el) => {
      const f = read(el);
      return p.x >= f.l - 4 && p.x <= f.r + 4 && p.y >= f.t - 4 && p.y <= f.b + 4;
    });
    const view = { from: 0, to: 1 };

    const nearest = (panel, p) => {
      let best = null, least = Infinity;
      for (const path of all('.series:not(.off)', panel)) {
        if (path.closest('.off') || path.closest(svg.classList.contains('zoomed') ? '.coarse' : '.fine')) continue;
        const reach = path.classList.contains('ln') ? 60 : 20;
        for (const q of path.now || points(path)) {
          const d = (q[0] - p.x) ** 2 + (q[1] - p.y) ** 2;
          if (d < least && d < reach * reach) [least, best] = [d, [q, path]];
        }
      }
      return best;
    };
    // What the marks say: a point of a series, or a cell of a heat map.
    const tell = (panel, path, q) => {
      const f = read(panel), wide = f.r - f.l;
      const x = f.l + (view.from + (q[0] - f.l) / wide * (view.to - view.from)) * wide;
      const name = [panel.dataset.name, path.dataset.name].filter(Boolean).join(', ');
      return `${name}\n${say(f.x.at(x), f.x.unit)} · ${say(f.y.at(q[1]), f.y.unit)}`;
    };
    const grid = (panel) => {
      const cells = panel.querySelector('.cells');
      if (!cells) return null;
      const f = read(panel), [w, h] = cells.dataset.step.split(' ').map((v) => v / 100);
      const across = Number(cells.dataset.across), list = cells.list ||= cells.dataset.values.split(',');
      return {
        across, down: Math.ceil((list.length - 1) / across),
        at: (p) => [Math.floor((p.x - f.l) / w), Math.floor((f.b - p.y) / h)],
        middle: (c, r) => [f.l + (c + 0.5) * w, f.b - (r + 0.5) * h],
        tell: (c, r) => {
          const v = list[r * across + c], x = f.x.at(f.l + (c + 0.5) * w), y = f.y.at(f.b - (r + 0.5) * h);
          return v && `${say(Number(v), cells.dataset.unit)}\n${say(x, f.x.unit)} · ${say(y, f.y.unit)}`;
        },
      };
    };
    const spot = (q) => {
      const ring = document.createElementNS(SVG, 'circle');
      const is = { class: 'spot', cx: q[0], cy: q[1], r: 5 };
      for (const k in is) ring.setAttribute(k, is[k]);
      svg.append(ring);
    };
    const point = (e) => {
      if (svg.drag) return;
      hide();
      if (e.target.dataset.tip) return show(e, e.target.dataset.tip);
      const p = here(e), panel = panelAt(p);
      if (!panel) return;
      const cells = grid(panel), hold = (v, n) => Math.min(n - 1, Math.max(0, v));
      if (cells) {
        const [c, r] = cells.at(p), text = cells.tell(hold(c, cells.across), hold(r, cells.down));
        if (text) show(e, text);
        return;
      }
      const hit = nearest(panel, p);
      if (!hit) return;
      spot(hit[0]);
      show(e, tell(panel, hit[1], hit[0]));
    };
    svg.addEventListener('pointermove', point);
    svg.addEventListener('click', point);

    // By keyboard: left and right from mark to mark, up and down from series to series.
    const rows = () => {
      const bars = all('rect[data-tip]:not(.off)', svg);
      if (bars.length) {
        return [bars.map((b) => {
          const [x, y, w, h] = ['x', 'y', 'width', 'height'].map((k) => Number(b.getAttribute(k)));
          return [[x + w / 2, y + h / 2], () => b.dataset.tip];
        })];
      }
      return panels.flatMap((panel) => {
        const cells = grid(panel);
        if (cells) {
          return [...Array(cells.down).keys()].reverse().map((r) => [...Array(cells.across).keys()]
            .map((c) => [cells.middle(c, r), () => cells.tell(c, r) || 'nothing']));
        }
        return all('.series:not(.off)', panel)
          .filter((s) => !s.closest('.off') && !s.closest(svg.classList.contains('zoomed') ? '.coarse' : '.fine'))
          .map((s) => {
            const pts = [...s.now || points(s)].sort((a, b) => a[0] - b[0]), every = Math.ceil(pts.length / 100);
            return pts.filter((_, i) => i % every === 0 || i === pts.length - 1).map((q) => [q, () => tell(panel, s, q)]);
          });
      }).filter((row) => row.length);
    };
    if (panels.length || svg.querySelector('[data-tip]')) {
      const cursor = { row: 0, at: -1 };
      svg.setAttribute('tabindex', 0);
      svg.setAttribute('role', 'group');
      svg.setAttribute('aria-roledescription', 'figure; arrow keys read its values');
      svg.addEventListener('blur', hide);
      svg.addEventListener('keydown', (e) => {
        if (e.key === 'Escape') return hide();
        const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
        if (!step || e.target !== svg) return;
        e.preventDefault();
        hide();
        const marks = rows();
        if (!marks.length) return;
        const hold = (v, n) => Math.min(n - 1, Math.max(0, v));
        const from = marks[hold(cursor.row, marks.length)];
        cursor.row = hold(cursor.row + step[0], marks.length);
        // Another series is met at the same place along the axis.
        const row = marks[cursor.row], was = from[hold(cursor.at, from.length)][0][0];
        const near = (x) => row.reduce((b, m, i) => (Math.abs(m[0][0] - x) < Math.abs(row[b][0][0] - x) ? i : b), 0);
        cursor.at = step[0] ? near(was) : hold(cursor.at + step[1], row.length);
        const [q, text] = row[cursor.at], c = new DOMPoint(...q).matrixTransform(svg.getScreenCTM());
        spot(q);
        show({ clientX: c.x, clientY: c.y }, text());
      });
    }
    svg.addEventListener('pointerleave', hide);

    // The legend shows and hides.
    const keys = all('.key', svg);
    for (const key of keys) {
      key.setAttribute('tabindex', 0);
      key.setAttribute('role', 'button');
      key.setAttribute('aria-pressed', 'true');
      key.setAttribute('aria-label', 'Show ' + key.textContent);
      const flip = () => {
        const on = key.getAttribute('aria-pressed') !== 'true';
        key.setAttribute('aria-pressed', on);
        all(`[data-s="${key.dataset.key}"]`, svg).forEach((el) => el.classList.toggle('off', !on));
      };
      key.addEventListener('click', flip);
      key.addEventListener('keydown', (e) => {
        if (e.key === 'Enter' || e.key === ' ') {
          e.preventDefault();
          flip();
        }
      });
    }

    if (!svg.closest('.zooms') || !panels.length) continue;
    svg.closest('.zooms').classList.add('live');
    // Zooming in time: the same marks on a stretched axis.
    const draw = () => {
      for (const panel of panels) {
        const f = read(panel), wide = f.r - f.l, span = view.to - view.from;
        const a = f.l + view.from * wide, z = f.l + view.to * wide;
        const to = (x) => Math.round((f.l + (x - a) / span) * 10) / 10;
        for (const path of all('.track, .series', panel)) {
          const src = points(path), mark = path.dataset.g;
          let pick;
          if (mark) {
            pick = src.filter((q) => q[0] >= a && q[0] <= z);
          } else {
            let i = src.findIndex((q) => q[0] >= a), j = src.findIndex((q) => q[0] > z);
            if (i < 0) i = src.length;
            if (j < 0) j = src.length;
            pick = src.slice(Math.max(0, i - 1), j + 1);
          }
          path.now = pick.map((q) => [to(q[0]), q[1]]);
          path.setAttribute('d', path.now.map((q, i) => (mark || !i ? 'M' : 'L') + q[0] + ' ' + q[1] + (mark || '')).join(''));
        }
      }
      const f = read(panels[0]), FACTOR = { ns: 1e-9, 'µs': 1e-6, ms: 1e-3, s: 1, h: 3600 };
      for (const group of all('.xticks', svg)) {
        const unit = FACTOR[group.dataset.unit] || 1, wide = f.r - f.l, y = Number(group.dataset.y);
        const lo = f.x.at(f.l + view.from * wide) / unit, hi = f.x.at(f.l + view.to * wide) / unit;
        const raw = (hi - lo) / (wide > 400 ? 8 : 4), power = 10 ** Math.floor(Math.log10(raw));
        const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
        const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
        group.textContent = '';
        for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; i++) {
          const x = f.l + (i * step - lo) / (hi - lo) * wide;
          const line = document.createElementNS(SVG, 'path');
          line.setAttribute('class', 'axis');
          line.setAttribute('d', `M${x} ${y}v4`);
          const text = document.createElementNS(SVG, 'text');
          text.setAttribute('class', 'tick');
          text.setAttribute('x', x);
          text.setAttribute('y', y + 17);
          text.setAttribute('text-anchor', 'middle');
          text.textContent = (i * step || 0).toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places });
          group.append(line, text);
        }
      }
    };
    const zoom = svg.zoom = (from, to) => {
      const span = Math.min(1, Math.max(1e-4, to - from));
      view.from = Math.min(1 - span, Math.max(0, from));
      view.to = view.from + span;
      hide();
      svg.classList.toggle('zoomed', !!svg.querySelector('.fine') && span < 0.999);
      draw();
    };
    svg.zoomBy = (factor, shift) => {
      const mid = (view.from + view.to) / 2, half = (view.to - view.from) / 2;
      const at = mid + shift * half;
      zoom(at - half * factor, at + half * factor);
    };
    svg.addEventListener('pointerdown', (e) => {
      const p = here(e), panel = e.button === 0 && panelAt(p);
      if (!panel || e.pointerType === 'touch') return;
      const f = read(panel), box = document.createElementNS(SVG, 'rect');
      box.setAttribute('class', 'pick');
      box.setAttribute('y', f.t);
      box.setAttribute('height', f.b - f.t);
      svg.append(box);
      svg.drag = { f, box, x: p.x };
      svg.setPointerCapture(e.pointerId);
      e.preventDefault();
      hide();
    });
    const held = (e) => {
      const { f, x } = svg.drag, hold = (v) => Math.min(f.r, Math.max(f.l, v));
      const now = here(e).x;
      return [hold(Math.min(x, now)), hold(Math.max(x, now))];
    };
    svg.addEventListener('pointermove', (e) => {
      if (!svg.drag) return;
      const [a, z] = held(e);
      svg.drag.box.setAttribute('x', a);
      svg.drag.box.setAttribute('width', z - a);
    });
    svg.addEventListener('pointerup', (e) => {
      if (!svg.drag) return;
      const [a, z] = held(e), { f, box } = svg.drag, wide = f.r - f.l, span = view.to - view.from;
      box.remove();
      svg.drag = null;
      if (z - a > 6) zoom(view.from + (a - f.l) / wide * span, view.from + (z - f.l) / wide * span);
    });
    svg.addEventListener('pointercancel', () => {
      if (svg.drag) svg.drag.box.remove();
      svg.drag = null;
    });
    svg.addEventListener('dblclick', () => zoom(0, 1));
  }

  for (const figure of all('figure')) {
    const tools = figure.querySelector('.tools');
    const seen = () => all('svg.fig', figure).find((s) => s.getBoundingClientRect().width > 0);
    if (figure.classList.contains('live')) {
      const box = make('span', '');
      box.className = 'zoom';
      box.setAttribute('role', 'group');
      box.setAttribute('aria-label', 'Zoom in time');
      const acts = [['+', 'Zoom in', 0.5, 0], ['−', 'Zoom out', 2, 0], ['←', 'Earlier', 1, -1], ['→', 'Later', 1, 1]];
      for (const [sign, label, factor, shift] of acts) {
        const b = make('button', sign, label);
        b.type = 'button';
        b.onclick = () => seen().zoomBy(factor, shift);
        box.append(b);
      }
      const reset = make('button', 'Whole run');
      reset.type = 'button';
      reset.onclick = () => seen().zoom(0, 1);
      box.append(reset);
      tools.prepend(box);
      figure.querySelector('figcaption').append(Object.assign(make('p', 'Drag across a stretch of time to zoom in; double-click to see the whole run.'), { className: 'hint' }));
    }
    const save = make('a', 'SVG');
    save.href = '#';
    save.onclick = (e) => {
      e.preventDefault();
      const copy = seen().cloneNode(true), [, , w, h] = copy.getAttribute('viewBox').split(' ').map(Number);
      copy.setAttribute('xmlns', SVG);
      copy.setAttribute('viewBox', `-16 -48 ${w + 32} ${h + 64}`);
      copy.setAttribute('width', w + 32);
      copy.setAttribute('height', h + 64);
      const add = (tag, attrs, text) => {
        const el = document.createElementNS(SVG, tag);
        for (const k in attrs) el.setAttribute(k, attrs[k]);
        el.textContent = text;
        copy.prepend(el);
      };
      add('text', { class: 'head', x: 0, y: -22 }, figure.querySelector('h3').firstChild.textContent.trim());
      add('rect', { class: 'bg', x: -16, y: -48, width: w + 32, height: h + 64 }, '');
      add('style', {}, document.getElementById('svg-style').textContent);
      const url = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: 'image/svg+xml' }));
      const name = tools.querySelector('a[download]').download.replace(/csv$/, 'svg');
      Object.assign(document.createElement('a'), { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    };
    tools.append(save);
  }
})();
