//! Metrics of `capt controller`, in Prometheus' text format.

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use capt_controllers::runtime::metrics::Metrics;
use capt_terraform::Engine;
use capt_terraform::metrics::{BUCKETS, Snapshot};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Longest request that is read: a scrape has a few headers.
const LONGEST_REQUEST: usize = 8192;

/// Serves until the process ends; gives the address it is bound to.
pub async fn serve(address: SocketAddr, controllers: Arc<Metrics>, engine: Engine) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            // An error here is one connection's, or a lack of descriptors that passes.
            let Ok((stream, _)) = listener.accept().await else { continue };
            let text = controllers.text() + &engine_text(&engine.metrics());
            tokio::spawn(answer(stream, text));
        }
    });
    Ok(bound)
}

async fn answer(mut stream: TcpStream, metrics: String) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 1024];
        let read = tokio::time::timeout(std::time::Duration::from_secs(5), stream.read(&mut part)).await??;
        if read == 0 || request.len() > LONGEST_REQUEST {
            return Ok(());
        }
        request.extend_from_slice(&part[..read]);
    }
    let (code, body) = match request.split(|byte| *byte == b' ').nth(1) {
        Some(b"/metrics") => ("200 OK", metrics),
        Some(b"/livez" | b"/readyz") => ("200 OK", "ok".to_owned()),
        _ => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await
}

/// Metrics of the engine.
fn engine_text(engine: &Snapshot) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_engine(&mut text, engine);
    text
}

fn write_engine(text: &mut String, engine: &Snapshot) -> std::fmt::Result {
    writeln!(text, "# HELP capt_runs_queued Runs that wait for their turn.\n# TYPE capt_runs_queued gauge")?;
    writeln!(text, "capt_runs_queued {}", engine.queued)?;
    writeln!(text, "# HELP capt_runs_active Runs under way.\n# TYPE capt_runs_active gauge")?;
    writeln!(text, "capt_runs_active {}", engine.running)?;
    writeln!(
        text,
        "# HELP capt_runs_total Runs that ended, by operation and result.\n# TYPE capt_runs_total counter"
    )?;
    for ((operation, result), count) in &engine.runs {
        writeln!(text, "capt_runs_total{{operation=\"{operation}\",result=\"{result}\"}} {count}")?;
    }
    writeln!(
        text,
        "# HELP capt_inits_total Times that modules and providers were fetched.\n# TYPE capt_inits_total counter"
    )?;
    writeln!(text, "capt_inits_total {}", engine.inits)?;
    writeln!(
        text,
        "# HELP capt_run_duration_seconds How long runs took.\n# TYPE capt_run_duration_seconds histogram"
    )?;
    for (operation, histogram) in &engine.durations {
        let mut below = 0;
        for (bound, count) in BUCKETS.iter().zip(histogram.counts) {
            below += count;
            writeln!(
                text,
                "capt_run_duration_seconds_bucket{{operation=\"{operation}\",le=\"{bound}\"}} {below}"
            )?;
        }
        let all: u64 = histogram.counts.iter().sum();
        writeln!(text, "capt_run_duration_seconds_bucket{{operation=\"{operation}\",le=\"+Inf\"}} {all}")?;
        writeln!(text, "capt_run_duration_seconds_sum{{operation=\"{operation}\"}} {}", histogram.sum)?;
        writeln!(text, "capt_run_duration_seconds_count{{operation=\"{operation}\"}} {all}")?;
    }
    Ok(())
}
