//! The pages of a list of autoscalers. They have limits, because a tenant may have forged the lease
//! that leads to the debug API.

use std::collections::HashSet;

use hpa_controller::{
    HpaKey,
    debug::{AutoscalerItem, AutoscalerList},
};

/// The maximum size of all pages, in bytes. More than twice that of 100,000 autoscalers.
const MAX_LIST_BYTES: usize = 256 << 20;
const MAX_AUTOSCALERS: usize = 200_000;
/// A page usually has 1000 autoscalers.
const MAX_PAGES: usize = 1000;

/// The key of a listed autoscaler.
pub(crate) fn item_key(item: &AutoscalerItem) -> HpaKey {
    HpaKey::for_api(item.api, item.namespace.as_str(), item.name.as_str())
}

/// The pages that were read.
#[derive(Default)]
pub(super) struct ListedPages {
    pub(super) items: Vec<AutoscalerItem>,
    keys: HashSet<HpaKey>,
    page_count: usize,
    bytes: usize,
}

impl ListedPages {
    /// The maximum size of the next page, in bytes.
    pub(super) fn remaining_bytes(&self) -> usize {
        MAX_LIST_BYTES.saturating_sub(self.bytes)
    }

    /// Adds a page, and returns the token of the next one. Fails if the list seems to have no end.
    pub(super) fn add(
        &mut self,
        page: AutoscalerList,
        bytes: usize,
    ) -> Result<Option<String>, String> {
        self.page_count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let known_count = self.items.len();
        for item in page.items {
            if self.keys.insert(item_key(&item)) {
                self.items.push(item);
            }
        }
        let Some(next) = page.next else { return Ok(None) };
        let problem = if self.items.len() == known_count {
            "a page has no new autoscaler".to_owned()
        } else if self.items.len() >= MAX_AUTOSCALERS {
            format!("it has more than {MAX_AUTOSCALERS} autoscalers")
        } else if self.page_count >= MAX_PAGES {
            format!("it has more than {MAX_PAGES} pages")
        } else {
            return Ok(Some(next));
        };
        Err(format!("the list of autoscalers has no end: {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn page(names: impl IntoIterator<Item = String>, next: Option<&str>) -> AutoscalerList {
        let item = json!({
            "api": "core", "namespace": "shop", "name": "", "uid": "u", "isFailing": false,
        });
        let item: AutoscalerItem = serde_json::from_value(item).expect("an item");
        let items = names.into_iter().map(|name| AutoscalerItem { name, ..item.clone() });
        AutoscalerList {
            now: Timestamp::UNIX_EPOCH,
            items: items.collect(),
            next: next.map(ToOwned::to_owned),
        }
    }

    fn names(page: usize) -> impl Iterator<Item = String> {
        (page * 1000..(page + 1) * 1000).map(|index| format!("web-{index}"))
    }

    #[test]
    fn pages_of_100_000_autoscalers_are_read() {
        let mut pages = ListedPages::default();
        for index in 0..100 {
            let token = (index < 99).then(|| format!("token-{index}"));
            // Each autoscaler has 1 KiB.
            let next = pages.add(page(names(index), token.as_deref()), 1 << 20);
            assert_eq!(next, Ok(token));
        }
        assert_eq!(pages.items.len(), 100_000);
        assert!(pages.remaining_bytes() > MAX_LIST_BYTES / 2);
    }

    #[test]
    fn list_without_an_end_is_an_error() {
        let end = |result: Result<Option<String>, String>| {
            let error = result.expect_err("a problem");
            error.strip_prefix("the list of autoscalers has no end: ").map(ToOwned::to_owned)
        };
        let mut pages = ListedPages::default();
        assert_eq!(pages.add(page(names(0), Some("x")), 1), Ok(Some("x".to_owned())));
        let no_item = end(pages.add(page(names(0), Some("y")), 1));
        assert_eq!(no_item.as_deref(), Some("a page has no new autoscaler"));

        let mut pages = ListedPages::default();
        let many = (0..200).flat_map(names);
        let too_many = end(pages.add(page(many, Some("x")), 1));
        assert_eq!(too_many.as_deref(), Some("it has more than 200000 autoscalers"));

        let mut pages = ListedPages::default();
        let mut add = |index: usize| {
            pages.add(page([format!("web-{index}")], Some(&format!("token-{index}"))), 1)
        };
        assert!((0..999).all(|index| add(index).is_ok()));
        assert_eq!(end(add(999)).as_deref(), Some("it has more than 1000 pages"));
    }
}
