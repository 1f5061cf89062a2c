//! Findings about modules, variables, provider configs and references, each with its position.

mod owners;

use super::check_sources;
use super::report::Severity;
use crate::manifest::Source;

const GROUP: &str = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1";

const NETWORK: &str = r#"kind: WorkspaceTemplate
metadata: {name: network}
spec:
  template:
    spec:
      module: |
        variable "size" { type = number }
        variable "zones" {
          type    = list(string)
          default = []
        }
        output "vpc_id" { value = "${var.size}" }
"#;

/// Findings about a file with these objects, one line for each: position, severity, field, message and help.
fn said(objects: &[&str]) -> Vec<String> {
    let texts: Vec<String> = objects.iter().map(|object| format!("---\n{GROUP}\n{object}\n")).collect();
    let text = texts.concat();
    let report = check_sources(&[Ok(Source { name: "f".to_owned(), text })]);
    let line = |finding: &super::Finding| {
        let at = finding.place.position.as_ref().map(ToString::to_string).unwrap_or_default();
        let severity = if finding.severity == Severity::Error { "error" } else { "warning" };
        let path = finding.path.as_deref().unwrap_or_default();
        let help = finding.help.as_deref().map(|help| format!(" [{help}]")).unwrap_or_default();
        format!("{at} {severity} {path}: {}{help}", finding.message)
    };
    report.findings.iter().map(line).collect()
}

fn instance(spec: &str) -> String {
    format!(
        "kind: WorkspaceTemplateApply\nmetadata: {{name: net}}\nspec:\n  templateRef: {{name: network}}\n{spec}"
    )
}

#[test]
fn variables_are_those_that_the_module_declares() {
    let rows: [(&str, &[&str]); 9] = [
        ("  variables: {size: 3}", &[]),
        ("  variables: {size: \"3\", zones: [a, b]}", &[]),
        (
            "",
            &[
                "error spec.variables.size: WorkspaceTemplate network requires it, and no value is given [give it here, in variablesFrom or in the template, or a default in the module]",
            ],
        ),
        (
            "  variables: {size: many}",
            &["error spec.variables.size: must be a number, is text: the module declares number"],
        ),
        (
            "  variables:\n    size: 1\n    zones: a",
            &["error spec.variables.zones: must be a list, is text: the module declares list(string)"],
        ),
        (
            "  variables: {size: 1, zonse: [a]}",
            &[
                "warning spec.variables.zonse: the module declares no such variable: the value is not used [did you mean zones?]",
            ],
        ),
        (
            "  variables: {size: 1, colour: red}",
            &[
                "warning spec.variables.colour: the module declares no such variable: the value is not used [it declares size, zones]",
            ],
        ),
        // What a source of no file here offers, nobody can tell.
        ("  variablesFrom: [{configMapRef: {name: elsewhere}}]", &[]),
        ("  variablesFrom: [{configMapRef: {name: elsewhere}, map: {size: a}}]", &[]),
    ];
    for (spec, expected) in rows {
        let said = said(&[NETWORK, &instance(spec)]);
        let said: Vec<&str> =
            said.iter().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest).collect();
        assert_eq!(said, expected, "{spec}");
    }
    let with = said(&[NETWORK, &instance("  variables:\n    size: many")]);
    let line = format!("---\n{GROUP}\n{NETWORK}\n---\n{GROUP}\n{}", instance("  variables:\n    size: many"));
    let line = line.lines().position(|line| line.contains("size: many")).map(|line| line + 1);
    assert!(with[0].starts_with(&format!("{}:5 ", line.unwrap_or_default())), "{with:?}");
}

#[test]
fn an_optional_variable_and_a_placeholder_need_no_declaration() {
    let optional = "kind: WorkspaceTemplateApply\nmetadata:\n  name: net\n  annotations: {infrastructure.cluster.x-k8s.io/optional-variables: \"tags, other\"}\nspec:\n  templateRef: {name: network}\n  variables: {size: 1, tags: {}}";
    assert_eq!(said(&[NETWORK, optional]), Vec::<String>::new());
    let text = "kind: WorkspaceTemplate\nmetadata: {name: network}\nspec:\n  template:\n    spec:\n      module: |\n        resource \"terraform_data\" \"x\" {\n          count = ${size}\n          input = \"${WORKSPACE_NAME}\"\n        }";
    assert_eq!(said(&[text]), Vec::<String>::new());
    assert_eq!(said(&[text, &instance("  variables: {size: 3}")]), Vec::<String>::new());
    let value = "kind: WorkspaceTemplate\nmetadata: {name: network}\nspec:\n  template:\n    spec:\n      forProvider:\n        source: Inline\n        module: 'variable \"word\" {}'\n        vars: [{key: word, value: \"${cluster_name}-w\"}]";
    assert_eq!(said(&[value, &instance("  variables: {cluster_name: demo}")]), Vec::<String>::new());
}

#[test]
fn a_template_is_checked_alone() {
    let long = |inputs: &str| {
        format!(
            "kind: WorkspaceTemplate\nmetadata: {{name: network}}\nspec:\n  template:\n    spec:\n      forProvider:\n        source: Inline\n        module: |\n          variable \"size\" {{ type = number }}\n          variable \"on\" {{ type = bool }}\n{inputs}"
        )
    };
    let rows = [
        ("        vars: [{key: size, value: \"3\"}]", ""),
        ("        vars: [{key: size, value: \"${n}\"}]", ""),
        (
            "        vars: [{key: size, value: three}]",
            "error spec.template.spec.forProvider.vars[0].value: must be a number, is text: the module declares number",
        ),
        (
            "        vars: [{key: sise, value: \"3\"}]",
            "warning spec.template.spec.forProvider.vars[0].value: the module declares no such variable: the value is not used [did you mean size?]",
        ),
        (
            "        varmap: {\"on\": [1]}",
            "error spec.template.spec.forProvider.varmap.on: must be a boolean, is a list: the module declares bool",
        ),
    ];
    for (inputs, expected) in rows {
        let said = said(&[&long(inputs)]);
        let without_place = said.first().and_then(|line| line.split_once(' ')).map_or("", |(_, rest)| rest);
        assert_eq!(
            (without_place, said.len()),
            (expected, usize::from(!expected.is_empty())),
            "{inputs}: {said:?}"
        );
    }
}

#[test]
fn hcl_is_read_where_it_stands() {
    let template = |module: &str| {
        format!(
            "kind: WorkspaceTemplate\nmetadata: {{name: t}}\nspec:\n  template:\n    spec:\n      module: {module}"
        )
    };
    let block = said(&[&template(
        "|\n        variable \"a\" {}\n        resource \"x\" {\n          y =\n        }",
    )]);
    assert_eq!(block.len(), 1, "{block:?}");
    // The line of the file, and the column in it.
    assert!(block[0].starts_with("11:14 error spec.template.spec.module: "), "{block:?}");
    let quoted = said(&[&template("\"variable {\"")]);
    assert!(quoted[0].starts_with("8:7 error spec.template.spec.module: line 1: "), "{quoted:?}");
    let cloud = said(&[&template("|\n        terraform {\n          cloud {}\n        }")]);
    assert!(cloud[0].starts_with("10:9 error spec.template.spec.module: a `cloud` block"), "{cloud:?}");
    assert_eq!(said(&[&template("|\n        variable \"a\" {}")]), Vec::<String>::new());
    assert_eq!(said(&[&template("{source: example.com/a}")]), Vec::<String>::new());
}

#[test]
fn provider_configs_can_work() {
    let config = |spec: &str| format!("kind: WorkspaceProviderConfig\nmetadata: {{name: c}}\nspec:\n{spec}");
    let rows = [
        ("  configuration: 'provider \"aws\" { region = \"x\" }'", ""),
        ("  configuration: 'provider \"aws\" {'", "error spec.configuration: line 1: "),
        (
            "  configuration: |\n    terraform {\n      cloud {}\n    }",
            "error spec.configuration: a `cloud` block",
        ),
        ("  backend: {type: HCL, hcl: 'backend \"s3\" { key = \"${WORKSPACE_NAME}\" }'}", ""),
        (
            "  backend:\n    type: HCL\n    hcl: |\n      terraform {\n        backend \"s3\" { key = \"${WORKSPACE_NAME}\" }\n      }",
            "",
        ),
        ("  backend: {type: HCL, hcl: 'backend \"s3\" {'}", "error spec.backend.hcl: line 1: "),
        (
            "  backend: {type: HCL, hcl: 'key = \"${WORKSPACE_NAME}\"'}",
            "error spec.backend.hcl: has no backend block",
        ),
        (
            "  backend: {type: HCL, hcl: 'backend \"s3\" { key = \"fixed\" }'}",
            "error spec.backend.hcl: has no ${WORKSPACE_NAME}",
        ),
        ("  credentials: [{filename: aws.ini, secretRef: {name: s, key: k}}]", ""),
        (
            "  credentials: [{filename: aws.tf, secretRef: {name: s, key: k}}]",
            "error spec.credentials[0].filename: Terraform would read aws.tf as part of the module",
        ),
    ];
    for (spec, expected) in rows {
        let said = said(&[&config(spec)]);
        let without_place = said.first().and_then(|line| line.split_once(' ')).map_or("", |(_, rest)| rest);
        assert!(without_place.starts_with(expected), "{spec}: {said:?}");
        assert_eq!(said.is_empty(), expected.is_empty(), "{spec}: {said:?}");
    }
}

#[test]
fn references_between_the_files() {
    let of = |kind: &str, name: &str, spec: &str| {
        format!("kind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}")
    };
    let empty = "{template: {spec: {module: ''}}}";
    let network = of("WorkspaceTemplate", "network", empty);
    let net = of("WorkspaceTemplateApply", "net", "{templateRef: {name: network}}");
    let machine = |reference: &str, group: &str| {
        of(
            "CaptMachine",
            "m",
            &format!(
                "{{workspaceTemplateRef: {{name: {reference}}}, nodeGroupRef: {{name: {group}}}, instanceType: a}}"
            ),
        )
    };
    let group = of("NodeGroup", "workers", "{workspaceTemplateRef: {name: network}}");
    let cases: Vec<(Vec<String>, &str)> = vec![
        (vec![net.clone()], ""),
        (vec![network.clone(), net.clone()], ""),
        (
            vec![network.clone(), of("WorkspaceTemplateApply", "net", "{templateRef: {name: netwrok}}")],
            "warning spec.templateRef.name: WorkspaceTemplate netwrok is not among these files [did you mean network?]",
        ),
        (
            vec![
                network.replace("{name: network}", "{name: network, namespace: a}"),
                net.replace("{name: net}", "{name: net, namespace: b}"),
            ],
            "warning spec.templateRef.name: WorkspaceTemplate network is not among these files [there is one in namespace a]",
        ),
        (
            vec![
                network.replace("{name: network}", "{name: network, namespace: a}"),
                net.replace("{name: net}", "{name: net, namespace: b}")
                    .replace("{name: network}", "{name: other}"),
            ],
            "",
        ),
        (vec![network.clone(), group.clone(), machine("network", "workers")], ""),
        (vec![network.clone(), group.clone(), machine("network", "somewhere-else")], ""),
        (
            vec![network.clone(), group.clone(), machine("network", "worker")],
            "warning spec.nodeGroupRef.name: NodeGroup worker is not among these files [did you mean workers?]",
        ),
        (
            vec![network.clone(), group, machine("netw", "workers")],
            "warning spec.workspaceTemplateRef.name: WorkspaceTemplate netw is not among these files",
        ),
        (
            vec![
                network.clone(),
                net.clone(),
                of(
                    "WorkspaceTemplateApply",
                    "b",
                    "{templateRef: {name: network}, waitForWorkspaces: [{name: nett}]}",
                ),
            ],
            "warning spec.waitForWorkspaces[0].name: WorkspaceTemplateApply nett is not among these files [did you mean net?]",
        ),
        (
            vec![
                network.clone(),
                net.replace("{name: net}", "{name: net-apply}"),
                of(
                    "WorkspaceTemplateApply",
                    "b",
                    "{templateRef: {name: network}, waitForWorkspaces: [{name: net}]}",
                ),
            ],
            "",
        ),
        (
            vec![
                of("WorkspaceProviderConfig", "aws", "{}"),
                of(
                    "WorkspaceTemplate",
                    "t",
                    "{template: {spec: {module: '', providerConfigRef: {name: asw}}}}",
                ),
            ],
            "warning spec.template.spec.providerConfigRef.name: WorkspaceProviderConfig asw is not among these files [did you mean aws?]",
        ),
    ];
    for (objects, expected) in cases {
        let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
        let said = said(&objects);
        let without_place = said.first().and_then(|line| line.split_once(' ')).map_or("", |(_, rest)| rest);
        assert_eq!(
            (without_place, said.len()),
            (expected, usize::from(!expected.is_empty())),
            "{objects:#?}: {said:?}"
        );
    }
}

#[test]
fn what_is_taken_from_another_object_is_there() {
    let net = instance("  variables: {size: 3}");
    let user = |from: &str| {
        format!(
            "kind: WorkspaceTemplateApply\nmetadata: {{name: b}}\nspec:\n  templateRef: {{name: elsewhere}}\n  variablesFrom: [{from}]"
        )
    };
    let rows = [
        ("{workspaceRef: {name: net}, map: {vpc: vpc_id}}", ""),
        (
            "{workspaceRef: {name: net}, map: {vpc: vpcid}}",
            "error spec.variablesFrom[0].map.vpc: vpcid is no output of WorkspaceTemplateApply net [did you mean vpc_id?]",
        ),
        ("{workspaceRef: {name: net}, map: {vpc: vpcid}, optional: true}", ""),
        (
            "{workspaceRef: {name: other}, map: {vpc: vpcid}}",
            "warning spec.variablesFrom[0].workspaceRef.name: ",
        ),
    ];
    for (from, expected) in rows {
        let said = said(&[
            NETWORK,
            &net,
            &user(from),
            "kind: WorkspaceTemplate\nmetadata: {name: elsewhere}\nspec: {template: {spec: {module: {source: a/b/c}}}}",
        ]);
        let without_place = said.first().and_then(|line| line.split_once(' ')).map_or("", |(_, rest)| rest);
        assert!(without_place.starts_with(expected), "{from}: {said:?}");
        assert_eq!(said.is_empty(), expected.is_empty(), "{from}: {said:?}");
    }
}

#[test]
fn keys_of_a_config_map_among_the_files() {
    let text = |from: &str| {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sizes}\ndata: {size: \"1\"}";
        let user = instance(&format!("  variablesFrom: [{from}]"));
        format!("{map}\n---\n{GROUP}\n{NETWORK}\n---\n{GROUP}\n{user}\n")
    };
    let rows = [
        // All of them are offered, and one is what the module requires.
        ("{configMapRef: {name: sizes}}", None),
        ("{configMapRef: {name: sizes}, map: {size: size}}", None),
        ("{configMapRef: {name: sizes}, map: {size: sise}}", Some("sise is no key of ConfigMap sizes")),
    ];
    for (from, expected) in rows {
        let report = check_sources(&[Ok(Source { name: "f".to_owned(), text: text(from) })]);
        let said: Vec<(&str, Severity)> =
            report.findings.iter().map(|finding| (finding.message.as_str(), finding.severity)).collect();
        let expected: Vec<(&str, Severity)> =
            expected.into_iter().map(|text| (text, Severity::Warning)).collect();
        assert_eq!(said, expected, "{from}");
        assert!(report.is_good());
    }
}
