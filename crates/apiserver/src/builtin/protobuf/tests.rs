use proptest::prelude::*;

use super::*;

/// One length-delimited field.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("short");
    assert!(length < 0x80);
    [&[number << 3 | 2, length], bytes].concat()
}

fn top(values: &Cell<usize>) -> Level<'_> {
    Level { depth: 0, values }
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC, &field(1, &type_meta), &field(2, raw)].concat()
}

fn secret(raw: &[u8]) -> Result<Value, ProtobufError> {
    decode(&body("v1", "Secret", raw), "", "Secret")
}

#[test]
fn every_number_names_a_field_and_every_field_has_a_number() {
    for (package, name, names) in numbers::all() {
        let definition = definitions::find(package, name).unwrap_or_else(|| panic!("{name}"));
        for known in names.iter().filter(|known| !known.is_empty()) {
            assert!(definition.field(known).is_some(), "{name}.{known}");
        }
        for field in definition.all_fields().filter(|field| !matches!(field.name, "apiVersion" | "kind")) {
            assert!(names.contains(&field.name), "{name}.{}", field.name);
        }
    }
    for resource in super::super::resources().iter().chain(&super::super::virtual_resources()) {
        let (package, definition) = definitions::find_kind(&resource.group, &resource.kind).unwrap();
        assert!(!numbers::names(package, definition.name).is_empty(), "{}", resource.kind);
    }
}

#[test]
fn an_object_is_the_json_of_itself() {
    let metadata = [
        field(1, b"a"),
        field(8, &[]),                                   // creationTimestamp
        field(9, &[0x08, 0x80, 0xa8, 0x95, 0xb8, 0x05]), // deletionTimestamp
        vec![10 << 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], // -1
        field(11, &[field(1, b"l"), field(2, b"x")].concat()),
        field(11, &field(1, b"empty")),
        field(14, b"one"),
        field(14, b"two"),
    ]
    .concat();
    let raw = [
        field(1, &metadata),
        field(2, &[field(1, b"k"), field(2, b"\0v")].concat()),
        field(3, b"Opaque"),
        vec![5 << 3, 1],
        field(9, b"not known"),
        // The parts of a message that is given twice are merged.
        field(1, &field(2, b"g-")),
    ]
    .concat();
    let expected = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true, "data": {"k": "AHY="},
        "metadata": {
            "name": "a", "generateName": "g-", "creationTimestamp": null,
            "deletionTimestamp": "2016-04-06T18:22:56Z", "deletionGracePeriodSeconds": -1,
            "labels": {"l": "x", "empty": ""}, "finalizers": ["one", "two"],
        },
    });
    assert_eq!(secret(&raw), Ok(expected));
}

#[test]
fn what_says_it_is_something_else_is_not_read() {
    let decoded = decode(&body("v1", "ConfigMap", b"\xff\xff"), "", "Secret");
    assert_eq!(decoded, Ok(json!({"apiVersion": "v1", "kind": "ConfigMap"})));
}

#[test]
fn a_schema_may_be_several_things() {
    let schema = |of: &[u8]| {
        let definition = definitions::find(Package::Apiextensions, "JSONSchemaProps").unwrap();
        named(None, Package::Apiextensions, definition, of, top(&Cell::new(0))).unwrap()
    };
    let text = field(5, b"string");
    for (bytes, expected) in [
        (field(24, &field(1, &text)), json!({"items": {"type": "string"}})),
        (field(24, &field(2, &text)), json!({"items": [{"type": "string"}]})),
        (vec![0xf2, 1, 2, 0x08, 1], json!({"additionalProperties": true})),
        (vec![0xf2, 1, 0], json!({"additionalProperties": false})),
        ([&[0xf2, 1, 10, 0x12, 8][..], &text].concat(), json!({"additionalProperties": {"type": "string"}})),
        (field(8, &field(1, b"{\"a\": [1]}")), json!({"default": {"a": [1]}})),
        ([&[9 << 3 | 1][..], &2.0f64.to_le_bytes()].concat(), json!({"maximum": 2})),
    ] {
        let bytes = if bytes[0] == 24 << 3 | 2 { [&[0xc2, 1], &bytes[1..]].concat() } else { bytes };
        assert_eq!(schema(&bytes), expected, "{bytes:?}");
    }
}

#[test]
fn damage_is_named() {
    let object = |error: ObjectError| Err(ProtobufError::Object(error));
    for (bytes, expected) in [
        (&b""[..], Err(ProtobufError::Empty)),
        (b"{}", Err(ProtobufError::Prefix)),
        (b"k8s\0", Err(ProtobufError::NoEnvelope)),
        (b"k8s\0\x0a\x7f", Err(ProtobufError::Envelope(WireError::Short))),
    ] {
        assert_eq!(decode(bytes, "", "Secret"), expected, "{bytes:?}");
    }
    for (raw, expected) in [
        (&[0x0a, 5, 1][..], object(WireError::Short.into())),
        (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], object(WireError::Short.into())),
        (&[0xff; 11], object(WireError::Overflow.into())),
        (&[0, 0], object(ObjectError::Tag { message: "Secret", number: 0, wire: 0 })),
        (&[0x0b, 0], object(ObjectError::Tag { message: "Secret", number: 1, wire: 3 })),
        (&[0x18, 0], object(ObjectError::Form { form: 0, field: "Type".into() })),
        (&[0x2a, 0], object(ObjectError::Form { form: 2, field: "Immutable".into() })),
    ] {
        assert_eq!(secret(raw), expected, "{raw:?}");
    }
}

#[test]
fn nesting_is_bounded() {
    // `not` in `not` in `not`; each level is a tag of two bytes and a length.
    let mut schema = Vec::new();
    for _ in 0..2000 {
        let mut length = schema.len();
        let mut head = vec![0xe2, 1];
        while length >= 0x80 {
            head.push(0x80 | u8::try_from(length & 0x7f).unwrap());
            length >>= 7;
        }
        head.push(u8::try_from(length).unwrap());
        schema = [head, schema].concat();
    }
    let definition = definitions::find(Package::Apiextensions, "JSONSchemaProps").unwrap();
    let values = Cell::new(0);
    assert_eq!(
        named(None, Package::Apiextensions, definition, &schema, top(&values)),
        Err(ObjectError::Depth)
    );
}

/// Two bytes each, in a body of a megabyte; and as JSON in a field that holds JSON.
#[test]
fn values_are_counted_as_those_of_json_are() {
    let long = |number: u8, bytes: &[u8]| {
        let (mut head, mut length) = (vec![number << 3 | 2], bytes.len());
        while length >= 0x80 {
            head.push(0x80 | u8::try_from(length & 0x7f).unwrap());
            length >>= 7;
        }
        head.push(u8::try_from(length).unwrap());
        [head, bytes.to_vec()].concat()
    };
    let owners = |count: usize| field(13, &[]).repeat(count);
    let type_meta = [field(1, b"v1"), field(2, b"Secret")].concat();
    for (count, fits) in [(MAX_VALUES - 10, true), (MAX_VALUES + 1, false)] {
        let secret = long(1, &owners(count));
        let whole = [MAGIC, &field(1, &type_meta), &long(2, &secret)].concat();
        match decode(&whole, "", "Secret") {
            Ok(value) => {
                assert!(fits && value["metadata"]["ownerReferences"].as_array().unwrap().len() == count);
            }
            Err(error) => assert!(!fits && error == ProtobufError::Object(ObjectError::Values), "{error}"),
        }
        let list = format!("[{}0]", "0,".repeat(count - 1));
        let schema = long(8, &long(1, list.as_bytes()));
        let definition = definitions::find(Package::Apiextensions, "JSONSchemaProps").unwrap();
        let values = Cell::new(0);
        let read = named(None, Package::Apiextensions, definition, &schema, top(&values));
        assert_eq!(read.err(), (!fits).then_some(ObjectError::Values));
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
        for resource in super::super::resources() {
            let whole = [MAGIC, &field(2, &bytes[..bytes.len().min(100)])].concat();
            let _ = decode(&whole, &resource.group, &resource.kind);
            let _ = decode(&whole[..cut.min(whole.len())], &resource.group, &resource.kind);
        }
        let _ = decode(&[MAGIC, &bytes].concat(), "", "Secret");
    }
}
