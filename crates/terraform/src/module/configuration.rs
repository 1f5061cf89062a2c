//! A provider configuration beside a module.
//!
//! Terraform takes one `required_providers` block and one `provider` block per name and alias from the ordinary files of a
//! module, and merges those of override files into them. So the configuration becomes two files:
//! - an ordinary one, with its `provider` blocks, without those the module has itself;
//! - an override file with its `required_providers`, without entries the module has itself. (An override file would win over
//!   the module. It cannot hold `provider` blocks with an alias the module does not have.)
//!
//! The module's own file is never touched. What is taken out of either file is blanked, not cut, so every line and column of
//! a diagnostic is that of the configuration as its author wrote it.

use std::ops::Range;

use hcl_edit::{
    Span,
    structure::{Block, Body, Structure},
};

use super::{Collector, Declared, hcl};

/// The files that a provider configuration becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// For [`Configuration::FILE`].
    pub text: String,
    /// For [`Configuration::OVERRIDE_FILE`], where anything is left for it.
    pub overrides: Option<String>,
    /// Joint declarations of module and configuration.
    pub declared: Declared,
}

impl Configuration {
    /// The name of the ordinary file.
    pub const FILE: &'static str = "capt_configuration.tf";
    /// The name of the override file.
    pub const OVERRIDE_FILE: &'static str = "capt_configuration_override.tf";
}

/// Fits a provider configuration (HCL) to a module of either format. A configuration that cannot be read here is passed on as
/// it is: Terraform then says what is wrong, and where.
pub fn with_configuration(module: &Declared, configuration: &str) -> Configuration {
    let (text, mark) = hcl::without_mark(configuration);
    let Ok(body) = hcl::parse(text) else {
        let declared = Declared { builtin_only: false, ..module.clone() };
        return Configuration { text: configuration.to_owned(), overrides: None, declared };
    };
    let mut out_of_text = Vec::new();
    let mut out_of_overrides = Vec::new();
    let mut any_override = false;
    for structure in &body {
        match structure.as_block() {
            Some(block) if block.ident.as_str() == "terraform" => {
                any_override |= split_settings(&block.body, module, &mut out_of_text, &mut out_of_overrides);
            }
            Some(block) => {
                out_of_overrides.extend(structure.span());
                if block.ident.as_str() == "provider" && module.provider_blocks.contains(&identity(block)) {
                    out_of_text.extend(structure.span());
                }
            }
            None => out_of_overrides.extend(structure.span()),
        }
    }
    let cut = |spans: &[Range<usize>]| configuration[..mark].to_owned() + &blank(text, spans);
    let text = cut(&out_of_text);
    let overrides = any_override.then(|| cut(&out_of_overrides));
    let declared = together(module, &text, overrides.as_deref());
    Configuration { text, overrides, declared }
}

/// True where something is left for the override file.
fn split_settings(
    settings: &Body,
    module: &Declared,
    out_of_text: &mut Vec<Range<usize>>,
    out_of_overrides: &mut Vec<Range<usize>>,
) -> bool {
    let mut any = false;
    for structure in settings {
        match structure {
            Structure::Block(block) if block.ident.as_str() == "required_providers" => {
                out_of_text.extend(structure.span());
                for attribute in block.body.attributes() {
                    if module.required_providers.contains(attribute.key.as_str()) {
                        out_of_overrides.extend(attribute.span());
                    } else {
                        any = true;
                    }
                }
            }
            _ => out_of_overrides.extend(structure.span()),
        }
    }
    any
}

/// A configuration without its `backend` block; nothing where it cannot be read.
pub fn without_backend(configuration: &str) -> Option<String> {
    let (text, mark) = hcl::without_mark(configuration);
    let body = hcl::parse(text).ok()?;
    let settings = body.blocks().filter(|block| block.ident.as_str() == "terraform");
    let inner = settings.flat_map(|block| &block.body);
    let backends =
        inner.filter(|structure| structure.as_block().is_some_and(|block| block.ident.as_str() == "backend"));
    let spans: Vec<Range<usize>> = backends.filter_map(Span::span).collect();
    let cut = blank(text, &spans);
    // What is left of the lines that were blanked.
    let kept: Vec<&str> = cut.lines().map(str::trim_end).collect();
    let kept =
        kept.iter().zip(text.lines()).filter(|(now, before)| !now.is_empty() || before.trim().is_empty());
    let kept: Vec<&str> = kept.map(|(now, _)| *now).collect();
    Some(configuration[..mark].to_owned() + &kept.join("\n") + "\n")
}

fn identity(provider: &Block) -> (String, Option<String>) {
    let name = provider.labels.first().map_or("", |label| label.as_str());
    (name.to_owned(), hcl::word(&provider.body, "alias").map(str::to_owned))
}

/// Spaces for every character but line ends. The spans are in the order of the text.
fn blank(text: &str, spans: &[Range<usize>]) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut from = 0;
    for span in spans {
        blanked.push_str(&text[from..span.start]);
        blanked.extend(text[span.clone()].chars().map(|c| if matches!(c, '\n' | '\r') { c } else { ' ' }));
        from = span.end;
    }
    blanked.push_str(&text[from..]);
    blanked
}

fn together(module: &Declared, text: &str, overrides: Option<&str>) -> Declared {
    let mut collector = Collector { init: !module.builtin_only, declared: module.clone() };
    for file in [Some(text), overrides].into_iter().flatten() {
        if hcl::collect(file, &mut collector).is_err() {
            // Blanking broke it, which nothing should: then nothing is known.
            collector.unknown_block();
        }
    }
    collector.finish()
}
