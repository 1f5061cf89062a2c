//! CAPT's own CRD of Cluster and of what belongs to it: whether they are installed, and how.

use capt_api::crd::is_installed;
use capt_api::names::crd_labels;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};

use super::MANAGER;
use crate::runtime::Error;

/// Name of the CRD.
pub const NAME: &str = "clusters.cluster.x-k8s.io";

/// Whose CRD of Cluster an API has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Installed {
    /// CAPT's.
    Ours,
    /// That of Cluster API core, or of anybody else.
    Theirs,
}

/// Returns true if a CRD is CAPT's. Upstream's converts by a webhook: one that was applied over ours is not ours any more,
/// though our label may have stayed on it.
pub fn is_ours(crd: &CustomResourceDefinition) -> bool {
    let labelled = crd.labels().get(crd_labels::INSTALLED_BY).is_some_and(|by| by == crd_labels::CAPT);
    labelled && crd.spec.conversion.as_ref().is_none_or(|conversion| conversion.strategy == "None")
}

/// Returns true if the API serves it.
pub fn is_served(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Installs the CRD where there is none, and brings ours up to date. One that is somebody else's stays as it is.
///
/// With ours come the kinds of Cluster API core that its clients look for beside a Cluster.
pub async fn install(client: &Client) -> Result<Installed, Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let installed = install_one(&api, &capt_api::crd::cluster_kind().crd).await?;
    if installed == Installed::Ours {
        let absent = capt_api::cluster::absent::crds();
        let others = absent.iter().map(|crd| install_one(&api, crd));
        futures::future::try_join_all(others).await?;
    }
    Ok(installed)
}

async fn install_one(
    api: &Api<CustomResourceDefinition>,
    wanted: &CustomResourceDefinition,
) -> Result<Installed, Error> {
    let name = &wanted.name_any();
    let found = api.get_opt(name).await.map_err(Error::api(format!("read CRD {name}")))?;
    match found {
        Some(found) if !is_ours(&found) => return Ok(Installed::Theirs),
        Some(found) if is_installed(&found, wanted) => return Ok(Installed::Ours),
        Some(_) => {
            let params = PatchParams::apply(MANAGER).force();
            api.patch(name, &params, &Patch::Apply(wanted)).await
        }
        // Not applied: somebody may install theirs at this moment, and that one must win.
        None => api.create(&PostParams::default(), wanted).await,
    }
    .map_err(Error::api(format!("install CRD {name}")))?;
    Ok(Installed::Ours)
}
