mod wrapped;

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;

use super::*;

fn clean(secrets: &[&str], text: &str) -> String {
    Redactor::new(secrets.iter().map(|&secret| secret.to_owned())).clean(text).into_owned()
}

/// A state or a file may hold large values, and they may come first.
#[test]
fn short_secrets_are_found_beside_large_ones() {
    let mut large = String::new();
    for n in 0..90_000_u32 {
        write!(large, "{:05x}", n.wrapping_mul(2_654_435_761) >> 12).expect("a string takes all");
    }
    let token = "ghp_Zm9vYmFyMDEyMzQ1Njc4";
    let redactor = Redactor::new([large.as_str(), token]);
    let header = format!("Basic {}", STANDARD.encode(format!("user:{token}")));
    assert!(redactor.finds(&header));
    let mut hex = String::new();
    for byte in token.bytes() {
        write!(hex, "{byte:02x}").expect("a string takes all");
    }
    for text in [header, STANDARD.encode(token), hex] {
        let shown = redactor.clean(&text).into_owned();
        assert!(shown.contains(MASK) && !shown.contains(&text), "{shown}");
    }
}

#[test]
fn secrets_in_every_dress() {
    let rows: &[(&[&str], &str, &str)] = &[
        (&["hunter2"], "password is hunter2.", "password is (sensitive)."),
        (&["hunter2", "hunter2-long"], "hunter2-long hunter2", "(sensitive) (sensitive)"),
        (&["abcd", "cdefgh"], "abcdefgh", "(sensitive)"),
        (&["hunter2\n"], "hunter2", "(sensitive)"),
        (&["pa\"ss\\w"], r#"{"p":"pa\"ss\\w"}"#, r#"{"p":"(sensitive)"}"#),
        (&["a<b>&c"], r#""a\u003cb\u003e\u0026c""#, r#""(sensitive)""#),
        (&["x${y}"], r#"v = "x$${y}""#, r#"v = "(sensitive)""#),
        (&["hunter2"], "aHVudGVyMg==", "(sensitive)=="),
        (&["??>>secret"], "Pz8-PnNlY3JldA", "(sensitive)"),
        (&["first line\nsecond line\nx"], "a first line b", "a (sensitive) b"),
        (&["first line\nsecond line"], r#""first line\nsecond line""#, r#""(sensitive)""#),
        (&["日本語の秘密"], "「日本語の秘密」", "「(sensitive)」"),
        (
            &["-----BEGIN KEY-----\nabcdefgh\n-----END KEY-----"],
            "-----BEGIN KEY----- abcdefgh",
            "-----BEGIN KEY----- (sensitive)",
        ),
        // What is left alone.
        (
            &["ab", "true", "FALSE", "null", "12", "-999.5", "", "   \n", "sensitive"],
            "ab true null 12 sensitive",
            "ab true null 12 sensitive",
        ),
        (&["1000"], "port 1000", "port (sensitive)"),
        (&[], "nothing to hide", "nothing to hide"),
        // What a mask and its neighbours spell.
        (&["hunter2", "x(sensitive)y"], "xhunter2y", "(sensitive)"),
        (&["hunter2", "ve)foo"], "hunter2foo", "(sensitive)"),
    ];
    for (secrets, text, expected) in rows {
        assert_eq!(clean(secrets, text), *expected, "{secrets:?} in {text:?}");
    }
}

#[test]
fn a_text_without_secrets_is_not_copied() {
    let redactor = Redactor::new(["hunter2".to_owned()]);
    assert!(matches!(redactor.clean("nothing here"), Cow::Borrowed(_)));
}

#[test]
fn debug_shows_no_secret() {
    assert!(!format!("{:?}", Redactor::new(["hunter2".to_owned()])).contains("hunter2"));
}

#[test]
fn long_texts_and_many_secrets() {
    let redactor = Redactor::new((0..2_000).map(|n| format!("secret-number-{n}-")));
    let text = "a line with secret-number-77- in it\n".repeat(100_000);
    assert!(!redactor.clean(&text).contains("secret-number"));
    // Every spot of this one matches, and all of it is one cut.
    assert_eq!(Redactor::new(["aaaa".to_owned()]).clean(&"a".repeat(1_000_000)), MASK);
}

/// A secret that is made for it is spelt anew by each mask and the letter after it.
#[test]
fn rounds_are_bounded() {
    let redactor = Redactor::new(["hunter2".to_owned(), "ve)x".to_owned()]);
    assert_eq!(redactor.clean(&format!("hunter2{} rest", "x".repeat(5))), "(sensitive) rest");
    assert_eq!(redactor.clean(&format!("hunter2{} rest", "x".repeat(1_000_000))), MASK);
}

/// Of a long secret each piece is one, whatever it is made of and wherever it is.
#[test]
fn long_secrets_take_work_by_their_length() {
    let odd = ["[", "a\n", "%", "\u{1}", "é", "=", "\\", "0"];
    for unit in odd {
        let secret = unit.repeat(100_000 / unit.len());
        let redactor = Redactor::new([secret.clone()]);
        for text in [secret.clone(), serde_json::to_string(&secret).expect("JSON"), STANDARD.encode(&secret)]
        {
            let text = format!("before {text} {text} after");
            let clean = redactor.clean(&text);
            assert!(trivial(&secret) || clean.len() < 1_000, "{unit:?}: {} bytes are left", clean.len());
        }
    }
    let mixed: String = (0..40_000).flat_map(|n| [format!("{n:x}"), "-".to_owned()]).collect();
    let redactor = Redactor::new([mixed.clone()]);
    for text in [mixed.clone(), STANDARD.encode(&mixed), STANDARD.encode(format!("x{mixed}"))] {
        let clean = redactor.clean(&text).into_owned();
        assert!(clean.replace(MASK, "").len() < 8, "{clean:?}");
    }
}

proptest! {
    /// Over a small alphabet, so that secrets overlap, nest and spell masks.
    #[test]
    fn a_cleaned_text_holds_no_secret(
        secrets in proptest::collection::vec("[ab(sve)]{3,8}", 0..6),
        pieces in proptest::collection::vec("[ab(sve)i]{0,6}|\\(sensitive\\)", 0..12),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut text = pieces.concat();
        for pick in picks {
            if !secrets.is_empty() {
                text.push_str(&secrets[pick.index(secrets.len())]);
                text.push_str(pieces.get(pick.index(12)).map_or("", String::as_str));
            }
        }
        let redactor = Redactor::new(secrets.clone());
        let once = redactor.clean(&text).into_owned();
        for secret in secrets.iter().filter(|secret| !trivial(secret)) {
            prop_assert!(!once.contains(secret.as_str()), "{secret:?} in {once:?}");
        }
        prop_assert_eq!(&*redactor.clean(&once), &once);
    }

    #[test]
    fn any_secret_in_any_text(secret in "\\PC{3,30}", before in "\\PC{0,20}", after in "\\PC{0,20}") {
        let redactor = Redactor::new([secret.clone()]);
        let quoted = serde_json::to_string(&secret).expect("JSON");
        for form in [&secret, &quoted] {
            let clean = redactor.clean(&format!("{before}{form}{after}")).into_owned();
            prop_assert!(trivial(&secret) || !clean.contains(&secret), "{secret:?} in {clean:?}");
            prop_assert_eq!(&*redactor.clean(&clean), &clean);
        }
    }

    /// Whatever is done to a secret of enough length, in whatever stands around it.
    #[test]
    fn no_encoding_of_a_secret_is_left(
        secret in "[ -~é語\\n]{10,24}",
        (before, after) in ("[a-z:/ ]{0,7}", "[a-z@/ ]{0,7}"),
        way in 0..WAYS,
    ) {
        prop_assume!(secret.trim().len() >= 8 && !trivial(&secret));
        let redactor = Redactor::new([secret.clone()]);
        let encoded = encode(way, &secret, &before, &after);
        prop_assert!(redactor.finds(&encoded), "{way}: {secret:?} in {encoded:?}");
        let clean = redactor.clean(&format!("{before}{encoded}{after}")).into_owned();
        prop_assert!(!clean.contains(&encoded), "{way}: {encoded:?} in {clean:?}");
        prop_assert!(!clean.contains(&secret), "{way}: {secret:?} in {clean:?}");
        prop_assert_eq!(&*redactor.clean(&clean), &clean);
    }
}

const WAYS: usize = 14;

/// A secret in one of many dresses; some take in what stands around it.
fn encode(way: usize, secret: &str, before: &str, after: &str) -> String {
    use base64::{Engine as _, prelude::*};
    let percent = |keep: &str, upper: bool| -> String {
        let hex = |byte: u8| if upper { format!("%{byte:02X}") } else { format!("%{byte:02x}") };
        let kept = |byte: u8| byte.is_ascii_alphanumeric() || keep.as_bytes().contains(&byte);
        secret.bytes().map(|byte| if kept(byte) { char::from(byte).to_string() } else { hex(byte) }).collect()
    };
    let json = |text: &str| serde_json::to_string(text).expect("JSON");
    let around = format!("{before}{secret}{after}");
    match way {
        0 => secret.to_owned(),
        1 => json(secret),
        2 => json(&json(&around)),
        3 => percent("-_.~", true),
        4 => percent("", false),
        // As Go's `QueryEscape`, and so `urlencode` of Terraform.
        5 => percent("-_.~ ", true).replace(' ', "+"),
        6 => BASE64_STANDARD.encode(&around),
        7 => BASE64_URL_SAFE_NO_PAD.encode(&around),
        8 => BASE64_STANDARD.encode(json(&around)),
        9 => {
            let text = BASE64_STANDARD.encode(format!("{}{around}", "x".repeat(40)));
            let lines: Vec<&str> =
                text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
            lines.join("\n    ")
        }
        10 => forms::hex(secret),
        11 => forms::hex(secret).to_uppercase(),
        12 => json(secret).replace("${", "$${").replace("%{", "%%{"),
        _ => secret.encode_utf16().fold(String::new(), |text, unit| text + &format!("\\u{unit:04x}")),
    }
}

#[test]
fn a_great_many_secrets_take_bounded_memory_and_none_is_shown() {
    let many = |count: usize| Redactor::new((0..count).map(|n| format!("token-{n:058}")));
    let some = many(20_000);
    assert!(some.secrets.memory_usage() < 256 << 20, "{} bytes", some.secrets.memory_usage());
    for n in [0, 19_999] {
        assert!(some.finds(&format!("the token token-{n:058} is known")), "{n}");
    }
    let blind = many(200_000);
    assert!(blind.finds("anything") && blind.clean("anything") == MASK && blind.clean("").is_empty());
}

#[test]
fn what_programs_wrap_into_lines_is_found_in_each_line() {
    let key = "a line of a private key\n".repeat(40);
    let redactor = Redactor::new([key.clone()]);
    let base64 = STANDARD.encode(&key);
    let hex = forms::hex(&key);
    for (text, width) in [(&base64, 76), (&base64, 64), (&hex, 60)] {
        for line in text.as_bytes().chunks(width).filter(|line| line.len() == width) {
            let line = String::from_utf8_lossy(line);
            assert!(redactor.finds(&line), "{line}");
        }
    }
}

#[test]
fn nothing_steers_the_terminal_of_a_reader() {
    let redactor = Redactor::new(["hunter22".to_owned()]);
    assert_eq!(redactor.clean("a\u{1b}[2Jb hun\u{1b}[0mter22"), "ab (sensitive)");
    assert_eq!(redactor.clean_coloured("\u{1b}[31mhunter22\u{1b}[0m"), "\u{1b}[31m(sensitive)\u{1b}[0m");
    assert_eq!(Redactor::default().clean("a\u{1b}]0;title\u{7}"), "a");
}

/// Terraform normalizes texts, long numbers are rounded, and characters that steer a terminal are gone before a text is searched.
#[test]
fn what_changes_on_its_way_is_found() {
    let long = serde_json::from_str::<serde_json::Value>("123456789012345678901234").unwrap().to_string();
    for (secret, shown) in [
        ("cafe\u{301}-au-lait", "caf\u{e9}-au-lait"),
        ("abc\u{202e}def-ghi", "abc\u{202e}def-ghi"),
        ("abc\u{7}def-ghi", "abc\u{7}def-ghi"),
        ("123456789012345678901234", &long),
    ] {
        let redactor = Redactor::new([secret.to_owned()]);
        for text in [format!("<{shown}>"), format!("<{}>", STANDARD.encode(shown))] {
            let clean = redactor.clean(&text);
            assert!(clean.contains(MASK), "{secret:?} in {text:?}: {clean:?}");
        }
    }
}
