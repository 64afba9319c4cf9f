//! Annotated CSV, the format of results.

use csv::{ReaderBuilder, StringRecord};

const COLUMN: &str = "metricvalue";

/// A table's columns.
#[derive(Default)]
struct Table {
    types: StringRecord,
    defaults: StringRecord,
    header: Option<StringRecord>,
}

/// The value of the first row in the column `metricvalue`.
pub(super) fn metric_value(bytes: &[u8]) -> Result<f64, &'static str> {
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut table = Table::default();
    for record in reader.records() {
        let record = record.map_err(|_| "it is not CSV")?;
        let annotation = record.get(0).unwrap_or_default();
        if annotation.starts_with('#') {
            // Annotations begin a table.
            if table.header.is_some() {
                table = Table::default();
            }
            match annotation {
                "#datatype" => table.types = record,
                "#default" => table.defaults = record,
                _ => {}
            }
        } else if table.header.is_none() {
            table.header = Some(record);
        } else {
            return table.value(&record);
        }
    }
    Err("empty result returned")
}

impl Table {
    fn value(&self, row: &StringRecord) -> Result<f64, &'static str> {
        let header = self.header.iter().flatten();
        let mut names = header.enumerate();
        let Some((index, name)) = names.find(|(_, name)| matches!(*name, COLUMN | "error")) else {
            return Err("the result has no column metricvalue");
        };
        if name == "error" {
            return Err("the query failed while it was evaluated");
        }
        let cell = row.get(index).filter(|cell| !cell.is_empty());
        let cell = cell.or_else(|| self.defaults.get(index)).unwrap_or_default();
        match self.types.get(index).unwrap_or_default() {
            "double" | "long" | "unsignedLong" => {}
            _ => return Err("the column metricvalue is not a number"),
        }
        if cell.is_empty() {
            return Err("the column metricvalue is null");
        }
        cell.parse().map_err(|_| "the column metricvalue is not a number")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const HEAD: &str = "#datatype,string,long,double\r\n#group,false,false,false\r\n\
                        #default,_result,,\r\n,result,table,metricvalue\r\n";

    #[rstest]
    #[case::float(",,0,2.5\r\n,,0,9\r\n", Ok(2.5))]
    #[case::not_a_number(",,0,x\r\n", Err("the column metricvalue is not a number"))]
    #[case::null(",,0,\r\n", Err("the column metricvalue is null"))]
    #[case::short_row(",,0\r\n", Err("the column metricvalue is null"))]
    #[case::no_row("\r\n", Err("empty result returned"))]
    fn first_row_counts(#[case] rows: &str, #[case] expected: Result<f64, &'static str>) {
        assert_eq!(metric_value(format!("{HEAD}{rows}").as_bytes()), expected);
    }

    #[rstest]
    #[case::long("#datatype,string,long\n#default,_result,\n,result,metricvalue\n,,7\n", Ok(7.0))]
    #[case::default(
        "#datatype,string,long\n#default,_result,4\n,result,metricvalue\n,,\n",
        Ok(4.0)
    )]
    #[case::quoted(
        "#datatype,string,string,double\n#default,,,\n,note,x,metricvalue\n\
         ,\"a,\n\"\"b\"\"\",y,3\n",
        Ok(3.0)
    )]
    #[case::text(
        "#datatype,string,string\n#default,,\n,result,metricvalue\n,,7\n",
        Err("the column metricvalue is not a number")
    )]
    #[case::other_column(
        "#datatype,string,double\n#default,,\n,result,_value\n,,7\n",
        Err("the result has no column metricvalue")
    )]
    #[case::error(
        "#datatype,string,string\n#default,,\n,error,reference\n,secret,897\n",
        Err("the query failed while it was evaluated")
    )]
    #[case::nothing("", Err("empty result returned"))]
    #[case::html("<html>\n<body>\n", Err("the result has no column metricvalue"))]
    fn tables_are_decoded(#[case] csv: &str, #[case] expected: Result<f64, &'static str>) {
        assert_eq!(metric_value(csv.as_bytes()), expected);
    }

    #[test]
    fn row_of_a_later_table_counts_if_the_first_is_empty() {
        let table = "#datatype,string,long\n#group,false,false\n#default,,\n,result,metricvalue\n";
        assert_eq!(metric_value(format!("{table}\n{table},,5\n").as_bytes()), Ok(5.0));
    }
}
