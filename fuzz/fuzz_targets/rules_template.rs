//! Any text is a template or an error. Rendering a template ends, and gives the same result the
//! second time.
#![no_main]

use hpa_calc::Selector;
use hpa_metrics::resource::ApiResources;
use hpa_prometheus::rules::{
    Compat,
    config::ResourceMapping,
    labels::ResourceLabels,
    query::{QueryContext, QueryTemplate},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let resources = ApiResources::default();
    let mapping = ResourceMapping { template: text.to_owned(), ..Default::default() };
    let _ = ResourceLabels::new(&mapping, &resources);

    let Ok(template) = QueryTemplate::new(text) else { return };
    let labels = ResourceLabels::new(&ResourceMapping::default(), &resources).expect("no template");
    let context = QueryContext { labels: &labels, resources: &resources, compat: Compat::Off };
    let selector = Selector::parse("a=b,c in (d,e)").expect("valid");
    let query = template.for_external("series", "", &selector, context);
    assert_eq!(template.for_external("series", "", &selector, context), query);
    if let Ok(query) = query
        && !text.contains("<<")
    {
        assert_eq!(query, text);
    }
});
