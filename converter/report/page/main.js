// SPDX-License-Identifier: Apache-2.0
// Puts the page together.

const page = JSON.parse(byId("data").textContent);
const verdictLists = [...document.querySelectorAll(".verdict")];

page.traces.forEach((trace, i) => {
  trace.start = Number(BigInt(trace.start) / 1000n); // us
  trace.list = verdictLists[i];
  trace.path = trace.data.about.path[0] || trace.input;
  trace.isLog = !trace.data.about.path.length; // of Java allocations, without times and machine
});

// Parts of a sentence that stay on one line: a number and its unit, a pid, a date with its time.
const WHOLE = /(\(?\d{4}-\d\d-\d\d [\d:]+ UTC\)?|\(?\d\d:\d\d:\d\d UTC\)?|\(pid \d+\)|[\d.,]+ (?:[KMGT]?i?B|[mun]?s|%))(?![\w%])/;

function keepTogether(sentence) {
  sentence.replaceChildren(...sentence.textContent.split(WHOLE).map((part, i) =>
    i % 2 ? make("span", {class: "whole"}, part) : part));
}

// Links the sentences of a verdict to their moments.
function linkVerdict(trace, mark, which) {
  for (const item of trace.list.querySelectorAll("li")) {
    item.querySelector("button")?.remove();
    keepTogether(item.querySelector("p"));
    if (!item.dataset.ts) continue;
    const from = (Number(BigInt(item.dataset.ts) / 1000n) - trace.start) / 1e6;
    const long = Number(item.dataset.dur) / 1e9;
    if (!["quiet", "growth", "return"].includes(item.dataset.kind)) {
      const level = ["critical", "warning", "notice"].find((name) => item.classList.contains(name));
      time.marks.push({from, to: from + long, level: level || "soft", which});
    }
    const margin = Math.max(long * 0.25, time.span / 50);
    item.append(make("button", {type: "button", click: () => {
      look(from - margin, from + long + margin);
      byId("time").scrollIntoView({block: "start"});
    }}, mark + moment(from, 0.1)));
  }
}

function group(title, note, panels, empty) {
  const made = panels.filter(Boolean);
  return make("section", {class: "group"}, make("h2", {}, title),
    note ? make("p", {class: "note"}, note) : null, ...(made.length ? made : [empty]));
}

function flamesOf(shown) {
  const profiles = page.compares ? page.flames || [] : shown.flatMap((trace) => trace.flames || []);
  return profiles.map((profile, n) => flamePanel(profile, n));
}

function show(shown) {
  plots.forEach((u) => u.destroy());
  plots = [];
  Object.assign(time, {span: Math.max(...shown.map((trace) => trace.span / 1e6), 1e-3), at: null,
    marks: [], kills: [], names: shown.length > 1 ? "AB" : null, watchers: [], readers: []});
  time.from = 0;
  time.to = time.span;
  const marks = shown.length > 1 ? ["A ", "B "] : [""];
  page.traces.forEach((trace) => {
    trace.list.hidden = !shown.includes(trace);
  });
  document.querySelectorAll(".verdict-name").forEach((name) => name.remove());
  shown.forEach((trace, n) => {
    linkVerdict(trace, marks[n], n);
    trace.data.kills.t.forEach((t) => time.kills.push({at: t / 1e6, which: n}));
    if (shown.length > 1) {
      trace.list.before(make("p", {class: "verdict-name"}, make("b", {}, marks[n]), trace.path));
    }
  });
  byId("title").textContent = shown.map((trace, n) => marks[n] + trace.path.split("/").pop())
    .join("  and  ");
  const profiles = flamesOf(shown);
  const flames = group("Call stacks",
    profiles.length ? "Click a frame to zoom. Press / to search." : null, profiles,
    emptyPanel("Flame graphs", "`mmtrace heap`, `mmtrace cpu` or `mmtrace faults`"));
  if (shown.every((trace) => trace.isLog)) {
    byId("others").replaceChildren(flames);
    timeChanged();
    return;
  }
  byId("facts").textContent = shown.map((trace, n) => marks[n] + factsOf(trace)).join("\n");
  byId("figures").replaceChildren(shown.length > 1 ? figureComparison(shown)
    : figureTiles(shown[0]));
  buildTimeBar(byId("time"));
  const both = (build) => shown.flatMap((trace, n) => build(trace, marks[n], n));
  byId("charts").replaceChildren(
    group("Memory of the machine", marksNote(), chartsOf("machine", shown)),
    group("Tasks", null, [
      lanesPanel(shown) || emptyPanel("Reclaim and compaction",
        "`ftrace_events: \"vmscan/*\"` and `ftrace_events: \"compaction/*\"` (needs root)"),
      ...killsPanels(shown),
      ...chartsOf("tasks", shown)]),
    group("Page cache of files", null, [
      ...both(filesPanels), ...both(mapPanels),
      ...(shown.some((trace) => trace.data.pin_coverage.length) ? chartsOf("files", shown) : [])],
    emptyPanel("Files in the page cache",
      "`linux.page_residency` with paths, see `configs/residency.cfg`")));
  byId("others").replaceChildren(
    flames, ...both((trace, mark) => [group(mark + "About the trace", null,
      [healthPanel(trace, mark), machinePanel(trace, mark), configPanel(trace)])]));
  timeChanged();
}

// Sets the theme: the theme of the system, light, or dark.
function setTheme(name) {
  const root = document.documentElement;
  if (name === "auto") delete root.dataset.theme;
  else root.dataset.theme = name;
  const button = byId("theme");
  button.textContent = capital(name);
  button.setAttribute("aria-label", "Colours: " + (name === "auto" ? "as the system has them"
    : name));
  readPalette();
  timeChanged();
}

// Draws all charts in light colours for paper, and in the colours of the screen afterwards.
function listenToPrinter() {
  const root = document.documentElement;
  let chosen = null; // the theme of the screen while a printer reads the page
  const redraw = (theme) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    readPalette();
    time.watchers.forEach((watch) => watch());
  };
  addEventListener("beforeprint", () => {
    chosen = chosen ?? (root.dataset.theme || "");
    redraw("light");
  });
  addEventListener("afterprint", () => {
    const theme = chosen;
    chosen = null;
    if (theme !== null) redraw(theme);
  });
}

function buildChooser() {
  const chooser = byId("chooser");
  if (page.compares || page.traces.length < 2) return;
  page.traces.forEach((trace, i) => chooser.append(make("option", {value: i},
    trace.path.split("/").pop())));
  chooser.hidden = false;
  chooser.value = page.traces.length - 1;
  chooser.addEventListener("change", () => show([page.traces[chooser.value]]));
}

readPalette();
buildChooser();
byId("theme").addEventListener("click", () => {
  const names = ["auto", "light", "dark"];
  const now = document.documentElement.dataset.theme || "auto";
  setTheme(names[(names.indexOf(now) + 1) % 3]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readPalette();
  timeChanged();
});
addEventListener("resize", timeChanged);
listenToPrinter();
listenToKeys();
listenToFingers();
show(page.compares ? page.traces : [page.traces[page.traces.length - 1]]);
document.documentElement.dataset.ready = "yes";
