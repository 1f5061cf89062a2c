//! `Table`: what `kubectl get` prints.
//!
//! A [`Printer`] is made once per version of a resource; it turns objects into rows of cells. Custom resources take
//! their cells from the JSON paths of their columns, built-in ones from `builtin`.

mod builtin;
mod describe;
mod evaluate;
mod jsonpath;

use jiff::Timestamp;
use serde_json::{Value, json};

use evaluate::Work;

pub use evaluate::EvaluateError;
pub use jsonpath::{JsonPath, JsonPathError};

use super::{
    age,
    list::{self, ListMeta},
    partial::{ends_initial_events, partial, shown, text},
};
use crate::{
    request::{accept::MetaVersion, query::Query},
    resource::{Column, MAX_COLUMNS, Resource, Version},
    status::{ApiError, Cause},
};

/// The object that a row carries besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

/// The options of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TableOptions {
    /// The object that rows carry.
    pub include: IncludeObject,
    /// Without columns: all events of a watch but the first.
    pub no_headers: bool,
    /// Of the `Table`.
    pub version: MetaVersion,
}

impl TableOptions {
    /// The options of a request.
    pub fn parse(query: &Query, version: MetaVersion) -> Result<Self, ApiError> {
        let include = match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => IncludeObject::Metadata,
            "None" => IncludeObject::None,
            "Object" => IncludeObject::Object,
            other => {
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                let Cause { message, field, .. } =
                    Cause::invalid("includeObject", &Value::from(other), detail);
                let text = format!("Unable to convert to Table as requested: {field}: {message}");
                return Err(ApiError::BadRequest(text));
            }
        };
        Ok(Self { include, no_headers: false, version })
    }
}

/// Bytes of text in the cells of one row; what is longer is cut. Many columns may show one long text.
const ROW: usize = 256 << 10;

/// The source of cells.
enum Cells {
    /// The name, then one cell per path and type.
    Paths(Vec<(JsonPath, String)>),
    /// The columns of a built-in kind.
    BuiltIn(fn(&Value, Timestamp) -> Vec<Value>),
}

/// Turns objects of one version of a resource into a table.
pub struct Printer {
    columns: Value,
    cells: Cells,
    /// Kinds without columns of their own: Go shows their empty tables without rows.
    null_when_empty: bool,
}

impl Printer {
    /// The printer for a version of a resource.
    pub fn new(resource: &Resource, version: &Version) -> Self {
        if !resource.custom {
            let builtin::BuiltIn { columns, cells } = builtin::find(&resource.group, &resource.plural);
            let null_when_empty = columns.iter().any(|column| column.name == "Created At");
            let columns = columns.iter().map(definition).collect();
            return Self { columns, cells: Cells::BuiltIn(cells), null_when_empty };
        }
        Self::of_columns(&version.columns)
    }

    /// The printer for the name and these columns.
    fn of_columns(given: &[Column]) -> Self {
        let name = describe::ColumnDefinition::new("Name", "string", describe::NAME).format("name");
        let mut columns = vec![definition(&name)];
        let mut paths = Vec::new();
        // Validation refuses more; a definition that was stored before it did has the first of them.
        for column in given.iter().take(MAX_COLUMNS) {
            // Where a path is none, upstream stops: that column and those after it are not shown.
            let Ok(path) = column.json_path.parse() else { break };
            columns.push(custom_definition(column));
            paths.push((path, column.kind.clone()));
        }
        Self { columns: columns.into(), cells: Cells::Paths(paths), null_when_empty: false }
    }

    /// The printer for `/scale`.
    pub fn scale() -> Self {
        let replicas = |name: &str, path: &str, what: &str| Column {
            name: name.to_owned(),
            kind: "integer".to_owned(),
            format: String::new(),
            description: format!("Number of {what} replicas"),
            priority: 0,
            json_path: path.to_owned(),
        };
        let mut columns = vec![
            replicas("Desired", ".spec.replicas", "desired"),
            replicas("Available", ".status.replicas", "actual"),
        ];
        columns.push(Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            description: describe::CREATED.to_owned(),
            json_path: ".metadata.creationTimestamp".to_owned(),
            ..replicas("", "", "")
        });
        Self::of_columns(&columns)
    }

    /// The table of many objects, serialized.
    pub fn list<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        meta: &ListMeta,
        options: TableOptions,
        now: Timestamp,
    ) -> Vec<u8> {
        let mut out = self.head(meta, options);
        for (index, object) in objects.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(self.row(object, options, now).to_string().as_bytes());
        }
        if self.null_when_empty {
            return list::close(out);
        }
        out.extend_from_slice(b"]}\n");
        out
    }

    /// The beginning of a table, up to its rows.
    pub fn head(&self, meta: &ListMeta, options: TableOptions) -> Vec<u8> {
        let columns = if options.no_headers { &Value::Null } else { &self.columns };
        let version = options.version.api_version();
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"{version}\",\"metadata\":{},\"columnDefinitions\":{columns},\"rows\":[",
            meta.to_json()
        );
        head.into_bytes()
    }

    /// The table of one object, serialized.
    pub fn one(&self, object: &Value, options: TableOptions, now: Timestamp) -> Vec<u8> {
        let resource_version = text(object, &["metadata", "resourceVersion"]).to_owned();
        self.list([object], &ListMeta { resource_version, ..ListMeta::default() }, options, now)
    }

    /// One row.
    pub fn row(&self, object: &Value, options: TableOptions, now: Timestamp) -> Value {
        let carried = match options.include {
            IncludeObject::Object => object.clone(),
            IncludeObject::None if !ends_initial_events(object) => Value::Null,
            IncludeObject::None | IncludeObject::Metadata => partial(object, options.version),
        };
        json!({"cells": self.cells(object, now), "object": carried})
    }

    /// The cells of one object, in the order of the columns.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.cells {
            Cells::BuiltIn(cells) => cells(object, now),
            Cells::Paths(paths) => {
                let name = Value::from(text(object, &["metadata", "name"]));
                let (work, mut room) = (Work::default(), ROW);
                let rest = paths.iter().map(|(path, kind)| cell(path, kind, object, now, &work, &mut room));
                std::iter::once(name).chain(rest).collect()
            }
        }
    }
}

fn definition(column: &describe::ColumnDefinition) -> Value {
    let describe::ColumnDefinition { name, kind, format, description, priority } = column;
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

fn custom_definition(column: &Column) -> Value {
    let Column { name, kind, format, description, priority, json_path } = column;
    let description = match description.as_str() {
        "" => format!("Custom resource definition column (in JSONPath format): {json_path}"),
        given => given.to_owned(),
    };
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

/// The first result of a path, as the type of the column wants it; what is of another type is nothing.
fn cell(path: &JsonPath, kind: &str, object: &Value, now: Timestamp, work: &Work, room: &mut usize) -> Value {
    if *room == 0 {
        return Value::Null;
    }
    let Some(found) = path.first_within(object, work) else { return Value::Null };
    match (kind, found) {
        ("string", value) => {
            let mut text = shown(value);
            text.truncate(text.floor_char_boundary(*room));
            *room -= text.len();
            text.into()
        }
        ("integer", Value::Number(number)) => number.as_i64().or_else(|| truncated(number.as_f64()?)).into(),
        ("number", value @ Value::Number(_)) | ("boolean", value @ Value::Bool(_)) => value.clone(),
        ("date", Value::String(then)) => age::since_text(then, now).into(),
        _ => Value::Null,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a column of integers shows the whole part")]
fn truncated(value: f64) -> Option<i64> {
    value.is_finite().then_some(value as i64)
}
