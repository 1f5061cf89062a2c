//! The manifests that the verbs work on.

use std::fs;
use std::path::{Path, PathBuf};

/// A folder of manifests.
pub struct Objects(tempfile::TempDir);

const MAP: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: notes, labels: {app: notes}}
data: {first: one, second: two}
";

const CHANGED: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: notes, labels: {app: notes}}
data: {first: one, second: changed, third: three}
";

const SHARED: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: shared}
data: {owner: OWNER}
";

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.verbs.capt.dev}
spec:
  group: verbs.capt.dev
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList, shortNames: [gd], categories: [toys]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas, priority: 1}
    schema:
      openAPIV3Schema:
        description: A toy.
        type: object
        properties:
          spec:
            description: What is wanted.
            type: object
            properties:
              size: {type: string, description: How big it is., default: small}
              replicas: {type: integer, description: How many there are., default: 1}
              parts:
                description: What it is made of.
                type: array
                items: {type: object, properties: {name: {type: string, description: What it is called.}}}
          status:
            description: What was seen.
            type: object
            properties:
              replicas: {type: integer, description: How many were seen.}
              conditions:
                description: What is true of it.
                type: array
                items:
                  type: object
                  properties:
                    type: {type: string, description: About what.}
                    status: {type: string, description: Whether.}
";

const GADGET: &str = "\
apiVersion: verbs.capt.dev/v1
kind: Gadget
metadata: {name: top}
spec: {replicas: 2}
";

const EVENT: &str = "\
apiVersion: v1
kind: Event
metadata: {name: notes.1, namespace: default}
involvedObject: {kind: ConfigMap, name: notes, namespace: default, apiVersion: v1}
reason: Written
message: somebody wrote it down
type: Normal
count: 1
firstTimestamp: 2020-01-01T00:00:00Z
lastTimestamp: 2020-01-01T00:00:00Z
source: {component: tester}
";

impl Objects {
    pub fn write() -> Self {
        let objects = Self(tempfile::tempdir().expect("a folder"));
        for (name, text) in [
            ("map.yaml", MAP),
            ("changed.yaml", CHANGED),
            ("definition.yaml", DEFINITION),
            ("gadget.yaml", GADGET),
            ("event.yaml", EVENT),
        ] {
            objects.add(name, text);
        }
        for owner in ["alice", "bob"] {
            objects.add(&format!("{owner}.yaml"), &SHARED.replace("OWNER", owner));
        }
        objects
    }

    fn add(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("the folder is ours");
    }

    /// An object and one that it owns.
    pub fn family(&self, owner: &str, uid: &str) -> String {
        let child = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {owner}-child\n  ownerReferences:\n  \
             - {{apiVersion: v1, kind: ConfigMap, name: {owner}, uid: {uid}, blockOwnerDeletion: true}}\n"
        );
        self.add("child.yaml", &child);
        self.path("child.yaml")
    }

    pub fn named(&self, name: &str) -> String {
        self.add("named.yaml", &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"));
        self.path("named.yaml")
    }

    pub fn path(&self, name: &str) -> String {
        let path: PathBuf = Path::new(self.0.path()).join(name);
        path.display().to_string()
    }
}
