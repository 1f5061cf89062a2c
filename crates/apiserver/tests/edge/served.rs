//! What clients ask beside their work: the table of `served`, held to a real kube-apiserver.

use crate::requests::same;
use crate::surface::{ROWS, Row};
use crate::{Sent, embedded, real};

#[tokio::test]
async fn the_table_is_what_kubernetes_answers() {
    let Some(real) = real().await else { return };
    let embedded = embedded().await;
    let mut wrong = Vec::new();
    for row in ROWS {
        let Row { method, path, accept, body, code } = *row;
        let mut headers = vec![("content-type", "application/json".to_owned())];
        if !accept.is_empty() {
            headers.push(("accept", accept.to_owned()));
        }
        let sent = Sent { method, path: path.to_owned(), headers, body: body.to_owned() };
        let theirs = real.ask(&sent).await;
        if theirs.code != code {
            wrong.push(format!("{sent:?}: the table has {code}, they {} {}", theirs.code, theirs.text));
        }
        wrong.extend(same(&sent, &embedded.ask(&sent).await, &theirs).err());
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}
