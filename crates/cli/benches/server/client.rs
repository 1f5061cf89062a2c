//! One HTTP/1.1 connection over TLS that costs the machine as little as it can.
//!
//! Client and server share the cores, so what the client spends the server lacks: a request is one write of bytes, an
//! answer is read into one buffer, and only its status, length and end are looked at here.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, pki_types::ServerName},
};

/// Room for one read; a TLS record has at most 16 KiB.
const READ: usize = 64 << 10;

/// A request, ready to be sent.
pub fn request(method: &str, path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let typed = if body.is_empty() { String::new() } else { format!("Content-Type: {content_type}\r\n") };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nUser-Agent: bench/1\r\n\
         {typed}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A connection. One request at a time.
pub struct Client {
    stream: TlsStream<TcpStream>,
    /// Bytes read and not yet taken.
    buffer: Vec<u8>,
    /// The body of the last answer.
    pub body: Vec<u8>,
}

/// How the end of a body is found.
enum Length {
    Known(usize),
    Chunked,
}

impl Client {
    pub async fn connect(address: SocketAddr, tls: Arc<ClientConfig>) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(address.ip());
        let stream = TlsConnector::from(tls).connect(name, stream).await?;
        Ok(Self { stream, buffer: Vec::new(), body: Vec::new() })
    }

    /// Sends a request and reads the whole answer into `body`. Returns the status.
    pub async fn send(&mut self, request: &[u8]) -> io::Result<u16> {
        self.write(request).await?;
        let (status, length) = self.head().await?;
        self.body.clear();
        match length {
            Length::Known(length) => self.take(length).await?,
            Length::Chunked => while self.chunk().await? {},
        }
        Ok(status)
    }

    /// Sends a request whose answer is a stream; [`Client::line`] reads it.
    pub async fn open_stream(&mut self, request: &[u8]) -> io::Result<u16> {
        self.write(request).await?;
        let (status, length) = self.head().await?;
        self.body.clear();
        assert!(matches!(length, Length::Chunked), "a watch has no length");
        Ok(status)
    }

    /// The next line of a stream.
    pub async fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.body[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.body.split_off(searched + end + 1);
                return Ok(std::mem::replace(&mut self.body, rest));
            }
            searched = self.body.len();
            if !self.chunk().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn write(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.stream.flush().await
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.buffer.reserve(READ);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn head(&mut self) -> io::Result<(u16, Length)> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            self.fill().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]);
        let status = head.get(9..12).and_then(|code| code.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        let known = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok()).flatten()
        });
        let length = known.map_or(Length::Chunked, Length::Known);
        self.buffer.drain(..end + 4);
        Ok((status, length))
    }

    /// Moves `length` bytes to the body.
    async fn take(&mut self, length: usize) -> io::Result<()> {
        let mut left = length;
        loop {
            let part = left.min(self.buffer.len());
            self.body.extend_from_slice(&self.buffer[..part]);
            self.buffer.drain(..part);
            left -= part;
            if left == 0 {
                return Ok(());
            }
            self.fill().await?;
        }
    }

    /// Moves one chunk to the body; `false` at the last.
    async fn chunk(&mut self) -> io::Result<bool> {
        let end = loop {
            if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                break end;
            }
            self.fill().await?;
        };
        let size = std::str::from_utf8(&self.buffer[..end]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let size = size.ok_or(io::ErrorKind::InvalidData)?;
        self.buffer.drain(..end + 2);
        self.take(size).await?;
        while self.buffer.len() < 2 {
            self.fill().await?;
        }
        self.buffer.drain(..2);
        Ok(size > 0)
    }
}
