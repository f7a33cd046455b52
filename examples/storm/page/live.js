"use strict";

// Draws what /events tells: the story once, then a sample at a time. A connection
// that is made again tells all from the start.

const byId = (id) => document.getElementById(id);
const left = 46, right = 10; // of the charts, in pixels
let story, samples, views, over;

function html(name, className, text) {
  const e = document.createElement(name);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

function svg(name, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

const whole = (n) => Math.round(n).toString();

// ticks returns a few round values from 0 to top.
function ticks(top, most) {
  let step = Math.pow(10, Math.floor(Math.log10(top)) - 1);
  for (const wider of [2, 2.5, 2, 2, 2.5, 2]) {
    if (top / step <= most) break;
    step *= wider;
  }
  const all = [];
  for (let i = 0; i * step <= top; i++) all.push(Number((i * step).toPrecision(6)));
  return all;
}

// begin makes a card for each strategy.
function begin(told) {
  [story, samples, views, over] = [told, [], [], false];
  document.title = "storm: " + story.title;
  byId("title").textContent = story.title;
  byId("about").textContent = "Several ways to retry live through the same " + whole(story.rate) +
    " calls a second, each with a server of its own. In the fault, " + story.fault + ".";
  byId("fault").style.left = 100 * story.from / story.length + "%";
  byId("fault").style.width = 100 * (story.to - story.from) / story.length + "%";
  byId("strategies").replaceChildren(...story.strategies.map((strategy) => {
    const view = { strategy, numbers: {} };
    const card = html("figure");
    const caption = html("figcaption");
    const numbers = html("dl");
    for (const name of ["offered", "goodput"].concat(strategy.budget ? ["tokens", "refused"] : [])) {
      const pair = html("div");
      view.numbers[name] = html("dd", name, "–");
      pair.append(html("dt", "", name), view.numbers[name]);
      numbers.append(pair);
    }
    const title = html("h2", "", strategy.title);
    title.title = strategy.about;
    caption.append(title, numbers);
    card.append(caption);
    view.load = svg("svg", { role: "img", "aria-label": strategy.title + ": offered load and goodput over time" });
    card.append(view.load);
    if (strategy.budget) {
      for (const name of ["tokens", "refused"]) {
        view[name] = svg("svg", { role: "img", "aria-label": strategy.title + ": " + name + " over time" });
        card.append(html("p", "strip", name), view[name]);
      }
    }
    views.push(view);
    return card;
  }));
  draw();
}

// chart draws lines over the time of the story into an svg element.
function chart(into, { height, top, most, bottom }, lines) {
  const width = Math.max(into.clientWidth, 120);
  const x = (at) => left + (width - left - right) * at / story.length;
  const y = (value) => height - bottom - (height - bottom - 8) * Math.min(value, top) / top;
  into.setAttribute("viewBox", `0 0 ${width} ${height}`);
  into.style.height = height + "px";
  const drawn = [svg("rect", { class: "fault", x: x(story.from), width: x(story.to) - x(story.from), y: 8, height: height - bottom - 8 })];
  for (const value of ticks(top, most)) {
    drawn.push(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    drawn.push(svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value));
  }
  if (bottom > 12) {
    for (const at of ticks(story.length, width / 55)) {
      drawn.push(svg("text", { x: x(at), y: height - 4, "text-anchor": "middle" }, at ? at + " s" : "0"));
    }
  }
  for (const [name, points] of lines) {
    if (points.length) {
      const d = points.map(([at, value], i) => (i ? "L" : "M") + x(at).toFixed(1) + " " + y(value).toFixed(1)).join("");
      drawn.push(svg("path", { class: name, d }));
    }
  }
  into.replaceChildren(...drawn);
}

let asked = false;

// draw draws all, at most once a frame.
function draw() {
  if (asked || !story) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    const last = samples.at(-1);
    const top = samples.reduce((most, s) => s.readings.reduce((m, r) => Math.max(m, 1.05 * r.offered), most), story.top);
    const capacity = story.capacity.filter(([, value]) => value <= top);
    views.forEach((view, i) => {
      const line = (name) => samples.map((s) => [s.at, s.readings[i][name]]);
      if (last) {
        for (const [name, where] of Object.entries(view.numbers)) where.textContent = whole(last.readings[i][name]);
      }
      chart(view.load, { height: 176, top, most: 6, bottom: 22 },
        [["capacity", capacity], ["offered", line("offered")], ["goodput", line("goodput")]]);
      if (view.tokens) {
        for (const name of ["tokens", "refused"]) {
          const points = line(name);
          const top = 1.1 * points.reduce((most, [, value]) => Math.max(most, value), 10);
          chart(view[name], { height: 64, top, most: 3, bottom: 8 }, [[name, points]]);
        }
      }
    });
    if (last) byId("done").style.width = 100 * last.at / story.length + "%";
  });
}

const events = new EventSource("events");
events.addEventListener("story", (e) => begin(JSON.parse(e.data)));
events.addEventListener("sample", (e) => {
  const sample = JSON.parse(e.data);
  samples.push(sample);
  byId("status").textContent = sample.at.toFixed(1) + " s of " + story.length + " s · " + sample.phase;
  draw();
});
events.addEventListener("end", (e) => {
  const { interrupted, warning } = JSON.parse(e.data);
  over = true;
  events.close();
  byId("status").textContent = interrupted ? "Interrupted" : "Over after " + story.length + " s; this is how it went";
  byId("warning").textContent = warning;
  byId("warning").hidden = !warning;
  draw();
});
events.addEventListener("error", () => {
  if (!over) byId("status").textContent = "no connection to the storm; trying again …";
});
new ResizeObserver(draw).observe(byId("strategies"));
