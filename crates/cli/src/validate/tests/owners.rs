//! Variables that templates of machines, node groups, networks and control planes require.

use super::said;

/// A template whose module requires these variables and has these outputs, the last of which is sensitive.
fn template(name: &str, requires: &[&str], outputs: &[&str]) -> String {
    let head = format!(
        "kind: WorkspaceTemplate\nmetadata: {{name: {name}}}\nspec:\n  template:\n    spec:\n      module: |\n        # {name}\n"
    );
    let variables = requires.iter().map(|variable| format!("        variable \"{variable}\" {{}}\n"));
    let outputs = outputs.iter().map(|output| format!("        output \"{output}\" {{ value = 1 }}\n"));
    let last =
        "        output \"secret\" {\n          value     = 1\n          sensitive = true\n        }\n";
    [head].into_iter().chain(variables).chain(outputs).chain([last.to_owned()]).collect::<Vec<_>>().concat()
}

fn object(kind: &str, name: &str, rest: &str) -> String {
    format!("kind: {kind}\nmetadata: {{name: {name}}}\n{rest}")
}

/// Findings about these objects, without their positions.
fn told(objects: &[String]) -> Vec<String> {
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    said(&objects).iter().filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect()
}

const JOINS: &str = "spec:\n  workspaceTemplateRef: {name: t}\n  nodeGroupRef: {name: g}\n  instanceType: a";
const SCALES: &str =
    "spec:\n  workspaceTemplateRef: {name: t}\n  nodeGroupConfig: {name: g, instanceType: a}";
const GROUP: &str = "spec:\n  external: {name: there}";

/// The spec of a set or a deployment of such machines, with these labels.
fn of_machines(labels: &str, machine: &str) -> String {
    let machine = machine.replace('\n', "\n    ");
    format!(
        "spec:\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b{labels}}}}}\n    {machine}"
    )
}

/// An object, the variables that it passes, the field that names its template, a variable that it does not pass, and what the help
/// begins with.
type Row = (String, &'static str, &'static str, &'static str, &'static str);

fn labelled(kind: &str, rest: &str) -> String {
    format!("kind: {kind}\nmetadata: {{name: o, labels: {{cluster.x-k8s.io/cluster-name: demo}}}}\n{rest}")
}

fn machines() -> Vec<Row> {
    let (machine, nested) = ("spec.workspaceTemplateRef", "spec.template.spec.workspaceTemplateRef");
    let label = ", cluster.x-k8s.io/cluster-name: demo";
    vec![
        (
            object("CaptMachine", "o", JOINS),
            "machine_name instance_type node_group labels tags",
            machine,
            "zone",
            "a CaptMachine does not pass it",
        ),
        (
            object("CaptMachine", "o", JOINS),
            "",
            machine,
            "cluster_name",
            "set metadata.labels[cluster.x-k8s.io/cluster-name]",
        ),
        (labelled("CaptMachine", JOINS), "cluster_name", machine, "min_size", "set spec.nodeGroupConfig"),
        (object("CaptMachine", "o", JOINS), "", machine, "bootstrap_data", "a CaptMachine does not pass it"),
        (
            object("CaptMachine", "o", SCALES),
            "node_group_name instance_type instance_types min_size max_size desired_size",
            machine,
            "update_config",
            "set spec.nodeGroupConfig.updateConfig",
        ),
        (
            object("CaptMachineSet", "o", &of_machines(label, JOINS)),
            "cluster_name machine_name instance_type",
            nested,
            "zone",
            "a CaptMachineSet does not pass it",
        ),
        (
            object("CaptMachineDeployment", "o", &of_machines("", JOINS)),
            "machine_name",
            nested,
            "cluster_name",
            "set spec.template.metadata.labels[cluster.x-k8s.io/cluster-name]",
        ),
        (
            labelled("CaptMachineDeployment", &of_machines("", JOINS)),
            "cluster_name",
            nested,
            "zone",
            "a CaptMachineDeployment does not pass it",
        ),
        (
            object(
                "CaptMachineTemplate",
                "o",
                &format!("spec:\n  template:\n    {}", JOINS.replace('\n', "\n    ")),
            ),
            "cluster_name failure_domain kubernetes_version bootstrap_data bootstrap_format",
            nested,
            "zone",
            "a CaptMachineTemplate does not pass it",
        ),
    ]
}

fn groups_and_networks() -> Vec<Row> {
    let group = "spec:\n  workspaceTemplateRef: {name: t}";
    let network = "spec:\n  region: eu-west-1\n  vpcTemplateRef: {name: t}";
    vec![
        (
            labelled("NodeGroup", &format!("{group}\n  instanceType: a")),
            "cluster_name node_group_name instance_types labels taints tags",
            "spec.workspaceTemplateRef",
            "min_size",
            "set spec.scaling",
        ),
        (
            object("NodeGroup", "o", group),
            "node_group_name",
            "spec.workspaceTemplateRef",
            "instance_types",
            "set spec.instanceTypes",
        ),
        (
            object("CAPTCluster", "o", network),
            "cluster_name vpc_name region environment",
            "spec.vpcTemplateRef",
            "cidr",
            "a CAPTCluster does not pass it",
        ),
        (
            object(
                "CAPTClusterTemplate",
                "o",
                "spec:\n  template:\n    spec:\n      region: eu-west-1\n      vpcTemplateRef: {name: t}",
            ),
            "cluster_name vpc_name region environment",
            "spec.template.spec.vpcTemplateRef",
            "cidr",
            "a CAPTClusterTemplate does not pass it",
        ),
    ]
}

#[test]
fn a_variable_that_nobody_gives_is_an_error() {
    let missing = |path: &str, variable: &str, first: &str| {
        format!(
            "error {path}: WorkspaceTemplate t requires variable {variable}, and no value is given [{first}; or give it in the template, or a default in the module]"
        )
    };
    for (user, passed, path, missed, first) in machines().into_iter().chain(groups_and_networks()) {
        let given: Vec<&str> = passed.split_whitespace().collect();
        let all = |requires: &[&str]| {
            told(&[template("t", requires, &[]), object("NodeGroup", "g", GROUP), user.clone()])
        };
        assert_eq!(all(&given), Vec::<String>::new(), "{user}");
        let requires: Vec<&str> = given.iter().copied().chain([missed]).collect();
        assert_eq!(all(&requires), [missing(path, missed, first)], "{user}");
        // What the template gives, nobody misses.
        let filled = template("t", &requires, &[]) + &format!("      variables: {{{missed}: {{value: x}}}}");
        let filled = told(&[filled, object("NodeGroup", "g", GROUP), user.clone()]);
        assert_eq!(filled, Vec::<String>::new(), "{user}");
    }
}

#[test]
fn the_place_is_that_of_the_reference() {
    let machine = object("CaptMachine", "o", JOINS);
    let objects = [template("t", &["zone"], &[]), object("NodeGroup", "g", GROUP), machine];
    let said = said(&objects.each_ref().map(String::as_str));
    let text = objects.map(|object| format!("---\nGROUP\n{object}\n")).concat();
    let line = text.lines().position(|line| line.contains("workspaceTemplateRef")).map(|line| line + 1);
    assert!(said[0].starts_with(&format!("{}:3 error", line.unwrap_or_default())), "{said:?}");
}

#[test]
fn outputs_of_a_group_reach_its_machines() {
    let machine = object("CaptMachine", "o", JOINS);
    let group = object("NodeGroup", "g", "spec:\n  workspaceTemplateRef: {name: group}");
    let module = template("group", &[], &["subnet"]);
    let wants = |variable: &str| template("t", &[variable], &[]);
    let is_error = |told: &[String]| told.iter().all(|line| line.starts_with("error ")) && told.len() == 1;
    let built = |variable: &str| told(&[wants(variable), module.clone(), group.clone(), machine.clone()]);
    assert_eq!(built("subnet"), Vec::<String>::new());
    assert!(is_error(&built("zone")), "{:?}", built("zone"));
    assert!(is_error(&built("secret")), "a sensitive output is passed to nobody: {:?}", built("secret"));
    // A group, or its module, that is not among the files: it may give anything.
    let maybe = |help: &str| {
        [format!(
            "warning spec.workspaceTemplateRef: WorkspaceTemplate t requires variable subnet, and no value is given in these files [fine if {help} gives it]"
        )]
    };
    assert_eq!(told(&[wants("subnet"), machine.clone()]), maybe("an output of NodeGroup g"));
    let remote = "kind: WorkspaceTemplate\nmetadata: {name: group}\nspec: {template: {spec: {module: {source: a/b/c}}}}";
    let remote = told(&[wants("subnet"), remote.to_owned(), group, machine]);
    assert_eq!(remote, maybe("an output of WorkspaceTemplate group"));
}

#[test]
fn a_machine_of_cluster_api_gives_more() {
    let claim = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: m}\nspec: {clusterName: c, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CaptMachine, name: o}}";
    let wants = template("t", &["bootstrap_data", "failure_domain", "cluster_name"], &[]);
    let objects = [wants, object("NodeGroup", "g", GROUP), object("CaptMachine", "o", JOINS)];
    assert_eq!(told(&objects).len(), 3);
    let own = objects.map(|object| format!("{}\n{object}\n---\n", super::GROUP)).concat();
    let source = crate::manifest::Source { name: "f".to_owned(), text: own + claim };
    let report = super::check_sources(&[Ok(source)]);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn a_control_plane_gets_what_its_network_returns() {
    let plane = "apiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: CAPTControlPlane\nmetadata: {name: p}\nspec: {version: v1.33.0, workspaceTemplateRef: {name: t}, additionalTags: {team: a}}";
    let class_plane = "apiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: CAPTControlPlaneTemplate\nmetadata: {name: p}\nspec: {template: {spec: {workspaceTemplateRef: {name: t}}}}";
    let core = "apiVersion: cluster.x-k8s.io/v1beta2\nkind";
    let cluster = |infrastructure: &str| {
        format!(
            "{core}: Cluster\nmetadata: {{name: c}}\nspec: {{controlPlaneRef: {{kind: CAPTControlPlane, name: p}}{infrastructure}}}"
        )
    };
    let class = |field: &str| {
        format!(
            "{core}: ClusterClass\nmetadata: {{name: c}}\nspec: {{controlPlane: {{{field}: {{kind: CAPTControlPlaneTemplate, name: p}}}}, infrastructure: {{{field}: {{kind: CAPTClusterTemplate, name: vpc}}}}}}"
        )
    };
    let ours = |text: String| format!("{}\n{text}", super::GROUP);
    let network =
        |spec: &str| ours(object("CAPTCluster", "vpc", &format!("spec: {{region: eu-west-1, {spec}}}")));
    let built = network("vpcTemplateRef: {name: net}");
    let exists = network("existingVpcId: vpc-1");
    let class_network = ours(object(
        "CAPTClusterTemplate",
        "vpc",
        "spec: {template: {spec: {region: eu-west-1, vpcTemplateRef: {name: net}}}}",
    ));
    let module = ours(template("net", &[], &["subnets"]));
    let on = ", infrastructureRef: {kind: CAPTCluster, name: vpc}";
    let always = "cluster_name kubernetes_version kubernetes_full_version endpoint_public_access public_cidrs addons tags";
    let (plane, class_plane) = (plane.to_owned(), class_plane.to_owned());
    let with_region = plane.replace("version: ", "controlPlaneConfig: {region: eu-west-1}, version: ");
    // Objects, what the module requires, and for each that is missing the severity.
    let rows: Vec<(Vec<String>, &str, &[&str])> = vec![
        (vec![plane.clone()], always, &[]),
        (vec![plane.clone()], "tags_team", &[]),
        (vec![plane.clone()], "region subnets", &["warning", "warning"]),
        (vec![plane.clone(), cluster("")], "region", &["error"]),
        (vec![with_region, cluster("")], "region", &[]),
        (vec![plane.clone(), cluster(on)], "vpc_id", &["warning"]),
        (vec![plane.clone(), cluster(on), built.clone(), module.clone()], "region vpc_id subnets", &[]),
        (vec![plane.clone(), cluster(on), built.clone(), module.clone()], "secret zone", &["error", "error"]),
        (vec![plane.clone(), cluster(on), built], "vpc_id subnets", &["warning"]),
        (vec![plane, cluster(on), exists], "vpc_id subnets", &["error"]),
        (
            vec![class_plane.clone(), class("templateRef"), class_network.clone(), module.clone()],
            "region vpc_id subnets kubernetes_version zone",
            &["error"],
        ),
        (vec![class_plane.clone(), class("ref"), class_network, module], "subnets", &[]),
        (vec![class_plane], "subnets", &["warning"]),
    ];
    for (objects, requires, expected) in rows {
        let wants: Vec<&str> = requires.split_whitespace().collect();
        let text = objects.join("\n---\n") + "\n---\n" + &ours(template("t", &wants, &[]));
        let report = super::check_sources(&[Ok(crate::manifest::Source { name: "f".to_owned(), text })]);
        let severity = |finding: &super::super::Finding| match finding.severity {
            super::Severity::Error => "error",
            super::Severity::Warning => "warning",
        };
        // The network's template is missed as well, where it is not there.
        let about = report.findings.iter().filter(|finding| finding.message.contains("requires variable"));
        let said: Vec<&str> = about.map(severity).collect();
        assert_eq!(said, expected, "{requires}: {:#?}", report.findings);
    }
}
