// SPDX-License-Identifier: Apache-2.0
// Episodes of reclaim and compaction, a lane for each task, and the processes that were killed.

const KINDS = [
  ["direct reclaim", "c5"], ["memcg reclaim", "c2"], ["compaction", "c4"], ["kswapd", "c1"],
];
const ROW = 24;

// Makes the rows of labels beside a canvas of lanes.
function labelsOf(rows) {
  return make("ul", {class: "labels"}, ...rows.map((row) =>
    make("li", {title: row.label}, make("span", {}, row.label), make("b", {}, row.value))));
}

// Makes a panel with a canvas of rows. `drawRow(context, row, y, height, width)` draws a row. The
// value of a row may depend on the visible range.
// `tell(row, seconds)` returns the text under the pointer. `which` of a row is its trace.
function rowsPanel({id, title, note, rows, keys, drawRow, tell, behind, height = ROW}) {
  const canvas = make("canvas", {}), labels = labelsOf(rows);
  const plot = make("div", {class: "plot", role: "img", "aria-label": title + ": " +
    rows.slice(0, 12).map((row) => row.label + " " + row.value).join(", ")}, canvas);
  // On a narrow screen, the labels are in the plot, above each row.
  const rowHeight = () => matchMedia("(max-width: 760px)").matches ? height + 14 : height;
  const draw = () => {
    const all = plot.clientWidth, width = plotWidth(plot), each = rowHeight();
    if (!all) return;
    const body = rows.length * each;
    const context = contextOf(canvas, all, body + AXIS);
    rows.forEach((row, n) => {
      labels.children[n].lastChild.textContent = row.value;
    });
    rows.forEach((row, n) => drawMarks(context, width, n * each, each, row.which));
    drawTimeAxis(context, width, 0, body);
    rows.forEach((row, n) => {
      const inside = each - height, y = n * each + inside;
      if (inside) {
        context.font = "11px " + FONT;
        context.fillStyle = palette.soft;
        context.fillText(fitted(context, row.label + "  " + row.value, width), LEFT, n * each + 2);
      }
      context.save();
      context.beginPath();
      context.rect(LEFT, y, width, height);
      context.clip();
      drawRow(context, row, y + 4, height - 8, width);
      context.restore();
    });
    rows.forEach((row, n) => drawKills(context, width, n * each, each, row.which));
  };
  listen(plot, (event) => {
    const box = plot.getBoundingClientRect();
    const n = Math.floor((event.clientY - box.top) / rowHeight());
    const seconds = time.from + (event.clientX - box.left - LEFT) / plotWidth(plot) *
      (time.to - time.from);
    return rows[n] && seconds >= time.from ? tell(rows[n], seconds) : "";
  });
  time.watchers.push(draw);
  return make("div", {class: "panel", id},
    make("div", {class: "row"},
      make("div", {class: "side"}, panelHead(title, behind),
        note ? make("p", {class: "range"}, note) : null), keys),
    make("div", {class: "row"}, make("div", {class: "side"}, labels), plot),
    behind);
}

// Returns the lanes of a trace. `share` of a piece is the part of its time in which its episodes
// went on.
function lanesOf(trace, mark, which) {
  const lanes = new Map();
  for (const set of trace.data.lanes || []) {
    const lane = lanes.get(set.series) ||
      {label: mark + shortName(set.series), which, pieces: [], sum: 0, n: 0};
    lanes.set(set.series, lane);
    rowsOf(set, ["kind", "t", "e", "n", "d", "w", "bytes", "open"]).forEach(
      ([kind, t, e, n, d, w, freed, open]) => {
        const share = n > 1 && e > t ? Math.min(w / (e - t), 1) : 1;
        lane.pieces.push({kind, from: t / 1e6, to: e / 1e6, n, d, share, freed, open});
        lane.sum += d;
        lane.n += n;
      });
  }
  const rows = [...lanes.values()];
  for (const lane of rows) lane.value = duration(lane.sum) + " in " + number(lane.n);
  return rows;
}

const LEAST_BAR = 2; // px: the height of the shortest episode
const SOME = 1e-12; // a part of the time that is drawn with the least height

// Adds a piece to `parts`: for each column of pixels the part of the column's time.
function addPiece(parts, piece, width) {
  const a = xOf(piece.from, width) - LEFT, b = Math.max(xOf(piece.to, width) - LEFT, a);
  const last = Math.min(Math.floor(b), parts.length - 1);
  for (let x = Math.max(Math.floor(a), 0); x <= last; x++) {
    const inside = Math.max(Math.min(b, x + 1) - Math.max(a, x), 0);
    parts[x] = Math.min(parts[x] + Math.max(inside * piece.share, SOME), 1);
  }
}

// Draws a bar in each column of pixels. The height of a bar is the part of the time in which
// episodes went on, so a picture of any width tells how much the task waited. Kinds stand on each
// other. An open episode has a pale ground.
function drawPieces(context, lane, y, height, width) {
  const tops = new Float64Array(Math.ceil(width)).fill(y + height);
  context.fillStyle = palette.line;
  context.fillRect(LEFT, y + height, width, 1);
  for (const [kind, name] of KINDS) {
    const pieces = lane.pieces.filter((piece) => piece.kind === kind && piece.to >= time.from &&
      piece.from <= time.to);
    const parts = new Float64Array(tops.length);
    context.fillStyle = palette[name];
    context.globalAlpha = 0.18;
    for (const piece of pieces) {
      if (!piece.open) addPiece(parts, piece, width);
      else {
        const x = xOf(piece.from, width);
        context.fillRect(x, y, Math.max(xOf(piece.to, width) - x, 1.5), height);
      }
    }
    context.globalAlpha = 1;
    context.beginPath(); // of all bars, because there would be seams between single bars
    parts.forEach((part, x) => {
      if (!part) return;
      const bar = Math.min(Math.max(part * height, LEAST_BAR), tops[x] - y);
      context.rect(LEFT + x, tops[x] - bar, parts[x - 1] || parts[x + 1] ? 1 : 2, bar);
      tops[x] -= bar;
    });
    context.fill();
  }
}

function tellPiece(lane, seconds) {
  const near = (time.to - time.from) / 250;
  const found = lane.pieces.filter((piece) => piece.from - near <= seconds &&
    piece.to + near >= seconds);
  found.sort((a, b) => (a.to - a.from) - (b.to - b.from));
  return [lane.label, ...found.slice(0, 4).map((piece) =>
    (piece.n > 1 ? number(piece.n) + " × " : "") + plainly(piece.kind) + " at " +
    moment(piece.from, 0.001) +
    (piece.open ? ", its end is not in the trace" : ", " + duration(piece.d)) +
    (piece.n > 1 && !piece.open ? " in sum (" + threeDigits(piece.share * 100) + " % of " +
      duration((piece.to - piece.from) * 1e6) + ")" : "") +
    (piece.freed ? ", freed " + bytes(piece.freed) : ""))].join("\n");
}

function reclaimTable(shown, name) {
  const columns = [{title: "task"}, {title: "what", show: plainly},
    {title: "times", kind: "n", show: number}, {title: "in sum", kind: "n", show: UNITS.ns},
    {title: "longest", kind: "n", show: UNITS.ns},
    {title: "longest at", kind: "n", show: (us) => moment(us / 1e6, 0.01)},
    {title: "freed", kind: "n", show: bytes}];
  const rows = shown.flatMap((trace, n) => rowsOf(trace.data.reclaim_by_task, ["task", "kind",
    "times", "total_ns", "longest_ns", "at_us", "reclaimed_bytes"]).map((row) =>
    [(shown.length > 1 ? "AB"[n] + " " : "") + shortName(row[0]), ...row.slice(1)]));
  return table(name, columns, rows);
}

function lanesPanel(shown) {
  const rows = shown.flatMap((trace, n) => lanesOf(trace,
    shown.length > 1 ? "AB"[n] + " " : "", n));
  if (!rows.length) return null;
  const kinds = KINDS.filter(([kind]) => rows.some((lane) =>
    lane.pieces.some((piece) => piece.kind === kind)));
  const keys = make("div", {class: "keys"}, ...kinds.map(([kind, name]) => {
    const chip = make("i", {});
    chip.style.background = "var(--" + name + ")";
    return make("span", {}, chip, plainly(kind));
  }), make("span", {}, "Height: the part of the time. Full height: all the time."));
  return rowsPanel({id: "chart-lanes", title: "Reclaim and compaction", rows, keys,
    drawRow: drawPieces, tell: tellPiece,
    behind: tableBehind("Reclaim and compaction by task", (name) => reclaimTable(shown, name))});
}

// Makes the panel of a trace, or of traces, in which nobody was killed as far as is known.
function noKillsPanel(title, losses) {
  if (losses === undefined) {
    return emptyPanel(title, "`ftrace_events: \"oom/mark_victim\"` (needs root)");
  }
  return notePanel(title, losses ? "No kill is in this trace, but the trace has losses."
    : "Nobody was killed.");
}

// Makes the panels of the killed processes. Charts have a dashed line at these moments. Traces
// without kills share a panel if they are alike.
function killsPanels(shown) {
  const title = "Killed for lack of memory";
  const none = shown.map((trace, n) => ({n, losses: trace.data.kills_watched.has_losses[0]}))
    .filter(({n}) => !shown[n].data.kills.t.length);
  if (none.length === shown.length && new Set(none.map(({losses}) => losses)).size === 1) {
    return [noKillsPanel(title, none[0].losses)];
  }
  return [killsPanel(shown, title), ...none.map(({n, losses}) =>
    noKillsPanel("AB"[n] + " " + title, losses))];
}

function killsPanel(shown, title) {
  const rows = shown.flatMap((trace, n) => rowsOf(trace.data.kills, ["t", "process", "pid",
    "wanted_by"]).map((row) => [(shown.length > 1 ? "AB"[n] + " " : "") +
    shortName(row[1] || "unknown"), row[2], row[0], row[3] && shortName(row[3])]));
  if (!rows.length) return null;
  return make("div", {class: "panel", id: "chart-kills"},
    make("h3", {}, title),
    make("div", {class: "wrap"}, table(title,
      [{title: "process"}, {title: "pid", kind: "n"},
        {title: "at", kind: "n", show: (us) => moment(us / 1e6, 0.001)},
        {title: "memory was wanted by"}], rows)));
}

// Makes the table of the largest processes, at three moments.
function processTable(shown, name) {
  const rows = shown.flatMap((trace, n) => rowsOf(trace.data.process_table, ["process",
    "first_bytes", "peak_bytes", "last_bytes", "change_bytes"]).map((row) =>
    [(shown.length > 1 ? "AB"[n] + " " : "") + shortName(row[0]), ...row.slice(1)]));
  const sizes = ["at first", "at its largest", "at last", "change"];
  return table(name, [{title: "process"},
    ...sizes.map((title) => ({title, kind: "n", show: bytes}))], rows);
}
