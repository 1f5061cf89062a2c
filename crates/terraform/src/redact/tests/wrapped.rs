//! Encoded secrets in texts that programs wrap: a log is cleaned line by line.

use std::collections::HashSet;

use super::*;

/// As `base64 -w` and `xxd -p` print it, cleaned as a log is; a width of 0 is one line.
fn cleaned_lines(redactor: &Redactor, encoded: &str, width: usize) -> Vec<String> {
    let width = if width == 0 { encoded.len().max(1) } else { width };
    let lines = encoded.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).expect("ASCII"));
    lines.map(|line| redactor.clean(line).into_owned()).collect()
}

/// Undoes base64 and base64url from every letter on that a byte can begin at.
fn decoded(line: &str) -> Vec<Vec<u8>> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let line = line.replace('-', "+").replace('_', "/");
    let runs = line.split(|letter| !LETTERS.contains(letter));
    let shifted = runs.flat_map(|run| (0..4).filter_map(move |skipped| run.get(skipped..)));
    shifted
        .map(|run| {
            let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
            for letter in run.chars() {
                let value = LETTERS.find(letter).and_then(|at| u32::try_from(at).ok()).expect("a letter");
                bits = bits << 6 | value;
                held += 6;
                if held >= 8 {
                    held -= 8;
                    bytes.push(u8::try_from(bits >> held & 255).expect("eight bits"));
                }
            }
            bytes
        })
        .collect()
}

/// The first bytes of a secret, as many in a row, that can be read back from lines.
fn readable(lines: &[String], secret: &str, row: usize) -> Option<String> {
    let rows: HashSet<&[u8]> = secret.as_bytes().windows(row).collect();
    let texts = lines.iter().flat_map(|line| decoded(line));
    let found =
        texts.filter_map(|text| text.windows(row).find(|bytes| rows.contains(bytes)).map(<[u8]>::to_vec));
    found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).next()
}

/// Letters that repeat at no distance that a width or a piece has.
fn varied(length: usize) -> String {
    let mut state = 7_u32;
    let letters = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + u8::try_from((state >> 16) % 90).expect("below 90"))
    });
    letters.take(length).collect()
}

#[test]
fn long_secrets_are_hidden_in_each_line() {
    let secret = varied(40_000);
    let redactor = Redactor::new([secret.clone()]);
    let encoded = STANDARD.encode(&secret);
    for width in [60, 64, 70, 76] {
        let lines = cleaned_lines(&redactor, &encoded, width);
        assert_eq!(readable(&lines, &secret, 12), None, "{width}");
    }
    let lines = cleaned_lines(&redactor, &forms::hex(&secret), 60);
    let left: usize = lines.iter().map(|line| line.replace(MASK, "").len()).sum();
    assert!(left < 30, "{left} digits are left");
}

/// Outputs are judged by the lines of the whole secret.
#[test]
fn lines_of_a_long_secret_are_found() {
    let secret = varied(40_000);
    let redactor = Redactor::new([secret.clone()]);
    let (base64, hex) = (STANDARD.encode(&secret), forms::hex(&secret));
    for (text, width) in [(&base64, 76), (&base64, 64), (&hex, 60)] {
        for (n, line) in text.as_bytes().chunks(width).enumerate().filter(|(_, line)| line.len() == width) {
            assert!(redactor.finds(&String::from_utf8_lossy(line)), "line {n} of {width}");
        }
    }
    // Lines of the secret that are longer than what is looked for at once.
    for (length, at) in [(40_000, 20_000), (60_000, 1_000)] {
        let secret = varied(length);
        let (first, second) = secret.split_at(at);
        let redactor = Redactor::new([format!("{first}\n{second}")]);
        for text in [second.to_owned(), STANDARD.encode(second), STANDARD.encode(format!("x{second}"))] {
            let clean = redactor.clean(&text).into_owned();
            assert!(clean.replace(MASK, "").len() < 8, "{clean:?}");
        }
    }
}

/// A line break in the middle of a secret leaves no more of it than a secret of 8 bytes has, on each side.
#[test]
fn a_line_break_shows_no_half_of_a_secret() {
    for length in [18, 32, 50] {
        let secret = varied(length);
        let redactor = Redactor::new([secret.clone()]);
        for before in 0..80 {
            let text = format!("{}{secret}@example.com", "u".repeat(before));
            let lines = cleaned_lines(&redactor, &STANDARD.encode(&text), 76);
            assert_eq!(readable(&lines, &secret, 9), None, "{length} behind {before}: {lines:?}");
            let lines = cleaned_lines(&redactor, &forms::hex(&text), 60);
            for part in secret.as_bytes().windows(9) {
                let part = forms::hex(std::str::from_utf8(part).expect("ASCII"));
                assert!(
                    !lines.iter().any(|line| line.contains(&part)),
                    "{length} behind {before}: {lines:?}"
                );
            }
        }
    }
}

#[test]
fn what_is_common_is_no_part_of_a_secret() {
    let pem = |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
    let key = pem("CERTIFICATE", &varied(60));
    let secret = format!("\n# {}\n{key}{} the end", "-".repeat(70), "\0".repeat(60));
    let redactor = Redactor::new([secret]);
    for text in
        ["A".repeat(76), STANDARD.encode(pem("CERTIFICATE", "of another")), STANDARD.encode("-".repeat(60))]
    {
        assert_eq!(redactor.clean(&text), text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_line_of_base64_shows_a_secret(
        secret in prop_oneof!["[ -~é語\\n]{8,80}", "[ -~]{8,2000}"],
        (before, after) in ("[ -~]{0,100}", "[ -~]{0,100}"),
        url in any::<bool>(),
    ) {
        use base64::engine::general_purpose::URL_SAFE;
        prop_assume!(!trivial(&secret));
        let redactor = Redactor::new([secret.clone()]);
        let text = format!("{before}{secret}{after}");
        let encoded = if url { URL_SAFE.encode(&text) } else { STANDARD.encode(&text) };
        for width in [60, 64, 76, 0] {
            let lines = cleaned_lines(&redactor, &encoded, width);
            prop_assert_eq!(readable(&lines, &secret, 24), None, "{}: {:?}", width, lines);
            for line in &lines {
                prop_assert_eq!(&*redactor.clean(line), line);
            }
        }
    }
}
