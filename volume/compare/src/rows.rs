//! Results as rows of a table: the fields of the JSON, flat. A nested field has the name of its
//! group before it: `response_ms_p50`.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::outcome::{Outcome, Run};
use crate::settings::Cell;

/// Columns, in order, and rows with a value for each column; null where a row has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The values.
    pub rows: Vec<Vec<Value>>,
}

impl Rows {
    /// A table of objects. The columns in `first` lead; all others follow in order of their names.
    pub(crate) fn of(first: &[&str], objects: &[Map<String, Value>]) -> Self {
        let rest: BTreeSet<&str> = objects
            .iter()
            .flat_map(|object| object.keys().map(String::as_str))
            .filter(|key| !first.contains(key))
            .collect();
        let columns: Vec<String> =
            first.iter().copied().chain(rest).map(ToOwned::to_owned).collect();
        let row = |object: &Map<String, Value>| {
            columns.iter().map(|c| object.get(c).cloned().unwrap_or(Value::Null)).collect()
        };
        let rows = objects.iter().map(row).collect();
        Self { columns, rows }
    }
}

/// The fields of a document, flat; lists are left out.
pub(crate) fn flat(document: &impl Serialize) -> Map<String, Value> {
    let mut out = Map::new();
    // Our documents are plain data with text keys: they always become values.
    if let Ok(Value::Object(fields)) = serde_json::to_value(document) {
        flatten("", fields, &mut out);
    }
    out
}

fn flatten(group: &str, fields: Map<String, Value>, out: &mut Map<String, Value>) {
    for (name, value) in fields {
        let name = format!("{group}{name}");
        match value {
            Value::Object(inner) => flatten(&format!("{name}_"), inner, out),
            Value::Array(_) => {}
            value => drop(out.insert(name, value)),
        }
    }
}

/// One row for each cell and policy. Real time is left out: it differs from run to run.
pub fn sweep_rows(cells: &[Cell], outcomes: &[Outcome]) -> Rows {
    let mut objects = Vec::new();
    for (cell, outcome) in cells.iter().zip(outcomes) {
        let settings = cell.settings.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str())));
        for run in &outcome.runs {
            let mut object: Map<String, Value> = settings.clone().collect();
            object.extend(of_run(run));
            objects.push(object);
        }
    }
    let keys = cells.first().map_or(&[][..], |cell| &cell.settings);
    let first: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).chain(["policy"]).collect();
    Rows::of(&first, &objects)
}

fn of_run(run: &Run) -> Map<String, Value> {
    let mut fields = flat(run);
    fields.retain(|name, _| !["wall_s", "requests_per_wall_s"].contains(&name.as_str()));
    fields
}

/// The table as CSV, with titles. Numbers have as many digits as they need to be read back exactly.
pub fn csv(rows: &Rows) -> String {
    let line = |fields: Vec<String>| fields.join(",") + "\n";
    let mut out = line(rows.columns.iter().map(|c| field(c)).collect());
    for row in &rows.rows {
        out += &line(row.iter().map(cell).collect());
    }
    out
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => field(text),
        other => other.to_string(),
    }
}

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_different_fields_share_their_columns() {
        let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let objects = [object(r#"{"a":1,"c":"x,\"y"}"#), object(r#"{"a":2,"b":0.1,"c":null}"#)];
        assert_eq!(csv(&Rows::of(&["c"], &objects)), "c,a,b\n\"x,\"\"y\",1,\n,2,0.1\n");
    }
}
