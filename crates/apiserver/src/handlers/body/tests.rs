//! Formats of large responses, and the memory that they hold.

use std::convert::Infallible;
use std::sync::Arc;

use http_body::Body as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::list::{empty, opening, yaml_item};
use super::*;
use crate::authn::User;
use crate::handlers::response_budget::ObjectRef;
use crate::store::Object;

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[ -~]{0,12}", "[ -~\\n\\t\u{e9}\u{7f}\u{1F600}]{0,6}", Just("<<".to_owned())];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn list(texts: &'static [&'static str]) -> StreamedList {
    let items = texts.iter().map(|text| [opening(1), Chunk::Bytes(Bytes::from_static(text.as_bytes()))]);
    let length = texts.iter().map(|text| text.len() + 1).sum();
    let head = br#"{"kind":"L","items":["#.to_vec();
    StreamedList { head, items: Box::new(items), count: texts.len(), length: Some(length) }
}

async fn read(body: impl http_body::Body<Data = Bytes, Error = Infallible>) -> String {
    let bytes = body.collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn forms_of_a_list() {
    let texts: &[&str] = &[r#""a":[1,2]}"#, r#""b":"x\ny"}"#];
    let compact = list(texts).compact();
    let length = compact.size_hint().exact().unwrap();
    let compact = read(compact).await;
    assert_eq!(compact, "{\"kind\":\"L\",\"items\":[{\"a\":[1,2]},{\"b\":\"x\\ny\"}]}\n");
    assert_eq!(compact.len() as u64, length);
    let value: Value = serde_json::from_str(&compact).unwrap();
    assert_eq!(read(list(texts).indented()).await, format!("{value:#}"));
    let user = |name: &str| User { name: name.to_owned(), ..User::anonymous() };
    let (ann, ben) = (user("ann of forms"), user("ben of forms"));
    let yaml = list(texts).yaml(&ann).unwrap();
    assert!(list(texts).yaml(&ann).is_err(), "one at a time");
    assert!(list(texts).yaml(&ben).is_ok() && list(texts).yaml(&User::admin()).is_ok(), "of each");
    assert_eq!(read(yaml).await, serde_saphyr::to_string(&value).unwrap());
    assert!(list(texts).yaml(&ann).is_ok());
    let gone = [empty(), Chunk::Stored(ObjectRef::missing(), 0)];
    let whole = list(texts);
    let cut = StreamedList { items: Box::new(whole.items.chain([gone])), ..whole }.yaml(&ann).unwrap();
    let cut = read(cut).await;
    assert!(cut.contains("a:") && serde_saphyr::from_str::<Value>(&cut).is_err(), "{cut}");
}

proptest! {
    #[test]
    fn every_form_is_that_of_the_whole(items in prop::collection::vec(any_json(), 1..4)) {
        let items: Vec<Value> = items.into_iter().map(|value| json!({"a": value, "b": "\\\"{[,:"})).collect();
        let whole = json!({"kind": "L", "items": items});
        let text = whole.to_string();
        let chunks = ChunkedBody::new(text.as_bytes().chunks(7).map(|part| Chunk::Bytes(Bytes::copy_from_slice(part))).collect::<Vec<_>>().into_iter(), None);
        let mut indented = IndentedBody::new(chunks);
        let mut shown = Vec::new();
        while let Some(frame) = indented.frame() {
            shown.extend_from_slice(&frame);
        }
        prop_assert_eq!(String::from_utf8(shown).unwrap(), format!("{whole:#}"));
        let yaml: String = items.iter().map(|item| String::from_utf8(yaml_item(item).to_vec()).unwrap()).collect();
        prop_assert_eq!(format!("kind: L\nitems:\n{yaml}"), serde_saphyr::to_string(&whole).unwrap());
    }
}

#[test]
fn frames_are_small_and_made_when_they_are_asked_for() {
    let made = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let chunks = (0..1_000).map(move |_| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Chunk::Bytes(vec![b'x'; 10_000].into())
    });
    let mut body = ChunkedBody::new(chunks.chain([Chunk::Bytes(vec![b'y'; 1 << 20].into())]), None);
    assert!(body.frame().is_some());
    assert!(made.load(std::sync::atomic::Ordering::Relaxed) <= 4, "no more is made than a frame takes");
    let mut bytes = 0;
    while let Some(frame) = body.frame() {
        assert!(frame.len() <= FRAME_BYTES);
        bytes += frame.len();
    }
    assert!(bytes > (1 << 20) + 9_900_000);
}

#[test]
fn indents_take_no_memory() {
    let deep = format!("{}{}1{}", "[".repeat(100), "1,".repeat(100_000), "]".repeat(100));
    let mut body =
        IndentedBody::new(ChunkedBody::with_length([Chunk::Bytes(deep.clone().into())], deep.len()));
    let mut bytes = 0;
    while let Some(frame) = body.frame() {
        assert!(frame.len() < FRAME_BYTES + 300, "a line more, at most");
        bytes += frame.len();
    }
    assert!(bytes > 100 * deep.len(), "{bytes}");
}

#[test]
fn no_frame_keeps_an_object_and_what_is_gone_ends_a_body() {
    let value = crate::store::Value::plain(vec![b'x'; 100_000]);
    let key = crate::store::Key::new("things", "", "a");
    let revision = crate::store::Revision::new(1);
    let object = Object::new(key, value, revision, revision);
    let chunks = [Chunk::Stored(ObjectRef::stored(&object), 1), Chunk::Bytes(Bytes::from_static(b"\n"))];
    let mut body = ChunkedBody::with_length(chunks, 100_000);
    let frame = body.frame().unwrap();
    assert_eq!((frame.len(), body.size_hint().exact()), (FRAME_BYTES, Some((100_000 - FRAME_BYTES) as u64)));
    assert!(object.bytes().is_unique());
    drop(object);
    assert_eq!(body.frame(), None);
    assert!(body.is_cut() && !body.is_end_stream());
}
