  // Whole runs of jobs that have run both alone and helped.
  const verdict = (s, both) => {
    if (s.dry_run) return 'Dry run: nothing is read ahead.';
    if (!both.length) return 'No job has run both alone and helped yet.';
    const alone = sum(both, (j) => j.plain.millis), helped = sum(both, (j) => j.helped.millis);
    const change = 1 - helped / Math.max(1, alone);
    return `${count(both.length)} ${both.length === 1 ? 'job takes' : 'jobs take'} ${percent(Math.abs(change))} ${change < 0 ? 'more' : 'less'} time than alone.`;
  };
  const sum = (list, of) => list.reduce((t, x) => t + of(x), 0);

  const files = (s) => $('files').replaceChildren(table('Pages read ahead', ['File system', 'used', '', 'pages read ahead', 'in vain', 'recognized runs'],
    s.filesystems.map((f) => {
      const t = f.totals, used = t.fetched ? Math.min(1, t.used / t.fetched) : 0;
      return row(`${f.mount} (${f.kind})`, 2, used, t.fetched ? percent(used) : '', [count(t.fetched), count(t.vain), count(t.recognized)]);
    })));

  const jobs = (s) => {
    const all = s.filesystems.flatMap((f) => f.jobs.map((j) => ({ mount: f.mount, ...j })));
    all.sort((a, b) => b.plain.millis * b.runs - a.plain.millis * a.runs);
    const most = Math.max(1, ...all.flatMap((j) => [j.plain.millis, j.helped.millis]));
    const rows = all.slice(0, 32).flatMap((j) => {
      const name = `${j.name || 'job ' + j.id}${s.filesystems.length > 1 ? ' on ' + j.mount : ''}${j.rests ? ' (rests)' : ''}`;
      const line = (what, style, t) => row(`${name}, ${what}`, style, t.millis / most, t.runs ? seconds(t.millis / 1000) : 'no run', [count(t.misses), count(t.runs)]);
      return [line('alone', 6, j.plain), line('helped', 2, j.helped)];
    });
    $('jobs').replaceChildren(table('Jobs, alone and helped', ['Job', 'time', '', 'waits', 'runs'], rows));
  };

  const look = async () => {
    try {
      const s = await get('/api/status');
      $('lost').hidden = true;
      const all = s.filesystems.flatMap((f) => f.jobs), of = (key) => sum(s.filesystems, (f) => f.totals[key]);
      $('verdict').hidden = false;
      put($('verdict'), verdict(s, all.filter((j) => j.plain.runs && j.helped.runs)));
      put($('about'), `Watches ${count(s.filesystems.length)} file system${s.filesystems.length === 1 ? '' : 's'} for ${span(s.seconds)}.`
        + (s.pages_ahead || s.dry_run ? '' : ' Memory is short: nothing is read ahead now.')
        + (s.lost_events ? ` The kernel lost ${count(s.lost_events)} events.` : ''));
      tiles([['Jobs', count(all.length)], ['Recognized runs', count(of('recognized'))], ['Pages read ahead', count(of('fetched'))],
        ['Disk time in vain, last hour', seconds(of('vain_last_hour') / 1000)]]);
      files(s);
      jobs(s);
      document.body.dataset.ready = 'yes';
    } catch (error) {
      $('lost').hidden = false;
    }
    setTimeout(look, document.hidden ? 5000 : 1000);
  };
  look();
