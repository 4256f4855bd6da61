#include "report/html_assets.h"

namespace haypile {

// Draws the plots from the embedded result. A plot whose data are missing is left out.
const std::string_view kReportScript = R"js(
"use strict";
(() => {
  const result = JSON.parse(document.getElementById("haypile-result").textContent);
  const light = {"--ink":"#1c2530","--soft":"#5b6774","--line":"#dde3e9","--s0":"#6b7785","--s1":"#2563c9","--s2":"#0f8f7e",
    "--s3":"#d2691e","--s4":"#8b4fc4","--s5":"#b8860b","--s6":"#c2387a","--s7":"#4d7c0f"};
  const kColours = 8, kDashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]], kPoints = ["circle", "rect", "triangle", "rectRot", "star"];
  let printing = false;
  let charts = [];
  const css = name => printing ? light[name] : getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colourOf = index => css("--s" + index % kColours);
  const number = value => Number(value).toLocaleString("en-US", {maximumFractionDigits: 6});
  const kl = value => value >= 0.0001 ? String(Number(value.toPrecision(2))) : value.toExponential(1);

  // Whiskers: each dataset may carry low[] and high[] in the value axis' unit.
  const whiskers = {id: "whiskers", afterDatasetsDraw(chart) {
    const context = chart.ctx;
    chart.data.datasets.forEach((set, s) => {
      const meta = chart.getDatasetMeta(s);
      if (!set.low || meta.hidden) return;
      const axis = chart.scales.y;
      context.save();
      context.strokeStyle = set.whiskerColour;
      context.lineWidth = 1.3;
      meta.data.forEach((element, i) => {
        if (set.low[i] == null || !isFinite(set.low[i])) return;
        const low = axis.getPixelForValue(set.low[i]), high = axis.getPixelForValue(set.high[i]);
        context.beginPath();
        context.moveTo(element.x, low); context.lineTo(element.x, high);
        for (const y of [low, high]) { context.moveTo(element.x - 4, y); context.lineTo(element.x + 4, y); }
        context.stroke();
      });
      context.restore();
    });
  }};
  // Text at the end of each bar of a horizontal plot.
  const barLabels = {id: "barLabels", afterDatasetsDraw(chart) {
    const set = chart.data.datasets[0];
    if (!set.labels) return;
    const context = chart.ctx;
    context.save();
    context.fillStyle = css("--ink");
    context.font = "12px " + Chart.defaults.font.family;
    context.textBaseline = "middle";
    chart.getDatasetMeta(0).data.forEach((bar, i) => context.fillText(set.labels[i], bar.x + 6, bar.y));
    context.restore();
  }};

  function canvasIn(id, height) {
    const holder = document.getElementById(id);
    if (!holder) return null;
    const box = document.createElement("div");
    box.className = "plot";
    if (height) box.style.height = height + "px";
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    box.appendChild(canvas);
    holder.appendChild(box);
    return canvas;
  }
  function axis(text, more) {
    return Object.assign({title: {display: true, text, color: css("--soft")}, ticks: {color: css("--soft")},
      grid: {color: css("--line"), borderColor: css("--line")}}, more);
  }
  function draw(id, title, config, height) {
    const canvas = canvasIn(id, height);
    if (!canvas) return;
    canvas.setAttribute("aria-label", title + "; the figures stand in the table below");
    config.options = Object.assign({responsive: true, maintainAspectRatio: false, animation: false}, config.options);
    config.options.plugins = Object.assign({title: {display: true, text: title, color: css("--ink"), font: {size: 13}},
      legend: {position: "bottom", labels: {color: css("--ink"), boxWidth: config.type === "line" ? 8 : 14, boxHeight: 8, usePointStyle: config.type === "line"}}},
      config.options.plugins);
    config.plugins = [whiskers, barLabels];
    charts.push(new Chart(canvas, config));
  }
  function line(index, label) {
    return {label, borderColor: colourOf(index), backgroundColor: colourOf(index), whiskerColour: colourOf(index),
      borderDash: kDashes[Math.floor(index / kColours) % kDashes.length], pointStyle: kPoints[index % kPoints.length],
      pointRadius: 4, borderWidth: 2, tension: 0};
  }

  function capacity() {
    if (!result.runs.length) return;
    const runs = result.runs, most = Math.max(...runs.map(run => run.pool_tokens));
    draw("plot-capacity", "Tokens in the same budget", {type: "bar",
      data: {labels: runs.map(run => run.kv_cache_dtype), datasets: [{data: runs.map(run => run.pool_tokens),
        backgroundColor: runs.map((run, i) => colourOf(i)), maxBarThickness: 30,
        labels: runs.map(run => number(run.pool_tokens) + "  (" + run.ratio_to_baseline.toFixed(2) + "x)")}]},
      options: {indexAxis: "y", plugins: {legend: {display: false}}, scales: {
        x: axis("tokens", {beginAtZero: true, suggestedMax: most * 1.22}), y: axis("", {title: {display: false}})}}},
      90 + 36 * runs.length);
  }
  function depth() {
    const streams = new Set();
    for (const run of result.runs) for (const point of run.speed ? run.speed.decode : []) streams.add(point.streams);
    for (const count of [...streams].sort((a, b) => a - b)) {
      const datasets = [];
      result.runs.forEach((run, i) => {
        const points = (run.speed ? run.speed.decode : []).filter(p => p.streams === count && p.ms_per_token !== null)
          .sort((a, b) => a.depth - b.depth);
        if (!points.length) return;
        datasets.push(Object.assign(line(i, run.kv_cache_dtype), {data: points.map(p => ({x: p.depth, y: p.ms_per_token})),
          low: points.map(p => p.ms_per_token - p.spread), high: points.map(p => p.ms_per_token + p.spread)}));
      });
      if (!datasets.length) continue;
      draw("plot-depth", "Time per token, " + count + (count === 1 ? " stream" : " streams"), {type: "line", data: {datasets},
        options: {scales: {x: axis("tokens in each stream's cache", {type: "linear", beginAtZero: true}),
          y: axis("ms per token", {beginAtZero: true})}}});
    }
  }
  function divergence() {
    const labels = [], keyed = new Map();
    for (const run of result.runs) for (const b of run.cost ? run.cost.buckets : []) keyed.set(b.from + "-" + b.to, b);
    const buckets = [...keyed.values()].sort((a, b) => a.from - b.from || a.to - b.to);
    if (!buckets.length) return;
    for (const b of buckets) labels.push(number(b.from) + "-" + number(b.to));
    const datasets = [];
    result.runs.forEach((run, i) => {
      if (!run.cost || run.kv_cache_dtype === result.baseline) return;
      const found = buckets.map(b => run.cost.buckets.find(c => c.from === b.from && c.to === b.to));
      const values = found.map(b => b && b.mean_kl > 0 ? b.mean_kl : null);
      if (values.every(v => v === null)) return;
      const error = found.map(b => b && b.kl_stderr && b.mean_kl > b.kl_stderr ? b.kl_stderr : null);
      datasets.push(Object.assign(line(i, run.kv_cache_dtype), {data: values,
        low: values.map((v, k) => error[k] === null ? null : v - error[k]),
        high: values.map((v, k) => error[k] === null ? null : v + error[k])}));
    });
    if (!datasets.length) return;
    const floor = result.noise_floor && result.noise_floor.mean_kl;
    if (floor > 0) datasets.push({label: "noise floor (baseline against itself)", data: labels.map(() => floor), pointStyle: "line",
      borderColor: css("--soft"), borderDash: [3, 4], borderWidth: 1.5, pointRadius: 0});
    const shown = datasets.flatMap(set => set.data).filter(v => v > 0);
    draw("plot-kl", "KL divergence from " + result.baseline, {type: "line", data: {labels, datasets}, options: {scales: {
      x: axis("position in the text, tokens"),
      y: axis("mean KL, nats per token (log)", {type: "logarithmic", min: Math.min(...shown) / 1.5, max: Math.max(...shown) * 1.5,
        ticks: {color: css("--soft"), callback: value =>
          [1, 2, 5].includes(Number((value / 10 ** Math.floor(Math.log10(value) + 1e-9)).toFixed(6))) ? kl(value) : ""}})}}}, 340);
  }
  function recall() {
    const keyed = new Map();
    for (const run of result.runs) for (const p of run.cost ? run.cost.recall : [])
      keyed.set(p.context_tokens + "@" + p.depth_fraction, p);
    const points = [...keyed.values()].sort((a, b) => a.context_tokens - b.context_tokens || a.depth_fraction - b.depth_fraction);
    if (!points.length) return;
    const lengths = new Set(points.map(p => p.context_tokens));
    const labels = points.map(p => [Math.round(p.depth_fraction * 100) + "%" +
      (lengths.size > 1 ? " of " + number(p.context_tokens) : "") + (p.tells_nothing ? " †" : "")]);
    const datasets = [];
    result.runs.forEach((run, i) => {
      if (!run.cost || !run.cost.recall.length) return;
      const found = points.map(p => run.cost.recall.find(q => q.context_tokens === p.context_tokens &&
        q.depth_fraction === p.depth_fraction));
      datasets.push({label: run.kv_cache_dtype, backgroundColor: colourOf(i), whiskerColour: css("--ink"), maxBarThickness: 34,
        data: found.map(p => p && p.total ? 100 * p.passed / p.total : null),
        low: found.map(p => p && p.total ? 100 * p.wilson_low : null), high: found.map(p => p && p.total ? 100 * p.wilson_high : null)});
    });
    draw("plot-recall", "Planted codes found" + (lengths.size === 1 ? ", context of " + number(points[0].context_tokens) + " tokens" : ""),
      {type: "bar", data: {labels, datasets}, options: {scales: {x: axis("planted at (0%: start of the context)"),
        y: axis("found, % (whiskers: 95% Wilson)", {beginAtZero: true, max: 100})}}}, 320);
  }

  function drawAll() {
    for (const chart of charts) chart.destroy();
    charts = [];
    for (const holder of document.querySelectorAll(".plots")) holder.replaceChildren();
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    capacity();
    depth();
    divergence();
    recall();
    for (const holder of document.querySelectorAll(".plots")) holder.style.display = holder.childElementCount ? "" : "none";
  }
  drawAll();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => { printing = true; drawAll(); for (const chart of charts) chart.resize(); });
  window.addEventListener("afterprint", () => { printing = false; drawAll(); });
})();
)js";

}  // namespace haypile
