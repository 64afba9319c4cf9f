//! Label selectors in both forms of the Kubernetes API.

#![expect(clippy::print_stdout, reason = "example")]

use hpa_calc::{
    Selector,
    selector::{LabelSelector, SelectorError},
};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let selector = Selector::parse("tier in (web, api), app=shop, !canary")?;
    println!("canonical: {selector}");
    println!("matches: {}", selector.matches(&[("app", "shop"), ("tier", "web")][..]));

    let object: LabelSelector = serde_json::from_value(json!({
        "matchLabels": { "app": "shop" },
        "matchExpressions": [{ "key": "canary", "operator": "DoesNotExist" }],
    }))?;
    println!("as a string: {}", object.to_selector()?);

    if let Err(error @ SelectorError::Requirement(_)) = Selector::parse("app in shop") {
        println!("error: {error}");
    }
    Ok(())
}
