//! Errors of the rules of a schema: they do not compile, or could cost too much.

use serde_json::{Value, json};

use crate::cel::cost;
use crate::cel::rules::{Rule, RuleError};
use crate::compile::raw::RawRule;
use crate::error::{FieldError, FieldErrorKind};
use crate::go::text;
use crate::node::Node;
use crate::path::FieldPath;
use crate::validate::Errors;

/// An API server's bound for one rule, times the number of values it can be applied to.
const RULE_LIMIT: u64 = 10_000_000;
/// Its bound for all rules of a schema.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// So many rules are blamed if the sum is too large.
const BLAMED: usize = 4;

/// Collects what is wrong with the rules of a schema.
#[derive(Default)]
pub(crate) struct Report {
    pub errors: Errors,
    total: u64,
    expensive: Vec<(FieldPath, u64)>,
}

/// The position of the rules of a node.
pub(crate) struct Site<'a> {
    pub path: &'a FieldPath,
    /// The highest schema above whose parts cannot be told apart across an update.
    pub uncorrelatable: Option<&'a FieldPath>,
    /// The maximal number of values, if bounded.
    pub cardinality: Option<u64>,
}

impl Report {
    /// Checks the rules of one node.
    pub fn rules(&mut self, node: &Node, site: &Site<'_>) {
        let path = site.path.field("x-kubernetes-validations");
        if let Some(Err(error @ RuleError::Untyped)) = node.rules.first().map(|rule| &rule.program) {
            let detail = format!(
                "internal error: failed to construct type information for x-kubernetes-validations rules: {error}"
            );
            self.errors.push(FieldError::new(&path, FieldErrorKind::Internal, None, detail));
            return;
        }
        let cardinality = site.cardinality.unwrap_or_else(|| cost::max_cardinality(node));
        for (i, rule) in node.rules.iter().enumerate() {
            if self.errors.is_enough() {
                return;
            }
            self.rule(rule, &path.index(i), cardinality, site.uncorrelatable);
        }
    }

    fn rule(&mut self, rule: &Rule, path: &FieldPath, cardinality: u64, uncorrelatable: Option<&FieldPath>) {
        let rule_path = path.field("rule");
        let uses_old_self = match &rule.program {
            Ok(program) => {
                let cost = program.max_cost.saturating_mul(cardinality);
                self.pay(&rule_path, "estimated rule cost", cost);
                program.uses_old_self
            }
            Err(error) => {
                self.errors.push(about_rule(&rule_path, &rule.source, error));
                false
            }
        };
        let message_path = path.field("messageExpression");
        match &rule.message {
            Some(Ok(message)) => {
                self.pay(&message_path, "estimated messageExpression cost", message.max_cost);
            }
            Some(Err(error)) => self.errors.push(about_rule(&message_path, &rule.source, error)),
            None => {}
        }
        if !uses_old_self {
            if let Some(optional) = rule.source.optional_old_self {
                let detail = "may not be set if oldSelf is not used in rule";
                self.errors.push(FieldError::invalid(&path.field("optionalOldSelf"), optional, detail));
            }
        } else if let Some(uncorrelatable) = uncorrelatable {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            );
            self.errors.push(FieldError::invalid(&rule_path, rule.source.rule.as_str(), detail));
        }
    }

    fn pay(&mut self, path: &FieldPath, what: &str, cost: u64) {
        if cost > RULE_LIMIT {
            self.errors.push(FieldError::forbidden(path, too_expensive(what, cost, RULE_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((path.clone(), cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(BLAMED);
        }
    }

    /// All errors, those about the sum of costs last.
    pub fn finish(self) -> (Vec<FieldError>, Vec<FieldError>) {
        let mut sum = Vec::new();
        if self.total > SCHEMA_LIMIT {
            for (path, _) in &self.expensive {
                let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
                sum.push(FieldError::forbidden(path, detail));
            }
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            let detail = too_expensive(what, self.total, SCHEMA_LIMIT);
            sum.push(FieldError::forbidden(&FieldPath::root(), detail));
        }
        (self.errors.into_inner(), sum)
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// An error that repeats the rule it is about, its members in their order of declaration.
fn about_rule(path: &FieldPath, rule: &RawRule, error: &RuleError) -> FieldError {
    let members = [
        ("Rule", json!(rule.rule)),
        ("Message", json!(rule.message)),
        ("MessageExpression", json!(rule.message_expression)),
        ("Reason", json!(rule.reason)),
        ("FieldPath", json!(rule.field_path)),
        ("OptionalOldSelf", json!(rule.optional_old_self)),
    ];
    let shown: Vec<String> =
        members.iter().map(|(name, value)| format!("\"{name}\":{}", text::json(value))).collect();
    let value: serde_json::Map<String, Value> =
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    FieldError::invalid(path, value, error.to_string()).showing(format!("{{{}}}", shown.join(",")))
}
