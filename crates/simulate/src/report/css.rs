//! Colours and lines. The colours are those of Okabe and Ito, which colour-blind people can
//! distinguish. Every series has its own dashes and a label, too, for prints in grey.

/// The style of a chart. It is within the SVG, so that the chart can stand alone.
pub(super) const CHART: &str = "
.chart{--bg:#fff;--fg:#1a1a1a;--soft:#5f6368;--grid:#e3e3e3;--load:#0072b2;--cap:#b35c00;\
--rep:#007a56;--ready:#7d7d7d;--rec:#9b4a7c;--bad:#c4460a;font:12px system-ui,sans-serif}
@media(prefers-color-scheme:dark){.chart{--bg:#16181c;--fg:#e8eaed;--soft:#a8adb4;--grid:#33373d;\
--load:#56b4e9;--cap:#e69f00;--rep:#2fc796;--ready:#9a9a9a;--rec:#e08fc0;--bad:#ff7b42}}
@media print{.chart{--bg:#fff;--fg:#000;--soft:#444;--grid:#ddd;--load:#0072b2;--cap:#b35c00;\
--rep:#007a56;--ready:#7d7d7d;--rec:#9b4a7c;--bad:#c4460a}}
.chart .bg{fill:var(--bg)}.chart text{fill:var(--fg)}.chart .soft{fill:var(--soft)}
.chart .h{font-weight:600;font-size:13px}
.chart path,.chart line{fill:none;stroke-width:1.6}
.chart .grid{stroke:var(--grid);stroke-width:1}
.chart .load{stroke:var(--load)}.chart text.load{fill:var(--load);stroke:none}
.chart .cap{stroke:var(--cap);stroke-dasharray:7 3}.chart text.cap{fill:var(--cap);stroke:none}
.chart .over{fill:var(--bad);fill-opacity:.35;stroke:none}
.chart text.over{fill:var(--bad);fill-opacity:1}
.chart .rep{stroke:var(--rep);stroke-width:2.2}.chart text.rep{fill:var(--rep);stroke:none}
.chart .ready{stroke:var(--ready);stroke-dasharray:2 2}
.chart text.ready{fill:var(--ready);stroke:none}
.chart .rec{stroke:var(--rec);stroke-width:1.1}.chart text.rec{fill:var(--rec);stroke:none}
.chart .limit{stroke:var(--soft);stroke-dasharray:1 4}
.chart .backlog{stroke:var(--bad);stroke-dasharray:4 2}
.chart text.backlog{fill:var(--bad);stroke:none}
.chart .mark{fill:var(--bg);stroke:var(--fg);stroke-width:1.3}
.chart .bar{fill:var(--bad);fill-opacity:.18;stroke:none}
";

/// The style of the page.
pub(super) const PAGE: &str = "
:root{color-scheme:light dark;--bg:#fff;--fg:#1a1a1a;--soft:#5f6368;--line:#d9d9d9;--head:#f3f4f6}
@media(prefers-color-scheme:dark){:root{--bg:#16181c;--fg:#e8eaed;--soft:#a8adb4;--line:#3a3f46;\
--head:#22262b}}
@media print{:root{--bg:#fff;--fg:#000;--soft:#444;--line:#bbb;--head:#eee}\
section{break-inside:avoid}details:not([open])>*{display:block}}
body{background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;margin:2rem auto;\
max-width:1100px;padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2rem 0 .3rem}
p{margin:.3rem 0;color:var(--soft)}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;margin:.6rem 0;width:100%}
th,td{border-bottom:1px solid var(--line);padding:.3rem .6rem;text-align:left;vertical-align:top}
th{background:var(--head);font-weight:600}
td.n{font-variant-numeric:tabular-nums;white-space:nowrap}
svg{width:100%;height:auto}
summary{cursor:pointer;color:var(--soft);margin:.3rem 0}
";
