//! What Go's standard library defines and users' files depend on.
//!
//! - [`regex`]: regular expressions
//! - [`template`]: text/template, and text formatting
//! - [`proxy`]: which proxy a server is reached through

pub mod proxy;
pub mod regex;
pub mod template;
