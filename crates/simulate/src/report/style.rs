//! The styles of charts and pages, and the escaping of texts in them.

use hpa_calc::explain::one_line;

/// The style of a chart. It is part of the SVG, which is therefore self-contained.
pub(super) const CHART_CSS: &str = "
.chart{--bg:#fff;--fg:#1a1a1a;--soft:#5f6368;--grid:#e3e3e3;--load:#0072b2;--cap:#b35c00;\
--rep:#007a56;--ready:#6b6b6b;--rec:#9b4a7c;--bad:#c4460a;font:12px system-ui,sans-serif}
@media(prefers-color-scheme:dark){.chart{--bg:#16181c;--fg:#e8eaed;--soft:#a8adb4;--grid:#33373d;\
--load:#56b4e9;--cap:#e69f00;--rep:#2fc796;--ready:#9a9a9a;--rec:#e08fc0;--bad:#ff7b42}}
@media print{.chart{--bg:#fff;--fg:#000;--soft:#444;--grid:#ddd;--load:#0072b2;--cap:#b35c00;\
--rep:#007a56;--ready:#6b6b6b;--rec:#9b4a7c;--bad:#c4460a}}
.chart .bg{fill:var(--bg)}.chart text{fill:var(--fg)}.chart .soft{fill:var(--soft)}
.chart .h{font-weight:600;font-size:13px}
.chart path,.chart line{fill:none;stroke-width:1.6}
.chart .grid{stroke:var(--grid);stroke-width:1}
.chart .load{stroke:var(--load)}
.chart .cap{stroke:var(--cap);stroke-dasharray:7 3}
.chart .over{fill:var(--bad);fill-opacity:.35;stroke:var(--bad);stroke-width:1}
.chart .rep{stroke:var(--rep);stroke-width:2.6}
.chart .past{stroke:var(--fg);stroke-width:1.4;stroke-dasharray:9 3 2 3}
.chart .ready{stroke:var(--ready);stroke-dasharray:2 2}
.chart .rec{stroke:var(--rec);stroke-width:1}
.chart .limit{stroke:var(--soft);stroke-dasharray:1 4}
.chart .backlog{stroke:var(--bad);stroke-width:2.2;stroke-dasharray:2 3}
.chart .mark{fill:var(--bg);stroke:var(--fg);stroke-width:1.3}
.chart .bar{fill:var(--soft);fill-opacity:.18;stroke:var(--soft);stroke-width:1;\
stroke-dasharray:1 2}
";

/// The style of the page. On a phone, a chart is wider than the screen: its text stays readable.
pub(super) const PAGE_CSS: &str = "
:root{color-scheme:light dark;--bg:#fff;--fg:#1a1a1a;--soft:#5f6368;--line:#d9d9d9;--head:#f3f4f6}
@media(prefers-color-scheme:dark){:root{--bg:#16181c;--fg:#e8eaed;--soft:#a8adb4;--line:#3a3f46;\
--head:#22262b}}
body{background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;margin:2rem auto;\
max-width:1100px;padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2rem 0 .3rem}
p{margin:.3rem 0;color:var(--soft)}
h1,h2,p,td{overflow-wrap:anywhere}
.wide{overflow-x:auto}.wide td:first-child{min-width:12em}
table{border-collapse:collapse;font-size:.85rem;margin:.6rem 0;width:100%}
th,td{border-bottom:1px solid var(--line);padding:.3rem .6rem;text-align:left;vertical-align:top}
th{background:var(--head);font-weight:600}
tr.best td{font-weight:600}
td.n{font-variant-numeric:tabular-nums;white-space:nowrap}
svg{width:100%;height:auto}
summary{cursor:pointer;color:var(--soft);margin:.3rem 0}
@media screen and (max-width:700px){.wide svg{width:800px}}
@media print{:root{--bg:#fff;--fg:#000;--soft:#444;--line:#bbb;--head:#eee}\
body{margin:0;padding:0;max-width:none;font-size:10pt}.wide{overflow:visible}\
table{font-size:7.5pt}th,td{padding:.1rem .25rem}svg,tr{break-inside:avoid}\
h2,h2+p,summary{break-after:avoid}\
details:not(.long)::details-content{content-visibility:visible;height:auto;display:block}}
";

/// Escapes text for HTML and SVG. [`one_line`] escapes the control characters: SVG is XML, which
/// permits hardly any of them.
pub(super) fn escape(text: &str) -> String {
    let text = one_line(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A paragraph for each line of the text.
pub(super) fn paragraphs(text: &str) -> String {
    let mut paragraphs = String::new();
    paragraphs.extend(text.lines().map(|line| format!("<p>{}</p>\n", escape(line))));
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The luminance of a color such as `#fff` or `#16181c`, by WCAG 2.
    fn luminance(color: &str) -> f64 {
        let digits: Vec<u32> = color.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let size = digits.len() / 3;
        let parts = digits.chunks(size).map(|part| {
            let value = if let [one] = part { one * 17 } else { part[0] * 16 + part[1] };
            let value = f64::from(value) / 255.0;
            if value <= 0.039_28 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        });
        parts.zip([0.2126, 0.7152, 0.0722]).map(|(part, weight)| part * weight).sum()
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn colors_have_enough_contrast_in_light_dark_and_print() {
        let schemes: Vec<&str> = CHART_CSS.split(".chart{").skip(1).collect();
        assert_eq!(schemes.len(), 3);
        for scheme in schemes {
            let (scheme, _) = scheme.split_once('}').unwrap();
            let colors: Vec<(&str, &str)> = scheme
                .split(';')
                .filter_map(|one| one.trim().strip_prefix("--")?.split_once(":#"))
                .collect();
            let (_, background) = colors[0];
            for (name, color) in &colors[1..] {
                let least = match *name {
                    "grid" => 1.1,
                    "fg" | "soft" => 4.5,
                    _ => 3.0,
                };
                let contrast = contrast(color, background);
                assert!(contrast >= least, "{name} {color} on {background}: {contrast:.2}");
            }
        }
    }
}
