// SPDX-License-Identifier: Apache-2.0
// The time axis that all charts share: the visible range, the place of the pointer, and the keys,
// buttons and gestures that change them. Times are seconds since the start of the trace.

// Room in a plot for the two axes. The widest label of a value axis fits in LEFT.
const AXIS_GAP = 6, RIGHT = 12, AXIS = 20;
const LEFT = Math.max(60, Math.ceil(axisTextWidth("888 MiB/s")) + AXIS_GAP + 2);
document.documentElement.style.setProperty("--left", LEFT + "px");
const time = {
  span: 1, // of all traces of the page
  from: 0, to: 1, // the visible range
  at: null, // the moment under the pointer
  marks: [], // {from, to, level, which}: times in the verdict of a trace
  kills: [], // {at, which}
  names: null, // of the traces, "A" and "B", if the page compares two
  watchers: [], // called after a change of the visible range
  readers: [], // called after a move of the pointer
};

const MIN_VIEW = 20e-6;
let frame = 0;

function timeChanged() {
  if (!frame) {
    frame = requestAnimationFrame(() => {
      frame = 0;
      time.watchers.forEach((watch) => watch());
    });
  }
}

function look(from, to) {
  const width = Math.min(Math.max(to - from, MIN_VIEW), time.span);
  const middle = (from + to) / 2;
  time.from = Math.min(Math.max(middle - width / 2, 0), time.span - width);
  time.to = time.from + width;
  timeChanged();
}

// Zooms by a factor around a moment, which keeps its place.
function zoom(factor, around) {
  const at = around === undefined || around === null ? (time.from + time.to) / 2 : around;
  look(at - (at - time.from) * factor, at + (time.to - at) * factor);
}

function pan(share) {
  const by = (time.to - time.from) * share;
  const width = time.to - time.from;
  const from = Math.min(Math.max(time.from + by, 0), time.span - width);
  look(from, from + width);
}

const isWhole = () => time.to - time.from >= time.span * 0.9999;

function plotWidth(plot) {
  return Math.max(plot.clientWidth - LEFT - RIGHT, 10);
}

function xOf(seconds, width) {
  return LEFT + (seconds - time.from) / (time.to - time.from) * width;
}

// Moves the line of the pointer in all charts.
function point(seconds) {
  time.at = seconds;
  document.body.classList.toggle("pointing", seconds !== null);
  for (const plot of document.querySelectorAll(".plot")) {
    plot.style.setProperty("--on", seconds === null ? 0 : 1);
    if (seconds !== null) plot.style.setProperty("--x", xOf(seconds, plotWidth(plot)) + "px");
  }
  time.readers.forEach((read) => read());
}

// Fingers keep the values on the page until they touch another place.
function listenToFingers() {
  document.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") return;
    tip("");
    if (!event.target.closest(".plot, button, .strip")) point(null);
  });
}

// Lets a plot move the pointer, and zoom by dragging or with two fingers. `tell(event)` returns the
// text beside the pointer.
function listen(plot, tell) {
  let begin = null, isPinch = false;
  const fingers = new Map(); // the moments that are held, and the places, by id of the pointer
  const secondsAt = (event) => {
    const x = event.clientX - plot.getBoundingClientRect().left - LEFT;
    const share = Math.min(Math.max(x / plotWidth(plot), 0), 1);
    return time.from + share * (time.to - time.from);
  };
  const select = (a, b) => {
    const width = plotWidth(plot);
    for (const each of document.querySelectorAll(".plot")) {
      each.style.setProperty("--sx", a === null ? 0 : xOf(Math.min(a, b), width) + "px");
      each.style.setProperty("--sw", a === null ? 0
        : Math.abs(b - a) / (time.to - time.from) * width + "px");
    }
  };
  const read = (event) => {
    point(secondsAt(event));
    tip(tell ? tell(event) : "", event.clientX, event.clientY);
  };
  // Shows the range in which each of two fingers is at the moment that it holds.
  const pinch = () => {
    const [a, b] = [...fingers.values()].sort((one, other) => one.at - other.at);
    if (b.x - a.x < 10) return;
    const each = (b.at - a.at) / (b.x - a.x);
    const from = a.at - (a.x - plot.getBoundingClientRect().left - LEFT) * each;
    look(from, from + each * plotWidth(plot));
  };
  const lift = (event) => {
    fingers.delete(event.pointerId);
    if (!fingers.size) isPinch = false;
  };
  plot.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") {
      if (event.isPrimary) fingers.clear();
      if (fingers.size < 2) fingers.set(event.pointerId, {at: secondsAt(event), x: event.clientX});
      isPinch = fingers.size > 1;
      return;
    }
    if (event.button !== 0) return;
    begin = {at: secondsAt(event), from: time.from, x: event.clientX, pans: event.shiftKey};
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", (event) => {
    const at = secondsAt(event);
    if (isPinch) {
      if (fingers.has(event.pointerId)) fingers.get(event.pointerId).x = event.clientX;
      if (fingers.size > 1) pinch();
      return;
    }
    if (begin && begin.pans) {
      const moved = (begin.x - event.clientX) / plotWidth(plot) * (time.to - time.from);
      pan((begin.from + moved - time.from) / (time.to - time.from));
    } else if (begin) {
      select(begin.at, at);
    }
    read(event);
  });
  plot.addEventListener("pointerup", (event) => {
    if (event.pointerType === "touch") {
      if (!isPinch) read(event);
      lift(event);
      return;
    }
    const at = secondsAt(event), started = begin;
    begin = null;
    select(null);
    if (started && !started.pans && Math.abs(event.clientX - started.x) > 4) {
      look(Math.min(started.at, at), Math.max(started.at, at));
    }
  });
  plot.addEventListener("pointercancel", (event) => {
    lift(event);
    begin = null;
    select(null);
  });
  plot.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "touch") return;
    if (!begin) point(null);
    tip("");
  });
  plot.addEventListener("dblclick", () => look(0, time.span));
  plot.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(event.deltaY * 0.004), secondsAt(event));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && !isWhole()) {
      event.preventDefault();
      pan(event.deltaX / plotWidth(plot));
    }
  }, {passive: false});
}

const KEYS = {
  "+": () => zoom(0.5, time.at), "=": () => zoom(0.5, time.at), "-": () => zoom(2, time.at),
  "0": () => look(0, time.span), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
  "/": () => document.querySelector(".flame-bar input")?.focus(),
};

function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    const inField = event.target.closest("input, select, textarea, .flame, .scroll");
    const act = KEYS[event.key];
    if (!act || inField || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
}

// Returns the marks as spans that do not overlap.
function merged(marks) {
  const spans = [];
  for (const mark of [...marks].sort((a, b) => a.from - b.from)) {
    const last = spans[spans.length - 1];
    if (last && mark.from <= last.to) last.to = Math.max(last.to, mark.to);
    else spans.push({from: mark.from, to: mark.to});
  }
  return spans;
}

// Returns the marks or kills of the trace `which`, by trace: [[which, those of the trace]]. All
// traces if `which` is undefined.
function byTrace(list, which) {
  const traces = which === undefined ? [0, 1] : [which];
  return traces.map((n) => [n, list.filter((each) => each.which === n)]);
}

// Writes "A" or "B" beside each place, where a chart shows both traces. Letters do not overlap.
function drawLetters(context, n, places, y) {
  let end = -Infinity;
  context.save();
  context.font = "600 10px " + FONT;
  context.textAlign = "left";
  context.textBaseline = "top";
  context.fillStyle = palette.critical;
  for (const x of places) {
    if (x < end) continue;
    context.fillText(time.names[n], x + 3, y);
    end = x + 14;
  }
  context.restore();
}

// Draws stripes: the ground of B in a chart of both traces.
function drawStripes(context, x, y, width, height) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = palette.mark;
  context.lineWidth = 4;
  context.beginPath();
  for (let at = Math.floor((x - height) / 10) * 10; at < x + width; at += 10) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}

// Draws the times in the verdict behind a chart of the trace `which`, or of all traces.
function drawMarks(context, width, top, height, which) {
  const isBoth = time.names && which === undefined;
  for (const [n, marks] of byTrace(time.marks, which)) {
    const places = [];
    for (const mark of merged(marks)) {
      const a = Math.max(xOf(mark.from, width), LEFT);
      const b = Math.min(xOf(mark.to, width), LEFT + width);
      if (b < LEFT || a > LEFT + width) continue;
      places.push(a);
      context.fillStyle = palette.mark;
      if (isBoth && n) drawStripes(context, a, top, Math.max(b - a, 1), height);
      else context.fillRect(a, top, Math.max(b - a, 1), height);
    }
    if (isBoth) drawLetters(context, n, places, top + 1 + n * 12);
  }
}

// Draws a line for each process that was killed in the trace `which`, or in all traces.
function drawKills(context, width, top, height, which) {
  const isBoth = time.names && which === undefined;
  context.save();
  context.strokeStyle = palette.critical;
  for (const [n, kills] of byTrace(time.kills, which)) {
    const places = [];
    context.setLineDash(isBoth && n ? [1, 3] : [3, 3]);
    for (const kill of kills) {
      const x = Math.round(xOf(kill.at, width)) + 0.5;
      if (x < LEFT || x > LEFT + width) continue;
      places.push(x);
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, top + height);
      context.stroke();
    }
    if (isBoth) drawLetters(context, n, places.sort((a, b) => a - b), top + height - 24 + n * 12);
  }
  context.restore();
}

// Returns the sentence that explains the marks and lines of the charts.
function marksNote() {
  const ofTrace = (plain, other) => time.names ? " (A: " + plain + ", B: " + other + ")" : "";
  const sentences = [];
  if (time.marks.length) {
    sentences.push("Reddish ground" + ofTrace("plain", "striped") +
      ": memory was short, or a task waited.");
  }
  if (time.kills.length) {
    sentences.push("Upright line" + ofTrace("dashed", "dotted") + ": a process was killed.");
  }
  return sentences.join(" ");
}

// Returns round moments for the grid of a plot of this width.
function ticks(width) {
  const wanted = (time.to - time.from) / Math.max(width / 110, 2);
  const sixty = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200,
    86400];
  let step = sixty.find((each) => each >= wanted) || 86400 * Math.ceil(wanted / 86400);
  if (wanted < 1) {
    const ten = 10 ** Math.floor(Math.log10(wanted));
    step = [1, 2, 5, 10].map((each) => each * ten).find((each) => each >= wanted);
  }
  const at = [];
  for (let n = Math.ceil(time.from / step - 1e-9); n * step <= time.to + step * 1e-9; n++) {
    at.push(n * step);
  }
  return {step, at};
}

// Draws the grid of time and its labels below a plot.
function drawTimeAxis(context, width, top, height) {
  const {step, at} = ticks(width);
  context.font = "11px " + FONT;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const each of at) {
    const x = Math.round(xOf(each, width)) + 0.5;
    context.strokeStyle = palette.grid;
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, top + height);
    context.stroke();
    context.fillStyle = palette.soft;
    context.fillText(moment(each, step), x, top + height + 6);
  }
  context.textAlign = "left";
}

// Makes the bar with the whole trace, the visible range, and the buttons.
function buildTimeBar(home) {
  const button = (text, name, act) =>
    make("button", {type: "button", "aria-label": name, title: name, click: act}, text);
  const range = make("span", {class: "range", "aria-live": "polite"});
  const canvas = make("canvas", {"aria-hidden": "true"});
  const seen = make("div", {class: "window"});
  const strip = make("div", {class: "strip", role: "group",
    "aria-label": "The whole trace, and the part that the charts show"}, canvas, seen);
  home.replaceChildren(make("div", {class: "row"},
    make("div", {class: "bar-left"},
      button("−", "Zoom out (key -)", () => zoom(2)),
      button("+", "Zoom in (key +)", () => zoom(0.5)),
      button("All", "Show the whole trace (key 0)", () => look(0, time.span)), range),
    strip));
  let begin = null;
  const secondsAt = (event) => {
    const box = strip.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * time.span;
  };
  strip.addEventListener("pointerdown", (event) => {
    begin = secondsAt(event);
    strip.setPointerCapture(event.pointerId);
  });
  strip.addEventListener("pointermove", (event) => {
    if (begin === null) return;
    const at = secondsAt(event), width = time.to - time.from;
    if (isWhole()) look(Math.min(begin, at), Math.max(begin, at));
    else look(at - width / 2, at + width / 2);
  });
  strip.addEventListener("pointerup", (event) => {
    const width = time.to - time.from, at = secondsAt(event);
    if (begin !== null && !isWhole() && Math.abs(at - begin) < time.span / 200) {
      look(at - width / 2, at + width / 2);
    }
    begin = null;
  });
  strip.addEventListener("dblclick", () => look(0, time.span));
  const tell = () => {
    const step = (time.to - time.from) / 200;
    range.textContent = time.at !== null ? "at " + moment(time.at, step)
      : moment(time.from, step * 20) + " – " + moment(time.to, step * 20);
  };
  time.readers.push(tell);
  time.watchers.push(() => {
    const width = strip.clientWidth, height = strip.clientHeight;
    const context = contextOf(canvas, width, height);
    // A has the upper half, B the lower half.
    const half = time.names ? height / 2 : height;
    for (const mark of time.marks) {
      context.fillStyle = palette[mark.level] || palette.soft;
      const x = mark.from / time.span * width, bottom = mark.which ? height : half;
      context.fillRect(x, bottom - (time.names ? 5 : 7),
        Math.max((mark.to - mark.from) / time.span * width, 3), 4);
    }
    context.fillStyle = palette.critical;
    for (const kill of time.kills) {
      const top = kill.which ? half : 0;
      context.fillRect(kill.at / time.span * width - 1, top + 4, 2, half - 8);
    }
    if (time.names) {
      drawLetters(context, 0, [0], 2);
      drawLetters(context, 1, [0], half + 1);
    }
    seen.style.left = time.from / time.span * 100 + "%";
    seen.style.right = (1 - time.to / time.span) * 100 + "%";
    seen.hidden = isWhole();
    tell();
  });
}
