// SPDX-License-Identifier: Apache-2.0
// Line charts and stacked charts, drawn with uPlot on the shared time axis.

// A chart: id, group, title, unit, note, series, stacked, steps, need (the config that records the
// data). Each of `series` is [dataset, key of the series in the dataset, label, whether the line is
// hidden at first]. Series that the trace lacks are left out. `all` in place of `series`: a dataset
// of which all series are shown. `low`: the series of which the least value matters, or true for
// all. Backticks in `need` enclose code.
const CHARTS = [
  {id: "pressure", group: "machine", title: "Stalled time (PSI)", unit: "percent",
    note: "Share of time in which tasks waited",
    need: "`linux.sys_stats` with `psi_period_ms: 250`, on a kernel with PSI",
    series: [["pressure", "psi.mem.some", "memory, some task"],
      ["pressure", "psi.mem.full", "memory, all tasks"], ["pressure", "psi.io.some", "disk, some"],
      ["pressure", "psi.cpu.some", "processor, some", true]]},
  {id: "memory", group: "machine", title: "Memory", unit: "bytes", low: ["free", "available"],
    need: "`linux.sys_stats` with `vmstat_period_ms: 500` or `meminfo_period_ms: 500`",
    series: [["memory", "free", "free"], ["memory", "available", "available"],
      ["memory", "file", "page cache"], ["memory", "anonymous", "anonymous"]]},
  {id: "reclaim", group: "machine", title: "Scanned and reclaimed", unit: "rate",
    need: "`linux.sys_stats` with `vmstat_period_ms: 500`",
    series: [["rates", "scanned", "scanned, all"],
      ["rates", "scanned by kswapd", "scanned, kswapd"],
      ["rates", "scanned by direct reclaim", "scanned, direct"],
      ["rates", "reclaimed", "reclaimed, all"],
      ["rates", "reclaimed by kswapd", "reclaimed, kswapd"],
      ["rates", "reclaimed by direct reclaim", "reclaimed, direct"]]},
  {id: "returns", group: "machine", title: "Evicted pages that came back", unit: "rate",
    need: "`linux.sys_stats` with `vmstat_period_ms: 500`",
    series: [["rates", "file pages that came back", "file pages"],
      ["rates", "anonymous pages that came back", "anonymous pages"],
      ["rates", "came back", "all pages"]]},
  {id: "faults", group: "machine", title: "Page faults", unit: "count",
    need: "`linux.sys_stats` with `vmstat_period_ms: 500`, all counters",
    series: [["rates", "faults", "all"], ["rates", "major faults", "major (from disk)"]]},
  {id: "swap", group: "machine", title: "Swap", unit: "rate",
    need: "`linux.sys_stats` with `vmstat_period_ms: 500`",
    series: [["rates", "swapped out", "out"], ["rates", "swapped in", "in"]]},
  {id: "disk", group: "machine", title: "Disks", unit: "rate",
    need: "`linux.sys_stats` with `vmstat_period_ms: 500`",
    series: [["rates", "read from disks", "read"], ["rates", "written to disks", "written"]]},
  {id: "slab", group: "machine", title: "Slab (kernel objects)", unit: "bytes", stacked: true,
    need: "`linux.sys_stats` with `vmstat_period_ms: 500`",
    series: [["memory", "slab, unreclaimable", "unreclaimable"],
      ["memory", "slab, reclaimable", "reclaimable"]]},
  {id: "processes", group: "tasks", title: "Largest processes", unit: "bytes", stacked: true,
    steps: true, all: "processes", more: processTable, note: "Anonymous memory, stacked",
    need: "`linux.process_stats` with `proc_stats_poll_ms: 1000`, or the event `kmem/rss_stat`"},
  {id: "pin_coverage", group: "files", title: "Pinlists in effect", unit: "percent",
    steps: true, all: "pin_coverage", low: true, note: "Resident share of the listed pages",
    need: "a pinlist, `mmsql convert TRACE --pinlist FILE=TARGET -o DB`"},
];

const HEIGHT = 132;
let plots = []; // all uPlot objects of the page

// Returns the series of a chart in all shown traces: [{label, t, v, color, dash}].
function seriesOf(chart, shown) {
  const found = [];
  shown.forEach((trace, n) => {
    const sets = (name) => trace.data[name] || [];
    const wanted = chart.all
      ? sets(chart.all).map((set) => [set, shortName(set.series)])
      : chart.series.map(([name, key, label, isHidden]) =>
        [sets(name).find((set) => set.series === key), label, isHidden]);
    wanted.forEach(([set, label, isHidden], i) => {
      if (!set || set.t.length < 2 && !chart.all) return;
      const mark = shown.length > 1 ? (n ? "B " : "A ") : "";
      found.push({label: mark + label, t: set.t.map((us) => us / 1e6), v: set.v,
        color: "c" + (i % 8 + 1), dash: n ? [5, 4] : null, isHidden});
    });
  });
  return found;
}

// Puts all series on one list of times. If `fills`, a series keeps a value until the next value.
function aligned(series, fills, end) {
  const all = [...new Set(series.flatMap((each) => each.t).concat(fills ? [end] : []))];
  all.sort((a, b) => a - b);
  const columns = series.map((each) => {
    let at = -1;
    return all.map((t) => {
      const before = at;
      while (at + 1 < each.t.length && each.t[at + 1] <= t) at++;
      if (fills) return at >= 0 ? each.v[at] : null;
      return at > before && each.t[at] === t ? each.v[at] : undefined;
    });
  });
  return [all, ...columns];
}

// Turns columns into sums from below, the last column on top.
function stacked(columns, visible) {
  const sum = new Array(columns[0].length).fill(0);
  return columns.map((column, i) => column.map((value, at) => {
    if (visible[i]) sum[at] += value || 0;
    return sum[at];
  }));
}

function valueAt(times, column, seconds) {
  let at = lastUpTo(times, seconds);
  while (at >= 0 && (column[at] === undefined || column[at] === null)) at--;
  return at < 0 ? null : column[at];
}

// Returns the text of a series in the legend while the pointer is elsewhere.
function summary(chart, label, column, times) {
  let least = Infinity, most = -Infinity;
  for (let i = 0; i < times.length; i++) {
    if (times[i] < time.from || times[i] > time.to) continue;
    if (column[i] === undefined || column[i] === null) continue;
    least = Math.min(least, column[i]);
    most = Math.max(most, column[i]);
  }
  if (most === -Infinity) return "–";
  const isLow = chart.low === true || (chart.low || []).includes(label.replace(/^[AB] /, ""));
  return (isLow ? "min " : "max ") + UNITS[chart.unit](isLow ? least : most);
}

const AXIS_UNITS = {
  bytes: {base: 1024, names: [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]},
  rate: {base: 1024, names: [" B/s", " KiB/s", " MiB/s", " GiB/s", " TiB/s", " PiB/s"]},
  count: {base: 1000, names: ["/s", " k/s", " M/s", " G/s", " T/s"]},
  percent: {base: 1000, names: [" %"]},
};

// Returns the ticks of a value axis, {at, labels}: two to four steps of 1, 2 or 5, times a power of
// ten, up to a value above all visible values. All labels are in one unit.
function valueTicks(most, unit) {
  const {base, names} = AXIS_UNITS[unit];
  const value = (most > 0 ? most : 1) * 1.02; // room above the line
  let power = 0;
  while (power < names.length - 1 && value >= base ** power * 600) power++;
  const scaled = Math.max(value / base ** power, 0.05);
  const ten = 10 ** Math.floor(Math.log10(scaled / 4));
  let step = [1, 2, 5, 10].map((each) => each * ten).find((each) => each * 4 >= scaled);
  if (base === 1024 && !power) step = Math.max(step, 1);
  let n = Math.max(Math.ceil(scaled / step - 1e-9), 2);
  if (unit === "percent" && step * n > 100) {
    step = Math.min(step, 50);
    n = Math.round(100 / step);
  }
  const at = Array.from({length: n + 1}, (_, i) => trimmed(i * step, 2));
  return {at: at.map((each) => each * base ** power),
    labels: at.map((each) => each === "0" ? each : each + names[power])};
}

function rangeOfValues(u, chart, visible) {
  let most = 0;
  const from = lastUpTo(u.data[0], time.from), to = lastUpTo(u.data[0], time.to) + 1;
  for (let n = 1; n < u.data.length; n++) {
    if (!chart.stacked && !visible[n - 1]) continue;
    for (let i = Math.max(from, 0); i <= to && i < u.data[0].length; i++) {
      if (u.data[n][i] > most) most = u.data[n][i];
    }
  }
  u.valueTicks = valueTicks(most, chart.unit);
  return [0, u.valueTicks.at[u.valueTicks.at.length - 1]];
}

function optionsOf(chart, series, visible, width) {
  const paths = uPlot.paths.stepped({align: chart.steps || chart.stacked ? 1 : -1});
  const isRate = chart.unit !== "bytes";
  return {
    width, height: HEIGHT + AXIS, legend: {show: false}, cursor: {show: false},
    padding: [6, RIGHT, 0, 0], ms: 1,
    scales: {x: {time: false, auto: false, range: () => [time.from, time.to]},
      y: {range: (u) => rangeOfValues(u, chart, visible)}},
    axes: [
      {size: AXIS, stroke: () => palette.soft, font: "11px " + FONT, gap: 4,
        grid: {stroke: () => palette.grid, width: 1}, ticks: {show: false},
        splits: () => ticks(width - LEFT - RIGHT).at,
        values: (u, at) => {
          const {step} = ticks(width - LEFT - RIGHT);
          return at.map((each) => moment(each, step));
        }},
      {size: LEFT, stroke: () => palette.soft, font: "11px " + FONT, gap: AXIS_GAP,
        grid: {stroke: () => palette.grid, width: 1}, ticks: {show: false},
        splits: (u) => u.valueTicks.at, values: (u) => u.valueTicks.labels},
    ],
    series: [{}, ...series.map((each, i) => ({
      label: each.label, stroke: () => palette[each.color], width: chart.stacked ? 1 : 1.5,
      dash: each.dash || undefined, points: {show: false}, spanGaps: true,
      paths: isRate || chart.steps ? paths : undefined, show: visible[i],
      fill: chart.stacked ? () => palette[each.color] + "59" : undefined,
    }))],
    bands: chart.stacked ? series.slice(1).map((_, i) => ({series: [i + 2, i + 1]})) : undefined,
    hooks: {
      drawClear: [(u) => onPlot(u, (context) => drawMarks(context, width - LEFT - RIGHT, 6,
        HEIGHT - 6, chart.which))],
      draw: [(u) => onPlot(u, (context) => drawKills(context, width - LEFT - RIGHT, 6,
        HEIGHT - 6, chart.which))],
    },
  };
}

// Draws on uPlot's canvas in CSS pixels.
function onPlot(u, draw) {
  const ratio = window.devicePixelRatio || 1;
  u.ctx.save();
  u.ctx.scale(ratio, ratio);
  draw(u.ctx);
  u.ctx.restore();
}

function legendOf(series, visible, change) {
  const values = [];
  const list = make("ul", {class: "legend"}, ...series.map((each, i) => {
    const value = make("b", {}, "");
    values.push(value);
    const chip = make("i", {"aria-hidden": "true"});
    chip.style.background = "var(--" + each.color + ")";
    if (each.dash) chip.style.background = "repeating-linear-gradient(90deg, var(--" + each.color +
      ") 0 4px, transparent 4px 6px)";
    const button = make("button", {type: "button", "aria-pressed": String(visible[i]),
      title: each.label,
      click: () => {
        visible[i] = !visible[i];
        button.setAttribute("aria-pressed", String(visible[i]));
        change(i);
      }}, chip, make("span", {}, each.label), value);
    return make("li", {}, button);
  }));
  return {list, values};
}

function chartTable(chart, series, data) {
  const columns = [{title: "at", kind: "n", show: (t) => moment(t, 0.01)},
    ...series.map((each) => ({title: each.label, kind: "n", show: UNITS[chart.unit]}))];
  const every = Math.max(1, Math.ceil(data[0].length / 250));
  const rows = [];
  for (let i = 0; i < data[0].length; i += every) rows.push(data.map((column) => column[i]));
  return table(chart.title + " over time", columns, rows);
}

// Returns the panels of a chart: pairs of chart and traces. Two traces share a chart, but not a
// stack, whose sum would add both traces.
function panelsWanted(chart, shown) {
  if (!chart.stacked || shown.length < 2) return [[chart, shown]];
  return shown.map((trace, n) => [{...chart, id: chart.id + "-" + "AB"[n],
    which: n,
    title: "AB"[n] + " " + chart.title}, [trace]]);
}

// Makes the panels of a group of charts. Charts without data share a line for each `need`, and
// charts with only zeros share a line.
function chartsOf(name, shown) {
  const panels = [], missing = [], zero = [];
  for (const [chart, traces] of CHARTS.filter((each) => each.group === name)
    .flatMap((each) => panelsWanted(each, shown))) {
    const panel = chartPanel(chart, traces);
    if (panel === "zero") zero.push(chart.title);
    else if (panel) panels.push(panel);
    else missing.push(chart);
  }
  if (zero.length) {
    panels.push(make("div", {class: "panel"}, make("p", {class: "empty"},
      "Recorded, and zero all the time: " + zero.join(", ") + ".")));
  }
  for (const need of new Set(missing.map((chart) => chart.need))) {
    panels.push(emptyPanel(missing.filter((chart) => chart.need === need)
      .map((chart) => chart.title).join(", "), need));
  }
  return panels;
}

// Makes a panel without data.
function notePanel(title, ...sentence) {
  return make("div", {class: "panel"}, make("h3", {}, title), make("p", {class: "empty"},
    ...sentence));
}

// Makes the panel of data that the trace lacks. Backticks in `need` enclose code.
function emptyPanel(title, need) {
  return notePanel(title, "Not in this trace. To record it: ",
    ...need.split("`").map((part, i) => i % 2 ? make("code", {}, part) : part), ".");
}

// Makes the panel of a chart. Returns null if the trace has no data for it, "zero" if the data are
// only zeros.
function chartPanel(chart, shown) {
  const series = seriesOf(chart, shown);
  if (chart.unit !== "percent" && chart.id !== "memory") {
    const flat = series.every((each) => each.v.every((value) => !value));
    if (series.length && flat && !chart.all) return "zero";
  }
  if (!series.length) return null;
  const visible = series.map((each) => !each.isHidden), end = time.span;
  const raw = aligned(series, chart.stacked || chart.steps, end);
  const dataNow = () => chart.stacked ? [raw[0], ...stacked(raw.slice(1), visible)] : raw;
  const plot = make("div", {class: "plot", role: "img"});
  let u = null;
  const {list, values} = legendOf(series, visible, (i) => {
    u.setSeries(i + 1, {show: visible[i]});
    u.setData(dataNow());
    tell();
  });
  const tell = () => series.forEach((each, i) => {
    const value = time.at === null ? null : valueAt(raw[0], raw[i + 1], time.at);
    values[i].textContent = time.at === null ? summary(chart, each.label, raw[i + 1], raw[0])
      : value === null ? "–" : UNITS[chart.unit](value);
  });
  const draw = () => {
    const width = plot.clientWidth;
    if (!width) return;
    if (!u) {
      u = new uPlot(optionsOf(chart, series, visible, width), dataNow(), plot);
      plots.push(u);
    } else if (u.width !== width) {
      u.destroy();
      plots = plots.filter((each) => each !== u);
      u = new uPlot(optionsOf(chart, series, visible, width), dataNow(), plot);
      plots.push(u);
    } else {
      u.setData(dataNow());
    }
    tell();
  };
  const describe = () => {
    plot.setAttribute("aria-label", chart.title + ": " + series.map((each, i) =>
      each.label + " " + summary(chart, each.label, raw[i + 1], raw[0])).join(", "));
  };
  describe();
  listen(plot);
  time.watchers.push(draw);
  time.readers.push(tell);
  const behind = tableBehind(chart.title, () => make("div", {},
    chart.more ? chart.more(shown, chart.title) : null,
    chartTable(chart, series, raw)));
  return make("div", {class: "panel", id: "chart-" + chart.id},
    make("div", {class: "row"},
      make("div", {class: "side"}, panelHead(chart.title, behind),
        chart.note ? make("p", {class: "range"}, chart.note) : null, list),
      plot),
    behind);
}
