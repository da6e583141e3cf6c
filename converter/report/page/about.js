// SPDX-License-Identifier: Apache-2.0
// Key figures, and facts about the trace itself: losses, config, machine.

const TILES = ["some task stalled for memory", "all tasks stalled for memory", "least free memory",
  "direct reclaim", "memcg reclaim", "compaction", "evicted pages that came back", "major faults",
  "swapped out", "processes killed by the kernel"];

function figuresOf(trace) {
  const found = new Map();
  rowsOf(trace.data.figures, ["name", "value", "unit", "worse"]).forEach(
    ([name, value, unit, worse]) => found.set(name, {value, unit, worse}));
  return found;
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function figureTiles(trace) {
  const figures = figuresOf(trace);
  const some = TILES.filter((name) => figures.has(name) &&
    (figures.get(name).value || name === "some task stalled for memory")).slice(0, 6);
  return make("dl", {}, ...some.map((name) => {
    const {value, unit} = figures.get(name);
    return make("div", {}, make("dt", {}, capital(plainly(name))), make("dd", {},
      UNITS[unit](value) + (unit === "times" ? " ×" : "")));
  }));
}

// Returns a change in percent, in brackets: nothing if the change is too small for a digit.
function shareOf(change, from) {
  const percent = change / Math.abs(from) * 100, size = Math.abs(percent);
  if (!from || change && size < 0.05) return "";
  return " (" + (change > 0 ? "+" : "") + trimmed(percent, size < 9.95 ? 1 : 0) + " %)";
}

// The figures of two traces, with the difference of the second.
function figureComparison(shown) {
  const [a, b] = shown.map(figuresOf);
  const names = [...new Set([...a.keys(), ...b.keys()])];
  const rows = names.map((name) => {
    const x = a.get(name), y = b.get(name), {unit, worse} = x || y;
    const from = x ? x.value : null, to = y ? y.value : null;
    const change = from === null || to === null ? null : to - from;
    const isWorse = change !== null && worse && Math.sign(change) === worse &&
      Math.abs(change) > 0.05 * Math.abs(from);
    return make("tr", {}, make("td", {}, capital(plainly(name))),
      ...[from, to].map((value) => make("td", {class: "n"}, value === null ? "–"
        : UNITS[unit](value))),
      make("td", {class: "n" + (isWorse ? " worse" : "")}, change === null ? "–" : (change > 0
        ? "+" : "") + UNITS[unit](change) + shareOf(change, from)));
  });
  return make("div", {class: "scroll whole"}, make("table", {"aria-label": "Key figures"},
    make("thead", {}, make("tr", {},
    ...["", "A", "B", "B against A"].map((text, i) => make("th", {scope: "col",
      class: i ? "n" : null}, text)))), make("tbody", {}, ...rows)));
}

function healthPanel(trace, mark) {
  const lines = trace.health, rows = rowsOf(trace.data.losses, ["name", "idx", "severity", "value",
    "description"]);
  const behind = rows.length ? tableBehind(mark + "Statistics of losses", (name) => table(name, [
    {title: "name"}, {title: "index", kind: "n"}, {title: "severity"},
    {title: "value", kind: "n", show: number},
    {title: "meaning", kind: "wide"}], rows)) : null;
  return make("div", {class: "panel"}, panelHead("Losses", behind),
    lines.length ? make("ul", {}, ...lines.map(([what, hint]) => make("li", {},
      what + (hint ? " (" + hint + ")" : ""))))
      : make("p", {class: "empty"}, "None: the trace has all that the recorder was asked for."),
    behind);
}

const MACHINE = {trace_uuid: "Trace UUID", system_name: "System", system_release: "Kernel",
  system_version: "Build of the kernel", system_machine: "Architecture",
  tracing_service_version: "Recorded by", timezone_off_mins: "Time zone (minutes east of UTC)",
  system_ram_bytes: "Memory"};

function machinePanel(trace, mark) {
  const rows = rowsOf(trace.data.machine, ["key", "value"]).map(([key, value]) =>
    [MACHINE[key] || capital(key.replaceAll("_", " ")),
      /_bytes$/.test(key) ? bytes(Number(value)) : value]);
  return rows.length ? make("div", {class: "panel"}, make("h3", {}, "Machine and recorder"),
    make("div", {class: "wrap"}, table(mark + "Machine and recorder", [{title: ""},
      {title: "", kind: "wide"}], rows)))
    : emptyPanel("Machine and recorder", "`linux.system_info`");
}

function configPanel(trace) {
  const text = (trace.data.config.text || [])[0];
  return make("div", {class: "panel"}, make("h3", {}, "Config of the recording"),
    text ? make("details", {}, make("summary", {}, "Show"), make("pre", {tabindex: "0"}, text))
      : make("p", {class: "empty"}, "The trace does not have its config."));
}

function factsOf(trace) {
  const about = trace.data.about, facts = [];
  const recorded = new Date((about.start_unix_ns[0] ?? NaN) / 1e6);
  if (!isNaN(recorded)) {
    facts.push("recorded " + recorded.toISOString().replace("T", " ").slice(0, 19) + " UTC");
  }
  facts.push(duration(trace.span), bytes(about.size_bytes[0]));
  const machine = new Map(rowsOf(trace.data.machine, ["key", "value"]));
  if (machine.get("system_release")) {
    facts.push(machine.get("system_name") + " " + machine.get("system_release"));
  }
  if (machine.get("system_ram_bytes")) {
    facts.push(bytes(Number(machine.get("system_ram_bytes"))) + " of memory");
  }
  if (about.machines[0] > 1) facts.push("the first of " + about.machines[0] + " machines");
  return facts.join("  ·  ");
}
