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
        ("empty", ""),
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
        (r#"x = "${dollar}${local.x}""#, r#"x = "${"$"}${local.x}""#),
        (r#"x = "a${dollar}${dollar}${local.x}""#, r#"x = "a${"$$"}${local.x}""#),
        (r#"x = "%${empty}%{ if y }z%{ endif }""#, r#"x = "${"%"}%{ if y }z%{ endif }""#),
        (r#"x = "${dollar}%{ if y }z%{ endif }""#, r#"x = "$%{ if y }z%{ endif }""#),
        (r#"x = "${dollar}$${y}""#, r#"x = "$$${y}""#),
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
        (
            "x = [\n  # all\n  /* of */ for /*/ them */ name in v : \"${name}\"]",
            "x = [\n  # all\n  /* of */ for /*/ them */ name in v : \"${name}\"]",
        ),
        (
            "x = {for/**/k, /**/ name/**/in v : k => \"${name}\"}",
            "x = {for/**/k, /**/ name/**/in v : k => \"${name}\"}",
        ),
        // A comment is open until a star that is not its first.
        ("/*/ ${name} */ x = ${n}", "/*/ ${name} */ x = 3"),
        ("/*/////\n ${name}\n/////*/ x = ${n}", "/*/////\n ${name}\n/////*/ x = 3"),
        // Unicode around.
        (r#"名 = "日本${name}語""#, r#"名 = "日本a語""#),
    ];
    for (text, expected) in rows {
        assert_eq!(substitute(text, Format::Hcl, &values), expected, "{text}");
    }
}

/// The author of a value is not always the author of the module.
#[test]
fn values_are_no_code() {
    let values = values(&[
        ("terraform_data.machine.id", "x; curl evil"),
        ("var.token", "x"),
        ("1", "x"),
        ("日", "x"),
        ("word", "local.token"),
        ("call", "file(\"/etc/passwd\")"),
        ("block", "1\n}\nresource \"terraform_data\" \"evil\" {"),
        ("line", " 3\n"),
        ("list", r#"["${file("/x")}", "a\"b", {"k${1}": "%{if}"}, 1e3, null, true]"#),
        ("text", r#""a${b}""#),
        ("spaced", " a "),
        ("empty", ""),
    ]);
    let rows = [
        // Expressions of the module are its own, whatever a value is called.
        (r#"x = "echo ${terraform_data.machine.id}""#, r#"x = "echo ${terraform_data.machine.id}""#),
        (r#"x = "${var.token}${1}${日}""#, r#"x = "${var.token}${1}${日}""#),
        ("x = <<E\n${var.token}\nE\n", "x = <<E\n${var.token}\nE\n"),
        // Outside of strings stand literals.
        ("x = ${word}", r#"x = "local.token""#),
        ("x = ${call}", r#"x = "file(\"/etc/passwd\")""#),
        ("x = ${block}", r#"x = "1\n}\nresource \"terraform_data\" \"evil\" {""#),
        ("count = ${line} + 1", "count = 3 + 1"),
        ("x = ${text}", r#"x = "a$${b}""#),
        ("x = [${spaced}, ${empty}]", r#"x = [" a ", ""]"#),
        (r#"x = "${upper(${word})}""#, r#"x = "${upper("local.token")}""#),
        (
            "x = ${list}",
            // Not JSON: quotes in quotes.
            r#"x = "[\"$${file(\"/x\")}\", \"a\\\"b\", {\"k$${1}\": \"%%{if}\"}, 1e3, null, true]""#,
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(substitute(text, Format::Hcl, &values), expected, "{text}");
    }
    let rows = [
        (r#"{"a": "${terraform_data.machine.id}"}"#, r#"{"a": "${terraform_data.machine.id}"}"#),
        (r#"{"a": ${var.token}}"#, r#"{"a": ${var.token}}"#),
        (r#"{"a": ${block}}"#, r#"{"a": "1\n}\nresource \"terraform_data\" \"evil\" {"}"#),
        (r#"{"a": ${text}}"#, r#"{"a": "a$${b}"}"#),
        (r#"{"a": ${line}}"#, r#"{"a": 3}"#),
    ];
    for (text, expected) in rows {
        assert_eq!(substitute(text, Format::Json, &values), expected, "{text}");
    }
}

#[test]
fn literals_hold_no_templates() {
    let values = values(&[("list", r#"["${file(\"/x\")}", "a\"b\n", {"k${1}": "%{if}"}, 1e3, null, true]"#)]);
    let hcl = r#"x = ["$${file(\"/x\")}", "a\"b\n", {"k$${1}": "%%{if}"}, 1e3, null, true]"#;
    assert_eq!(substitute("x = ${list}", Format::Hcl, &values), hcl);
    let json = r#"{"x": ["$${file(\"/x\")}", "a\"b\n", {"k$${1}": "%%{if}"}, 1e3, null, true]}"#;
    assert_eq!(substitute(r#"{"x": ${list}}"#, Format::Json, &values), json);
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

#[test]
fn values_that_stay_values_are_no_reason_to_refuse() {
    let hostile = values(&[("name", "a"), ("team", "*/ output leak { value = file(keys({x=1})[0]) } /*")]);
    assert_eq!(changed_by("a = \"${name}\"\n", Format::Hcl, &hostile), None);
    assert_eq!(changed_by("/*/ ${team} */ a = \"${team}\"", Format::Hcl, &hostile), None);
    assert_eq!(
        changed_by("x = ${ not HCL", Format::Hcl, &hostile),
        None,
        "a broken text says nothing of values"
    );
    let json = r#"{"output": {"b": {"value": "${team} ${upper(var.x)}"}, "${name}": {"value": 1}, "${team}": {"value": 2}}}"#;
    assert_eq!(changed_by(json, Format::Json, &hostile), None);
}

/// Texts that Terraform can read, with a key wherever something begins or ends that a scanner can get wrong.
fn tricky() -> impl Strategy<Value = String> {
    let open = [
        "",
        "/*",
        "/*/",
        "/**",
        "/*//",
        "/*\"",
        "//",
        "#",
        "//*",
        "#\"",
        "a = \"",
        "a = \"\\\"",
        "a = \"$",
        "a = \"%",
        "a = <<E\n",
        "a = <<-E\n \"",
        "a = [",
        "a = \"${upper(\"",
        "a = [/*]*/",
        "a = \"%{ for k in x }",
    ];
    let close = [
        "",
        "*/",
        "**/",
        "/*/",
        "*/*/",
        "\n",
        "\"",
        "\\\"\"",
        "{x}\"",
        "{\"",
        "\nE\n",
        "\n  E\n",
        "]",
        "\")}\"",
        "%{ endfor }\"",
    ];
    let statement = (
        prop::sample::select(open.to_vec()),
        prop::sample::select(&["${k}", "x", "/* ${k} */", "$${k}"][..]),
        prop::sample::select(close.to_vec()),
    );
    // Terraform refuses a string that does not end on its line, and the second parser reads on.
    let statement = statement.prop_map(|(open, inner, close)| {
        let quote = if open.starts_with("a = \"") && !close.starts_with(['"', '\\', '{', ')', '%']) {
            "\""
        } else {
            ""
        };
        format!("{open} {inner} {quote}{close}\n")
    });
    prop::collection::vec(statement, 1..3).prop_map(|statements| statements.concat())
}

/// Injections that try to be more than a value.
const HOSTILE: [&str; 17] = [
    "*/ o = f(x) /*",
    "\n o = f(x) \n",
    "\" o = f(x) \"",
    "\" }\no = f(x)\n b { c = \"",
    "${f(x)}",
    "%{ if x }",
    "}${f(x)}{",
    "$",
    "%",
    "{f(x)}",
    "\nE\no = f(x)\n",
    "\\",
    "\"",
    "]",
    ")}",
    "[1, \"a\"]",
    "",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]
    #[test]
    fn no_value_adds_code(text in tricky()) {
        for value in HOSTILE {
            prop_assert_eq!(changed_by(&text, Format::Hcl, &values(&[("k", value)])), None, "{}", value);
        }
    }
}

proptest! {
    #[test]
    fn any_text_comes_through(text in "[${}%\"\\\\#/*<\\-EOT\nakfor in,\\[\\]()~日]{0,80}", value in "\\PC{0,10}") {
        let keys = values(&[("zz", &value)]);
        // Nothing known in it: nothing changes.
        prop_assert_eq!(substitute(&text, Format::Hcl, &keys), text.clone());
        // Between quotes or not, a value stays one value.
        let json = substitute(r#"{"a": ${zz}, "b": "${zz}"}"#, Format::Json, &keys);
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap().as_object().unwrap().len(), 2);
        let _ = substitute(&text, Format::Json, &values(&[("a", &value)]));
        let _ = substitute(&text, Format::Hcl, &values(&[("a", &value)]));
    }
}
