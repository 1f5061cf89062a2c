//! Large answers are compressed for clients that take gzip.
//!
//! Watches never are: their events must not wait for more.

use http::{HeaderValue, Response, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;

use super::Body;
use super::pieces::Gzip;
use crate::request::accept;
use crate::secure_serving::Finite;

/// The answer, compressed where that pays and the client takes it. Megabytes take a while: they are compressed piece by
/// piece as the client reads, between which a worker serves others.
pub(super) fn compressed(answer: Response<Body>, accept_encoding: Option<&str>) -> Response<Body> {
    // What has no known length is large, or a watch.
    let is_large = answer.extensions().get::<Finite>().is_some();
    let length = answer.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let length = if is_large { Some(length.unwrap_or(usize::MAX)) } else { length };
    if !length.is_some_and(|length| accept::gzip(accept_encoding, length)) {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    head.extensions.insert(Finite);
    Response::from_parts(head, Gzip::new(body).boxed_unsync())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use bytes::Bytes;

    use super::*;
    use crate::handlers::whole;

    async fn answer(length: usize, accept: Option<&str>) -> Response<Bytes> {
        let plain = Response::new(whole(vec![b'x'; length]));
        let (head, body) = compressed(plain, accept).into_parts();
        Response::from_parts(head, body.collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn large_answers_are_compressed_for_those_who_take_it() {
        let large = accept::GZIP_THRESHOLD + 1;
        for (length, accept) in [(large - 1, Some("gzip")), (large, None), (large, Some("br, identity"))] {
            let answer = answer(length, accept).await;
            assert_eq!(answer.headers().len(), 0);
            assert_eq!(answer.body().len(), length);
        }
        let answer = answer(large, Some("deflate, gzip")).await;
        assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(answer.headers()[header::VARY], "Accept-Encoding");
        assert!(answer.body().len() < large / 10);
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&answer.body()[..]).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, vec![b'x'; large]);
    }

    #[tokio::test]
    async fn watches_are_not() {
        let frames = futures::stream::pending::<Result<http_body::Frame<Bytes>, std::convert::Infallible>>();
        let watch = Response::new(http_body_util::StreamBody::new(frames).boxed_unsync());
        let answer = compressed(watch, Some("gzip"));
        assert_eq!(answer.headers().get(header::CONTENT_ENCODING), None);
    }
}
