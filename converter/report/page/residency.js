// SPDX-License-Identifier: Apache-2.0
// The page cache: files by time, and the pages of some files by time.

const FILES_FIRST = 12, MAP_HEIGHT = 96;

// Returns a colour between the two ends of the ramp.
function heat(share) {
  const part = (name, at) => parseInt(palette[name].slice(1 + 2 * at, 3 + 2 * at), 16);
  const mix = [0, 1, 2].map((at) => Math.round(part("heat0", at) +
    (part("heat1", at) - part("heat0", at)) * Math.min(Math.max(share, 0), 1)));
  return "rgb(" + mix.join(",") + ")";
}

// Returns the first part of the paths that all files share, which the labels leave out.
function commonFolder(paths) {
  let common = paths.length > 1 ? paths[0].slice(0, paths[0].lastIndexOf("/") + 1) : "";
  for (const path of paths) {
    while (common && !path.startsWith(common)) {
      common = common.slice(0, common.slice(0, -1).lastIndexOf("/") + 1);
    }
  }
  return common;
}

// A whole percentage, rounded as those of the lanes: residency.sql rounds to two digits first.
function share(part, whole) {
  return Math.round(Math.round(1e4 * part / whole) / 100) + " %";
}

function filesPanels(trace, mark, which) {
  const sets = trace.data.residency || [];
  if (!sets.length) return [];
  const folder = commonFolder(sets.map((set) => set.series));
  const rows = sets.map((set) => ({label: mark + (set.series.slice(folder.length) || set.series),
    which, t: set.t.map((us) => us / 1e6), v: set.v, bytes: set.bytes,
    get value() {
      const last = this.v[lastUpTo(this.t, time.to)] ?? null;
      return last === null ? "–" : "last " + Math.round(last) + " %";
    }}));
  const end = trace.span / 1e6;
  const drawRow = (context, row, y, height, width) => {
    for (let i = 0; i < row.t.length; i++) {
      const next = i + 1 < row.t.length ? row.t[i + 1] : end;
      if (row.v[i] === null || next < time.from || row.t[i] > time.to) continue;
      const x = Math.round(Math.max(xOf(row.t[i], width), LEFT));
      const right = Math.round(Math.min(xOf(next, width), LEFT + width));
      context.fillStyle = heat(row.v[i] / 100);
      context.fillRect(x, y - 2, Math.max(right - x, 1), height + 4);
    }
  };
  const tell = (row, seconds) => {
    const i = lastUpTo(row.t, seconds);
    return row.label + (i < 0 ? "" : "\n" + threeDigits(row.v[i]) + " % resident, " +
      bytes(row.bytes[i]));
  };
  const keys = () => make("div", {class: "keys"}, make("span", {}, "resident: 0 %",
    make("span", {class: "ramp"}), "100 %"));
  const behind = tableBehind(mark + "Files in the page cache", (name) => table(name, [
    {title: "file", kind: "path"},
    {title: "size", kind: "n", show: bytes}, {title: "least resident", kind: "n", show: bytes},
    {title: "most resident", kind: "n", show: bytes},
    {title: "at the end", kind: "n", show: bytes}],
  rowsOf(trace.data.residency_table, ["file", "size_bytes", "least_bytes", "most_bytes",
    "last_bytes"])));
  const note = folder ? "in " + folder : "";
  const made = rowsPanel({id: "chart-residency" + (mark.trim() && "-" + mark.trim()),
    title: mark + "Files in the page cache", note, rows: rows.slice(0, FILES_FIRST), keys: keys(),
    drawRow, tell, behind});
  if (rows.length > FILES_FIRST) {
    const more = make("button", {type: "button", click: () => {
      const all = rowsPanel({id: made.id, title: mark + "Files in the page cache", note, rows,
        keys: keys(), drawRow, tell, behind});
      made.replaceWith(all);
      more.remove();
      timeChanged();
    }}, "Show all " + rows.length + " files");
    made.append(make("div", {class: "wrap"}, more));
  }
  return [made];
}

// Makes a map of one file: time to the right, the first page on top. The end of the trace does not
// end a run or the watch, so these are known at the end, too.
function mapPanel(trace, file, pins, mark, which) {
  const {label, pages, pageBytes, runs, first, gone} = file;
  const canvas = make("canvas", {});
  const plot = make("div", {class: "plot", role: "img",
    "aria-label": "Resident pages of " + label + " over time"}, canvas);
  const value = make("b", {}), pinned = make("b", {});
  const nPinned = pins ? pins.a.reduce((sum, a, i) => sum + Math.min(pins.b[i], pages) - a, 0) : 0;
  const end = trace.span / 1e6;
  const isWatched = (seconds) => seconds >= first && seconds < gone && seconds <= end;
  // Returns the moment that the numbers are of: under the pointer, or else the last visible one.
  const now = () => time.at ?? Math.min(time.to, end);
  const residentAt = (seconds) => {
    let resident = 0, held = 0;
    for (const run of runs) {
      if (run.from > seconds || run.to <= seconds) continue;
      resident += run.b - run.a;
      if (pins) {
        pins.a.forEach((a, i) => {
          held += Math.max(0, Math.min(run.b, pins.b[i]) - Math.max(run.a, a));
        });
      }
    }
    return [resident, held];
  };
  const read = () => {
    const [resident, held] = residentAt(now()), isKnown = isWatched(now());
    const last = time.at === null ? "last " : "";
    value.textContent = !isKnown ? "–" : last + bytes(resident * pageBytes) +
      (last ? "" : " of " + bytes(pages * pageBytes)) +
      " (" + share(resident, pages) + ")";
    pinned.textContent = !nPinned ? "" : !isKnown ? "–"
      : last + share(held, nPinned);
  };
  const draw = () => {
    const all = plot.clientWidth, width = plotWidth(plot);
    if (!all) return;
    const context = contextOf(canvas, all, MAP_HEIGHT + AXIS);
    drawTimeAxis(context, width, 0, MAP_HEIGHT);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width, MAP_HEIGHT);
    context.clip();
    const begin = Math.round(xOf(first, width));
    context.fillStyle = palette.heat0;
    context.fillRect(begin, 0, Math.round(xOf(Math.min(gone, end), width)) - begin, MAP_HEIGHT);
    context.fillStyle = palette.heat1;
    for (const run of runs) {
      if (run.to < time.from || run.from > time.to) continue;
      // Whole pixels, so that runs that touch have no seam between them.
      const x = Math.round(xOf(run.from, width)), y = Math.round(run.a / pages * MAP_HEIGHT);
      context.fillRect(x, y, Math.max(Math.round(xOf(Math.min(run.to, end), width)) - x, 1),
        Math.max(Math.round(run.b / pages * MAP_HEIGHT) - y, 1));
    }
    context.restore();
    drawMarks(context, width, 0, MAP_HEIGHT, which);
    if (pins) {
      context.fillStyle = palette.c2;
      pins.a.forEach((a, i) => context.fillRect(LEFT - 9, a / pages * MAP_HEIGHT, 6,
        Math.max((pins.b[i] - a) / pages * MAP_HEIGHT, 0.8)));
    }
    context.font = "11px " + FONT;
    context.fillStyle = palette.soft;
    context.textAlign = "right";
    context.textBaseline = "top";
    context.fillText("0", LEFT - 12, 1);
    context.textBaseline = "bottom";
    context.fillText(bytes(pages * pageBytes), LEFT - 12, MAP_HEIGHT);
    drawKills(context, width, 0, MAP_HEIGHT, which);
    read();
  };
  listen(plot, (event) => {
    const box = plot.getBoundingClientRect();
    const page = Math.floor((event.clientY - box.top) / MAP_HEIGHT * pages), at = now();
    if (page < 0 || page >= pages || time.at === null || !isWatched(at)) return "";
    const run = runs.find((each) => each.a <= page && each.b > page && each.from <= at &&
      each.to > at);
    return "page " + number(page) + " at " + bytes(page * pageBytes) + ": " +
      (run ? "resident from " + moment(run.from, 0.01) + " to " + (run.to === Infinity ? "the end"
        : moment(run.to, 0.01)) : "not resident");
  });
  time.watchers.push(draw);
  time.readers.push(read);
  const chip = (name) => {
    const box = make("i", {class: "box"});
    box.style.background = "var(--" + name + ")";
    return box;
  };
  const line = (name, text, number) => make("li", {}, make("button", {type: "button",
    disabled: true}, chip(name), make("span", {}, text), number));
  const behind = runsTable(mark + label, runs);
  return make("div", {class: "panel map"}, make("div", {class: "row"},
    make("div", {class: "side"}, panelHead(mark + label, behind),
      make("ul", {class: "legend"}, line("heat1", "resident", value),
        nPinned ? line("c2", "pinned pages resident", pinned) : null)),
    plot), behind);
}

// Makes the table of the first runs of a file.
function runsTable(label, runs) {
  return tableBehind("Runs of pages of " + label, (name) => table(name, [
    {title: "first page", kind: "n", show: number},
    {title: "page behind the last", kind: "n", show: number},
    {title: "from", kind: "n", show: (s) => moment(s, 0.01)},
    {title: "to", kind: "n", show: (s) => s === Infinity ? "the end" : moment(s, 0.01)}],
  runs.slice(0, 500).map((run) => [run.a, run.b, run.from, run.to])));
}

function mapPanels(trace, mark, which) {
  const sets = trace.data.pages || [];
  const folder = commonFolder((trace.data.residency || sets).map((set) => set.series));
  return sets.map((set) => mapPanel(trace, {
    path: set.series, label: set.series.slice(folder.length) || set.series, pages: set.pages[0],
    pageBytes: set.page_bytes[0],
    first: Math.min(...set.first) / 1e6,
    gone: Math.max(...set.gone.map((us) => us ?? Infinity)) / 1e6,
    runs: set.t.map((t, i) => ({from: t / 1e6, to: (set.e[i] ?? Infinity) / 1e6, a: set.a[i],
      b: set.b[i]})),
  }, (trace.data.pins || []).find((pin) => pin.series === set.series), mark, which));
}
