//! The definitions of the OpenAPI v2 document in protobuf (gnostic's `openapi.v2.Document`).
//!
//! client-go asks for nothing else: kubectl validates a `kind: List` by it. It reads the definitions alone, so that
//! paths are left out.

use serde_json::{Map, Value};

/// The media types that clients ask for.
pub const ACCEPT: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// The content type of the response.
pub const CONTENT_TYPE: &str = ACCEPT[1];

/// The document of [`super::document_v2`] in protobuf.
pub fn document(document: &Value) -> Vec<u8> {
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    out.message(2, &info);
    out.message(8, &Message::default());
    out.message(9, &named(document["definitions"].as_object()));
    out.0
}

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).unwrap_or_default());
    }

    fn tag(&mut self, number: u64, form: u64) {
        self.varint(number << 3 | form);
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.tag(number, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, number: u64, message: &Self) {
        self.bytes(number, &message.0);
    }

    fn text(&mut self, number: u64, text: &Value) {
        if let Some(text) = text.as_str() {
            self.bytes(number, text.as_bytes());
        }
    }

    fn flag(&mut self, number: u64, flag: &Value) {
        if flag == true {
            self.tag(number, 0);
            self.varint(1);
        }
    }

    fn integer(&mut self, number: u64, value: &Value) {
        if let Some(value) = value.as_u64() {
            self.tag(number, 0);
            self.varint(value);
        }
    }

    fn double(&mut self, number: u64, value: &Value) {
        if let Some(value) = value.as_f64() {
            self.tag(number, 1);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// `Definitions` and `Properties` alike: a list of names with schemas.
fn named(schemas: Option<&Map<String, Value>>) -> Message {
    let mut out = Message::default();
    for (name, value) in schemas.into_iter().flatten() {
        let mut entry = Message::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, &schema(value));
        out.message(1, &entry);
    }
    out
}

/// JSON is YAML, which is how gnostic keeps any value.
fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.bytes(2, value.to_string().as_bytes());
    out
}

fn schema(schema: &Value) -> Message {
    let mut out = Message::default();
    for (keyword, value) in schema.as_object().into_iter().flatten() {
        match keyword.as_str() {
            "$ref" => out.text(1, value),
            "format" => out.text(2, value),
            "title" => out.text(3, value),
            "description" => out.text(4, value),
            "default" => out.message(5, &any(value)),
            "multipleOf" => out.double(6, value),
            "maximum" => out.double(7, value),
            "exclusiveMaximum" => out.flag(8, value),
            "minimum" => out.double(9, value),
            "exclusiveMinimum" => out.flag(10, value),
            "maxLength" => out.integer(11, value),
            "minLength" => out.integer(12, value),
            "pattern" => out.text(13, value),
            "maxItems" => out.integer(14, value),
            "minItems" => out.integer(15, value),
            "uniqueItems" => out.flag(16, value),
            "maxProperties" => out.integer(17, value),
            "minProperties" => out.integer(18, value),
            "required" => value.as_array().into_iter().flatten().for_each(|name| out.text(19, name)),
            "enum" => value.as_array().into_iter().flatten().for_each(|one| out.message(20, &any(one))),
            "additionalProperties" => out.message(21, &additional(value)),
            "type" => {
                let mut item = Message::default();
                item.text(1, value);
                out.message(22, &item);
            }
            "items" => {
                let mut item = Message::default();
                item.message(1, &self::schema(value));
                out.message(23, &item);
            }
            "allOf" => {
                value.as_array().into_iter().flatten().for_each(|one| out.message(24, &self::schema(one)));
            }
            // To clients, an object with a list of no members is another thing than one without a list.
            "properties" if value.as_object().is_some_and(Map::is_empty) => {}
            "properties" => out.message(25, &named(value.as_object())),
            extension if extension.starts_with("x-") => {
                let mut entry = Message::default();
                entry.bytes(1, extension.as_bytes());
                entry.message(2, &any(value));
                out.message(31, &entry);
            }
            // What version 2 has no field for.
            _ => {}
        }
    }
    out
}

fn additional(value: &Value) -> Message {
    let mut item = Message::default();
    match value {
        Value::Bool(allowed) => {
            item.tag(2, 0);
            item.varint(u64::from(*allowed));
        }
        value => item.message(1, &schema(value)),
    }
    item
}
