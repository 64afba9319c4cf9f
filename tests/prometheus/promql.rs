//! Compares the query parser with that of Prometheus, on valid queries and on random changes of
//! them.

use anyhow::{Result, ensure};
use fastrand::Rng;
use hpa_prometheus::{
    client::{InstantQuery, QueryFailure, TimeoutParameter},
    promql,
};

use crate::reader::Reader;

const QUERIES: [&str; 16] = [
    "sum ( rate ( m { pod = \"a\" , code =~ \"5..|4..\" } [5m] ) ) by ( pod , le )",
    "histogram_quantile ( 0.9 , sum by ( le ) ( rate ( m [1h30m] offset 5m ) ) )",
    "a * on ( pod ) group_left ( node ) b / ignoring ( x ) c",
    "max_over_time ( sum ( m ) [10m : 30s] ) > bool 0 or vector ( 1 )",
    "label_replace ( m , \"a\" , '$1' , `b` , \"(.*)\" ) unless on ( ) d",
    "- m ^ 2 ^ - 1 % 3 atan2 b + 1e-3 - 0x1F * .5",
    "topk ( 3 , m @ 1700000000 ) without ( a , )",
    "count_values ( \"v\" , m { } ) == 5 and time ( ) < bool 7",
    "quantile_over_time ( 0.5 , { __name__ = \"m\" } [5m] @ end ( ) )",
    "absent ( m { a != \"\" , b !~ \"c\" , } ) # comment",
    "clamp ( m , 0 , inf ) >= 1 <= 2 != 3",
    "label_join ( m , \"a\" , \"-\" , \"b\" , \"c\" ) * scalar ( n )",
    "day_of_month ( ) + round ( m , 5 ) + pi ( )",
    "sum ( m ) by ( by ) + sum + offset offset 5m",
    "job:m:rate5m { on = \"x\" } / ( sum without ( a ) ( ( n ) ) )",
    "predict_linear ( m [1h:] , 3600 ) + \"text\"",
];

/// The tokens that random changes insert.
const TOKENS: &str = "( ) { } [5m] [5m:1m] , + - == bool by on ( ignoring(a) group_left offset 5m \
                     @ 1 \"s\" 7 sum rate( vector(1) or time() m";

/// The number of generated queries, most of them changed.
const QUERY_COUNT: usize = 1500;
const SEED: u64 = 20_261_128;

pub(crate) async fn check(reader: &Reader) -> Result<()> {
    let mut rng = Rng::with_seed(SEED);
    let tokens: Vec<&str> = TOKENS.split_whitespace().collect();
    let mut accepted = 0;
    for _ in 0..QUERY_COUNT {
        let query = QUERIES[rng.usize(..QUERIES.len())];
        let mut words: Vec<&str> = query.split(' ').collect();
        let (first, second) = (rng.usize(..words.len()), rng.usize(..words.len()));
        match rng.u8(..5) {
            0 => {}
            1 => _ = words.remove(first),
            2 => words.swap(first, second),
            3 => words.insert(first, words[second]),
            _ => words.insert(first, tokens[rng.usize(..tokens.len())]),
        }
        if has_quoted_label(&words) {
            continue;
        }
        let query = words.join(" ");
        let expected = is_accepted(reader, &query).await?;
        accepted += usize::from(expected);
        let parsed = promql::parse(&query);
        // The parser accepts unknown functions, because compatible servers have more.
        let is_valid = parsed.as_ref().is_ok_and(|expr| expr.unknown_functions().is_empty());
        ensure!(is_valid == expected, "Prometheus accepts it: {expected}; {query}: {parsed:?}");
    }
    ensure!((200..1400).contains(&accepted), "{accepted} queries are valid");
    Ok(())
}

/// Whether a list of labels contains a string, such as `on ( "a" )`. The parser accepts it, but
/// Prometheus only from version 3.0 on, so such queries are skipped.
fn has_quoted_label(words: &[&str]) -> bool {
    let keywords = ["by", "without", "on", "ignoring", "group_left", "group_right"];
    let is_quoted = |word: &&str| word.starts_with(['"', '\'', '`']);
    (1..words.len()).any(|at| {
        let is_list = words[at] == "(" && keywords.contains(&words[at - 1]);
        is_list && words[at..].iter().take_while(|word| **word != ")").any(is_quoted)
    })
}

async fn is_accepted(reader: &Reader, query: &str) -> Result<bool> {
    let query = InstantQuery { query: query.to_owned(), timeout: TimeoutParameter::default() };
    match reader.client().query(&query).await {
        Ok(_) | Err(QueryFailure::Decode(_) | QueryFailure::StringResult) => Ok(true),
        Err(QueryFailure::Api { error_type, .. }) => Ok(error_type != "bad_data"),
        Err(failure) => Err(failure.into()),
    }
}
