use rstest::rstest;

use super::*;

fn hosts(hosts: &[&str]) -> Vec<String> {
    hosts.iter().map(|host| (*host).to_owned()).collect()
}

#[test]
fn wildcard_host_is_escaped_for_the_regular_expression_and_the_string() {
    let hosts = hosts(&["*.example.org", "a\"\n"]);
    let group = RouteGroup { hosts, default_backends: Vec::new() };
    let query = |compat| route_group_query(("n", "g"), &group, "", compat).expect("a query");
    assert!(query(Compat::Off).contains(r#"host=~"\\*_example_org|a\"\n"}"#));
    assert!(query(Compat::Reference).contains(r#"host=~"\*_example_org|a""#));
}

#[test]
fn largest_weight_of_an_ingress_is_used() {
    let hosts = hosts(&["a.b"]);
    let annotations = BTreeMap::from([
        ("w1".to_owned(), r#"{"x": 20, "y": 80}"#.to_owned()),
        ("w2".to_owned(), r#"{"x": 30, "y": 70}"#.to_owned()),
    ]);
    let names = ["w1".to_owned(), "w2".to_owned(), "w3".to_owned()];
    let ingress = Ingress { hosts, annotations };
    let of_backend = |backend| ingress_query(("n", "i"), &ingress, &names, backend, Compat::Off);
    let query = of_backend("x").expect("a query");
    assert!(query.ends_with("[1m])) * 0.3000)"), "{query}");
    assert_eq!(of_backend(""), Err(QueryError::NoBackend));
}

/// The factor at the end of a query, or the error.
fn factor(query: Result<String, QueryError>) -> String {
    let query = query.unwrap_or_else(|error| error.to_string());
    query.split_once("* ").map_or(query.clone(), |(_, factor)| factor.to_owned())
}

#[rstest]
#[case::none([0, 0], "blue", "0.5000)")]
#[case::percent([25, 75], "green", "0.7500)")]
#[case::parts([1, 3], "green", "0.7500)")]
#[case::no_traffic([0, 5], "blue", "0.0000)")]
#[case::typo([0, 0], "blu", "the backend \"blu\" has no weight in RouteGroup n/g")]
fn share_of_a_route_group_backend_is_that_of_skipper(
    #[case] weights: [i64; 2],
    #[case] backend: &str,
    #[case] expected: &str,
) {
    let [blue, green] = weights;
    let default_backends = vec![("blue".to_owned(), blue), ("green".to_owned(), green)];
    let group = RouteGroup { hosts: hosts(&["a.b"]), default_backends };
    let query = |compat| factor(route_group_query(("n", "g"), &group, backend, compat));
    assert_eq!(query(Compat::Off), expected);
    assert!(query(Compat::Reference).starts_with("0."));
}

#[rstest]
#[case::of_the_backend([-99, 100])]
#[case::of_another_backend([100, -99])]
fn negative_weight_of_a_route_group_is_refused(#[case] weights: [i64; 2]) {
    let names = ["blue", "green"];
    let negative = names[usize::from(weights[1] < 0)];
    let default_backends: Vec<_> = names.map(str::to_owned).into_iter().zip(weights).collect();
    let group = RouteGroup { hosts: hosts(&["a.b"]), default_backends };
    let query = |compat| factor(route_group_query(("n", "g"), &group, "blue", compat));
    let expected = format!("the backend \"{negative}\" has a negative weight in RouteGroup n/g");
    assert_eq!(query(Compat::Off), expected);
    assert!(query(Compat::Reference).ends_with("00)"));
}

#[rstest]
#[case::percent(r#"{"x": 20, "y": 80}"#, "0.2000)")]
#[case::of_two_paths(r#"{"x": 20, "y": 80, "z": 100}"#, "0.2000)")]
#[case::parts(r#"{"x": 1, "y": 3}"#, "0.2500)")]
#[case::all_zero(r#"{"x": 0, "y": 0}"#, "0.5000)")]
#[case::unlisted(r#"{"y": 100}"#, "the backend \"x\" has no weight in Ingress n/i")]
#[case::null(r#"{"x": null}"#, "the backend \"x\" has no weight in Ingress n/i")]
#[case::negative(r#"{"x": -1}"#, "annotation w is not a JSON object of weights")]
fn share_of_an_ingress_backend_is_that_of_skipper(#[case] weights: &str, #[case] expected: &str) {
    let annotations = BTreeMap::from([("w".to_owned(), weights.to_owned())]);
    let ingress = Ingress { hosts: hosts(&["a.b"]), annotations };
    let names = ["w".to_owned()];
    let query = ingress_query(("n", "i"), &ingress, &names, "x", Compat::Off);
    assert_eq!(factor(query), expected);
}
