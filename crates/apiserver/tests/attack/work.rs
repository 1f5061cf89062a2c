//! Bodies whose handling could cost the square of what they have, while others want to be served.

use serde_json::{Map, Value, json};

use crate::sized;
use crate::target::{Client, Target};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Four times the input may take this many times the work: linear, with room for what a tick hides. Squares take sixteen.
pub const MOST_OF_FOUR: u64 = 9;
/// Ticks below which a ratio says nothing.
pub const NOTHING: u64 = 40;

/// A config map with as many fields that no config map has.
fn unknown(count: usize) -> Value {
    let mut object = json!({"metadata": {"generateName": "a"}});
    let members = (0..count).map(|n| (format!("unknown{n}"), Value::from(1)));
    object.as_object_mut().unwrap().extend(members);
    object
}

/// Ticks of a request, after one that warms up.
async fn ticks(target: &Target, client: &mut Client, request: (&str, &str, &str), body: &Value) -> u64 {
    let body = body.to_string().into_bytes();
    let begun = target.ticks();
    let (code, answer) = client.ask(request.0, request.1, request.2, body).await;
    assert!(code < 300 || code == 422, "{code}: {}", answer["message"]);
    target.ticks() - begun
}

async fn is_linear(
    target: &Target,
    client: &mut Client,
    request: (&str, &str, &str),
    body: impl Fn(usize) -> Value,
) {
    let many = sized(40_000, 80_000);
    let one = ticks(target, client, request, &body(many / 4)).await;
    let four = ticks(target, client, request, &body(many)).await;
    assert!(
        four <= MOST_OF_FOUR * one.max(NOTHING / 4),
        "{request:?}: {one} ticks, and {four} for four times as much"
    );
}

#[tokio::test]
async fn unknown_fields_are_told_in_bounds_while_others_are_served() {
    let target = Target::start();
    let (mut client, mut other) = (target.client().await, target.client().await);
    let create = ("POST", MAPS, "application/json");
    is_linear(&target, &mut client, create, unknown).await;
    let body = unknown(sized(40_000, 100_000)).to_string().into_bytes();
    let told = async {
        let answer = client.send("POST", MAPS, "application/json", body).await;
        assert_eq!(answer.status().as_u16(), 201);
        answer.headers().get_all("warning").iter().map(http::HeaderValue::len).collect::<Vec<_>>()
    };
    let served = async {
        for _ in 0..20 {
            assert_eq!(other.get("/api/v1/namespaces/default").await.0, 200);
        }
    };
    let (told, ()) = tokio::join!(told, served);
    assert!(!told.is_empty() && told.len() <= 100 && told.iter().sum::<usize>() < 16 << 10, "{told:?}");
}

#[tokio::test]
async fn no_patch_looks_at_every_item_for_every_item() {
    let target = Target::start();
    let mut client = target.client().await;
    let names = |count: usize| (0..count).map(move |n| format!("example.com/f{}", (n * 7919) % count));
    let annotations = |count: usize| -> Map<String, Value> {
        (0..count).map(|n| (format!("k{}", count - n), "v".into())).collect()
    };
    let object = json!({"metadata": {"name": "victim"}});
    assert_eq!(client.create(MAPS, &object).await.0, 201);
    let one = format!("{MAPS}/victim");
    let apply = format!("{one}?fieldManager=m&force=true");
    for (path, kind) in [
        (&one, "application/merge-patch+json"),
        (&one, "application/strategic-merge-patch+json"),
        (&apply, "application/apply-patch+yaml"),
    ] {
        let body = |count: usize| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": annotations(count / 4),
                "metadata": {"name": "victim", "finalizers": names(count / 8).collect::<Vec<_>>()}})
        };
        is_linear(&target, &mut client, ("PATCH", path, kind), body).await;
        let nothing = |count: usize| {
            let gone: Map<String, Value> = (0..count / 4).map(|n| (format!("k{n}"), Value::Null)).collect();
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "victim"}, "data": gone})
        };
        if !kind.contains("apply") {
            is_linear(&target, &mut client, ("PATCH", path, kind), nothing).await;
        }
    }
}
