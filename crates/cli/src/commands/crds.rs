//! `capt crds`: the CRDs as YAML, to standard output or as files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::Outcome;

/// Print every CRD of CAPT as YAML.
///
/// Examples:
///   capt crds | kubectl apply --server-side -f -
///   capt crds --output-dir config/crd
///   capt crds --cluster | kubectl apply --server-side -f -
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Write one file per CRD into this folder, and remove CRD files that are no longer made.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// The CRD of Cluster alone, for an API without Cluster API core: never apply it beside that.
    #[arg(long, conflicts_with = "output_dir")]
    cluster: bool,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    let crds = if args.cluster { vec![capt_api::crd::cluster_kind().crd] } else { capt_api::crds() };
    if let Some(folder) = &args.output_dir {
        write_files(folder, &crds)?;
    } else {
        let mut out = io::stdout().lock();
        for crd in &crds {
            write!(out, "---\n{}", to_yaml(crd)?)?;
        }
    }
    Ok(Outcome::Good)
}

fn write_files(folder: &Path, crds: &[CustomResourceDefinition]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut kept = Vec::new();
    for crd in crds {
        let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        std::fs::write(folder.join(&name), to_yaml(crd)?)?;
        kept.push(name);
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = crds.iter().any(|crd| name.starts_with(&format!("{}_", crd.spec.group)));
        if ours && !kept.contains(&name) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn to_yaml(crd: &CustomResourceDefinition) -> io::Result<String> {
    let mut value = serde_json::to_value(crd).map_err(io::Error::other)?;
    whole_numbers(&mut value);
    serde_saphyr::to_string(&value).map_err(io::Error::other)
}

/// Writes bounds as people do: the CRD type holds every number as a float, `minimum: 1.0`.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
            if let Some(float) = number.as_f64()
                && float.fract() == 0.0
                && float.abs() < 1e15
            {
                *number = (float as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
