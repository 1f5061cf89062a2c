//! Namespaces as borders between users: the policy for references across them, and whether there is more than one user.

use capt_api::names::annotations;
use capt_controllers::runtime::lease::{Held, LeaseError};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, Subject};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

/// On the roles and bindings that every Kubernetes API has from the start.
const DEFAULTS: &str = "kubernetes.io/bootstrapping";

/// Policy for references across namespaces.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum CrossNamespace {
    /// All of them: whoever may write an object that refers reaches every Secret.
    Open,
    /// Those that a ReferenceGrant in the namespace they point to allows.
    Granted,
}

impl From<CrossNamespace> for capt_controllers::CrossNamespace {
    fn from(policy: CrossNamespace) -> Self {
        match policy {
            CrossNamespace::Open => Self::Open,
            CrossNamespace::Granted => Self::Granted,
        }
    }
}

impl CrossNamespace {
    const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Granted => "granted",
        }
    }

    /// The policy where nobody chose one: open while the administrator is the only user. What cannot be told is not open.
    pub async fn of_users(client: &Client) -> Self {
        match other_users(client).await {
            Ok(others) if others.is_empty() => Self::Open,
            Ok(_) | Err(_) => Self::Granted,
        }
    }

    /// Writes the policy of this controller where `capt doctor` looks.
    pub async fn tell(self, lease: &mut Held) -> Result<(), LeaseError> {
        lease.annotate(annotations::CROSS_NAMESPACE, self.word()).await
    }

    /// The policy of the controller that holds a Lease.
    pub fn told(lease: &Lease) -> Option<Self> {
        let word = lease.annotations().get(annotations::CROSS_NAMESPACE)?;
        [Self::Open, Self::Granted].into_iter().find(|policy| policy.word() == word)
    }
}

/// Bindings that give rights to somebody besides the administrator and the API itself, by name.
pub async fn other_users(client: &Client) -> Result<Vec<String>, kube::Error> {
    let wide: Api<ClusterRoleBinding> = Api::all(client.clone());
    let narrow: Api<RoleBinding> = Api::all(client.clone());
    let (wide, narrow) =
        (wide.list(&ListParams::default()).await?, narrow.list(&ListParams::default()).await?);
    let wide = wide.items.iter().filter(|binding| has_others(*binding, binding.subjects.as_deref()));
    let narrow = narrow.items.iter().filter(|binding| has_others(*binding, binding.subjects.as_deref()));
    let wide = wide.map(|binding| format!("ClusterRoleBinding {}", binding.name_any()));
    let narrow = narrow.map(|binding| {
        format!("RoleBinding {}/{}", binding.namespace().unwrap_or_default(), binding.name_any())
    });
    Ok(wide.chain(narrow).collect())
}

/// Returns true if a binding has subjects of others: of the default ones only added subjects count.
fn has_others(binding: &impl ResourceExt, subjects: Option<&[Subject]>) -> bool {
    let default = binding.labels().contains_key(DEFAULTS);
    let mut subjects = subjects.into_iter().flatten();
    subjects.any(|subject| !(default && subject.name.starts_with("system:")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn who_is_bound_by_hand_is_another_user() {
        let label = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
        let masters = json!([{"kind": "Group", "name": "system:masters"}]);
        let user = json!([{"kind": "Group", "name": "system:masters"}, {"kind": "User", "name": "eve"}]);
        let rows: [(&Value, &Value, bool); 5] = [
            (&label, &masters, false),
            (&label, &user, true),
            (&json!({}), &masters, true),
            (&json!({}), &json!([{"kind": "ServiceAccount", "name": "default", "namespace": "a"}]), true),
            (&json!({}), &Value::Null, false),
        ];
        for (labels, subjects, expected) in rows {
            let binding = json!({
                "metadata": {"name": "a", "labels": labels}, "subjects": subjects,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            });
            let binding: ClusterRoleBinding = serde_json::from_value(binding).expect("a binding");
            assert_eq!(has_others(&binding, binding.subjects.as_deref()), expected, "{binding:?}");
        }
    }
}
