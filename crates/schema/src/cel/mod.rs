//! CEL rules: parsed and type-checked when a schema is compiled, evaluated per object.
//!
//! The language, its standard functions and the libraries are those an API server of 1.36
//! offers to CRD rules. It has its own parser and evaluator because a rule must be checked
//! against the types of its schema, see the object in place instead of a converted copy, and
//! stop when it costs too much; see [`budget`] for the bounds.
//!
//! ```text
//! source -> lexer -> parser -> Expr -> check (types of the schema) -> Program
//!                                               Program + object -> eval -> bool or error
//! ```
//!
//! What an API server knows and this does not: the `authorizer` library (no variable of its
//! types exists in a CRD rule) and construction of protobuf messages; both are refused when
//! the rule is compiled, as are brackets nested more than 100 deep. A time read from the
//! object is printed by `string()` in UTC, not with the offset it was written with.

pub(crate) mod ast;
pub(crate) mod budget;
pub(crate) mod check;
pub(crate) mod cost;
mod deferred;
pub(crate) mod escape;
pub(crate) mod eval;
mod keys;
mod lexer;
pub(crate) mod library;
mod literal;
mod macros;
pub(crate) mod ops;
pub(crate) mod parser;
pub(crate) mod program;
pub(crate) mod report;
pub(crate) mod rules;
pub(crate) mod signatures;
pub(crate) mod types;
pub(crate) mod value;
