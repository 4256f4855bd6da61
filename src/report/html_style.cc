#include "report/html_assets.h"

namespace haypile {

const std::string_view kReportCss = R"css(
:root { --paper:#fff; --ink:#1c2530; --soft:#5b6774; --line:#dde3e9; --card:#f6f8fa; --good:#1a7f4b; --bad:#c0362c;
  --warn:#9a6400; --s0:#6b7785; --s1:#2563c9; --s2:#0f8f7e; --s3:#d2691e; --s4:#8b4fc4; --s5:#b8860b; --s6:#c2387a;
  --s7:#4d7c0f; }
@media (prefers-color-scheme: dark) { :root { --paper:#14191f; --ink:#e4e9ee; --soft:#9aa6b2; --line:#2d3640;
  --card:#1b222a; --good:#4cc38a; --bad:#ff7b70; --warn:#e0a83c; --s0:#9aa6b2; --s1:#6ea8ff; --s2:#45c9b5; --s3:#ff9d5c;
  --s4:#c39bf0; --s5:#e5c04b; --s6:#f27fb2; --s7:#a3cf5f; } }
* { box-sizing:border-box; }
body { margin:0; background:var(--paper); color:var(--ink); font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif; }
main { max-width:1100px; margin:0 auto; padding:28px 24px 48px; }
h1 { font-size:26px; line-height:1.25; margin:0 0 14px; }
h2 { font-size:19px; margin:36px 0 6px; padding-bottom:4px; border-bottom:1px solid var(--line); }
h3 { font-size:15px; margin:0 0 6px; display:flex; justify-content:space-between; gap:8px; align-items:center; flex-wrap:wrap; }
.explain, .notes, footer { color:var(--soft); font-size:13.5px; }
.explain { margin:4px 0 12px; max-width:80ch; }
.notes { margin:10px 0 0; padding-left:18px; }
footer { margin-top:40px; border-top:1px solid var(--line); padding-top:10px; }
.facts { display:grid; grid-template-columns:max-content 1fr; gap:3px 16px; margin:0; font-size:14px; }
.facts dt { color:var(--soft); } .facts dd { margin:0; }
.scroll { overflow-x:auto; }
table { border-collapse:collapse; width:100%; font-size:13.5px; font-variant-numeric:tabular-nums; }
th, td { padding:6px 10px; border-bottom:1px solid var(--line); vertical-align:top; font-weight:400; }
thead th { color:var(--soft); border-bottom:2px solid var(--line); vertical-align:bottom; white-space:nowrap; }
.num { text-align:right; white-space:nowrap; } .text { text-align:left; } tbody th.text { white-space:nowrap; }
.ruled th, .ruled td { border-top:2px solid var(--line); }
tbody tr:hover { background:var(--card); }
.strong { font-weight:600; } .faint { color:var(--soft); } .good { color:var(--good); } .bad { color:var(--bad); }
.warn { color:var(--warn); }
.banner { border-left:4px solid var(--warn); background:var(--card); padding:8px 12px; margin:0 0 14px; }
.overall { font-size:17px; font-weight:600; margin:8px 0 14px; }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(270px,1fr)); gap:14px; }
.card { background:var(--card); border:1px solid var(--line); border-top:3px solid var(--soft); border-radius:6px; padding:12px 14px; }
.good-edge { border-top-color:var(--good); } .bad-edge { border-top-color:var(--bad); } .warn-edge { border-top-color:var(--warn); }
.card ul { margin:0; padding-left:18px; font-size:14px; }
.badge { font-size:11.5px; letter-spacing:.05em; font-weight:700; border:1px solid currentColor; border-radius:4px; padding:1px 7px; }
.plots { display:grid; grid-template-columns:repeat(auto-fit,minmax(300px,1fr)); gap:16px; margin:4px 0 16px; }
.plot { position:relative; height:290px; min-width:0; }
details { margin-top:12px; } summary { cursor:pointer; color:var(--soft); }
.answers dt { font-weight:600; margin-top:10px; } .answers dd { margin:2px 0 0 16px; overflow-wrap:anywhere; white-space:pre-wrap; }
.answers span { display:inline-block; min-width:11em; color:var(--soft); }
@media (max-width:600px) { .facts { grid-template-columns:1fr; } .facts dd { margin-bottom:6px; } }
@media print { :root { --paper:#fff; --ink:#000; --soft:#444; --line:#bbb; --card:#fff; --good:#1a7f4b; --bad:#c0362c; --warn:#9a6400; }
  main { max-width:none; padding:0; } .card, .plot, tr { break-inside:avoid; } h2, .explain { break-after:avoid; }
  body { font-size:11px; } table { font-size:9.5px; } th, td { padding:3px 5px; } .scroll { overflow:visible; } }
)css";

}  // namespace haypile
