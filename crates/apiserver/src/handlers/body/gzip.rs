//! Compression of large responses for clients that accept gzip.
//!
//! Watches are never compressed: their events must not wait for more.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, Response, header};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt as _;

use super::{Body, FRAME_BYTES};
use crate::request::accept;
use crate::secure_serving::Finite;

/// As in kube-apiserver: most of what gzip saves, at a fraction of the time.
const GZIP_LEVEL: u32 = 1;

/// Compresses a response where that pays and the client accepts it. Megabytes take a while: they are compressed frame by
/// frame as the client reads, so that a worker serves other requests in between.
pub(in crate::handlers) fn compressed(
    response: Response<Body>,
    accept_encoding: Option<&str>,
) -> Response<Body> {
    // A body without a known length is a large response, or a watch.
    let is_large = response.extensions().get::<Finite>().is_some();
    let length = response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let length = if is_large { Some(length.unwrap_or(usize::MAX)) } else { length };
    if !length.is_some_and(|length| accept::gzip(accept_encoding, length)) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    head.extensions.insert(Finite);
    Response::from_parts(head, GzipBody::new(body).boxed_unsync())
}

/// A body that is compressed while the client reads it.
struct GzipBody {
    body: Body,
    /// Bytes that are read and not yet compressed.
    plain: Bytes,
    /// Created for the first byte and dropped after the last.
    encoder: Option<GzEncoder<Vec<u8>>>,
    ended: bool,
}

impl GzipBody {
    fn new(body: Body) -> Self {
        Self { body, plain: Bytes::new(), encoder: None, ended: false }
    }

    /// Compresses the next bytes, at most a frame, and returns the output so far.
    fn compress(&mut self) -> Vec<u8> {
        let encoder =
            self.encoder.get_or_insert_with(|| GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL)));
        let part = self.plain.split_to(self.plain.len().min(FRAME_BYTES));
        encoder.write_all(&part).expect("memory takes every write");
        std::mem::take(encoder.get_mut())
    }

    fn finish(&mut self) -> Vec<u8> {
        self.ended = true;
        let encoder = self.encoder.take();
        encoder.map(|encoder| encoder.finish().expect("memory takes every write")).unwrap_or_default()
    }
}

impl http_body::Body for GzipBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        while !this.ended {
            let packed = if this.plain.is_empty() {
                match http_body::Body::poll_frame(Pin::new(&mut this.body), cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(frame))) => {
                        this.plain = frame.into_data().unwrap_or_default();
                        continue;
                    }
                    Poll::Ready(Some(Err(never))) => match never {},
                    Poll::Ready(None) => this.finish(),
                }
            } else {
                this.compress()
            };
            if !packed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(packed.into()))));
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::handlers::body::whole;

    async fn response(length: usize, accept: Option<&str>) -> Response<Bytes> {
        let plain = Response::new(whole(vec![b'x'; length]));
        let (head, body) = compressed(plain, accept).into_parts();
        Response::from_parts(head, body.collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn large_responses_are_compressed_for_clients_that_accept_gzip() {
        let large = accept::GZIP_THRESHOLD + 1;
        for (length, accept) in [(large - 1, Some("gzip")), (large, None), (large, Some("br, identity"))] {
            let response = response(length, accept).await;
            assert_eq!(response.headers().len(), 0);
            assert_eq!(response.body().len(), length);
        }
        let response = response(large, Some("deflate, gzip")).await;
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(response.headers()[header::VARY], "Accept-Encoding");
        assert!(response.body().len() < large / 10);
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&response.body()[..]).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, vec![b'x'; large]);
    }

    #[tokio::test]
    async fn watches_are_not() {
        let frames = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let watch = Response::new(http_body_util::StreamBody::new(frames).boxed_unsync());
        let response = compressed(watch, Some("gzip"));
        assert_eq!(response.headers().get(header::CONTENT_ENCODING), None);
    }
}
