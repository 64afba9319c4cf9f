//! Self-contained HTML pages.

use std::fmt::Write as _;

use super::style::{PAGE_CSS, escape, paragraphs};

/// The beginning of a self-contained page, up to and including its title.
pub(super) fn begin_page(title: &str, style: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
            <style>{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    )
}

/// Creates a self-contained HTML page.
pub fn page(title: &str, parts: &[PagePart]) -> String {
    let mut page = begin_page(title, PAGE_CSS);
    for part in parts {
        match part {
            PagePart::Heading(text) => {
                let _ = writeln!(page, "<h2>{}</h2>", escape(text));
            }
            PagePart::Text(text) => page += &paragraphs(text),
            PagePart::Image(svg) => {
                let _ = writeln!(page, "<div class=\"wide\">{svg}</div>");
            }
            PagePart::Table(rows) => page += &table(rows),
        }
    }
    page + "</body>\n</html>\n"
}

/// A part of a [`page`].
#[derive(Clone, Debug)]
pub enum PagePart {
    Heading(String),
    /// A text with a paragraph for each line.
    Text(String),
    /// Rows of cells. The first row is the header.
    Table(Vec<Vec<String>>),
    /// An SVG element.
    Image(String),
}

fn table(rows: &[Vec<String>]) -> String {
    let mut table = "<div class=\"wide\"><table>\n".to_owned();
    for (index, row) in rows.iter().enumerate() {
        let cell = if index == 0 { "th" } else { "td" };
        let cells = row.iter().map(|text| format!("<{cell}>{}</{cell}>", escape(text)));
        let cells = cells.collect::<Vec<_>>().concat();
        let _ = writeln!(table, "<tr>{cells}</tr>");
    }
    table + "</table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_page_are_escaped() {
        let parts = [
            PagePart::Table(vec![vec!["<h>".to_owned()], vec!["1".to_owned()]]),
            PagePart::Text("two\n<lines>".to_owned()),
        ];
        let page = page("<t>", &parts);
        assert!(page.contains("<p>two</p>\n<p>&lt;lines&gt;</p>\n"), "{page}");
        assert!(page.contains("<th>&lt;h&gt;</th>") && page.contains("<title>&lt;t&gt;</title>"));
    }
}
