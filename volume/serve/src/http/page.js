  const total = (b) => b.seek_s + b.rotation_s + b.transfer_s + b.overhead_s;
  const sum = (list, of) => list.reduce((t, x) => t + of(x), 0);

  const reads = (s, h) => {
    const now = h.samples.slice(-40), r = s.requests;
    const all = Math.max(1, r.ram_reads + r.copy_reads + r.home_reads);
    const late = Math.max(1, sum(now, (x) => x.ram_reads + x.copy_reads + x.home_reads));
    const line = (name, style, key) => row(name, style, sum(now, (x) => x[key]) / late,
      percent(sum(now, (x) => x[key]) / late), [percent(r[key] / all), count(r[key])]);
    $('reads').replaceChildren(table('Sources of reads', ['From', 'last 10 s', '', 'since the start', 'reads'],
      [line('RAM', 6, 'ram_reads'), line('copies', 2, 'copy_reads'), line('home', 0, 'home_reads')]));
  };

  const KINDS = {
    home_read: ['read, home', 0, 'h0', 'dot'],
    copy_read: ['read, copy', 2, 'm0-4l4 7h-8z', ''],
    write: ['write', 1, 'm-3 0h6', ''],
    moving: ['moving data', 3, 'm-2.5-2.5l5 5m0-5l-5 5', ''],
  };
  $('path-legend').replaceChildren(...Object.values(KINDS).map(([name, style, d, extra]) => {
    const key = shape('svg', { viewBox: '0 0 20 14', class: 'k' + style });
    key.append(shape('path', { class: 'mark ' + extra, d: 'M10 7' + d }));
    return el('span', {}, key, name);
  }), (() => {
    const key = shape('svg', { viewBox: '0 0 20 14' });
    key.append(shape('rect', { class: 'area', x: 3, y: 2, width: 14, height: 10 }));
    return el('span', {}, key, 'optimized area');
  })());

  const frame = (svg, heading, ticks, last) => {
    // As many units as pixels, so that text is as large on a telephone as on a desk.
    const H = Number(svg.dataset.high), W = Math.max(240, svg.parentNode.clientWidth), parts = W < 500 ? 2 : 4;
    svg.setAttribute('viewBox', `0 0 ${W} ${H}`);
    const f = { l: 64, t: 26, r: W - 8, b: H - 24 };
    svg.replaceChildren(svg.querySelector('title'), shape('text', { x: 0, y: 12 }, heading));
    for (const [at, text] of ticks) {
      const y = f.b - at * (f.b - f.t);
      svg.append(shape('path', { class: 'grid', d: `M${f.l} ${y}H${f.r}` }),
        shape('text', { x: f.l - 8, y: y + 4, 'text-anchor': 'end' }, text));
    }
    svg.append(shape('path', { class: 'axis', d: `M${f.l} ${f.b}H${f.r}` }));
    for (let i = 0; i <= parts; i++) {
      const x = f.l + (f.r - f.l) * i / parts, s = last * (parts - i) / parts;
      svg.append(shape('text', { x, y: f.b + 17, 'text-anchor': i === parts ? 'end' : i ? 'middle' : 'start' }, s ? '−' + s + ' s' : 'now'));
    }
    return f;
  };

  const path = (s, h) => {
    const svg = $('path'), end = Math.max(1, h.end_bytes), from = s.time_unix_ms - 60000;
    const step = 2 ** Math.ceil(Math.log2(end / 5)), ticks = [];
    for (let v = 0; v <= end; v += step) ticks.push([v / end, bytes(v)]);
    const f = frame(svg, 'Position', ticks, 60);
    const y = (v) => f.b - Math.min(1, v / end) * (f.b - f.t);
    if (h.end_bytes > h.area_from_bytes) {
      const top = y(h.end_bytes), bottom = Math.max(top + 3, y(h.area_from_bytes));
      svg.append(shape('rect', { class: 'area', x: f.l, y: top, width: f.r - f.l, height: bottom - top }));
    }
    const points = h.points.filter((p) => p.time_unix_ms >= from).map((p) =>
      [f.l + Math.min(1, (p.time_unix_ms - from) / 60000) * (f.r - f.l), y(p.at_bytes), p.kind]);
    const at = (p) => p[0].toFixed(1) + ' ' + p[1].toFixed(1);
    svg.append(shape('path', { class: 'track', d: points.map((p, i) => (i ? 'L' : 'M') + at(p)).join('') || 'M0 0' }));
    for (const kind in KINDS) {
      const [, style, d, extra] = KINDS[kind], of = points.filter((p) => p[2] === kind);
      if (of.length) svg.append(shape('path', { class: `mark ${extra} k${style}`, d: of.map((p) => 'M' + at(p) + d).join('') }));
    }
    const what = h.position === 'head' ? 'The position of the emulated disk’s head' : 'The addresses of the I/Os (the backing does not report the position of its head)';
    const thin = h.one_in > 1 ? ` One in about ${count(h.one_in)} I/Os is shown.` : '';
    put($('path-note'), `${what}, over the last minute. The optimized area is drawn behind the volume’s own addresses.${thin}${points.length ? '' : ' No requests.'}`);
  };

  const PHASES = [['seek', 'seek_s', 0], ['rotation', 'rotation_s', 1], ['transfer', 'transfer_s', 2], ['overhead', 'overhead_s', 6]];
  const busy = (s, h) => {
    const b = s.busy, svg = $('busy-time');
    svg.toggleAttribute('hidden', !b);
    svg.classList.toggle('gone', !b);
    if (!b) {
      put($('busy-note'), 'Not known: the backing does not report its times. --disk NAME emulates a disk; --model NAME computes the times of a modelled disk.');
      put($('moving'), '');
      put($('over'), '');
      return $('busy').replaceChildren();
    }
    const basis = b.basis === 'emulated' ? `Emulated disk ${b.disk}: its own times.` : `Computed for a disk ${b.disk} from the I/Os. The real times of the backing differ.`;
    put($('busy-note'), `${basis} ${b.vanilla ? 'Vanilla: ' : 'No comparison: '}${b.note}.`);
    const list = [['now', b.now]].concat(b.vanilla ? [['vanilla', b.vanilla]] : []);
    const most = Math.max(1e-9, ...list.map(([, x]) => total(x)));
    const phases = PHASES.filter(([, key]) => list.some(([, x]) => x[key] > 0));
    $('busy').replaceChildren(table('Busy time by phase, since the start', ['Since the start', '', 'all', ...phases.map(([name]) => name)],
      list.map(([name, x]) => {
        const line = row(name, 6, 0, seconds(total(x)), phases.map(([, key]) => seconds(x[key])));
        const bar = line.querySelector('svg');
        let from = 0;
        bar.replaceChildren(...phases.map(([, key, style]) => {
          const wide = 100 * x[key] / most, part = shape('rect', { class: 'fill k' + style, x: from, width: wide, height: 14 });
          from += wide;
          return part;
        }));
        return line;
      })));
    $('busy').querySelectorAll('thead tr > *').forEach((th, i) => {
      if (i < 3) return;
      const key = shape('svg', { viewBox: '0 0 12 12', class: 'chip k' + phases[i - 3][2], 'aria-hidden': 'true' });
      key.append(shape('rect', { class: 'fill', width: 12, height: 12 }));
      th.prepend(key);
    });
    put($('moving'), b.moving_s > 0 ? `Moving data took ${seconds(b.moving_s)} of the time now.` : '');
    const samples = h.samples, last = s.time_unix_ms, speed = b.elapsed_s / Math.max(1e-9, s.uptime_s);
    const share = (key) => samples.map((x, i) => {
      const near = samples.slice(Math.max(0, i - 3), i + 1), took = sum(near, (n) => n.took_s) * speed;
      return [x.time_unix_ms, took ? sum(near, (n) => n[key] || 0) / took : 0];
    });
    const now = share('busy_s'), vanilla = b.vanilla ? share('vanilla_busy_s') : [];
    const high = Math.max(1, ...now.map((p) => p[1]), ...vanilla.map((p) => p[1]));
    const power = 10 ** Math.floor(Math.log10(high)), top = [1, 2, 5, 10].map((m) => m * power).find((v) => v >= high * 0.98);
    put($('over'), high > 1.02 ? 'Over 100 %: a vanilla disk would need more time for these requests than has passed.' : '');
    const f = frame(svg, 'Time busy' + (b.vanilla ? ': now ——, vanilla – –' : ''), [0, 0.5, 1].map((q) => [q, percent(q * top)]), 120);
    const draw = (list, more) => {
      const d = list.filter((p) => p[0] >= last - 120000).map(([t, v], i) =>
        (i ? 'L' : 'M') + (f.l + (t - last + 120000) / 120000 * (f.r - f.l)).toFixed(1) + ' ' + (f.b - v / top * (f.b - f.t)).toFixed(1)).join('');
      if (d) svg.append(shape('path', { class: 'ln ' + more, d }));
    };
    draw(vanilla, 'vanilla k6');
    draw(now, 'k0');
  };

  const adaptive = (a) => {
    const g = a.guard;
    put($('plan'), `Read ahead: ${count(a.prefetched_pages)} pages; ${count(a.prefetch_used_pages)} were used, ${count(a.prefetch_unused_pages)} left RAM unused. `
      + (a.trail_bytes ? `The trail has ${bytes(a.trail_bytes)} and is written at ${bytes(a.trail_position_bytes)}; ${bytes(a.trail_written_bytes)} were written since the start.` : 'There is no trail.'));
    put($('budget'), `Guard: ${a.guard_note}.` + (g ? ` Disk time today: ${seconds(g.actual_today_s)}; the vanilla system: ${seconds(g.vanilla_today_s)}; worst excess within a day: ${seconds(g.worst_excess_s)}.` : ''));
  };

  const plan = (s) => {
    const p = s.plan, g = s.budget;
    put($('h-plan'), s.adaptive ? 'The adaptive policy and its guard' : 'The plan and its budget');
    if (s.adaptive) {
      $('move').toggleAttribute('hidden', true);
      return adaptive(s.adaptive);
    }
    $('move').value = p.total_bytes ? p.done_bytes / p.total_bytes : 0;
    $('move').toggleAttribute('hidden', !p.moving);
    put($('plan'), !s.learning.learns ? 'Nothing is learned: every read goes home, or to RAM.'
      : !p.made ? 'No plan yet: the server makes the first plan after it has learned from requests.'
      : `Latest plan, number ${p.made}: ${count(p.extents)} extents, ${bytes(p.plan_bytes)}. ` + (p.moving ? `Moving: ${bytes(p.done_bytes)} of ${bytes(p.total_bytes)}.` : `Copies in use: ${bytes(s.copies.usable_bytes)}.`));
    put($('budget'), `Moving data takes ${bytes(g.used_bytes_per_s)}/s now, of ${g.limit_bytes_per_s === null ? 'no limit' : 'at most ' + bytes(g.limit_bytes_per_s) + '/s'}; ${bytes(s.copies.moved_bytes)} since the start, in an area of ${bytes(s.copies.area_bytes)}.`);
  };

  let newest = 0;
  const log = (e) => {
    for (const event of e.events.filter((x) => x.number > newest)) {
      newest = event.number;
      const when = new Date(event.time_unix_ms);
      $('log').prepend(el('li', {}, el('time', { datetime: when.toISOString() }, when.toLocaleTimeString('en-GB')), el('span', {}, event.text)));
      while ($('log').children.length > 256) $('log').lastChild.remove();
    }
  };

  const look = async () => {
    try {
      const [s, h, e] = await Promise.all([get('/api/status'), get('/api/history'), get('/api/events')]);
      $('lost').hidden = true;
      put($('backing'), s.volume.backing);
      $('verdict').hidden = !s.verdict;
      put($('verdict'), s.verdict ? s.verdict.text[0].toUpperCase() + s.verdict.text.slice(1) + '.' : '');
      document.title = s.volume.backing + ' · seekless';
      const v = s.volume;
      put($('about'), `${bytes(v.size_bytes)}${v.read_only ? ', read-only' : ''}, served for ${span(s.uptime_s)} by seekless ${s.version}; NBD clients: ${v.nbd_clients}${v.trouble ? `; no progress: ${v.trouble}` : ''}`);
      const near = h.samples.slice(-8), took = Math.max(1e-9, sum(near, (x) => x.took_s));
      const r = s.requests, all = Math.max(1, r.ram_reads + r.copy_reads + r.home_reads);
      const list = [['Requests a second', count(sum(near, (x) => x.requests) / took)], ['Requests', count(r.total)],
        ['Reads from RAM', percent(r.ram_reads / all)], ['Reads from copies', percent(r.copy_reads / all)]];
      tiles(list);
      reads(s, h);
      path(s, h);
      busy(s, h);
      plan(s);
      log(e);
      document.body.dataset.ready = 'yes';
    } catch (error) {
      $('lost').hidden = false;
    }
    setTimeout(look, document.hidden ? 5000 : 1000);
  };
  look();
