//! The Cluster, as networks and control planes see it.

use capt_api::refs::Endpoint;

/// The Cluster that an object belongs to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Owner {
    /// No owner reference yet.
    Awaited,
    /// The owner reference names a Cluster that is not there.
    Missing(String),
    /// It is there.
    Found(Box<Cluster>),
}

impl Owner {
    /// Name of the Cluster, there or not.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Awaited => None,
            Self::Missing(name) => Some(name),
            Self::Found(cluster) => Some(&cluster.name),
        }
    }

    /// The Cluster, if it is there.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Found(cluster) => Some(cluster),
            Self::Awaited | Self::Missing(_) => None,
        }
    }
}

/// Facts of a Cluster API Cluster, of whatever version.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// It is on its way out.
    pub deleting: bool,
    /// The annotation with the region.
    pub region: Option<String>,
    /// `spec.infrastructureRef`.
    pub infrastructure: Option<Reference>,
    /// `spec.controlPlaneRef`.
    pub control_plane: Option<Reference>,
    /// `spec.controlPlaneEndpoint`, where it is filled in.
    pub endpoint: Option<Endpoint>,
    /// Its infrastructure is provisioned, as its status says.
    pub provisioned: bool,
}

/// A reference to an object beside the Cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reference {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl Reference {
    /// Returns true if it names an object of this group and kind.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}
