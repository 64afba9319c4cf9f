//! Streams the names and label names of series.

use std::{fmt, io::Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tokio::io::AsyncRead;
use tokio_util::io::SyncIoBridge;

use crate::client::error::QueryFailure;

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
    let mut response =
        Response { add, series_count: None, names: SeriesNames::default(), error: None };
    let mut deserializer = serde_json::Deserializer::from_reader(body);
    let result = deserializer.deserialize_map(&mut response);
    result.map_err(|error| match error.io_error_kind() {
        Some(_) => QueryFailure::Body(std::sync::Arc::new(error.into())),
        None => QueryFailure::Decode(error.to_string()),
    })?;
    if let Some((error_type, message)) = response.error {
        return Err(QueryFailure::Api { error_type, message });
    }
    response.series_count.ok_or_else(|| QueryFailure::Decode("it has no data".to_owned()))
}

/// The name of a series and the names of its labels. The strings are reused for the next series.
#[derive(Default)]
struct SeriesNames {
    name: String,
    /// Label names. Those from `len` on are left from earlier series.
    texts: Vec<String>,
    len: usize,
}

impl SeriesNames {
    fn clear(&mut self) {
        self.name.clear();
        self.len = 0;
    }

    fn push(&mut self, label: &str) {
        match self.texts.get_mut(self.len) {
            Some(text) => {
                text.clear();
                text.push_str(label);
            }
            None => self.texts.push(label.to_owned()),
        }
        self.len += 1;
    }

    fn labels(&self) -> &[String] {
        self.texts.get(..self.len).unwrap_or_default()
    }
}

struct Response<F> {
    add: F,
    /// `None` before `data` is read.
    series_count: Option<usize>,
    names: SeriesNames,
    error: Option<(String, String)>,
}

impl<'de, F: FnMut(&str, &[String])> Visitor<'de> for &mut Response<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a response of Prometheus")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut is_error, mut error_type, mut message) = (false, String::new(), String::new());
        while let Some(field) = map.next_key::<String>()? {
            match &*field {
                "status" => is_error = map.next_value::<String>()? == "error",
                "errorType" => error_type = map.next_value()?,
                "error" => message = map.next_value()?,
                "data" => map.next_value_seed(Data(self))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        if is_error {
            self.error = Some((error_type, message));
        }
        Ok(())
    }
}

/// The list of series.
struct Data<'r, F>(&'r mut Response<F>);

impl<'de, F: FnMut(&str, &[String])> DeserializeSeed<'de> for Data<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(&str, &[String])> Visitor<'de> for Data<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.0.series_count = Some(0);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut series: A) -> Result<(), A::Error> {
        let Response { add, series_count, names, .. } = self.0;
        let mut count = 0;
        while series.next_element_seed(SeriesLabels(names))?.is_some() {
            add(&names.name, names.labels());
            count += 1;
        }
        *series_count = Some(count);
        Ok(())
    }
}

/// A series: a map from label names to values.
struct SeriesLabels<'l>(&'l mut SeriesNames);

impl<'de> DeserializeSeed<'de> for SeriesLabels<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SeriesLabels<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the labels of a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.clear();
        while let Some(is_name) = map.next_key_seed(LabelName(self.0))? {
            if is_name {
                map.next_value_seed(NameValue(&mut self.0.name))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Adds the name of a label, except for `__name__`. Returns whether it is `__name__`.
struct LabelName<'l>(&'l mut SeriesNames);

impl<'de> DeserializeSeed<'de> for LabelName<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for LabelName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a label")
    }

    fn visit_str<E: serde::de::Error>(self, label: &str) -> Result<bool, E> {
        if label == NAME_LABEL {
            return Ok(true);
        }
        self.0.push(label);
        Ok(false)
    }
}

struct NameValue<'l>(&'l mut String);

impl<'de> DeserializeSeed<'de> for NameValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameValue<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a series")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<(), E> {
        if name.is_empty() {
            return Err(E::custom("a series has an empty name"));
        }
        self.0.push_str(name);
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
    fn absent_data_is_an_error_and_null_data_is_empty() {
        assert_eq!(series(r#"{"status":"success","data":null}"#).unwrap(), [""; 0]);
        let error = series(r#"{"status":"success"}"#).unwrap_err();
        assert!(matches!(error, QueryFailure::Decode(_)), "{error}");
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
