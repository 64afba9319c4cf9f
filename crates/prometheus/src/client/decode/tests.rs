use rstest::rstest;

use super::*;

fn vector(samples: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":{samples}}}}}"#)
}

fn decode(body: &str) -> Result<QueryResult, QueryFailure> {
    decode_instant(body.as_bytes(), Compat::Off)
}

#[test]
fn vector_has_samples_with_labels_and_milliseconds() {
    let body = vector(r#"[{"metric":{"pod":"a\u0062"},"value":[1.5,"2e+03"]}]"#) + " trailing";
    let Ok(QueryResult::Vector(Some(samples))) = decode(&body) else {
        panic!("not a vector: {body}");
    };
    let labels = [("pod".to_owned(), "ab".to_owned())].into();
    assert_eq!(samples, [Sample { labels, timestamp_ms: 1500, value: 2000.0 }]);
}

#[test]
fn nan_and_infinities_are_decoded() {
    let body = vector(r#"[{"value":[1,"NaN"]},{"value":[1,"+Inf"]},{"value":[1,"-Inf"]}]"#);
    let Ok(QueryResult::Vector(Some(samples))) = decode(&body) else { panic!("{body}") };
    let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    assert!(values[0].is_nan());
    assert_eq!(values[1..], [f64::INFINITY, f64::NEG_INFINITY]);
}

#[test]
fn native_histogram_is_not_a_number() {
    let body = vector(r#"[{"metric":{},"histogram":[2.25,{"count":"1"}]}]"#);
    let value = |compat| match decode_instant(body.as_bytes(), compat) {
        Ok(QueryResult::Vector(Some(samples))) => (samples[0].timestamp_ms, samples[0].value),
        other => panic!("{other:?}"),
    };
    assert!(value(Compat::Off).1.is_nan());
    assert_eq!(value(Compat::Reference), (2250, 0.0));
}

#[test]
fn other_result_types_are_distinguished() {
    assert_eq!(decode(&vector("null")).unwrap(), QueryResult::Vector(None));
    let scalar = vector(r#"[1,"42.5"]"#).replace("vector", "scalar");
    let expected = QueryResult::Scalar { timestamp_ms: 1000, value: 42.5 };
    assert_eq!(decode(&scalar).unwrap(), expected);
    let matrix = vector("[]").replace("vector", "matrix");
    assert_eq!(decode(&matrix).unwrap(), QueryResult::Other("matrix".to_owned()));
}

#[test]
fn metadata_has_the_type_of_a_metric() {
    let body = br#"{"status":"success","data":{"a_total":[{"type":"gauge","help":"","unit":""}]}}"#;
    assert_eq!(decode_metric_type(body, "a_total").unwrap().as_deref(), Some("gauge"));
    assert_eq!(decode_metric_type(body, "b_total").unwrap(), None);
}

#[test]
fn string_result_is_caused_by_the_query() {
    let body = r#"{"status":"success","data":{"resultType":"string","result":[1,"x"]}}"#;
    let failure = decode(body).unwrap_err();
    assert!(failure.is_caused_by_query() && !failure.lacks_server());
    assert_eq!(failure.reason(), failure.to_string());
}

#[rstest]
#[case::empty("", "EOF")]
#[case::html("<html>", "it isn't a JSON object, but may be a login page")]
#[case::literal("no healthy upstream", "it isn't a JSON object, but may be a login page")]
#[case::number("404 page not found", "it isn't a JSON object, but may be a login page")]
#[case::invalid(r#" {"status":success}"#, "expected value at line 1")]
#[case::half(r#"{"status":"success","data":{"resu"#, "EOF")]
#[case::no_data(r#"{"status":"success"}"#, "no data")]
#[case::null_data(r#"{"status":"success","data":null}"#, "no data")]
#[case::string(
    r#"{"status":"success","data":{"resultType":"string","result":[1,"x"]}}"#,
    "the result of the query is a string, not a vector or a scalar"
)]
#[case::other(
    r#"{"status":"success","data":{"resultType":"streams","result":[]}}"#,
    "no support for query result value type \"streams\""
)]
#[case::no_number(
    r#"{"status":"success","data":{"resultType":"scalar","result":[1,"x"]}}"#,
    "invalid value"
)]
#[case::error(
    r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#,
    "bad_data: parse error"
)]
fn invalid_responses_are_errors(#[case] body: &str, #[case] expected: &str) {
    let error = decode(body).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn warnings_of_a_response_are_decoded() {
    let decode = |warnings: &str| {
        let body = format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[]}}{warnings}}}"#
        );
        let (_, warnings) =
            decode_instant_with_warnings(body.as_bytes(), Compat::Off).expect("a result");
        warnings.into_iter().map(Cow::into_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        decode(r#","warnings":["store \"a\" is down","b"],"infos":["c"]"#),
        ["store \"a\" is down", "b"]
    );
    for none in ["", r#","warnings":null"#, r#","warnings":"text""#, r#","warnings":[5]"#] {
        assert_eq!(decode(none), Vec::<String>::new(), "{none}");
    }
}
