'use strict';
// Draws the charts of the page from the data in it, in the colours of the style sheet, and again when those change.
(() => {
  const specs = JSON.parse(document.getElementById('chart-data').textContent);
  // Colour and dash tell 28 series apart, and the shape goes another way round, for whoever sees few colours.
  const dashes = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
  const shapes = ['circle', 'triangle', 'rect', 'rectRot', 'star', 'crossRot', 'cross'];
  const kColours = 7;
  const kMostBands = 3;  // more of them over each other are one grey
  const kWhiskers = 6;   // of each series, where there are no bands
  const narrow = window.matchMedia('(max-width: 36rem)');
  let charts = [];

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    const series = [];
    for (let i = 1; i <= kColours; ++i) series.push(of('--c' + i));
    return {series, ink: of('--ink'), soft: of('--soft'), line: of('--line')};
  }

  // '#rrggbb' with an opacity.
  const faint = (colour) => colour + '2e';
  const pale = (colour) => colour + '40';
  const short = (value) => String(Number(Number(value).toPrecision(6)));

  // Values a person can read, without digits that say nothing.
  function ticks(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1).replace('.0e', 'e');
    return short(value);
  }

  // The look of a series, in the chart and in its legend.
  function styleOf(series, i, palette) {
    const round = Math.floor(i / kColours);
    const curve = series.stepped || series.points.length > 40;
    return {colour: palette.series[i % kColours], dash: dashes[round % dashes.length], line: !series.markers,
      shape: shapes[(i + round) % shapes.length], radius: series.markers ? 5 : curve ? 0 : 3};
  }

  const hasBand = (series) => series.points.length > 0 && series.points[0].length === 4;

  // A band is a pair of invisible lines with the space between them filled.
  function band(series, colour) {
    const common = {label: '', parsing: false, normalized: true, pointRadius: 0, pointHitRadius: 0, borderWidth: 1,
      borderColor: colour + '66', backgroundColor: faint(colour), isBand: true};
    return [{...common, data: series.points.map((p) => ({x: p[0], y: p[2]}))},
      {...common, data: series.points.map((p) => ({x: p[0], y: p[3]})), fill: '-1'}];
  }

  // Where the whiskers of one of many series stand: each series at steps of its own, so that none hides another.
  function whiskerPlaces(series, i, all) {
    const count = Math.min(kWhiskers, series.points.length);
    const places = [];
    for (let k = 0; k < count; ++k) {
      places.push(Math.floor((k + (i + 1) / (all + 1)) * series.points.length / count));
    }
    return [...new Set(places)];
  }

  // chosen: the series that the reader points at; -1 for none. hidden: those that were switched off.
  function lineData(spec, palette, chosen, hidden) {
    const sets = [];
    const many = spec.series.filter(hasBand).length > kMostBands;
    spec.series.forEach((series, i) => {
      if (hidden.has(i)) return;
      const style = styleOf(series, i, palette);
      const behind = chosen >= 0 && chosen !== i;
      const colour = behind ? pale(style.colour) : style.colour;
      if (hasBand(series) && (many ? chosen === i : !behind)) sets.push(...band(series, style.colour));
      const places = many && hasBand(series) && !behind ? whiskerPlaces(series, i, spec.series.length) : [];
      sets.push({
        label: series.name, data: series.points.map((p) => ({x: p[0], y: p[1]})), parsing: false, normalized: true,
        clip: style.radius + 2,  // the last point is drawn whole
        borderColor: colour, backgroundColor: colour, borderWidth: 2, borderDash: style.dash, order: chosen === i ? -1 : 0,
        showLine: style.line, stepped: series.stepped ? 'before' : false,
        pointStyle: style.shape, pointRadius: style.radius, pointHitRadius: 6,
        upright: places.map((place) => [series.points[place][0], series.points[place][2], series.points[place][3]]),
      });
    });
    spec.levels.forEach((level) => {
      const xs = spec.series.flatMap((series) => series.points.map((p) => p[0]));
      const ends = [Math.min(...xs), Math.max(...xs)];
      sets.push({label: level[0], data: ends.map((x) => ({x, y: level[1]})), parsing: false, borderColor: palette.ink,
        backgroundColor: palette.ink, borderWidth: 1.5, borderDash: [5, 4], pointRadius: 0, pointHitRadius: 0});
    });
    return sets;
  }

  // One row a name: a point with a whisker from its lower to its upper end.
  function rowData(spec, palette) {
    return [{
      label: spec.x, data: spec.rows.map((row, i) => ({x: row[1], y: i})), parsing: false, showLine: false,
      backgroundColor: palette.series[0], borderColor: palette.series[0], pointRadius: 5, pointHitRadius: 8,
      whiskers: spec.rows.map((row) => [row[2], row[3]]),
    }];
  }

  const whiskers = {
    id: 'whiskers',
    beforeDatasetsDraw(chart) {
      const {ctx, scales: {x, y}, chartArea} = chart;
      ctx.save();
      ctx.lineWidth = 2;
      chart.data.datasets.forEach((set) => (set.whiskers || []).forEach((ends, i) => {
        const at = y.getPixelForValue(i);
        const [low, high] = ends.map((value) => x.getPixelForValue(value));
        ctx.strokeStyle = set.borderColor;
        ctx.beginPath();
        ctx.moveTo(low, at); ctx.lineTo(high, at);
        if (high > low) {
          for (const end of [low, high]) { ctx.moveTo(end, at - 6); ctx.lineTo(end, at + 6); }
        }
        ctx.stroke();
      }));
      ctx.lineWidth = 1.25;
      chart.data.datasets.forEach((set) => (set.upright || []).forEach(([place, ...ends]) => {
        const at = x.getPixelForValue(place);
        const [low, high] = ends.map((value) => Math.min(chartArea.bottom, Math.max(chartArea.top, y.getPixelForValue(value))));
        ctx.strokeStyle = set.borderColor;
        ctx.beginPath();
        ctx.moveTo(at, low); ctx.lineTo(at, high);
        for (const end of [low, high]) { ctx.moveTo(at - 3, end); ctx.lineTo(at + 3, end); }
        ctx.stroke();
      }));
      ctx.fillStyle = chart.options.color;
      ctx.font = `12px ${Chart.defaults.font.family}`;
      (chart.options.namesAbove || []).forEach((name, i) => ctx.fillText(name, chartArea.left + 4, y.getPixelForValue(i) - 9));
      ctx.setLineDash([5, 4]);
      ctx.lineWidth = 1.5;
      for (const level of chart.options.verticals || []) {
        const at = x.getPixelForValue(level);
        ctx.strokeStyle = chart.options.color;
        ctx.beginPath();
        ctx.moveTo(at, chartArea.top); ctx.lineTo(at, chartArea.bottom);
        ctx.stroke();
      }
      ctx.restore();
    },
  };

  // A flat line, in the middle of its axis; and rows with all of their whiskers in sight.
  function limits(spec, axis) {
    if (spec.rows.length > 0 && axis === 'y') return {min: -0.8, max: spec.rows.length - 0.4, reverse: true};
    let values = spec.rows.length > 0 ? spec.rows.flatMap((row) => row.slice(1)) :
        spec.series.flatMap((series) => series.points.flatMap((p) => axis === 'x' ? [p[0]] : p.slice(1)));
    if (axis === (spec.rows.length > 0 ? 'x' : 'y')) values = values.concat(spec.levels.map((level) => level[1]));
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    const room = high > low ? (high - low) * 0.06 : Math.abs(high) * 0.1 || 1;
    if (spec.rows.length > 0) return {min: low - room, max: high + room, nice: true};
    if (axis === 'x') {
      const markers = spec.series.some((series) => series.markers);
      return markers || low === high ? {suggestedMin: low - room, suggestedMax: high + room} : {min: Math.min(low, 0), max: high};
    }
    // The interval of a mean may leave what values can be; the axis does not follow it there.
    const means = spec.series.flatMap((series) => series.points.map((p) => p[1]));
    const range = {suggestedMin: spec.fromZero ? 0 : low - room, suggestedMax: high + room};
    if (low - room < 0 && Math.min(...means) >= 0) range.min = 0;
    if (spec.share && high + room > 1) range.max = 1;
    return range;
  }

  function options(spec, palette) {
    const rows = spec.rows.length > 0;
    const scale = (title, axis) => {
      const {nice, ...range} = limits(spec, axis);
      return {type: 'linear', ...range, bounds: 'ticks', title: {display: title !== '', text: title, color: palette.soft},
        grid: {color: palette.line, borderColor: palette.soft},
        ticks: {color: palette.ink, callback: ticks, maxRotation: 0, includeBounds: !nice}};
    };
    const y = scale(spec.y, 'y');
    const above = rows && (narrow.matches || spec.rows.some((row) => row[0].length > 28));
    if (rows) {
      y.grid.display = false;
      y.afterBuildTicks = (axis) => { axis.ticks = spec.rows.map((row, i) => ({value: i})); };
      y.ticks = {display: !above, color: palette.ink, autoSkip: false, callback: (value) => spec.rows[value][0]};
    }
    return {
      animation: false, responsive: true, maintainAspectRatio: false, color: palette.ink,
      devicePixelRatio: Math.max(2, window.devicePixelRatio || 1),
      interaction: rows ? {mode: 'nearest', intersect: true} : {mode: 'nearest', axis: 'x', intersect: false},
      namesAbove: above ? spec.rows.map((row) => row[0]) : [],
      verticals: rows ? spec.levels.map((level) => level[1]) : [],
      scales: {x: scale(spec.x, 'x'), y},
      plugins: {
        legend: {display: false},  // it stands below the chart, as text
        tooltip: {
          filter: (item) => !item.dataset.isBand,
          callbacks: {
            title: (items) => items.length === 0 ? '' : rows ? spec.rows[items[0].dataIndex][0] :
                spec.x + ' ' + short(items[0].parsed.x),
            label: (item) => {
              if (!rows) return item.dataset.label + ': ' + short(item.parsed.y);
              const row = spec.rows[item.dataIndex];
              return row[2] < row[3] ? `${short(row[1])}  [${short(row[2])}, ${short(row[3])}]` : short(row[1]);
            },
          },
        },
      },
    };
  }

  // The line of a series with its dash and its marker, as the chart draws them.
  function swatch(style) {
    const canvas = document.createElement('canvas');
    const [width, height, scale] = [34, 14, 3];
    canvas.width = width * scale; canvas.height = height * scale;
    canvas.style.width = width + 'px'; canvas.style.height = height + 'px';
    const ctx = canvas.getContext('2d');
    ctx.scale(scale, scale);
    ctx.strokeStyle = ctx.fillStyle = style.colour;
    ctx.lineWidth = 2;
    if (style.line) {
      ctx.setLineDash(style.dash);
      ctx.beginPath(); ctx.moveTo(0, height / 2); ctx.lineTo(width, height / 2); ctx.stroke();
      ctx.setLineDash([]);
    }
    if (style.radius > 0) {
      Chart.helpers.drawPoint(ctx, {pointStyle: style.shape, radius: style.radius + 1, borderWidth: 2}, width / 2, height / 2);
    }
    return canvas;
  }

  // Buttons: pointing at one brings its series to the front, with its interval; pressing it switches the series off.
  function legend(spec, chart, palette) {
    const list = document.createElement('ul');
    list.className = 'legend';
    const show = (chosen) => {
      const seen = spec.series.filter((series, i) => !hidden.get(spec.id).has(i));
      chart.data.datasets = lineData(spec, palette, chosen, hidden.get(spec.id));
      if (seen.length > 0) chart.options.scales = options({...spec, series: seen}, palette).scales;
      chart.update('none');
    };
    const entry = (style, name, button) => {
      const item = document.createElement('li'), inner = document.createElement(button ? 'button' : 'span');
      inner.append(swatch(style), name);
      item.append(inner);
      list.append(item);
      return inner;
    };
    spec.series.forEach((series, i) => {
      const button = entry(styleOf(series, i, palette), series.name, true);
      button.type = 'button';
      const off = hidden.get(spec.id);
      button.setAttribute('aria-pressed', String(!off.has(i)));
      for (const event of ['mouseenter', 'focus']) button.addEventListener(event, () => show(i));
      for (const event of ['mouseleave', 'blur']) button.addEventListener(event, () => show(-1));
      button.addEventListener('click', () => {
        if (!off.delete(i)) off.add(i);
        button.setAttribute('aria-pressed', String(!off.has(i)));
        show(-1);
      });
    });
    spec.levels.forEach((level) =>
      entry({colour: palette.ink, dash: [5, 4], line: true, radius: 0}, level[0], false));
    return list;
  }

  const hidden = new Map(specs.map((spec) => [spec.id, new Set()]));

  function draw() {
    charts.forEach((chart) => chart.destroy());
    document.querySelectorAll('.legend').forEach((list) => list.remove());
    const palette = colours();
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.font.size = 13;
    charts = specs.map((spec) => {
      const canvas = document.getElementById(spec.id), rows = spec.rows.length > 0;
      const off = hidden.get(spec.id), seen = spec.series.filter((series, i) => !off.has(i));
      const data = {datasets: rows ? rowData(spec, palette) : lineData(spec, palette, -1, off)};
      const chart = new Chart(canvas, {type: 'line', data, plugins: [whiskers],
        options: options(seen.length > 0 ? {...spec, series: seen} : spec, palette)});
      if (!rows && spec.series.length + spec.levels.length > 1) canvas.parentElement.after(legend(spec, chart, palette));
      canvas.closest('figure').dataset.drawn = 'true';
      return chart;
    });
    document.documentElement.dataset.chartsDrawn = String(charts.length);
  }

  // RFC 4180. A text that a spreadsheet would take for a formula gets an apostrophe in front.
  function cell(value) {
    if (typeof value === 'number') return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? "'" + value : value;
    return '"' + text.replace(/"/g, '""') + '"';
  }

  function csv(spec) {
    const lines = [];
    if (spec.rows.length > 0) {
      lines.push(['name', spec.x, 'low', 'high']);
      spec.rows.forEach((row) => lines.push(row));
    } else {
      lines.push(['series', spec.x, spec.y, 'low', 'high']);
      spec.series.forEach((series) => series.points.forEach((p) => lines.push([series.name, ...p])));
    }
    return lines.map((line) => line.map(cell).join(',') + '\r\n').join('');
  }

  function offerData() {
    specs.forEach((spec) => {
      const link = document.querySelector('#figure-' + spec.id + ' a.csv');
      link.href = 'data:text/csv;charset=utf-8,' + encodeURIComponent(csv(spec));
    });
  }

  draw();
  offerData();
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  narrow.addEventListener('change', draw);
  const print = window.matchMedia('print');
  print.addEventListener('change', draw);
  window.addEventListener('beforeprint', () => {
    document.querySelectorAll('details:not(.record):not(.twice)').forEach((part) => { part.open = true; });
    draw();
  });
  window.addEventListener('afterprint', draw);
})();
