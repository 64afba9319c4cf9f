//! The files of the page, and the page for refused requests.

use axum::{
    Router,
    response::{Html, IntoResponse},
    routing::get,
};
use http::{StatusCode, header};

pub(crate) const PAGE: &str = include_str!("../assets/index.html");

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The path, media type and content of each file that the page loads.
pub(crate) const FILES: [(&str, &str, &str); 10] = [
    ("/dashboard.css", CSS, include_str!("../assets/dashboard.css")),
    ("/dashboard.js", JAVASCRIPT, include_str!("../assets/dashboard.js")),
    ("/blocks.js", JAVASCRIPT, include_str!("../assets/blocks.js")),
    ("/list.js", JAVASCRIPT, include_str!("../assets/list.js")),
    ("/detail.js", JAVASCRIPT, include_str!("../assets/detail.js")),
    ("/chart.js", JAVASCRIPT, include_str!("../assets/chart.js")),
    ("/stream.js", JAVASCRIPT, include_str!("../assets/stream.js")),
    ("/format.js", JAVASCRIPT, include_str!("../assets/format.js")),
    ("/dom.js", JAVASCRIPT, include_str!("../assets/dom.js")),
    ("/icon.svg", SVG, include_str!("../assets/icon.svg")),
];

/// Serves [`FILES`].
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |router, (path, media_type, content)| {
        router.route(
            path,
            get(move || async move { ([(header::CONTENT_TYPE, media_type)], content) }),
        )
    })
}

/// The response to a refused request: a page with a heading and `text`, which must be valid HTML.
pub(crate) fn refusal(status: StatusCode, text: &str) -> axum::response::Response {
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>hpa dashboard</title>\
         <h1>hpa dashboard</h1><p>{text}</p></html>\n"
    );
    (status, Html(page)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_and_its_files_are_small() {
        let size: usize = FILES.iter().map(|(.., content)| content.len()).sum();
        assert!(size + PAGE.len() < 300_000, "{size}");
    }

    #[test]
    fn files_load_nothing_from_other_hosts_and_run_no_text_as_code() {
        for (path, _, content) in FILES.into_iter().chain([("/", "", PAGE)]) {
            let without_namespace = content.replace("http://www.w3.org/2000/svg", "");
            for unsafe_text in ["http://", "https://", "url(", "@import", "eval(", "innerHTML"] {
                assert!(!without_namespace.contains(unsafe_text), "{unsafe_text} in {path}");
            }
        }
    }

    #[test]
    fn imported_and_linked_files_are_served() {
        let is_served = |path: &str| FILES.iter().any(|(served, ..)| *served == path);
        let imports: Vec<_> = FILES
            .iter()
            .flat_map(|(.., content)| content.split("from \".").skip(1))
            .filter_map(|rest| rest.split_once('"'))
            .map(|(path, _)| path.to_owned())
            .collect();
        assert!(!imports.is_empty());
        let links = PAGE.split("=\"/").skip(1).filter_map(|rest| rest.split_once('"'));
        let links = links.map(|(path, _)| format!("/{path}")).filter(|path| path.contains('.'));
        for path in imports.into_iter().chain(links) {
            assert!(is_served(&path), "{path}");
        }
    }
}
