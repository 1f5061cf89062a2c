//! Every verb of kubectl that a person uses on an API server, and what it says. Runs on both servers.

use crate::objects::Objects;
use crate::tool::Kubectl;

/// Whether somebody deletes what nobody owns any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Collector {
    Runs,
    /// A kube-apiserver alone has none.
    Absent,
}

/// What was run, and what it said but for what changes from run to run.
pub type Said = (String, String);

struct Script<'a> {
    kubectl: &'a Kubectl,
    objects: Objects,
    said: Vec<Said>,
}

/// Runs all of it, and tells what is the same on every server.
pub fn all(kubectl: &Kubectl, collector: Collector) -> Vec<Said> {
    let mut script = Script { kubectl, objects: Objects::write(), said: Vec::new() };
    script.about_the_server();
    script.create_and_read();
    script.apply_and_change();
    script.apply_on_the_server();
    script.patch_and_label();
    script.custom_resources();
    script.watch_and_wait();
    script.replace_and_prune();
    script.cascades(collector);
    script.said
}

impl Script<'_> {
    /// Runs a command whose words are the same everywhere.
    fn same(&mut self, line: &str) -> String {
        let arguments = self.arguments(line);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = self.kubectl.good(&arguments);
        self.note(line, &said);
        said
    }

    fn note(&mut self, line: &str, said: &str) {
        let said = said.replace(&self.objects.path(""), "@");
        self.said.push((line.to_owned(), neutral(&said)));
    }

    /// Runs a command that every server refuses in the same words.
    fn refused(&mut self, line: &str, why: &str) {
        let arguments = self.arguments(line);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (good, said) = self.kubectl.run(&arguments);
        assert!(!good && said.contains(why), "kubectl {line} should say {why:?}: {said}");
        self.note(line, &said);
    }

    /// Runs a command until it succeeds, for a while.
    fn eventually(&self, line: &str) {
        let arguments = self.arguments(line);
        self.kubectl.until(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), |_| true);
    }

    /// Runs a command whose words depend on the server.
    fn own(&self, line: &str) -> String {
        let arguments = self.arguments(line);
        self.kubectl.good(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Words of a line; `@name` is a manifest, and `+` a space within a word.
    fn arguments(&self, line: &str) -> Vec<String> {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.objects.path(name),
            None => word.replace('+', " "),
        };
        line.split(' ').map(word).collect()
    }

    fn about_the_server(&mut self) {
        assert!(self.own("version").contains("Server Version: v1.36"));
        let versions = self.own("api-versions");
        for version in
            ["v1", "apiextensions.k8s.io/v1", "coordination.k8s.io/v1", "rbac.authorization.k8s.io/v1"]
        {
            assert!(versions.lines().any(|line| line == version), "{versions}");
        }
        let resources = self.own("api-resources");
        for known in ["configmaps", "customresourcedefinitions", "leases"] {
            assert!(resources.lines().any(|line| line.starts_with(known)), "{resources}");
        }
        assert!(self.own("auth whoami").contains("system:masters"));
        self.same("auth can-i create configmaps");
        assert!(self.own("auth can-i --list").contains("*.*"));
        for path in ["/healthz", "/livez", "/readyz"] {
            self.same(&format!("get --raw {path}"));
            self.same(&format!("get --raw {path}/ping"));
            let told = self.own(&format!("get --raw {path}?verbose&exclude=nothing"));
            let name = path.trim_start_matches('/');
            assert!(
                told.starts_with("[+]ping ok\n") && told.ends_with(&format!("{name} check passed\n")),
                "{told}"
            );
            assert!(told.contains("cannot be excluded: no matches for \"nothing\""), "{told}");
        }
        assert!(self.own("get --raw /").contains("/apis/coordination.k8s.io/v1"));
        self.refused("get --raw /version?timeout=invalid", "invalid timeout specified in the request URL");
        self.same("api-resources --api-group=coordination.k8s.io");
        self.same("get all --namespace=nowhere");
        let info = self.own("cluster-info");
        assert!(info.contains("control plane") && info.contains("is running at"), "{info}");
        for known in ["configmaps.apiVersion", "configmaps.kind", "leases.kind", "crd.apiVersion"] {
            self.same(&format!("explain {known}"));
        }
    }

    fn create_and_read(&mut self) {
        self.same("create -f @map.yaml");
        self.refused("create -f @map.yaml", "already exists");
        self.same("get configmap notes");
        self.same("get cm notes -o wide");
        self.same("get cm notes -o yaml");
        self.same("get cm notes -o json");
        self.same("get cm notes -o name");
        self.same("get cm notes -o jsonpath={.data.first}");
        self.same("get cm -o custom-columns=NAME:.metadata.name,FIRST:.data.first");
        self.same("get cm -l app=notes --show-labels");
        self.same("get cm --selector=app+in+(other) -o name");
        self.same("get cm --field-selector=metadata.name=notes -o name");
        self.same("get cm -A --field-selector=metadata.namespace=default -o name");
        self.same("get --raw /api/v1/namespaces/default/configmaps/notes");
        self.same("describe configmap notes");
        self.refused("get configmap nobody", "configmaps \"nobody\" not found");
        self.refused("get nothings", "the server doesn't have a resource type \"nothings\"");
        self.same("create -f @event.yaml");
        self.same("events");
        self.same("events --for=configmap/notes");
        self.same("get events");
        self.same("get events -o wide --field-selector=reason=Written");
        self.same("describe configmap notes");
    }

    fn apply_and_change(&mut self) {
        self.same("delete -f @map.yaml");
        self.same("apply -f @map.yaml");
        self.same("apply -f @map.yaml");
        let arguments = self.arguments("diff -f @changed.yaml");
        let (same, difference) = self.kubectl.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!same && difference.contains("+  third: three"), "{difference}");
        self.said.push(("diff".to_owned(), changes(&difference)));
        self.same("apply -f @changed.yaml --dry-run=server");
        self.same("apply -f @changed.yaml");
        self.same("diff -f @changed.yaml");
        self.same("get cm notes -o jsonpath={.data}");
        let editor = [("KUBE_EDITOR", "sed -i s/three/edited/")];
        let (good, said) = self.kubectl.run_with(&["edit", "configmap", "notes"], &editor);
        assert!(good, "{said}");
        self.said.push(("edit".to_owned(), neutral(&said)));
        self.same("get cm notes -o jsonpath={.data.third}");
    }

    fn apply_on_the_server(&mut self) {
        self.same("apply --server-side --field-manager=alice -f @alice.yaml");
        self.refused("apply --server-side --field-manager=bob -f @bob.yaml", "conflict with \"alice\"");
        self.same("get cm shared -o jsonpath={.data.owner}");
        self.same("apply --server-side --field-manager=bob --force-conflicts -f @bob.yaml");
        self.same("get cm shared -o jsonpath={.data.owner}");
        self.same("get cm shared -o yaml --show-managed-fields");
    }

    fn patch_and_label(&mut self) {
        self.same("patch cm shared --type=merge -p {\"data\":{\"merged\":\"yes\"}}");
        self.same(
            "patch cm shared --type=json -p [{\"op\":\"add\",\"path\":\"/data/added\",\"value\":\"yes\"}]",
        );
        self.refused(
            "patch cm shared --type=json -p [{\"op\":\"remove\",\"path\":\"/data/nothing\"}]",
            "rejected",
        );
        self.same(
            "patch cm shared --type=strategic -p {\"metadata\":{\"finalizers\":[\"verbs.capt.dev/hold\"]}}",
        );
        self.same("patch cm shared --type=strategic -p {\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"verbs.capt.dev/hold\"]}}");
        self.same("label cm shared tier=back");
        self.refused("label cm shared tier=front", "already has a value");
        self.same("label cm shared tier=front --overwrite");
        self.same("label cm shared tier-");
        self.same("annotate cm shared note=hello");
        self.same("annotate cm shared note-");
        self.same("get cm shared -o jsonpath={.data}{.metadata.labels}{.metadata.annotations}");
    }

    fn custom_resources(&mut self) {
        self.same("apply -f @definition.yaml");
        // Until the server has looked at it the conditions are null, which kubectl takes for a mistake.
        self.eventually("wait --for=condition=Established crd/gadgets.verbs.capt.dev --timeout=60s");
        self.same("wait --for=condition=Established crd/gadgets.verbs.capt.dev --timeout=60s");
        // A kube-apiserver describes what a definition defines some time after it serves it.
        self.eventually("explain gadget");
        // Of members that every object has, each server says it in its own words.
        let explained = self.own("explain gadget");
        assert!(explained.contains("A toy.") && explained.contains("What is wanted."), "{explained}");
        self.same("explain gadget.spec.size");
        self.same("explain gadget --recursive");
        self.same("api-resources --categories=toys");
        self.same("apply -f @gadget.yaml");
        self.same("get gadgets");
        self.same("get gd -o wide");
        self.same("get toys");
        self.same("describe gadget top");
        self.same("scale gadget top --replicas=5");
        self.same("scale gadget top --current-replicas=5 --replicas=6");
        self.refused("scale gadget top --current-replicas=1 --replicas=2", "Expected replicas to be 1");
        self.same("get gadget top --subresource=scale -o jsonpath={.spec.replicas}");
        self.same("wait gadget/top --for=jsonpath={.spec.replicas}=6 --timeout=120s");
        self.refused("patch gadget top --type=strategic -p {}", "is not supported by");
        self.same("patch gadget top --subresource=status --type=merge -p {\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}");
        self.same("wait gadget/top --for=condition=Ready --timeout=120s");
        self.refused("wait gadget/top --for=condition=Lost --timeout=1s", "timed out");
        self.same("get gadget top -o jsonpath={.metadata.generation}");
    }

    fn watch_and_wait(&mut self) {
        let (kubectl, objects) = (self.kubectl, &self.objects);
        let line =
            ["get", "configmaps", "-w", "-o", "name", "--field-selector=metadata.name!=kube-root-ca.crt"];
        let seen = kubectl.follow(&line, "late", || {
            kubectl.good(&["create", "-f", &objects.named("late")]);
        });
        self.said.push(("get -w".to_owned(), seen.join("\n")));
        // It waits for the finalizer, and goes with it.
        self.same("patch cm late --type=merge -p {\"metadata\":{\"finalizers\":[\"verbs.capt.dev/hold\"]}}");
        self.same("delete cm late --wait=false");
        self.same("get cm late -o jsonpath={.metadata.finalizers}");
        self.same("patch cm late --type=merge -p {\"metadata\":{\"finalizers\":null}}");
        self.same("wait cm/late --for=delete --timeout=120s");
    }

    fn replace_and_prune(&mut self) {
        self.same("replace -f @map.yaml");
        self.same("get cm notes -o jsonpath={.data}");
        self.same("replace --force -f @map.yaml");
        self.same("apply -f @map.yaml");
        self.same("delete cm shared");
        self.same("apply --prune -l app=notes --prune-allowlist=core/v1/ConfigMap -f @changed.yaml");
        self.same("get cm -l app=notes -o name");
        self.same("delete cm -l app=notes");
        self.same("delete gadget --all");
        self.same("get gadgets");
        self.refused("delete gadget top", "not found");
    }

    fn cascades(&mut self, collector: Collector) {
        for cascade in ["background", "orphan", "foreground"] {
            let owner = format!("{cascade}-owner");
            self.kubectl.good(&["create", "-f", &self.objects.named(&owner)]);
            let uid = self.own(&format!("get cm {owner} -o jsonpath={{.metadata.uid}}"));
            let child = self.objects.family(&owner, &uid);
            self.kubectl.good(&["create", "-f", &child]);
            self.same(&format!("delete cm {owner} --cascade={cascade} --wait=false"));
            if collector == Collector::Absent {
                continue;
            }
            self.own(&format!("wait cm/{owner} --for=delete --timeout=120s"));
            let there = format!("get cm {owner}-child -o jsonpath={{.metadata.ownerReferences}}");
            match cascade {
                "orphan" => assert_eq!(self.own(&there), "", "an orphan has no owner"),
                // The child went before its owner did.
                "foreground" => {
                    let line = self.arguments(&there);
                    let (found, said) =
                        self.kubectl.run(&line.iter().map(String::as_str).collect::<Vec<_>>());
                    assert!(!found, "{said}");
                }
                _ => drop(self.own(&format!("wait cm/{owner}-child --for=delete --timeout=120s"))),
            }
        }
    }
}

/// The lines that a diff adds and removes.
fn changes(difference: &str) -> String {
    let is_change = |line: &&str| {
        (line.starts_with('+') && !line.starts_with("+++"))
            || (line.starts_with('-') && !line.starts_with("---"))
    };
    difference.lines().filter(is_change).collect::<Vec<_>>().join("\n")
}

/// Members whose values are each server's own.
const OWN: [&str; 9] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "time",
    "UID",
    "Resource Version",
    "Creation Timestamp",
    "Time",
    "resource Version",
];

/// What was said, without what only one server can say.
fn neutral(said: &str) -> String {
    let said = said.replace(",\"", ",\n\"").replace("{\"", "{\n\"");
    let lines = said.lines().filter(|line| !is_of_the_server(line)).map(|line| {
        let start = line.trim_start().trim_start_matches("- ").trim_start_matches('"');
        let own = OWN
            .iter()
            .find(|name| start.starts_with(&format!("{name}:")) || start.starts_with(&format!("{name}\":")));
        match own {
            Some(name) => format!("{name}: ..."),
            None => line.split_whitespace().map(word).collect::<Vec<_>>().join(" "),
        }
    });
    let mut lines: Vec<String> = lines.collect();
    // JSON has its members in any order.
    if said.starts_with('{') {
        lines = lines.iter().map(|line| line.trim_matches([',', '{', '}', ' ']).to_owned()).collect();
        lines.sort();
    }
    lines.join("\n")
}

/// Whether a line tells of an event of kube-apiserver itself: of its own Service, the address of that and where addresses
/// come from, where its start takes long.
fn is_of_the_server(line: &str) -> bool {
    let line = line.to_lowercase();
    ["service/kubernetes", "ipaddress/", "servicecidr/"].iter().any(|object| line.contains(object))
}

/// Ages and addresses change from run to run.
fn word(word: &str) -> String {
    let is_age = word.ends_with(['s', 'm', 'h', 'd', 'y'])
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || "smhdy".contains(c));
    if is_age { "<age>".to_owned() } else { word.to_owned() }
}
