// SPDX-License-Identifier: Apache-2.0
"use strict";
// Functions for all parts of the page: elements, units, colours, tables. The scripts of this folder
// are one script. Texts of a trace become text nodes, never markup.

// Makes an element. An attribute that is a function becomes a listener. Children are nodes or
// texts.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const byId = (id) => document.getElementById(id);

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

// The colours of the charts, which change with the theme.
let palette = {};
function readPalette() {
  palette = {};
  for (const name of ["ground", "card", "line", "grid", "text", "soft", "link", "critical",
    "warning", "notice", "mark", "cross", "heat0", "heat1", "found", "flame0", "flame1", "flame2",
    "flametext", "grew", "shrank", "same", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"]) {
    palette[name] = color(name);
  }
}

function trimmed(value, digits) {
  return String(Number(value.toFixed(digits)));
}

function threeDigits(value) {
  const size = Math.abs(value);
  return trimmed(value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

function number(value) {
  return Math.abs(value) < 100 ? threeDigits(value) : Math.round(value).toLocaleString("en-US");
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let step = 0;
  while (Math.abs(value) >= 1024 && step < units.length - 1) {
    value /= 1024;
    step++;
  }
  return (step ? threeDigits(value) : trimmed(value, 0)) + " " + units[step];
}

// Returns the text of a duration in microseconds.
function duration(us) {
  const size = Math.abs(us);
  if (size >= 120e6) return Math.floor(us / 60e6) + " min " + Math.round((us % 60e6) / 1e6) + " s";
  if (size >= 1e6) return threeDigits(us / 1e6) + " s";
  if (size >= 1e3) return threeDigits(us / 1e3) + " ms";
  return threeDigits(us) + " µs";
}

// Returns the text of a moment in seconds since the start, with the digits that steps of `step`
// seconds need.
function moment(seconds, step) {
  if (step < 0.001) return trimmed(seconds * 1e3, step < 1e-5 ? 3 : 2) + " ms";
  const digits = step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
  if (Math.abs(seconds) < 120) return seconds.toFixed(digits) + " s";
  const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
  const rest = (seconds % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? hours + ":" + String(minutes).padStart(2, "0") + ":" + rest : minutes + ":" + rest;
}

const UNITS = {
  bytes: bytes,
  rate: (value) => bytes(value) + "/s",
  count: (value) => number(value) + "/s",
  percent: (value) => threeDigits(value) + " %",
  times: (value) => number(value),
  ns: (value) => duration(value / 1e3),
};

// Makes a table of columns {name, title, show}. `show` makes the text of a cell. `name` is for
// readers of the screen.
function table(name, columns, rows) {
  const cell = (tag, column, text) =>
    make(tag, {class: column.kind || null, scope: tag === "th" ? "col" : null}, text);
  const head = make("thead", {}, make("tr", {},
    ...columns.map((column) => cell("th", column, column.title))));
  const body = make("tbody", {}, ...rows.map((row) => make("tr", {},
    ...columns.map((column, i) => {
      const value = row[i];
      return cell("td", column, value === null || value === undefined ? "–"
        : column.show ? column.show(value) : String(value));
    }))));
  const named = columns.some((column) => column.title);
  return make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": name},
    make("table", {"aria-label": name}, named ? head : null, body));
}

// Makes the place of the table behind a chart. The table is made when the user opens it:
// `build(name)` makes it.
function tableBehind(name, build) {
  const place = make("div", {class: "behind", hidden: true});
  place.toggle = (button) => {
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
    if (!place.childElementCount) place.append(build(name));
  };
  place.tableName = name;
  return place;
}

// Makes a heading, with the button that opens the table behind the chart.
function panelHead(title, behind) {
  return make("div", {class: "head"}, make("h3", {title}, title),
    behind ? make("button", {type: "button", class: "plain", "aria-expanded": "false",
      "aria-label": "Table: " + behind.tableName,
      click: (event) => behind.toggle(event.currentTarget)}, "Table") : null);
}

// Returns the name of a program without its folders: "cat (12)" for "/usr/bin/cat (12)".
function shortName(text) {
  return text.replace(/^\/\S*\//, "");
}

// Returns the words of the page for a kind of reclaim, or for the name of a key figure.
function plainly(name) {
  return name.replace("memcg reclaim", "reclaim in cgroups");
}

// Returns the rows of a dataset whose columns are arrays.
function rowsOf(set, names) {
  const columns = names.map((name) => set[name] || []);
  return (columns[0] || []).map((_, i) => columns.map((column) => column[i]));
}

function tip(text, x, y) {
  const box = byId("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const width = box.offsetWidth, height = box.offsetHeight;
  box.style.left = Math.max(4, Math.min(x + 14, innerWidth - width - 4)) + "px";
  box.style.top = (y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18) + "px";
}

// Sizes a canvas to its box, and returns a context that draws in CSS pixels.
function contextOf(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";

// Returns the text, cut to `width`, with dots at its end if it is cut.
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? text.slice(0, low) + "…" : "";
}

// Returns the width of a text on the axes of the charts.
function axisTextWidth(text) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = "11px " + FONT;
  return context.measureText(text).width;
}

// Returns the index of the last element that is at most `value`, or -1 if there is none.
function lastUpTo(sorted, value) {
  let low = -1, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sorted[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}
