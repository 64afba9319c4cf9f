//! Streams the names and label names of series.

use std::{fmt, io::Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tokio::io::AsyncRead;
use tokio_util::io::SyncIoBridge;

use crate::client::{decode::decode_error, error::QueryFailure};

const NAME_LABEL: &str = "__name__";

/// Reads the series of a response. Blocks the thread until data arrives.
pub struct SeriesReader {
    body: SyncIoBridge<Box<dyn AsyncRead + Send + Unpin>>,
}

impl SeriesReader {
    /// Must be called in a tokio runtime.
    pub(crate) fn new(body: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        Self { body: SyncIoBridge::new(body) }
    }

    /// Calls `add` with the name of each series and the names of its labels, without `__name__`.
    /// The name is empty if the series has none. Returns the number of series.
    pub fn for_each(self, add: impl FnMut(&str, &[String])) -> Result<usize, QueryFailure> {
        // The reader is buffered, because the parser reads byte by byte.
        read_response(std::io::BufReader::with_capacity(64 << 10, self.body), add)
    }
}

impl fmt::Debug for SeriesReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeriesReader").finish_non_exhaustive()
    }
}

/// Calls `add` for each series of a response. Returns their number.
fn read_response(body: impl Read, add: impl FnMut(&str, &[String])) -> Result<usize, QueryFailure> {
    let mut deserializer = serde_json::Deserializer::from_reader(body);
    let mut is_object = false;
    let result = deserializer.deserialize_map(Response { add, is_object: &mut is_object });
    result.map_err(|error| match error.io_error_kind() {
        Some(_) => QueryFailure::Body(std::sync::Arc::new(error.into())),
        None => decode_error(&error, is_object),
    })?
}

/// A response, whose series are passed to the function.
struct Response<'r, F> {
    add: F,
    /// Set if the response begins as a JSON object.
    is_object: &'r mut bool,
}

impl<'de, F: FnMut(&str, &[String])> Visitor<'de> for Response<'_, F> {
    /// The number of series.
    type Value = Result<usize, QueryFailure>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a response of Prometheus")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        *self.is_object = true;
        let (mut is_error, mut error_type, mut message) = (false, String::new(), String::new());
        let mut series_count = None;
        while let Some(field) = map.next_key::<String>()? {
            match &*field {
                "status" => is_error = map.next_value::<String>()? == "error",
                "errorType" => error_type = map.next_value()?,
                "error" => message = map.next_value()?,
                "data" => series_count = Some(map.next_value_seed(SeriesList(&mut self.add))?),
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        if is_error {
            return Ok(Err(QueryFailure::Api { error_type, message }));
        }
        Ok(series_count.ok_or_else(|| QueryFailure::Decode("it has no data".to_owned())))
    }
}

/// The list of series, or null if there are none.
struct SeriesList<'r, F>(&'r mut F);

impl<'de, F: FnMut(&str, &[String])> DeserializeSeed<'de> for SeriesList<'_, F> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(&str, &[String])> Visitor<'de> for SeriesList<'_, F> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut series: A) -> Result<usize, A::Error> {
        let (add, mut names, mut count) = (self.0, SeriesNames::default(), 0);
        while series.next_element_seed(&mut names)?.is_some() {
            add(&names.name, &names.labels);
            count += 1;
        }
        Ok(count)
    }
}

/// The name of a series, and the names of its other labels. Their values are skipped.
#[derive(Default)]
struct SeriesNames {
    name: String,
    labels: Vec<String>,
    /// Strings of earlier series. They are reused, because a list can have millions of labels.
    spare: Vec<String>,
}

impl<'de> DeserializeSeed<'de> for &mut SeriesNames {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut SeriesNames {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the labels of a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.name.clear();
        self.spare.append(&mut self.labels);
        let mut label = self.spare.pop().unwrap_or_default();
        while map.next_key_seed(ReusedString(&mut label))?.is_some() {
            if label == NAME_LABEL {
                map.next_value_seed(ReusedString(&mut self.name))?;
                if self.name.is_empty() {
                    return Err(serde::de::Error::custom("a series has an empty name"));
                }
            } else {
                map.next_value::<IgnoredAny>()?;
                self.labels.push(label);
                label = self.spare.pop().unwrap_or_default();
            }
        }
        self.spare.push(label);
        Ok(())
    }
}

/// Replaces the content of a string, without a new allocation.
struct ReusedString<'t>(&'t mut String);

impl<'de> DeserializeSeed<'de> for ReusedString<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ReusedString<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.0.clear();
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(body: &str) -> Result<Vec<String>, QueryFailure> {
        let mut all = Vec::new();
        let add = |name: &str, labels: &[String]| all.push(format!("{name}{labels:?}"));
        read_response(body.as_bytes(), add).map(|_| all)
    }

    #[test]
    fn names_and_label_names_are_read() {
        let body = r#"{"status":"success","data":[
            {"__name__":"a","pod":"p","x\u0079":"1"},{"job":"j"},{"__name__":"b"}],"warnings":[1]}"#;
        assert_eq!(series(body).unwrap(), [r#"a["pod", "xy"]"#, r#"["job"]"#, "b[]"]);
    }

    #[test]
    fn strings_are_reused_for_the_next_series() {
        let body = r#"{"status":"success","data":[{"long_label_name":"1"},{"pod":"1"}]}"#;
        let mut capacities = Vec::new();
        let add = |_: &str, labels: &[String]| capacities.push(labels[0].capacity());
        assert_eq!(read_response(body.as_bytes(), add).unwrap(), 2);
        assert_eq!(capacities[0], capacities[1]);
    }

    #[test]
    fn absent_data_is_an_error_and_null_data_is_empty() {
        assert_eq!(series(r#"{"status":"success","data":null}"#).unwrap(), [""; 0]);
        let error = series(r#"{"status":"success"}"#).unwrap_err();
        assert!(matches!(error, QueryFailure::Decode(_)), "{error}");
    }

    #[test]
    fn page_of_a_proxy_is_reported() {
        let hint = ": it isn't a JSON object, but may be a login page or a page of a proxy";
        for body in ["\n<!DOCTYPE html>", "no healthy upstream", "404 page not found"] {
            let error = series(body).unwrap_err().to_string();
            assert!(error.ends_with(hint), "{error}");
        }
        let error = series(r#"{"status":"success","data":[{]}"#).unwrap_err().to_string();
        assert!(error.contains("line 1 column"), "{error}");
    }

    #[test]
    fn error_of_prometheus_is_reported() {
        let error = series(r#"{"status":"error","errorType":"bad_data","error":"no"}"#);
        assert_eq!(error.unwrap_err().to_string(), "bad_data: no");
    }

    #[test]
    fn incomplete_response_is_an_error() {
        let error = series(r#"{"status":"success","data":[{"__name__":"a"},{"__na"#).unwrap_err();
        assert!(matches!(error, QueryFailure::Decode(_)), "{error}");
    }
}
