'use strict';
// Draws the charts of the page from the data in it, in the colours of the style sheet, and again when those change.
(() => {
  const specs = JSON.parse(document.getElementById('chart-data').textContent);
  const dashes = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
  const shapes = ['circle', 'triangle', 'rect', 'rectRot', 'star', 'crossRot', 'cross'];
  const kColours = 7;
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
  const short = (value) => String(Number(Number(value).toPrecision(6)));

  // Values a person can read, without digits that say nothing.
  function ticks(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1).replace('.0e', 'e');
    return short(value);
  }

  // A line with its band: the band is a pair of invisible lines with the space between them filled.
  function lineData(spec, palette) {
    const sets = [];
    spec.series.forEach((series, i) => {
      const colour = palette.series[i % kColours];
      const dash = dashes[Math.floor(i / kColours) % dashes.length];
      const common = {parsing: false, normalized: true, pointRadius: 0, pointHitRadius: 0, borderWidth: 1,
        borderColor: colour + '66',
        backgroundColor: faint(colour), isBand: true};
      if (series.points.length > 0 && series.points[0].length === 4) {
        sets.push({...common, label: '', data: series.points.map((p) => ({x: p[0], y: p[2]}))});
        sets.push({...common, label: '', data: series.points.map((p) => ({x: p[0], y: p[3]})), fill: '-1'});
      }
      const few = series.points.length <= 40;
      sets.push({
        label: series.name, data: series.points.map((p) => ({x: p[0], y: p[1]})), parsing: false, normalized: true,
        borderColor: colour, backgroundColor: colour, borderWidth: 2, borderDash: dash,
        showLine: !series.markers, stepped: series.stepped ? 'before' : false,
        pointStyle: shapes[i % shapes.length],
        pointRadius: series.markers ? 5 : (few && !series.stepped ? 3 : 0), pointHitRadius: 6,
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
    if (spec.rows.length > 0 && axis === 'y') return {min: -0.6, max: spec.rows.length - 0.4, reverse: true};
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
    if (rows) {
      y.grid.display = false;
      y.afterBuildTicks = (axis) => { axis.ticks = spec.rows.map((row, i) => ({value: i})); };
      y.ticks = {color: palette.ink, autoSkip: false,
        callback: (value) => { const name = spec.rows[value][0]; return name.length > 28 ? name.slice(0, 27) + '…' : name; }};
    }
    return {
      animation: false, responsive: true, maintainAspectRatio: false, color: palette.ink,
      devicePixelRatio: Math.max(2, window.devicePixelRatio || 1),
      interaction: rows ? {mode: 'nearest', intersect: true} : {mode: 'nearest', axis: 'x', intersect: false},
      verticals: rows ? spec.levels.map((level) => level[1]) : [],
      scales: {x: scale(spec.x, 'x'), y},
      plugins: {
        legend: {
          display: !rows && spec.series.length + spec.levels.length > 1, position: 'bottom',
          labels: {color: palette.ink, usePointStyle: true, pointStyle: 'line', boxWidth: 30,
            filter: (item, data) => !data.datasets[item.datasetIndex].isBand},
        },
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

  function draw() {
    charts.forEach((chart) => chart.destroy());
    const palette = colours();
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.font.size = 13;
    charts = specs.map((spec) => {
      const canvas = document.getElementById(spec.id);
      const data = {datasets: spec.rows.length > 0 ? rowData(spec, palette) : lineData(spec, palette)};
      const chart = new Chart(canvas, {type: 'line', data, options: options(spec, palette), plugins: [whiskers]});
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
  const print = window.matchMedia('print');
  print.addEventListener('change', draw);
  window.addEventListener('beforeprint', () => {
    document.querySelectorAll('details').forEach((part) => { part.open = true; });
    draw();
  });
  window.addEventListener('afterprint', draw);
})();
