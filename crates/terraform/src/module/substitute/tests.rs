use proptest::prelude::*;

use super::*;

fn values(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn values_go_where_they_fit() {
    let values = values(&[
        ("n", "3"),
        ("name", "a"),
        ("odd", "q\" \\ ${x} %{y}\n\t\u{1}"),
        ("again", "${name}"),
        ("dollar", "$"),
        ("brace", "{x}"),
        ("list", r#"["a", "b"]"#),
        ("WORKSPACE_NAME", "ws"),
        ("with-dash", "d"),
    ]);
    let rows = [
        ("count = ${n}", "count = 3"),
        ("x = ${list}", r#"x = ["a", "b"]"#),
        (r#"x = "${name}-${WORKSPACE_NAME}-${with-dash}""#, r#"x = "a-ws-d""#),
        (r#"resource "t" "${name}" {}"#, r#"resource "t" "a" {}"#),
        (r#"x = "${odd}""#, "x = \"q\\\" \\\\ $${x} %%{y}\\n\\t\\u0001\""),
        // One pass.
        (r#"x = "${again}""#, r#"x = "$${name}""#),
        // What is not known, or escaped, stays.
        (
            r#"x = "${var.name} ${other} $${name} ${ name }""#,
            r#"x = "${var.name} ${other} $${name} ${ name }""#,
        ),
        ("x = $${n}", "x = $${n}"),
        (r#"x = "$$${name}""#, r#"x = "$$${name}""#),
        // Pieces must not make a template together.
        (r#"x = "${dollar}{y}""#, r#"x = "$${y}""#),
        (r#"x = "${dollar}${brace}""#, r#"x = "$${x}""#),
        (r#"x = "%${brace}""#, r#"x = "%%{x}""#),
        // In strings in expressions in strings.
        (r#"x = "${upper("${name}")}-${name}""#, r#"x = "${upper("a")}-a""#),
        (r#"x = "${ {a = "}"}["a"] }${name}""#, r#"x = "${ {a = "}"}["a"] }a""#),
        (r#"x = "\"${name}""#, r#"x = "\"a""#),
        // Comments stay.
        ("# ${name}\n// ${name}\n/* ${name} \" */ x = ${n}", "# ${name}\n// ${name}\n/* ${name} \" */ x = 3"),
        // Heredocs.
        ("x = <<EOT\n${name}\nEOT\ny = ${n}", "x = <<EOT\n${\"a\"}\nEOT\ny = 3"),
        (
            "x = <<-EOT\r\n  \"${odd}\r\n  EOT\r\ny = ${n}",
            "x = <<-EOT\r\n  \"${\"q\\\" \\\\ $${x} %%{y}\\n\\t\\u0001\"}\r\n  EOT\r\ny = 3",
        ),
        ("x = 1 << 2\ny = \"${name}\"", "x = 1 << 2\ny = \"a\""),
        // Names that `for` binds.
        (r#"x = [for name in v : "${name}"]"#, r#"x = [for name in v : "${name}"]"#),
        (
            r#"x = {for k, name in v : k => "${name}${n}"}, y = "${name}""#,
            r#"x = {for k, name in v : k => "${name}3"}, y = "a""#,
        ),
        (
            r#"x = "%{ for name in v }${name}%{ endfor }${name}""#,
            r#"x = "%{ for name in v }${name}%{ endfor }a""#,
        ),
        (
            r#"x = "%{~ for i, name in v ~}${name}%{~ endfor ~}${name}""#,
            r#"x = "%{~ for i, name in v ~}${name}%{~ endfor ~}a""#,
        ),
        // Unicode around.
        (r#"名 = "日本${name}語""#, r#"名 = "日本a語""#),
    ];
    for (text, expected) in rows {
        assert_eq!(substitute(text, Format::Hcl, &values), expected, "{text}");
    }
}

#[test]
fn json_modules_stay_json() {
    let values = values(&[("n", "3"), ("name", "a\"b\n${x}"), ("plain", "p")]);
    let rows = [
        (r#"{"a": "${name}"}"#, r#"{"a": "a\"b\n$${x}"}"#),
        (r#"{"count": ${n}, "a": "\u00e9"}"#, r#"{"count": 3, "a": "\u00e9"}"#),
        (r#"{"${plain}": {"b": "${var.x} $${plain}"}}"#, r#"{"p": {"b": "${var.x} $${plain}"}}"#),
        // Quotes in an expression in a JSON string: escaped for both.
        (r#"{"a": "${upper(\"${name}\")}"}"#, r#"{"a": "${upper(\"a\\\"b\\n$${x}\")}"}"#),
    ];
    for (text, expected) in rows {
        assert_eq!(substitute(text, Format::Json, &values), expected, "{text}");
    }
}

#[test]
fn five_megabytes() {
    let line = "resource \"t\" \"r\" { input = \"${name} ${var.x} { ${other}\" } # ${name}\n";
    let text = line.repeat(5_000_000 / line.len());
    let done = substitute(&text, Format::Hcl, &values(&[("name", "a")]));
    assert_eq!(done.matches("${name}").count(), text.lines().count());
}

proptest! {
    #[test]
    fn any_text_comes_through(text in "[${}%\"\\\\#/*<\\-EOT\nakfor in,\\[\\]()~日]{0,80}", value in "\\PC{0,10}") {
        let keys = values(&[("zz", &value)]);
        // Nothing known in it: nothing changes.
        prop_assert_eq!(substitute(&text, Format::Hcl, &keys), text.clone());
        let _ = substitute(&text, Format::Json, &values(&[("a", &value)]));
        let _ = substitute(&text, Format::Hcl, &values(&[("a", &value)]));
    }
}
