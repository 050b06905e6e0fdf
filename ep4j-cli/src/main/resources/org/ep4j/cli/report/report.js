// Draws the charts of the page: SVG, whose colours are classes of the style sheet, so that they follow
// light and dark. Each chart is drawn again when the width of its element changes.
"use strict";

const FONT = 13;
const ROW = 50;
const RIGHT = 84;

/** The unit for times up to `most` microseconds, and its size. */
function unitOf(most) {
  return most >= 1e6 ? ["s", 1e6] : most >= 1e3 ? ["ms", 1e3] : ["µs", 1];
}

/** Three digits or more. */
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function time(micros) {
  const [unit, size] = unitOf(micros);
  return digits(micros / size) + " " + unit;
}

function signed(value) {
  return (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(1);
}

function known(value) {
  return typeof value === "number";
}

/** An SVG of the width of `element`, with a description for readers that see no picture. */
function canvas(element, spec, height) {
  const width = Math.max(280, element.clientWidth);
  const svg = d3.select(element).append("svg")
    .attr("viewBox", "0 0 " + width + " " + height)
    .attr("role", "img")
    .attr("aria-label", spec.description);
  return [svg, width];
}

/** A legend: pairs of a text and a function that draws its sign into a group of 28 x 14. */
function legend(element, entries) {
  const list = d3.select(element).append("div").attr("class", "legend");
  for (const [text, draw] of entries) {
    const entry = list.append("span");
    draw(entry.append("svg").attr("viewBox", "0 0 28 14").attr("aria-hidden", "true"));
    entry.append("span").text(text);
  }
}

function bottomAxis(svg, scale, y, top, label) {
  const axis = svg.append("g").attr("transform", "translate(0," + y + ")")
    .call(d3.axisBottom(scale).ticks(Math.max(2, Math.round((scale.range()[1] - scale.range()[0]) / 90)))
      .tickSize(-(y - top)).tickPadding(6));
  axis.lower();
  svg.append("text").attr("class", "axis").attr("x", scale.range()[1]).attr("y", y + 36)
    .attr("text-anchor", "end").text(label);
}

/** Lines across the chart from `left` to `right`; on a logarithmic scale those of 1, 2 and 5 have a figure. */
function leftAxis(svg, scale, left, right, logarithmic) {
  const axis = d3.axisLeft(scale).ticks(5).tickSize(left - right);
  if (logarithmic) {
    axis.tickFormat(value => /^[125](\.0*)?e/.test(value.toExponential(3)) ? d3.format("~g")(value) : "");
  }
  svg.append("g").attr("transform", "translate(" + left + ",0)").call(axis);
}

/** An axis below a chart with the counted values of its points, as many as have room. */
function countAxis(svg, scale, values, y, right, label) {
  let last = -100;
  const shown = values.filter(value => {
    const free = scale(value) - last >= 34;
    last = free ? scale(value) : last;
    return free;
  });
  svg.append("g").attr("transform", "translate(0," + y + ")")
    .call(d3.axisBottom(scale).tickValues(shown).tickFormat(d3.format("~d")).tickSize(5));
  svg.append("text").attr("class", "axis").attr("x", right).attr("y", y + 38)
    .attr("text-anchor", "end").text(label);
}

/** Names stand above their bars: nothing is cut off on a narrow screen. */
function rowLabels(svg, rows, at) {
  svg.append("g").selectAll("text").data(rows).join("text")
    .attr("x", 0).attr("y", (_, i) => at(i) + FONT).text(row => row.label);
}

function times(element, spec) {
  const rows = spec.rows;
  legend(element, [
    ["median", sign => sign.append("rect").attr("class", "bar").attr("y", 2).attr("width", 28).attr("height", 10)],
    ["middle half of the iterations",
      sign => sign.append("rect").attr("class", "box").attr("x", 6).attr("y", 2).attr("width", 16).attr("height", 10)],
    ["fastest to p99 (slowest of fewer than 100)",
      sign => sign.append("path").attr("class", "range").attr("d", "M1,7H27M1,3V11M27,3V11")],
  ].concat(rows.some(row => known(row.ceiling)) ? [["ceiling: the same bytes without protocol",
    sign => sign.append("path").attr("class", "limit").attr("d", "M14,0V14")]] : []));
  const [svg, width] = canvas(element, spec, rows.length * ROW + 48);
  // One outlier must not squeeze all bars: ranges beyond end in an arrow.
  const usual = 2.5 * d3.max(rows, row => Math.max(row.median, row.ceiling || 0));
  const most = Math.min(d3.max(rows, row => Math.max(row.high, row.ceiling || 0)), usual) || 1;
  const [unit, size] = unitOf(most);
  const x = d3.scaleLinear([0, most / size], [0, width - RIGHT]);
  const at = i => i * ROW;
  bottomAxis(svg, x, rows.length * ROW + 4, 0, "time, " + unit);
  rowLabels(svg, rows, at);
  rows.forEach((row, i) => {
    const y = at(i) + FONT + 7;
    const to = value => x(Math.min(value, most) / size);
    const bar = svg.append("g");
    bar.append("title").text(row.label + ": median " + time(row.median) + ", fastest " + time(row.low)
      + ", " + time(row.high) + " at the upper end"
      + (known(row.ceiling) ? ", ceiling " + time(row.ceiling) : ""));
    bar.append("rect").attr("class", "bar mark").attr("x", 0).attr("y", y)
      .attr("width", Math.max(1, to(row.median))).attr("height", 18);
    if (known(row.q1)) {
      bar.append("rect").attr("class", "box").attr("x", to(row.q1)).attr("y", y + 3)
        .attr("width", Math.max(1, to(row.q3) - to(row.q1))).attr("height", 12);
    }
    const end = to(row.high);
    bar.append("path").attr("class", "range").attr("d", "M" + to(row.low) + "," + (y + 9) + "H" + end
      + "M" + to(row.low) + "," + (y + 5) + "v8"
      + (row.high > most ? "M" + (end - 6) + "," + (y + 4) + "l6,5l-6,5" : "M" + end + "," + (y + 5) + "v8"));
    if (known(row.ceiling)) {
      bar.append("path").attr("class", "limit").attr("d", "M" + to(row.ceiling) + "," + (y - 3) + "v24");
    }
    const right = Math.max(end, to(row.median));
    const hidesCeiling = known(row.ceiling) && to(row.ceiling) > right - 4 && to(row.ceiling) < right + 64;
    bar.append("text").attr("class", "value").attr("y", y + 14)
      .attr("x", (hidesCeiling ? to(row.ceiling) : right) + 8)
      .text(time(row.median));
  });
}

function rates(element, spec) {
  const rows = spec.rows;
  legend(element, [
    ["all rows, its own included",
      sign => sign.append("rect").attr("class", "bar-light").attr("y", 2).attr("width", 28).attr("height", 10)],
    ["rows from other ranks",
      sign => sign.append("rect").attr("class", "bar").attr("y", 4).attr("width", 28).attr("height", 6)],
  ]);
  const [svg, width] = canvas(element, spec, rows.length * ROW + 48);
  const x = d3.scaleLinear([0, d3.max(rows, row => row.logical)], [0, width - RIGHT]);
  bottomAxis(svg, x, rows.length * ROW + 4, 0, "GB/s of a rank");
  rowLabels(svg, rows, i => i * ROW);
  rows.forEach((row, i) => {
    const y = i * ROW + FONT + 7;
    const bar = svg.append("g");
    bar.append("title").text(row.label + ": " + digits(row.logical) + " GB/s");
    bar.append("rect").attr("class", "bar-light mark").attr("y", y).attr("width", x(row.logical)).attr("height", 18);
    if (known(row.remote)) {
      bar.append("rect").attr("class", "bar").attr("y", y + 5).attr("width", x(row.remote)).attr("height", 8);
    }
    bar.append("text").attr("class", "value").attr("x", x(row.logical) + 8).attr("y", y + 14)
      .text(digits(row.logical) + " GB/s");
  });
}

const SHAPES = [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolCross, d3.symbolStar,
  d3.symbolWye];

/** Lines differ in colour and in the shape of their points. */
function symbol(i, area = 56) {
  return d3.symbol(SHAPES[i % SHAPES.length], area)();
}

function colour(i) {
  return "var(--s" + i % 8 + ")";
}

function lines(element, spec) {
  legend(element, spec.rows.map((row, i) => [row.label, sign => {
    sign.append("path").attr("d", "M0,7H28").style("stroke", colour(i)).attr("stroke-width", 2);
    sign.append("path").attr("d", symbol(i)).attr("transform", "translate(14,7)").style("fill", colour(i));
  }]));
  const height = 310;
  const left = 52;
  const [svg, width] = canvas(element, spec, height + 44);
  const points = spec.rows.flatMap(row => row.points);
  const values = Array.from(new Set(points.map(point => point.x))).sort((a, b) => a - b);
  const least = d3.min(points, point => point.low);
  const most = d3.max(points, point => Math.min(point.high, 2.5 * point.median));
  const [unit, size] = unitOf(most);
  const x = d3.scaleLog([values[0] / 1.15, values[values.length - 1] * 1.15], [left, width - 8]);
  // Times of very different size need a logarithmic axis; others begin at 0.
  const wide = least > 0 && most / least > 12;
  const y = wide
    ? d3.scaleLog([least / size / 1.1, most / size * 1.1], [height, 24])
    : d3.scaleLinear([0, most / size * 1.05], [height, 24]);
  leftAxis(svg, y, left, width - 8, wide);
  countAxis(svg, x, values, height, width - 8, spec.axis + " (logarithmic)");
  svg.append("text").attr("class", "axis").attr("x", 0).attr("y", 12).text("time, " + unit + (wide ? " (logarithmic)" : ""));
  const limit = value => y(Math.min(value, most * 1.05) / size);
  spec.rows.forEach((row, i) => {
    const sorted = row.points.slice().sort((a, b) => a.x - b.x);
    // Side by side: equal times would hide each other.
    const group = svg.append("g").style("stroke", colour(i))
      .attr("transform", "translate(" + 4 * (i - (spec.rows.length - 1) / 2) + ",0)");
    group.append("path").attr("class", "mark").style("fill", "none").attr("stroke-width", 2)
      .attr("d", d3.line(point => x(point.x), point => limit(point.median))(sorted));
    for (const point of sorted) {
      group.append("path").attr("stroke-width", 1.5)
        .attr("d", "M" + x(point.x) + "," + limit(point.low) + "V" + limit(point.high));
      group.append("path").attr("d", symbol(i)).style("fill", colour(i)).style("stroke", "none")
        .attr("transform", "translate(" + x(point.x) + "," + limit(point.median) + ")")
        .append("title").text(row.label + ", " + point.x + ": median " + time(point.median));
    }
  });
}

function iterations(element, spec) {
  const row = spec.rows[0];
  const height = 120;
  const left = 52;
  const [svg, width] = canvas(element, spec, height + 40);
  const times = row.points.map(point => point[1]);
  const most = d3.max(times);
  const [unit, size] = unitOf(most);
  const x = d3.scaleLinear([1, row.count], [left + 4, width - 12]);
  const y = d3.scaleLinear([d3.min(times) / size, most / size], [height, 24]).nice(4);
  leftAxis(svg, y, left, width - 12, false);
  svg.append("g").attr("transform", "translate(0," + height + ")")
    .call(d3.axisBottom(x).ticks(4, "d").tickSize(5));
  svg.append("text").attr("class", "axis").attr("x", 0).attr("y", 12).text("time, " + unit);
  svg.append("text").attr("class", "axis").attr("x", width - 12).attr("y", height + 36).attr("text-anchor", "end")
    .text("iteration");
  svg.append("g").selectAll("circle").data(row.points).join("circle").attr("class", "point mark")
    .attr("r", row.points.length > 150 ? 1.6 : 2.6).attr("cx", point => x(point[0])).attr("cy", point => y(point[1] / size));
  svg.append("path").attr("class", "middle")
    .attr("d", "M" + (left + 4) + "," + y(row.median / size) + "H" + (width - 12))
    .append("title").text("median " + time(row.median));
}

function ratios(element, spec) {
  const rows = spec.rows;
  legend(element, [
    ["faster", sign => sign.append("path").attr("class", "faster").attr("d", symbol(2)).attr("transform", "translate(14,8)")],
    ["slower", sign => sign.append("path").attr("class", "slower").attr("d", symbol(1)).attr("transform", "translate(14,7)")],
    ["no difference shown",
      sign => sign.append("path").attr("class", "same").attr("d", symbol(0)).attr("transform", "translate(14,7)")],
  ]);
  const [svg, width] = canvas(element, spec, rows.length * ROW + 48);
  const least = Math.min(-1, d3.min(rows, row => row.low));
  const most = Math.max(1, d3.max(rows, row => row.high));
  const x = d3.scaleLinear([least, most], [10, width - RIGHT]).nice(4);
  bottomAxis(svg, x, rows.length * ROW + 4, 0, "change of the median time, %");
  svg.append("line").attr("class", "zero").attr("x1", x(0)).attr("x2", x(0)).attr("y1", 0).attr("y2", rows.length * ROW + 4);
  rowLabels(svg, rows, i => i * ROW);
  const shape = {faster: symbol(2), slower: symbol(1), same: symbol(0)};
  rows.forEach((row, i) => {
    const y = i * ROW + FONT + 16;
    const group = svg.append("g").attr("class", row.verdict);
    group.append("title").text(row.label + ": " + signed(row.ratio) + " % (" + signed(row.low) + " to "
      + signed(row.high) + ")");
    group.append("path").attr("class", "mark").attr("stroke-width", 2.5)
      .attr("d", "M" + x(row.low) + "," + y + "H" + x(row.high) + "M" + x(row.low) + "," + (y - 5) + "v10M"
        + x(row.high) + "," + (y - 5) + "v10");
    group.append("path").attr("d", shape[row.verdict]).attr("transform", "translate(" + x(row.ratio) + "," + y + ")");
    svg.append("text").attr("class", "value").attr("x", Math.min(x(row.high) + 10, width - RIGHT + 12)).attr("y", y + 5)
      .text(signed(row.ratio) + " %");
  });
}

function timeline(element, spec) {
  legend(element, spec.rows.map((row, i) => [row.label, sign => {
    sign.append("path").attr("d", symbol(i)).attr("transform", "translate(14,7)").style("fill", colour(i));
  }]));
  const height = 260;
  const left = 52;
  const [svg, width] = canvas(element, spec, height + 44);
  const points = spec.rows.flatMap(row => row.points);
  const most = d3.max(points, point => point[1]) || 1;
  const least = d3.min(points, point => point[1]);
  const [unit, size] = unitOf(most);
  const end = d3.max(points, point => point[0]) || 1;
  const x = d3.scaleLinear([0, end], [left + 6, width - 12]);
  const wide = least > 0 && most / least > 12;
  const y = wide
    ? d3.scaleLog([least / size / 1.1, most / size * 1.1], [height, 24])
    : d3.scaleLinear([0, most / size * 1.05], [height, 24]);
  leftAxis(svg, y, left, width - 12, wide);
  svg.append("g").attr("transform", "translate(0," + height + ")")
    .call(d3.axisBottom(x).ticks(Math.max(2, Math.round(width / 120))).tickSize(5));
  svg.append("text").attr("class", "axis").attr("x", width - 12).attr("y", height + 38)
    .attr("text-anchor", "end").text("seconds since the first operation");
  svg.append("text").attr("class", "axis").attr("x", 0).attr("y", 12).text("time, " + unit + (wide ? " (logarithmic)" : ""));
  spec.rows.forEach((row, i) => {
    const mark = d3.symbol(SHAPES[i % SHAPES.length], row.points.length > 150 ? 14 : 36)();
    svg.append("g").style("fill", colour(i)).selectAll("path").data(row.points).join("path")
      .attr("class", "mark").attr("d", mark).attr("fill-opacity", 0.75)
      .attr("transform", point => "translate(" + x(point[0]) + "," + y(point[1] / size) + ")")
      .append("title").text(point => row.label + ": " + time(point[1]));
  });
}

function heat(element, spec) {
  const rows = spec.rows;
  const most = d3.max(rows, row => d3.max(row.values));
  // Strength of the colour; the shortest wait still differs from none.
  const strength = value => value > 0 ? 0.08 + 0.92 * value / most : 0;
  legend(element, [0, most / 4, most / 2, most].map(value => [time(value), sign => {
    sign.append("rect").attr("class", "heat").attr("width", 28).attr("height", 14)
      .attr("fill-opacity", strength(value));
    sign.append("rect").attr("class", "frame").attr("x", 0.5).attr("y", 0.5).attr("width", 27).attr("height", 13);
  }]));
  const left = 24 + 8 * d3.max(rows, row => row.label.length);
  const top = 40;
  const room = Math.max(280, element.clientWidth) - left - 2;
  const cell = Math.min(64, room / rows.length);
  const [svg] = canvas(element, spec, top + cell * rows.length + 4);
  svg.append("text").attr("class", "axis").attr("x", 0).attr("y", 12).text("rank (row) waits for rank (column)");
  // Names that would overlap are left out.
  const every = Math.ceil((left - 8) / cell);
  rows.forEach((row, i) => {
    if (i % every === 0) {
      svg.append("text").attr("x", left + cell * (i + 0.5)).attr("y", top - 8).attr("text-anchor", "middle").text(row.label);
    }
    if (i % Math.ceil(FONT / cell) === 0) {
      svg.append("text").attr("x", left - 8).attr("y", top + cell * (i + 0.5) + 5).attr("text-anchor", "end").text(row.label);
    }
    row.values.forEach((value, column) => {
      const group = svg.append("g").attr("transform", "translate(" + (left + cell * column) + "," + (top + cell * i) + ")");
      group.append("title").text("rank " + row.label + " for rank " + rows[column].label + ": " + time(value));
      group.append("rect").attr("class", "heat mark").attr("width", cell).attr("height", cell)
        .attr("fill-opacity", strength(value));
      group.append("rect").attr("class", "frame").attr("width", cell).attr("height", cell);
      if (cell >= 58) {
        group.append("text").attr("class", "value").attr("text-anchor", "middle").attr("x", cell / 2).attr("y", cell / 2 + 5)
          .text(value > 0 ? time(value) : "–");
      }
    });
  });
}

/** Parts of a time, each at its place: those that overlap begin at zero, those that add begin where others end. */
function terms(element, spec) {
  const roles = {overlaps: "bar", adds: "bar-light", together: "box"};
  const box = kind => sign => sign.append("rect").attr("class", kind).attr("x", 1).attr("y", 2).attr("width", 26)
    .attr("height", 10);
  const parts = spec.rows.flatMap(row => row.parts);
  legend(element, [
    ["overlaps with others", box("bar")],
    ["adds to them", box("bar-light")],
    ["the limit: the longest", box("bar-limit")],
  ].concat(parts.some(part => part.role === "together") ? [["those that overlap, together", box("box")]] : [],
    [["the predicted time", sign => sign.append("path").attr("class", "limit").attr("d", "M14,0V14")]]));
  const left = 92;
  const line = 24;
  const blocks = spec.rows.map(row => 30 + line * row.parts.length + 14);
  const [svg, width] = canvas(element, spec, d3.sum(blocks) + 44);
  const most = d3.max(spec.rows, row => d3.max([row.micros].concat(row.parts.map(part => part.from + part.micros))));
  const [unit, size] = unitOf(most);
  const x = d3.scaleLinear([0, most / size], [left, width - RIGHT - 40]);
  bottomAxis(svg, x, d3.sum(blocks), 0, "time, " + unit);
  let y = 0;
  spec.rows.forEach((row, i) => {
    const top = y;
    svg.append("text").attr("class", "name").attr("x", 0).attr("y", top + 20).text(row.label + ": " + time(row.micros));
    const end = x(row.micros / size);
    svg.append("path").attr("class", "limit").attr("d", "M" + end + "," + (top + 28) + "V" + (top + blocks[i] - 12))
      .append("title").text(row.label + ": " + time(row.micros));
    row.parts.forEach((part, k) => {
      const at = top + 32 + line * k;
      const from = x(part.from / size);
      const to = x((part.from + part.micros) / size);
      const bar = svg.append("g");
      bar.append("title").text(row.label + ", " + part.label + ": " + time(part.micros) + (part.limit ? ", the limit" : ""));
      bar.append("text").attr("x", left - 8).attr("y", at + 13).attr("text-anchor", "end").text(part.label);
      if (part.micros > 0) {
        bar.append("rect").attr("class", (part.limit ? "bar-limit" : roles[part.role]) + " mark")
          .attr("x", from).attr("y", at).attr("width", Math.max(1.5, to - from)).attr("height", 17);
      }
      // A figure must not stand on the line of the predicted time.
      const figure = (part.micros > 0 ? time(part.micros) : "–") + (part.limit ? " (limit)" : "");
      const right = to + 8;
      const crossed = right > end - 8 * figure.length && right < end + 8;
      bar.append("text").attr("class", part.limit ? "value name" : "value").attr("x", crossed ? end + 8 : right)
        .attr("y", at + 13).text(figure);
    });
    y += blocks[i];
  });
}

const DASHES = [null, "7 4"];

/** Time against a number; colour and shape of a point say which term is the limit there. */
function limits(element, spec) {
  const points = spec.rows.flatMap(row => row.points);
  const term = label => spec.terms.indexOf(label);
  const present = spec.terms.filter(label => points.some(point => point.limit === label));
  legend(element, spec.rows.map((row, i) => [row.label, sign => sign.append("path").attr("class", "path")
    .attr("d", "M0,7H28").attr("stroke-dasharray", DASHES[i % DASHES.length])])
    .concat(present.map(label => ["limit: " + label, sign => sign.append("path").attr("d", symbol(term(label), 80))
      .attr("transform", "translate(14,7)").style("fill", colour(term(label)))]))
    .concat(spec.rows.some(row => known(row.knee)) ? [["more help little from here on", sign => sign.append("circle")
      .attr("class", "ring").attr("cx", 14).attr("cy", 7).attr("r", 6.5)]] : []));
  const height = 310;
  const left = 52;
  const [svg, width] = canvas(element, spec, height + 44);
  const values = Array.from(new Set(points.map(point => point.x))).sort((a, b) => a - b);
  const [least, most] = d3.extent(points, point => point.micros);
  const [unit, size] = unitOf(most);
  const ends = spec.logarithmic ? [values[0] / 1.15, values[values.length - 1] * 1.15]
    : [Math.max(0, values[0] - 4), values[values.length - 1] + 4];
  const x = (spec.logarithmic ? d3.scaleLog : d3.scaleLinear)(ends, [left, width - 8]);
  const wide = most / least > 12;
  const y = wide
    ? d3.scaleLog([least / size / 1.1, most / size * 1.1], [height, 40])
    : d3.scaleLinear([0, most / size * 1.05], [height, 40]);
  leftAxis(svg, y, left, width - 8, wide);
  countAxis(svg, x, values, height, width - 8, spec.axis + (spec.logarithmic ? " (logarithmic)" : ""));
  svg.append("text").attr("class", "axis").attr("x", 0).attr("y", 12).text("time, " + unit + (wide ? " (logarithmic)" : ""));
  const planned = x(spec.planned);
  svg.append("path").attr("class", "planned").attr("d", "M" + planned + ",34V" + height);
  svg.append("text").attr("y", 28).attr("x", Math.min(Math.max(planned, left + 48), width - 48))
    .attr("text-anchor", "middle").text("planned: " + spec.planned);
  spec.rows.forEach((row, i) => {
    svg.append("path").attr("class", "path mark").attr("stroke-dasharray", DASHES[i % DASHES.length])
      .attr("d", d3.line(point => x(point.x), point => y(point.micros / size))(row.points));
  });
  for (const row of spec.rows) {
    for (const point of row.points) {
      const mark = svg.append("g").attr("transform", "translate(" + x(point.x) + "," + y(point.micros / size) + ")");
      mark.append("title").text(row.label + ", " + point.x + " " + spec.axis + ": " + time(point.micros) + ", limit "
        + point.limit);
      if (point.x === row.knee) {
        mark.append("circle").attr("class", "ring").attr("r", 10);
      }
      mark.append("path").attr("class", "mark").attr("d", symbol(term(point.limit), 80))
        .style("fill", colour(term(point.limit)));
    }
  }
}

const KINDS = {times, rates, lines, iterations, ratios, timeline, heat, terms, limits};

/** Draws every chart, and again whenever its element becomes wider or narrower. */
function drawAll() {
  const charts = JSON.parse(document.getElementById("data").textContent).charts;
  charts.forEach((spec, i) => {
    const element = document.getElementById("chart-" + i);
    let drawn = 0;
    const draw = () => {
      if (element.clientWidth > 0 && element.clientWidth !== drawn) {
        drawn = element.clientWidth;
        element.replaceChildren();
        KINDS[spec.kind](element, spec);
      }
    };
    draw();
    // In the next frame: a chart that changes the height of the page would call the observer again.
    new ResizeObserver(() => requestAnimationFrame(draw)).observe(element);
  });
}

drawAll();
